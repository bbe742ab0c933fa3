"""The numbers of targets that were measured on this machine: rule files in the cache folder, one a target.

They take the place of the numbers that the target's own file says. A user's rule file takes the place of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rulegrad.config import config
from rulegrad.engine import changes
from rulegrad.errors import ConfigError
from rulegrad.support.paths import cache_folder


def files() -> list[Path]:
    """The files that there are."""
    try:
        return sorted(_folder().glob("*.rules")) if _folder().is_dir() and cache_folder() is not None else []
    except OSError:
        return []


def file_of(target: str) -> Path:
    """Where the numbers of a target are, if they were measured."""
    return _folder() / f"{target}.rules"


def _folder() -> Path:
    return config.cache / "measured"


def write(target: str, limits: Mapping[str, int], about: str) -> Path:
    """Keeps the numbers of a target, in the place of earlier ones; the rules in force change.

    about: what was measured, for people who open the file. Raises ConfigError where the file cannot be written.
    """
    path = file_of(target)
    numbers = ", ".join(f"{name} {number}" for name, number in limits.items())
    text = f"# {about}\ntarget {target}:\n    limit    {numbers}\n"
    if cache_folder() is None:
        raise ConfigError(f"the cache folder {config.cache} cannot be used; set RULEGRAD_CACHE to another")
    try:
        path.parent.mkdir(exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        advice = "set RULEGRAD_CACHE to another folder"
        raise ConfigError(f"the measured numbers cannot be kept: {error}; {advice}") from None
    changes.forget()
    return path


def forget(target: str | None = None) -> list[Path]:
    """Removes the measured numbers of a target, or all; returns the files that were removed.

    Raises ConfigError for one that cannot be removed.
    """
    found = [path for path in files() if target in (None, path.stem)]
    for path in found:
        try:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"the measured numbers cannot be removed: {error}") from None
    if found:
        changes.forget()
    return found
