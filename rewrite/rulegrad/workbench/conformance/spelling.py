"""The rule or declaration that gives a piece of a kernel's text, and what to add where one is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rulegrad.lang import syntax
from rulegrad.lang.notation import notation_of
from rulegrad.lang.optable import OpTable

_ADD_OP = "add `has OP` to the target and say how it is spelled, or add a rule that lowers it"
#: What a message of the compiler says is missing: a pattern of the message, and what to do about it.
_MISSING = (
    (r"pass (\w+) has no rule for (\w+)", 'add a rule for it to pass {0}: `{name}: {1}(...) -> expr "…"`'),
    (r"the target has no dtype (\w+)", 'add `type {0} "…"` to the target: what the dtype is called in its language'),
    (r"^it is left in the program", _ADD_OP.replace("OP", "{op}")),
    (r"^it on (\w+) is left", "add {0} to the target's `dtypes`, or a rule that computes it in another dtype"),
    (r"^(\w+) is left in the program", _ADD_OP.replace("OP", "{0}")),
    (r"^(\w+) on (\w+) is left", "add {1} to the target's `dtypes`, or a rule that computes {0} in another dtype"),
)  # fmt: skip
_LINE_NUMBER = re.compile(r"(?:\bline |[:(])(\d+)(?=[:),. ])")
_SHORTEST = 3  # characters of a template that say which rule it is


class Spellings:
    """The render rules of a target, and the spellings of the op table."""

    def __init__(self, files: Sequence[syntax.File], target: syntax.Target) -> None:
        declarations = [d for file in files for d in file.declarations]
        self._target = target
        self._table = OpTable.from_declarations(declarations)
        self._ops = {d.name: d for d in declarations if isinstance(d, syntax.OpDeclaration)}
        self._sets = {d.name: d for d in declarations if isinstance(d, syntax.Ruleset)}
        passes = {d.name: d for d in declarations if isinstance(d, syntax.Pass)}
        self._rules = list(self._rules_of(passes[target.render])) if target.render in passes else []

    def _rules_of(self, render: syntax.Pass) -> Iterator[tuple[str, syntax.Rule]]:
        yield from ((render.name, rule) for rule in render.rules)
        waiting = list(render.uses)
        for name in waiting:  # grows while it is walked
            found = self._sets.get(name)
            if found is not None:
                waiting.extend(part for part in found.union if part not in waiting)
                yield from ((name, rule) for rule in found.rules)

    def of(self, op: str) -> str:
        """The rule or declaration that prints an op, for a hint; empty where it is unknown."""
        declared = self._ops.get(op)
        if declared is not None and "Elementwise" in declared.classes and op not in self._target.ops:
            return f"the target does not have {op}: rules make it of other ops (`python -m rulegrad trace` shows them)"
        for owner, rule in self._rules:
            if op in self._rendered(rule):
                return f"rendered by {_place(owner, rule)}"
        if declared is not None and declared.spelling is not None:
            return f"spelled by the op table ({declared.span.file}:{declared.span.line})"
        return ""

    def _rendered(self, rule: syntax.Rule) -> frozenset[str]:
        """The ops that may be at the root of a rule's pattern."""
        pattern = rule.pattern
        while isinstance(pattern, syntax.Capture):
            pattern = pattern.pattern
        found = notation_of(pattern)
        name = found.name if found else ""
        classes = next((generic.classes for generic in rule.generics if generic.name == name), None)
        if classes is None:
            return frozenset((self._table.op_called(name) or name,))
        return self._table.resolve_generic(classes)[1]

    def of_line(self, line: str, op: str) -> str:
        """The rule whose template looks most like a line of source; else what gives the op its text."""
        best, length = "", 0
        for owner, rule in self._rules:
            found = _literal_length(rule, line)
            if found > length:
                best, length = f"it looks like {_place(owner, rule)}", found
        return best if length >= _SHORTEST else self.of(op)

    def hint_for(self, problem: str, op: str = "") -> str:
        """The addition to a target for which the rules make no kernel (of an op)."""
        for pattern, hint in _MISSING:
            found = re.search(pattern, problem)
            if found:
                groups = found.groups()
                return hint.format(*groups, op=op, name=(groups[-1] if groups else op).lower())
        return self.of(op) if op else ""


def quoted_line(problem: str, source: str) -> tuple[int, str]:
    """The line of a kernel's source that a compiler complains about: its number, from 1, and text; (0, "") if unknown.

    >>> quoted_line("kernel.cl:2:7: error: no function exq", "void f() {\\n  y = exq(x);\\n}\\n")
    (2, '  y = exq(x);')
    """
    lines = source.splitlines()
    log = problem.partition("the source:")[0]
    for number, line in enumerate(lines, 1):  # many compilers repeat the line
        if len(line.strip()) > 5 and line.strip() in log:
            return number, line
    for text in _LINE_NUMBER.findall(log):
        if 1 <= int(text) <= len(lines):
            return int(text), lines[int(text) - 1]
    return 0, ""


def _place(owner: str, rule: syntax.Rule) -> str:
    return f"{owner}.{rule.name} ({rule.span.file}:{rule.span.line})"


def _literal_length(rule: syntax.Rule, line: str) -> int:
    """How much of a rule's template stands in a line as it is; 0 where the line cannot be one of it."""
    text = rule.template
    if not isinstance(text, syntax.Text):
        return 0
    literals = [part for part in text.parts if isinstance(part, str)]
    pattern = ".*".join(re.escape(part.strip()) for part in literals)
    return sum(len(part.strip()) for part in literals) if re.search(pattern, line) else 0
