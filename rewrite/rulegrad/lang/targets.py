"""Targets by name: `NAME`, or `NAME+FEATURE+…` for a device that has features which rule files add to the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.merging import extended_target
from rulegrad.lang.optable import OpTable


def find(declarations: Iterable[syntax.Declaration], name: str) -> syntax.Target:
    """The target of that name, with all that is said about the features named after it, alone and together.

    What fewer features have comes first, so that several together may say otherwise. Raises RuleError for a name that
    there is not.

    >>> from rulegrad.lang.parser import parse_file
    >>> text = "target t:\\n    has ADD\\ntarget t + fast:\\n    has MUL\\n    limit rows 8\\n"
    >>> sorted(find(parse_file(text, "t.rules").declarations, "t+fast").ops)
    ['ADD', 'MUL']
    """
    declared = [d for d in declarations if isinstance(d, syntax.Target)]
    base, *asked = name.split("+")
    found = next((d for d in declared if d.name == base), None)
    if found is None:
        known = ", ".join(sorted(d.name for d in declared if not d.features)) or "none"
        raise RuleError(f"no target is called `{base}`; there are: {known}")
    additions = sorted(additions_to(base, declared), key=lambda d: len(d.features))
    features = dict.fromkeys(feature for d in additions for feature in d.features)
    for feature in asked:
        if feature not in features:
            known = ", ".join(sorted(features)) or "none"
            raise RuleError(f"the target `{base}` has no feature `{feature}`; there are: {known}")
    span = found.span
    for addition in additions:
        if set(addition.features) <= set(asked):
            found = extended_target(found, addition, name, span)
    return found


def limits(
    declarations: Iterable[syntax.Declaration], target: syntax.Target | None, tested: bool = False
) -> dict[str, int]:
    """The values of `limit("name")` for a target: its numbers, and the defaults of the other limits.

    tested: in place of the defaults, what test lines that name no target have.

    >>> from rulegrad.lang.parser import parse_file
    >>> text = "limit rows: positive = 32\\n    tested 8\\nlimit lanes: positive = 1\\ntarget t:\\n    limit rows 16\\n"
    >>> file = parse_file(text, "t.rules")
    >>> limits(file.declarations, file.declarations[-1])
    {'rows': 16, 'lanes': 1}
    >>> limits(file.declarations, None, tested=True)
    {'rows': 8, 'lanes': 1}
    """
    declared = (d for d in declarations if isinstance(d, syntax.Limit))
    found = {d.name: d.default if d.tested is None or not tested else d.tested for d in declared}
    return {**found, **(target.limits if target else {})}


def additions_to(base: str, declarations: Iterable[syntax.Declaration]) -> list[syntax.Target]:
    """The declarations about features of the target `base`, in their order."""
    targets = (d for d in declarations if isinstance(d, syntax.Target))
    return [d for d in targets if d.features and d.name.split("+")[0] == base]


def adds_to_targets(file: syntax.File, files: Sequence[syntax.File]) -> bool:
    """Whether a file says nothing but what targets that are there have with features.

    >>> from rulegrad.lang.parser import parse_file
    >>> base = parse_file("target t:\\n    has ADD\\n", "t.rules")
    >>> more = parse_file("target t + a:\\n    limit rows 8\\n", "a.rules")
    >>> adds_to_targets(more, [base, more]), adds_to_targets(more, [more]), adds_to_targets(base, [base])
    (True, False, False)
    """
    names = {d.name for one in files for d in one.declarations if isinstance(d, syntax.Target)}
    return all(isinstance(d, syntax.Target) and d.features and d.name.split("+")[0] in names for d in file.declarations)


_TEMPLATES = {
    "kernel": 'the head of a kernel: `kernel "void {name}({params}) {{"`',
    "param": 'one parameter of it: `param "{type}* {name}"`',
}


def missing_for_lowering(target: syntax.Target) -> Iterator[tuple[str, str]]:
    """What a target needs for programs to be lowered to it and does not say, rendered or not: (problem, remedy)."""
    if not target.ops:
        yield "it has no ops", "add `has ADD MUL …`"
    if not target.dtypes:
        yield "it has no dtypes", "add `dtypes bool int32 float32 …`"


def missing(target: syntax.Target, table: OpTable) -> Iterator[tuple[str, str]]:
    """What a target needs for its kernels to be rendered and does not say: (problem, remedy).

    >>> from rulegrad.lang.optable import OpTable
    >>> target = syntax.Target("t", syntax.Span("t.rules", 1, 0, 1, 9), frozenset(("ADD",)), frozenset(("int32",)))
    >>> [problem for problem, _ in missing(target, OpTable())]
    ['it has no render pass', 'it has no template `kernel`', 'it has no template `param`', 'int32 has no `type`']
    """
    yield from missing_for_lowering(target)
    if not target.render:
        yield "it has no render pass", "add `render render_NAME` and `pass render_NAME render:`"
    for name, what in _TEMPLATES.items():
        if name not in target.templates:
            yield f"it has no template `{name}`", f"add {what}"
    spelled = frozenset().union(*(table.resolve_dtypes(name) or (name,) for name in target.types))
    for dtype in sorted(frozenset().union(*(table.resolve_dtypes(name) or (name,) for name in target.dtypes))):
        if dtype not in spelled:
            yield f"{dtype} has no `type`", f'add `type {dtype} "…"`: what it is called in the device\'s language'


def examples(declarations: Iterable[syntax.Declaration]) -> list[syntax.Target]:
    """Each target, and where it may have features, the target with all of them: what checks go through.

    >>> from rulegrad.lang.parser import parse_file
    >>> text = "target t:\\n    has ADD\\ntarget t + a:\\n    has MUL\\ntarget t + b:\\n    has DIV\\n"
    >>> [target.name for target in examples(parse_file(text, "t.rules").declarations)]
    ['t', 't+a+b']
    """
    given = list(declarations)
    result: list[syntax.Target] = []
    for base in (d for d in given if isinstance(d, syntax.Target) and not d.features):
        result.append(base)
        features = dict.fromkeys(feature for d in additions_to(base.name, given) for feature in d.features)
        if features:
            result.append(find(given, "+".join((base.name, *features))))
    return result
