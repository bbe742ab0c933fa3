"""Backends: folders with a target in rule text and a runtime in `device.py`, ours or a stranger's."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

from rulegrad.config import config
from rulegrad.errors import DeviceError
from rulegrad.runtime.device import KINDS
from rulegrad.support import forks
from rulegrad.support.installed import BACKENDS, installed
from rulegrad.support.paths import data_folder


class Backend:
    """A backend's folder; its name is the folder's.

    >>> from rulegrad.runtime.backends import backend
    >>> backend("numpy").name, backend("numpy").is_ours
    ('numpy', True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    @property
    def name(self) -> str:
        """The name of its devices.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("numpy").name
        'numpy'
        """
        return self.folder.name

    @property
    def rules(self) -> Path:
        """The rule file of its target.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("numpy").rules.name
        'numpy.rules'
        """
        return self.folder / f"{self.name}.rules"

    @property
    def is_ours(self) -> bool:
        """Whether it comes with rulegrad: then its target is always in force.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("numpy").is_ours
        True
        """
        return self.folder.parent == data_folder("backends").resolve()

    @property
    def module(self) -> Any:
        """The module `device.py`; it may import its neighbours with `from .other import …`.

        Raises DeviceError when the file cannot be loaded.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("numpy").module.__name__
        'rulegrad_backend_numpy.device'
        """
        # no cached_property: until Python 3.12 it has a lock, which a child may find held that another thread forked
        kept = vars(self)
        if "_module" not in kept:
            kept["_module"] = self._imported()
        return kept["_module"]

    def _imported(self) -> Any:
        package_name = f"rulegrad_backend_{self.name}"
        package = types.ModuleType(package_name)
        package.__path__ = [str(self.folder)]
        sys.modules[package_name] = package
        try:
            return importlib.import_module(f"{package_name}.device")
        except Exception as error:
            place = self.folder / "device.py"
            raise DeviceError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def has_one_device(self) -> bool:
        """Whether its only device is called by the backend's name alone.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("numpy").has_one_device
        True
        """
        return bool(getattr(self.module, "ONE_DEVICE", False))

    @property
    def rank(self) -> int:
        """Of the devices of one kind, those of the backend of least rank are the first choice.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("opencl").rank, backend("c").rank
        (1, 0)
        """
        return int(getattr(self.module, "RANK", 0))

    @property
    def best_kind(self) -> str:
        """The best kind that a device of it could be, told without a driver. Raises DeviceError.

        >>> from rulegrad.runtime.backends import backend
        >>> backend("c").best_kind
        'cpu'
        """
        module = self.module
        kind: str = module.best_kind() if hasattr(module, "best_kind") else KINDS[0]
        if kind not in KINDS:
            raise DeviceError(f"{self.folder / 'device.py'}: best_kind() is {kind!r}; kinds are {', '.join(KINDS)}")
        return kind


_loaded: dict[str, Backend] = {}
_configured: tuple[str, ...] | None = None  # the value of config.backends that `_loaded` reflects
_lock = forks.lock()


def all_backends() -> list[Backend]:
    """Ours, those of installed packages, those of RULEGRAD_BACKENDS, and those that were loaded, in this order.

    >>> from rulegrad.runtime.backends import all_backends
    >>> "numpy" in [backend.name for backend in all_backends()]
    True
    """
    global _configured
    with _lock:
        if _configured is None:
            for folder in sorted(data_folder("backends").iterdir()):
                if (folder / "device.py").is_file():
                    _add(folder)
            for place in (path for package in installed(BACKENDS) for path in package.paths):
                for folder in _folders_in(place):
                    _add(folder)
        if _configured != config.backends:
            _configured = config.backends
            for path in config.backends:
                for folder in _folders_in(Path(path)):
                    _add(folder)
        return list(_loaded.values())


def load_backend(path: str | Path) -> Backend:
    """Makes the backend in this folder usable: its devices are then called by the folder's name.

    Raises DeviceError when it is not a backend, or when another backend has the same name.

    >>> from rulegrad.runtime.backends import backend
    >>> rg.load_backend(backend("numpy").folder).name
    'numpy'
    """
    all_backends()  # ours first, so that a clash of names is found
    folder = Path(path).expanduser()
    _require_backend(folder)
    with _lock:
        return _add(folder)


def backend(name: str) -> Backend:
    """The backend of that name. Raises DeviceError when there is none.

    >>> from rulegrad.runtime.backends import backend
    >>> backend("nunpy")
    Traceback (most recent call last):
        ...
    rulegrad.errors.DeviceError: there is no device 'nunpy'...
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    known = {b.name: b for b in all_backends()}
    if name not in known:
        import difflib  # late: only a message needs it

        close = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {close[0]!r}? The" if close else "the"
        raise DeviceError(
            f"there is no device {name!r}; {hint} backends are {', '.join(known)}. `python -m rulegrad devices` lists "
            "what was found; add a backend with RULEGRAD_BACKENDS or rulegrad.load_backend(folder)"
        )
    return known[name]


def _folders_in(path: Path) -> list[Path]:
    """A backend's folder itself, or the backends in a folder of several."""
    path = path.expanduser()
    if (path / "device.py").is_file():
        return [path]
    inside = sorted(p.parent for p in path.glob("*/device.py"))
    if not inside:
        _require_backend(path)
    return inside


def _require_backend(folder: Path) -> None:
    for file_name in ("device.py", f"{folder.resolve().name}.rules"):
        if not (folder / file_name).is_file():
            raise DeviceError(
                f"{folder} is not a backend: it has no {file_name}. A backend is a folder with device.py and "
                "NAME.rules, where NAME is the folder's name"
            )


def _add(folder: Path) -> Backend:
    new = Backend(folder.resolve())
    old = _loaded.setdefault(new.name, new)
    if old.folder != new.folder:
        raise DeviceError(
            f"two backends are called {new.name!r}: {old.folder} and {new.folder}; rename one of the folders"
        )
    return old
