"""Rules that lead from a node back to it, or on without end: found by running each pass on instances of its rules."""

from __future__ import annotations

import re

from rulegrad.errors import GraphError, RewriteError
from rulegrad.ir import UOp
from rulegrad.workbench.analysis.findings import Findings, one_line
from rulegrad.workbench.analysis.laboratory import Laboratory, PassRules, Subject

_ENDLESS = re.compile(r"\b(?:does|did) not end\b")
_RULE = re.compile(r"([\w.]+) \([^()\s]*:\d+\)")


def check_loops(findings: Findings, laboratory: Laboratory) -> None:
    """Runs each pass on the instances of its rules, and on what they give: the engine sees a cycle when it is there."""
    for of in laboratory.passes:
        if of.direction != "walk":
            by_name = {subject.name: subject for subject in of.subjects}
            for subject in of.subjects:
                for node in subject.instances:
                    if check_loop(findings, laboratory, of, by_name, subject, node):
                        break


def check_loop(
    findings: Findings,
    laboratory: Laboratory,
    of: PassRules,
    by_name: dict[str, Subject],
    subject: Subject,
    node: UOp,
) -> bool:
    """Whether the pass does not end on a node that one of its rules fires on; then that is reported."""
    try:
        laboratory.normal(of, node)
    except (RewriteError, GraphError) as error:
        text = error.problem
        if _ENDLESS.search(text) is None:
            return False
        names = sorted({name for name in _RULE.findall(text) if name in by_name} or {subject.name})
        # where only some rules are asked about: at the first of these, or at the one whose node it is
        asked = [name for name in names if by_name[name].rule in laboratory.asked] or [subject.name]
        first, rules = by_name[asked[0]], ", ".join(names)
        message = f"pass {of.name} does not end: {rules}" + (" leads back to itself" if len(names) == 1 else "")
        hint = "a rule must make progress: let its template, or its guard, leave less to do"
        findings.report("rule-loop", message, first.rule.name_span, hint, (f"on {one_line(node)}", text), rules)
        return True
    return False
