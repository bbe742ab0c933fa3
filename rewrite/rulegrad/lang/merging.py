"""A user's rule files change ours: what they declare again is extended, not declared twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rulegrad.lang import syntax

_Extendable = syntax.Ruleset | syntax.Function | syntax.Pass


def merge(files: Sequence[syntax.File], user: frozenset[str]) -> list[syntax.File]:
    """The files, with the rule sets, functions and passes of user files put into ours of the same name.

    A rule of the same name takes the place of ours; others are tried before ours. What has no counterpart stays.
    """
    base = [f for f in files if f.path not in user]
    result = list(base)
    for file in files:
        if file.path not in user:
            continue
        own: list[syntax.Declaration] = []
        for declaration in file.declarations:
            if not (isinstance(declaration, _Extendable) and _extend(result, declaration)):
                own.append(declaration)
        result.append(replace(file, declarations=tuple(own)))
    return result


def _extend(files: list[syntax.File], addition: _Extendable) -> bool:
    for number, file in enumerate(files):
        for place, declaration in enumerate(file.declarations):
            if type(declaration) is type(addition) and declaration.name == addition.name:
                assert isinstance(declaration, _Extendable)
                merged = replace(declaration, rules=_merged(declaration.rules, addition.rules))
                declarations = (*file.declarations[:place], merged, *file.declarations[place + 1 :])
                files[number] = replace(file, declarations=declarations)
                return True
    return False


def _merged(ours: tuple[syntax.Rule, ...], theirs: tuple[syntax.Rule, ...]) -> tuple[syntax.Rule, ...]:
    replaced = {rule.name: rule for rule in theirs}
    known = {rule.name for rule in ours}
    return (*(r for r in theirs if r.name not in known), *(replaced.get(r.name, r) for r in ours))
