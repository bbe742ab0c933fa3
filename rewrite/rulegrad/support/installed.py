"""Plug-ins of installed packages: rule files and backends, by their entry points.

A package names them in its metadata, here as pyproject.toml writes it:

    [project.entry-points."rulegrad.rules"]
    fast_math = "my_package:fast_math.rules"    # one file of the package
    more = "my_package.rules"                   # every rule file in this package's folder
    chosen = "my_package:rule_files"            # a function or a value: one path, or several

    [project.entry-points."rulegrad.backends"]
    my_device = "my_package.my_device"          # the folder of a backend, or of several
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RULES = "rulegrad.rules"
BACKENDS = "rulegrad.backends"
_SUFFIX = ".rules"


class Installed(NamedTuple):
    """One entry point: who has it, and the paths that it gives."""

    owner: str  # "the entry point NAME of DISTRIBUTION"
    paths: tuple[Path, ...]


def installed(group: str) -> tuple[Installed, ...]:
    """The entry points of a group, in the order of their distributions and names.

    Raises ConfigError for one that gives no path.
    """
    return _installed(group, tuple(sys.path))


def version(package: str) -> str:
    """The version of an installed package, `none` where it is not installed.

    >>> version("a-package-that-nobody-has")
    'none'
    """
    from importlib import metadata  # late: it takes 20 ms, and few programs ask

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


@cache
def _installed(group: str, places: tuple[str, ...]) -> tuple[Installed, ...]:
    if not any(texts is None or group.encode() in texts for texts in map(_entry_points, places)):
        return ()
    from importlib.metadata import entry_points  # late: most places have no entry point of ours, and this takes 20 ms

    found = {(point.dist.name if point.dist else "", point.name): point for point in entry_points(group=group)}
    return tuple(
        Installed(_owner(point), _paths(point, _SUFFIX if group == RULES else "")) for _, point in sorted(found.items())
    )


@cache
def _entry_points(place: str) -> bytes | None:
    """The entry points of all distributions in a folder, as they are written; None for an archive.

    Most have none of ours, and importlib.metadata takes longer to import than these files to read.
    """
    try:
        folders = [item.path for item in os.scandir(place or ".") if item.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return None  # only importlib.metadata reads it
    except OSError:
        return b""
    texts = []
    for folder in folders:
        try:
            with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
                texts.append(file.read())
        except OSError:
            continue
    return b"\n".join(texts)


def _owner(point: EntryPoint) -> str:
    return f"the entry point {point.name!r} of {point.dist.name if point.dist else 'a package'}"


def _paths(point: EntryPoint, suffix: str) -> tuple[Path, ...]:
    """The paths of an entry point; with a suffix, the files with it in a folder that it names."""
    try:
        if not point.attr:
            folder = _folder(point.module)
            found = sorted(folder.glob(f"*{suffix}")) if suffix else [folder]
        elif suffix and point.attr.endswith(suffix):
            found = [_folder(point.module) / point.attr]
        else:
            found = _listed(point.load())
    except Exception as error:  # whatever the package's code raises
        message = f"{_owner(point)} ({point.value!r}) fails: {type(error).__name__}: {error}"
        raise ConfigError(f"{message}. Mend or uninstall the package") from error
    missing = [path for path in found if not path.exists()]
    if missing or not found:
        what = f"{missing[0]}, which does not exist" if missing else "no file"
        raise ConfigError(f"{_owner(point)} ({point.value!r}) gives {what}. Mend or uninstall the package")
    return tuple(found)


def _folder(package: str) -> Path:
    """A package's folder; the package is not imported, only those that it lies in."""
    import importlib.util  # late: with what it imports it takes 5 ms

    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise ModuleNotFoundError(f"there is no package {package!r}")
    return Path(places[0])


def _listed(value: Any) -> list[Path]:
    """A path or several, or what a function without arguments gives."""
    given = value() if callable(value) else value
    several: Iterable[str | os.PathLike[str]] = [given] if isinstance(given, (str, os.PathLike)) else given
    return [Path(path) for path in several]
