"""The numbers of targets that were measured on this machine: rule files in the cache folder, one a target.

They take the place of the numbers that the target's own file says. A user's rule file takes the place of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rulegrad.config import config
from rulegrad.errors import ConfigError, RuleError
from rulegrad.support.paths import cache_folder

if TYPE_CHECKING:
    from rulegrad.lang import syntax

_ADVICE = "`python -m rulegrad devices --forget` removes measured numbers"


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


def read(path: str, text: str) -> syntax.File:
    """A file of measured numbers. Raises RuleError for one that says anything else, and for a limit of 0 or less."""
    from rulegrad.lang import syntax
    from rulegrad.lang.parser import parse_file

    try:
        found = parse_file(text, path)
    except RuleError as error:
        raise RuleError(f"{error}\n    hint: {_ADVICE}", error.diagnostics) from None
    for declaration in found.declarations:
        name, line = getattr(declaration, "name", ""), declaration.span.line
        if not isinstance(declaration, syntax.Target) or replace(declaration, spans={}) != syntax.Target(
            name, declaration.span, limits=declaration.limits
        ):
            raise RuleError(f"{path}:{line}: only the limits of a target can be measured numbers\n    hint: {_ADVICE}")
        for limit, number in declaration.limits.items():
            if number <= 0:
                problem = f"the limit `{limit}` of target `{name}` is {number}, and a measured number is positive"
                raise RuleError(f"{path}:{line}: {problem}\n    hint: {_ADVICE}")
    return found


def write(target: str, limits: Mapping[str, int], about: str) -> Path:
    """Keeps the numbers of a target, in the place of earlier ones; the rules in force change.

    about: what was measured, for people who open the file. Raises ConfigError where the file cannot be written.
    """
    from rulegrad import engine

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
    engine.forget()
    return path


def forget(target: str | None = None) -> list[Path]:
    """Removes the measured numbers of a target, or all; returns the files that were removed.

    Raises ConfigError for one that cannot be removed.
    """
    from rulegrad import engine

    found = [path for path in files() if target in (None, path.stem)]
    for path in found:
        try:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"the measured numbers cannot be removed: {error}") from None
    if found:
        engine.forget()
    return found
