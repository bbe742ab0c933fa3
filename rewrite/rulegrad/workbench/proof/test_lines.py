"""Test lines that do not hold, as diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import indent

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.workbench.proof.lines import on_values
from rulegrad.workbench.rule_tests import Case, RuleTests


def _on_values(tests: RuleTests, case: Case) -> str:
    """Empty, or where the sides of a test line that holds compute something else."""
    found = on_values(tests, case)
    if case.test.fires and found.kind == "left out" and not case.has("unsound"):
        return f" says nothing: its result cannot be computed on values: {found.how}"
    side = "the rule's result" if case.test.fires else "its right side"
    return f" fails on values: {side} {found.how}" if found.kind == "differ" else ""


def failing(files: Sequence[syntax.File], tests: RuleTests, cases: Iterable[Case]) -> list[Diagnostic]:
    """Those of the cases that do not hold, with what came out instead."""
    texts = {file.path: file.text.splitlines() for file in files}
    found = []
    for case in cases:
        problem, _, rest = tests.run(case).partition("\n")
        said = f" fails: it {problem}" if problem else _on_values(tests, case)
        if said:
            span, lines = case.test.span, texts.get(case.test.span.file, [])
            line = lines[span.line - 1] if span.line <= len(lines) else ""
            notes = (indent(rest.rstrip(), " " * 10).lstrip(),) if rest else ()
            message = f"the test of {case.name}{said}"
            found.append(Diagnostic("failing-test", message, span, notes=notes, source_line=line))
    return sorted(found, key=lambda d: (d.span.file, d.span.line))
