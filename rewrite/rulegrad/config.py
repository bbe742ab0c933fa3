"""Settings: read once from the environment, changed in code, and checked in both places.

    >>> from rulegrad.config import config
    >>> with config(debug=2, check=1):
    ...     config.debug
    2

The environment's names are those of `SETTINGS`. An unknown name or a value that a setting cannot take
is a ConfigError, raised when the settings are first used.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rulegrad.errors import ConfigError


class Setting(NamedTuple):
    """One setting: its name in code, its environment variable, and what it takes."""

    name: str
    variable: str
    takes: str
    parse: Callable[[Any], Any]  # raises ValueError or TypeError
    default: Callable[[], Any]
    help: str


def _level(highest: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        level = int(value)
        if not 0 <= level <= highest or level != float(value):
            raise ValueError(value)
        return level

    return parse


def _names(separator: str) -> Callable[[Any], tuple[str, ...]]:
    def parse(value: Any) -> tuple[str, ...]:
        parts = value.split(separator) if isinstance(value, str) else list(value)
        if not all(isinstance(part, (str, os.PathLike)) for part in parts):
            raise TypeError(value)
        return tuple(os.fspath(part).strip() for part in parts if os.fspath(part).strip())

    return parse


class _UnusableError(ValueError):
    """The problem of a value, for the message."""


def _path(value: Any) -> Path:
    """A path without `~`, that a file could have."""
    try:
        path = Path(value).expanduser()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.stat()  # which raises where no path can be like this
    except (OSError, RuntimeError, ValueError) as error:
        raise _UnusableError(str(error)) from None
    return path


def _folders(value: Any) -> tuple[str, ...]:
    return tuple(str(_path(name)) for name in _names(os.pathsep)(value))


def _files(value: Any) -> tuple[Path, ...]:
    paths = tuple(_path(name).resolve() for name in _names(os.pathsep)(value))
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise _UnusableError(f"{missing[0]} does not exist, or is not a file")
    return paths


def _rules_off(value: Any) -> tuple[str, ...]:
    names = _names(",")(value)
    for name in names:
        if name.startswith("random"):
            random_share(name)
    return names


def random_share(text: str) -> tuple[int, float]:
    """The seed and the share of `random:SEED` or `random:SEED:SHARE`; the share is 0.2 when it is not given."""
    word, seed, *share = text.split(":")
    found = float(share[0]) if share else 0.2
    if word != "random" or len(share) > 1 or not 0 <= found <= 1:
        raise ValueError(text)
    return int(seed), found


def _order(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    word, seed = value.split(":")
    if word != "random":
        raise ValueError(value)
    return int(seed)


def _limit(value: Any) -> tuple[str, int] | None:
    if value is None:
        return None
    name, number = value.rsplit(":", 1) if isinstance(value, str) else value
    if "." not in name or not 0 <= int(number) < 1 << 63:
        raise ValueError(value)
    return name, int(number)


def _number(highest: float = math.inf) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(value)
        if not 0 <= number <= highest or isinstance(value, (bool, float)):
            raise ValueError(value)
        return number

    return parse


_UNITS: Final = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0}


def parse_seconds(value: Any) -> float:
    """A time in seconds, of a number or of text with a unit. Raises ValueError or TypeError.

    >>> parse_seconds("10s"), parse_seconds("2 min"), parse_seconds("500ms"), parse_seconds(3)
    (10.0, 120.0, 0.5, 3.0)
    """
    if isinstance(value, bool):
        raise TypeError(value)
    text = str(value).strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    seconds = float(number) * _UNITS.get(text[len(number) :].strip(), -1.0)
    if not 0 <= seconds < 1e6:
        raise ValueError(value)
    return seconds


def _tuned(value: Any) -> Path | None:
    return None if value is None or not os.fspath(value) else _path(value).absolute()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value.strip()


def _float_name(value: Any) -> str:
    name = str(value).strip()
    if name not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError(value)
    return name


def _folder(value: Any) -> Path:
    if not os.fspath(value):
        raise ValueError(value)
    return _path(value)


def default_cache_folder() -> Path:
    """Where this platform keeps what can be made again: ~/.cache/rulegrad on Linux; a temporary one without a home."""
    try:
        Path.home()
    except RuntimeError:
        import tempfile  # late: nearly every user has a home

        return Path(tempfile.gettempdir()) / "rulegrad-cache"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "rulegrad"


SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "device", "RULEGRAD_DEVICE", "a device name such as opencl, opencl:0 or numpy",
            _text, str, "the default device; empty: the best that works",
        ),
        Setting(
            "default_dtype", "RULEGRAD_DEFAULT_DTYPE", "float16, bfloat16, float32 or float64",
            _float_name, lambda: "float32", "the dtype of Python's floats, and of tensors for which no dtype is given",
        ),
        Setting(
            "backends", "RULEGRAD_BACKENDS", f"folders, with {os.pathsep!r} between them",
            _folders, tuple, "folders of further backends",
        ),
        Setting(
            "cache", "RULEGRAD_CACHE", "a folder",
            _folder, default_cache_folder, "where compiled rules, kernels, plans for all sizes and programs are kept",
        ),
        Setting(
            "debug", "DEBUG", "a number from 0 to 5",
            _level(5), int, "output on stderr: 1: graphs that are seen for the first time; 2: what each kernel "
            "is made of, and a line for each launch; 3: kernels' graphs; 4: their sources; 5: rules' firings",
        ),
        Setting(
            "check", "CHECK", "0, 1 or 2",
            _level(2), int, "1: every pass gives a valid graph; 2: and one that means the same",
        ),
        Setting(
            "rules_off", "RULES_OFF", "names of rules, with ',' between them",
            _rules_off, tuple, "rules that are left out; random:SEED or random:SEED:SHARE: a share of them",
        ),
        Setting(
            "rules", "RULEGRAD_RULES", f"rule files, with {os.pathsep!r} between them",
            _files, tuple, "a user's rule files",
        ),
        Setting(
            "externs", "RULEGRAD_EXTERNS", "0 or 1",
            _level(1), int, "1: externs of a user's rule files may call functions of Python modules",
        ),
        Setting(
            "rules_order", "RULES_ORDER", "random:SEED",
            _order, lambda: None, "tries rules in another order, where they declare none",
        ),
        Setting(
            "rules_strict", "RULES_STRICT", "0 or 1",
            _level(1), int, "1: rules that are wrong on purpose are left out",
        ),
        Setting(
            "rules_limit", "RULES_LIMIT", "SET.RULE:NUMBER",
            _limit, lambda: None, "the rule fires this many times at most, in the whole program",
        ),
        Setting(
            "check_indices", "CHECK_INDICES", "0 or 1",
            _level(1), lambda: 1, "1: an index in a tensor that is out of range is an error when a result is read",
        ),
        Setting(
            "detect_nan", "RULEGRAD_DETECT_NAN", "0, 1 or 2",
            _level(2), int, "1: an op that makes a nan in what is computed is an error, which names it and your line; "
            "2: one that makes an infinite value too",
        ),
        Setting(
            "search", "SEARCH", "a time such as 10s, 500ms or 2min; 0 for none",
            parse_seconds, float, "how long schedules of a new kernel are tried on the device, in seconds; 0: never",
        ),
        Setting(
            "tuned", "RULEGRAD_TUNED", "a file",
            _tuned, lambda: None, "where schedules that were found by search are kept; empty: in the cache folder",
        ),
        Setting(
            "general_plans", "GENERAL_PLANS", "0 or 1",
            _level(1), lambda: 1, "1: the second size of a computation makes a plan for all its sizes; 0: each size "
            "has a plan of its own",
        ),
        Setting(
            "longest_graph", "LONGEST_GRAPH", "a number of nodes; 0 for any",
            _number(), lambda: 24_000, "a graph of more nodes, as a loop makes it that asks for no value, is computed "
            "in subgraphs where its steps recur; one of half as many where a step has hundreds of nodes",
        ),
        Setting(
            "threads", "RULEGRAD_THREADS", "a number of threads, at most 4096",
            _number(4096), int, "threads that share a kernel on the device c; 0: as many as there are cores",
        ),
        Setting(
            "communication_timeout", "RULEGRAD_COMMUNICATION_TIMEOUT", "a time such as 10s, 500ms or 2min",
            parse_seconds, lambda: 300.0, "how long a rank waits for others in a collective, in seconds; then it is "
            "an error, which says what each rank waits for",
        ),
    )
}  # fmt: skip


class Config:
    """The settings in force, as attributes; `config(name=value)` sets some for the length of a `with`.

    They hold for the whole process. Assigning to an attribute changes a setting for good.
    """

    device: str
    default_dtype: str
    backends: tuple[str, ...]
    cache: Path
    debug: int
    check: int
    rules_off: tuple[str, ...]
    rules: tuple[Path, ...]
    externs: int
    rules_order: int | None
    rules_strict: int
    rules_limit: tuple[str, int] | None
    check_indices: int
    detect_nan: int
    search: float
    tuned: Path | None
    general_plans: int
    longest_graph: int
    threads: int
    communication_timeout: float

    def __getattr__(self, name: str) -> Any:
        # Only called while the attribute is missing: the environment has not been read yet.
        if name not in SETTINGS:
            if name.startswith("__"):
                raise AttributeError(name)
            raise ConfigError(_unknown("setting", name, SETTINGS))
        self.__dict__ = {**read_environment(os.environ), **self.__dict__}
        return self.__dict__[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":
            super().__setattr__(name, value)
        else:
            self._change({name: _parse(name, value, f"setting {name}")})

    def _change(self, values: Mapping[str, Any]) -> None:
        """Puts checked values in force, and tells those who made something by the old ones."""
        changed = {name for name, value in values.items() if getattr(self, name) != value}
        self.__dict__.update(values)
        for listener in _listeners if changed else ():
            listener(frozenset(changed))

    def __call__(self, **settings: Any) -> _Override:
        """A context manager with these settings in force. Raises ConfigError at once for a wrong one."""
        parsed = {name: _parse(name, value, f"setting {name}") for name, value in settings.items()}
        return _Override(self, parsed)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in SETTINGS)
        return f"config({values})"


class _Override:
    """Settings that hold while the `with` block runs; may be entered more than once."""

    def __init__(self, owner: Config, values: Mapping[str, Any]) -> None:
        self._owner = owner
        self._values = values
        self._before: list[dict[str, Any]] = []
        self._was_entered = False

    def __enter__(self) -> Config:
        self._was_entered = True
        self._before.append({name: getattr(self._owner, name) for name in self._values})
        self._owner._change(self._values)
        return self._owner

    def __exit__(self, *_: object) -> None:
        self._owner._change(self._before.pop())

    def __del__(self) -> None:
        if self._values and not self._was_entered:
            settings = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
            warnings.warn(
                f"config({settings}) by itself changes nothing: write `with config({settings}):`, or, to change a "
                f"setting for good, `config.{next(iter(self._values))} = ...`",
                stacklevel=2,
            )


_listeners: list[Callable[[frozenset[str]], None]] = []


def on_change(listener: Callable[[frozenset[str]], None]) -> None:
    """Calls `listener(names)` whenever settings get another value in code."""
    _listeners.append(listener)


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """All settings, from environment variables. Raises ConfigError for a wrong name or value."""
    known = {setting.variable: setting for setting in SETTINGS.values()}
    for variable in environment:
        if variable.startswith("RULEGRAD_") and variable not in known:
            raise ConfigError(_unknown("environment variable", variable, known))
    return {
        setting.name: _parse(setting.name, environment[variable], f"environment variable {variable}")
        if environment.get(variable)
        else setting.default()
        for variable, setting in known.items()
    }


def _parse(name: str, value: Any, where: str) -> Any:
    if name not in SETTINGS:
        raise ConfigError(_unknown("setting", name, SETTINGS))
    setting = SETTINGS[name]
    try:
        return setting.parse(value)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        detail = f": {error}" if isinstance(error, _UnusableError) else ""
        raise ConfigError(f"{where} is {value!r}; it takes {setting.takes} ({setting.help}){detail}") from None


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    import difflib  # late: only a message needs it

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "the known ones are " + ", ".join(known)
    return f"unknown {what} {name!r}; {hint}"


config: Final = Config()
