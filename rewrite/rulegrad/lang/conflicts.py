"""Conflicts between user files: one declaration that two of them change differently. No order of files decides it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import Diagnostic, location
from rulegrad.lang.merging import priority_key
from rulegrad.lang.modules import plain
from rulegrad.lang.walk import meaning

_HINT = "load one of the files, or make them agree"


class _Claim(NamedTuple):
    """One change of a user file: what it is about, what it makes of it, and where it says so."""

    subject: tuple[str, ...]
    shown: str  # the subject, in a message
    does: str
    result: object
    span: syntax.Span


def conflicts(files: Sequence[syntax.File], user: frozenset[str]) -> list[Diagnostic]:
    """The disagreements among the user files, each at the later place, with the other one in a note."""
    theirs = [file for file in files if file.path in user]
    lines = {file.path: file.text.split("\n") for file in theirs}
    first: dict[tuple[str, ...], _Claim] = {}
    found: list[Diagnostic] = []
    for claim in (claim for file in theirs for claim in (*_of_rules(file), *_of_steps(file, files))):
        other = first.setdefault(claim.subject, claim)
        if other.result != claim.result:
            found.append(_conflict(claim, other, lines[claim.span.file]))
    return found


def each_once(conflicting: Sequence[Diagnostic], checked: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What both found; two rules of one name in one declaration are the checker's."""
    twice = {(d.span.file, d.span.line) for d in checked if d.code == "duplicate-rule"}
    return [*(d for d in conflicting if (d.span.file, d.span.line) not in twice), *checked]


def _conflict(claim: _Claim, other: _Claim, lines: Sequence[str]) -> Diagnostic:
    message = f"{claim.shown} is {claim.does} here, but {other.does} elsewhere"
    if claim.does == other.does:
        message = f"{claim.shown} is {claim.does} here and elsewhere, in different ways"
    note, hint = f"{other.does} at {location(other.span)}", _HINT
    if claim.span.file == other.span.file:
        message = message.replace("here and elsewhere", "twice in this file").replace("elsewhere", "above")
        hint = "take another name, or delete one of them"
    return Diagnostic("conflicting-files", message, claim.span, hint, (note,), lines[claim.span.line - 1])


def _of_rules(file: syntax.File) -> Iterator[_Claim]:
    for declaration in file.declarations:
        if isinstance(declaration, syntax.RulesOff):
            for name in declaration.names:
                subject = ("rule", *name.split("."))
                yield _Claim(subject, f"`{name}`", "switched off", "off", declaration.span)
        elif isinstance(declaration, syntax.Ruleset | syntax.Function | syntax.Pass):
            for rule in declaration.rules:
                subject = ("rule", declaration.name, rule.name)
                shown = plain(f"`{declaration.name}.{rule.name}`")
                yield _Claim(subject, shown, "defined", meaning(rule), rule.span)
        if isinstance(declaration, syntax.Pass):
            yield from _of_pass(declaration)
        if isinstance(declaration, syntax.Target):
            yield from _of_target(declaration)


def _of_pass(declaration: syntax.Pass) -> Iterator[_Claim]:
    """The claims of a pass besides those of its rules."""
    entries: list[tuple[str, str, object, syntax.Span]] = []
    entries += [("priority", priority_key(p), p.value, p.span) for p in declaration.priorities]
    entries += [("prefix", op, text, declaration.span) for op, text in declaration.prefixes]
    for name, first in {fact.name: fact for fact in reversed(declaration.facts)}.items():
        everywhere = tuple(fact for fact in declaration.facts if fact.name == name)
        entries.append(("fact", name, meaning(everywhere), first.span))
    entries += [("state", state.name, meaning(state), state.span) for state in declaration.states]
    entries += [("send", s.rule.name, meaning(s.rule), s.rule.span) for s in declaration.sends]
    if declaration.cost:
        entries.append(("cost", "", declaration.cost, declaration.span))
    if declaration.fuel:
        entries.append(("fuel", "", declaration.fuel, declaration.span))
    for kind, name, result, span in entries:
        shown = f"`{kind} {name}`".replace(" `", "`") + f" of pass `{declaration.name}`"
        yield _Claim((kind, declaration.name, name), shown, "defined", result, span)


def _of_target(declaration: syntax.Target) -> Iterator[_Claim]:
    """The numbers and the spellings of a target; what it has, one file adds to what another says."""
    tables: list[tuple[str, Mapping[str, object]]] = [
        ("type", declaration.types),
        ("literal", declaration.literals),
        ("template", declaration.templates),
        ("limit", declaration.limits),
        ("render", {"": declaration.render} if declaration.render else {}),
    ]
    for kind, table in tables:
        for name, result in table.items():
            shown = f"`{kind} {name}`".replace(" `", "`") + f" of target `{declaration.name}`"
            yield _Claim((kind, declaration.name, name), shown, "defined", result, declaration.span)


def _of_steps(file: syntax.File, files: Sequence[syntax.File]) -> Iterator[_Claim]:
    """The claims of a file about the steps of pipelines.

    Within one file, what is put in at one place keeps the order of its lines, and a step that is taken out may say
    where something else goes in: these are claims of the whole file.
    """
    pipelines = {d.name: d.steps for f in files for d in f.declarations if isinstance(d, syntax.Pipeline)}
    edits = [d for d in file.declarations if isinstance(d, syntax.PipelineEdit)]
    removed = {(edit.pipeline, edit.name) for edit in edits if edit.edit == "remove"}
    put_in: dict[tuple[str, ...], list[syntax.PipelineEdit]] = {}
    for edit in edits:
        if edit.edit == "remove":
            subject = ("step", edit.pipeline, edit.name)
            shown = f"the step `{edit.name}` of `{edit.pipeline}`"
            yield _Claim(subject, shown, "taken out", "out", edit.span)
        else:
            put_in.setdefault(_gap(edit, pipelines.get(edit.pipeline, ())), []).append(edit)
            if (edit.pipeline, edit.step) not in removed:
                subject = ("step", edit.pipeline, edit.step)
                shown = f"the step `{edit.step}` of `{edit.pipeline}`"
                yield _Claim(subject, shown, "the place of an insertion", "in", edit.span)
    for gap, inside in put_in.items():
        names = tuple(edit.name for edit in inside)
        shown = f"a place of `{inside[0].pipeline}`"
        does = f"given to {_listed(names)}"
        yield _Claim(gap, shown, does, names, inside[0].span)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _gap(edit: syntax.PipelineEdit, steps: Sequence[str]) -> tuple[str, ...]:
    """The place between two steps that a pass is put in at: after one step is before the next."""
    if edit.step not in steps:
        return ("gap", edit.pipeline, edit.edit, edit.step)
    number = steps.index(edit.step) + (edit.edit == "after")
    return ("gap", edit.pipeline, str(number))
