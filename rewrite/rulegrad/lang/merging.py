"""A user's rule files change ours: what they declare again is extended, not declared twice; their edits are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard, TypeVar

from rulegrad.lang import syntax

_Extendable = syntax.Ruleset | syntax.Function | syntax.Pass | syntax.Target
_Item = TypeVar("_Item")


def merge(files: Sequence[syntax.File], user: frozenset[str]) -> list[syntax.File]:
    """The files, with the rule sets, functions, passes and targets of user files put into ours of the same name.

    A rule of the same name takes the place of ours; others are tried before ours. A number or a spelling of a target
    takes the place of ours, and what it has, it has besides. What has no counterpart stays, and
    so do the edits, for `edited` to make when they have been checked.
    """
    result = _with_parts([f for f in files if f.path not in user])
    for file in files:
        if file.path not in user:
            continue
        own = [d for d in file.declarations if not (isinstance(d, _Extendable) and _extend(result, d))]
        result.append(replace(file, declarations=tuple(own)))
    return result


def _with_parts(files: Sequence[syntax.File]) -> list[syntax.File]:
    """The files, with the actions of each choose pass in one place: parts of it in other files have no `cost` line."""
    parts: dict[str, list[syntax.Pass]] = {}
    whole = {d.name for f in files for d in f.declarations if isinstance(d, syntax.Pass) and d.cost}

    def is_part(d: syntax.Declaration) -> TypeGuard[syntax.Pass]:
        return isinstance(d, syntax.Pass) and d.kind == "choose" and not d.cost and d.name in whole

    for file in files:
        for declaration in filter(is_part, file.declarations):
            parts.setdefault(declaration.name, []).append(declaration)

    def with_parts(d: syntax.Declaration) -> syntax.Declaration:
        if not (isinstance(d, syntax.Pass) and d.cost and d.name in parts):
            return d
        return replace(d, rules=(*d.rules, *(rule for part in parts[d.name] for rule in part.rules)))

    if not parts:
        return list(files)
    return [replace(f, declarations=tuple(with_parts(d) for d in f.declarations if not is_part(d))) for f in files]


def _extend(files: list[syntax.File], addition: _Extendable) -> bool:
    for number, file in enumerate(files):
        for place, declaration in enumerate(file.declarations):
            merged = _extended(declaration, addition) if declaration != addition else None
            if merged is not None:
                declarations = (*file.declarations[:place], merged, *file.declarations[place + 1 :])
                files[number] = replace(file, declarations=declarations)
                return True
    return False


def _extended(ours: syntax.Declaration, theirs: _Extendable) -> syntax.Declaration | None:
    """Our declaration with theirs of the same name put in; None when they are not of one kind."""
    if type(ours) is not type(theirs) or getattr(ours, "name", "") != theirs.name:
        return None
    if isinstance(ours, syntax.Ruleset) and isinstance(theirs, syntax.Ruleset):
        union = tuple(dict.fromkeys((*theirs.union, *ours.union)))
        return replace(ours, rules=_by_name(ours.rules, theirs.rules), union=union)
    if isinstance(ours, syntax.Function) and isinstance(theirs, syntax.Function):
        same = len(ours.parameters) == len(theirs.parameters)
        return replace(ours, rules=_by_name(ours.rules, theirs.rules)) if same else None
    if isinstance(ours, syntax.Pass) and isinstance(theirs, syntax.Pass):
        same = (ours.kind, ours.direction) == (theirs.kind, theirs.direction) and ours.kind != "reverse"
        return _extended_pass(ours, theirs) if same else None
    if isinstance(ours, syntax.Target) and isinstance(theirs, syntax.Target):
        return extended_target(ours, theirs, ours.name, ours.span)
    return None


def extended_target(ours: syntax.Target, theirs: syntax.Target, name: str, span: syntax.Span) -> syntax.Target:
    """A target of that name with all that ours says, and what theirs adds to it or says in its place.

    >>> from rulegrad.lang.parser import parse_file
    >>> ours, theirs = parse_file("target a:\\n    has ADD\\ntarget b:\\n    has MUL\\n", "a.rules").declarations
    >>> sorted(extended_target(ours, theirs, "c", ours.span).ops)
    ['ADD', 'MUL']
    """
    return replace(
        ours,
        name=name,
        span=span,
        ops=ours.ops | theirs.ops,
        dtypes=ours.dtypes | theirs.dtypes,
        types={**ours.types, **theirs.types},
        literals={**ours.literals, **theirs.literals},
        templates={**ours.templates, **theirs.templates},
        limits={**ours.limits, **theirs.limits},
        flags=ours.flags | theirs.flags,
        render=theirs.render or ours.render,
        base=theirs.base or ours.base,
        spans={**ours.spans, **theirs.spans},
        rows={name: (*theirs.rows.get(name, ()), *ours.rows.get(name, ())) for name in {**ours.rows, **theirs.rows}},
    )


def with_bases(files: Sequence[syntax.File]) -> list[syntax.File]:
    """The files with each target that goes on from another (`use`) written out."""
    targets: dict[str, syntax.Target] = {}

    def written_out(declaration: syntax.Declaration) -> syntax.Declaration:
        if not isinstance(declaration, syntax.Target):
            return declaration
        whole = declaration
        if declaration.base:
            whole = extended_target(targets[declaration.base], declaration, declaration.name, declaration.span)
            whole = replace(whole, base="")
        targets[whole.name] = whole
        return whole

    return [replace(file, declarations=tuple(map(written_out, file.declarations))) for file in files]


def _extended_pass(ours: syntax.Pass, theirs: syntax.Pass) -> syntax.Pass:
    return replace(
        ours,
        uses=tuple(dict.fromkeys((*theirs.uses, *ours.uses))),
        rules=_by_name(ours.rules, theirs.rules),
        priorities=_merged(ours.priorities, theirs.priorities, priority_key),
        prefixes=_merged(ours.prefixes, theirs.prefixes, lambda prefix: prefix[0]),
        facts=_facts(ours.facts, theirs.facts),
        states=_merged(ours.states, theirs.states, lambda state: state.name),
        sends=_merged(ours.sends, theirs.sends, lambda send: f"{send.state}.{send.rule.name}"),
        cost=theirs.cost or ours.cost,
        fuel=theirs.fuel or ours.fuel,
    )


def priority_key(priority: syntax.Priority) -> str:
    """The subject of a `priority` entry: the op with its attributes."""
    values = [getattr(a.value, "value", getattr(a.value, "name", "")) for a in priority.attributes]
    return " ".join(map(str, (priority.op, *values)))


def _facts(ours: tuple[syntax.Fact, ...], theirs: tuple[syntax.Fact, ...]) -> tuple[syntax.Fact, ...]:
    """A fact may have several lines: theirs take the place of all of ours."""
    replaced = {fact.name for fact in theirs}
    return (*theirs, *(fact for fact in ours if fact.name not in replaced))


def _by_name(ours: tuple[syntax.Rule, ...], theirs: tuple[syntax.Rule, ...]) -> tuple[syntax.Rule, ...]:
    return _merged(ours, theirs, lambda rule: rule.name)


def _merged(ours: Sequence[_Item], theirs: Sequence[_Item], key: Callable[[_Item], str]) -> tuple[_Item, ...]:
    """Theirs that are new, then ours, each replaced by theirs with the same key."""
    replaced = {key(item): item for item in theirs}
    known = {key(item) for item in ours}
    return (*(item for item in theirs if key(item) not in known), *(replaced.get(key(item), item) for item in ours))


def edited(files: Sequence[syntax.File]) -> list[syntax.File]:
    """The files with their edits made: steps put in and taken out, rules that are switched off left out."""
    declarations = [d for file in files for d in file.declarations]
    edits = [d for d in declarations if isinstance(d, syntax.PipelineEdit)]
    off = frozenset(name for d in declarations if isinstance(d, syntax.RulesOff) for name in d.names)
    if not edits and not off:
        return list(files)
    return [replace(file, declarations=tuple(_edited(file.declarations, edits, off))) for file in files]


def _edited(
    declarations: Sequence[syntax.Declaration], edits: Sequence[syntax.PipelineEdit], off: frozenset[str]
) -> Iterable[syntax.Declaration]:
    for declaration in declarations:
        if isinstance(declaration, syntax.Pipeline):
            yield replace(declaration, steps=edited_steps(declaration, edits))
        elif isinstance(declaration, syntax.Ruleset | syntax.Pass):
            yield replace(declaration, rules=_without(declaration.name, declaration.rules, off))
        elif not isinstance(declaration, syntax.PipelineEdit | syntax.RulesOff):
            yield declaration


def _without(owner: str, rules: Sequence[syntax.Rule], off: frozenset[str]) -> tuple[syntax.Rule, ...]:
    """The rules that are on; what is said about the order with the others is dropped.

    A rule that stays as it is stays the same object, by which is known what it was compiled to.
    """
    kept = [rule for rule in rules if f"{owner}.{rule.name}" not in off]
    with_clauses = [(rule, _clauses_without(owner, rule.clauses, off)) for rule in kept]
    return tuple(rule if clauses == rule.clauses else replace(rule, clauses=clauses) for rule, clauses in with_clauses)


def _clauses_without(owner: str, clauses: Sequence[syntax.Clause], off: frozenset[str]) -> tuple[syntax.Clause, ...]:
    def kept(clause: syntax.Clause) -> syntax.Clause | None:
        if clause.keyword not in ("before", "after"):
            return clause
        names = tuple(name for name in clause.names if (name if "." in name else f"{owner}.{name}") not in off)
        return replace(clause, names=names) if names else None

    return tuple(found for found in map(kept, clauses) if found is not None)


def edited_steps(pipeline: syntax.Pipeline, edits: Iterable[syntax.PipelineEdit]) -> tuple[str, ...]:
    """The steps of a pipeline after all edits of it. Several passes at one place stand as they are written."""
    mine = list(dict.fromkeys((e.edit, e.name, e.step) for e in edits if e.pipeline == pipeline.name))
    removed = {name for edit, name, _ in mine if edit == "remove"}

    def around(step: str, above: tuple[str, ...]) -> Iterable[str]:
        if step in above:  # passes that are put in relative to each other only
            return
        for side in ("before", "", "after"):
            if not side and step not in removed:
                yield step
            for edit, name, place in mine:
                if edit == side and place == step:
                    yield from around(name, (*above, step))

    return tuple(found for step in pipeline.steps for found in around(step, ()))
