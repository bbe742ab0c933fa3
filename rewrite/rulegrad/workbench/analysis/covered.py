"""The cost function of a choose pass: whether every op that a graph may have has a case."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.generality import conditions
from rulegrad.workbench.analysis.laboratory import Laboratory, PassRules

_SHOWN = 6


def check_costs_of_ops(findings: Findings, laboratory: Laboratory) -> None:
    """Warns of ops for which the cost function has no case without a guard: a graph with one has no cost."""
    functions = {of.name: of for of in laboratory.lists if of.direction == "list"}
    for declaration in (d for f in laboratory.files for d in f.declarations):
        if not isinstance(declaration, syntax.Pass) or declaration not in laboratory.asked:
            continue
        if declaration.kind == "choose" and declaration.cost in functions:
            missing = _uncovered(laboratory, functions[declaration.cost])
            if missing:
                _report(findings, declaration, _named_first(declaration.rules, missing))


def _uncovered(laboratory: Laboratory, function: PassRules) -> list[str]:
    """The ops of which the function may have no value, in the order of the op table."""
    missing = dict.fromkeys(laboratory.table.ops)
    for subject in function.subjects:
        pattern = subject.rule.pattern
        open_names = [x for x in expressions_in(pattern) if isinstance(x, syntax.Name) and x.dtype is not None]
        if conditions(subject.rule, {}) or open_names:
            continue
        while isinstance(pattern, syntax.Capture):
            pattern = pattern.pattern
        if isinstance(pattern, syntax.Name) and not pattern.is_const:
            return []
        for op in _whole(laboratory, subject.generics.ops, pattern):
            missing.pop(op, None)
    return list(missing)


def _whole(laboratory: Laboratory, variables: dict[str, frozenset[str]], pattern: syntax.Expression) -> Sequence[str]:
    """The ops all of whose nodes a pattern matches: its sources are names, each once."""
    if not isinstance(pattern, syntax.OpCall | syntax.Call):
        return ()
    if isinstance(pattern, syntax.OpCall) and any(not _any(a.value) for a in pattern.attributes):
        return ()
    arguments = [a.inner if isinstance(a, syntax.Splice) else a for a in pattern.arguments]
    names = [a.name for a in arguments if isinstance(a, syntax.Name) and not a.is_const and a.name != "_"]
    if not all(map(_any, arguments)) or len(names) != len(set(names)):
        return ()
    name = pattern.op if isinstance(pattern, syntax.OpCall) else pattern.function
    spliced = len(arguments) > 0 and any(isinstance(a, syntax.Splice) for a in pattern.arguments)
    found = variables.get(name) or {laboratory.table.op_called(name) or name}
    return [
        op
        for op in found
        if op in laboratory.table.ops
        and (spliced or laboratory.table.ops[op].maximum == laboratory.table.ops[op].minimum == len(arguments))
    ]


def _any(x: syntax.Expression) -> bool:
    return isinstance(x, syntax.Name) and not x.is_const and x.dtype is None


def _named_first(rules: Sequence[syntax.Rule], missing: list[str]) -> list[str]:
    """The ops, those that the actions name first."""
    named = {x.op for r in rules for side in (r.pattern, r.template) for x in expressions_in(side)
             if isinstance(x, syntax.OpCall)}  # fmt: skip
    return sorted(missing, key=lambda op: op not in named)


def _report(findings: Findings, declaration: syntax.Pass, missing: list[str]) -> None:
    shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
    message = f"the cost function {declaration.cost} of {declaration.name} has no case that is sure to hold for {shown}"
    hint = f"add a last case: `other: {declaration.cost}(n@_) -> …`"
    findings.report("uncovered-op", message, declaration.span, hint, (), declaration.name)
