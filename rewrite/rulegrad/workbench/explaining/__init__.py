"""Why a rule fires on a node, or does not: the question behind `python -m rulegrad why`."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.ir import UOp
from rulegrad.workbench.explaining.explanation import Answer, Explanation, Spot
from rulegrad.workbench.explaining.question import Question
from rulegrad.workbench.explaining.runs import Subject


def explain(
    rule: str,
    graph: UOp | Sequence[Subject],
    *,
    at: str | int | UOp | None = None,
    pass_name: str | None = None,
    target: str | None = None,
    most: int = 3,
) -> Explanation:
    """Why a rule (`SET.RULE` or `RULE`) fires or does not, on a graph or on several that went through passes.

    at: a node of the graph, by its number in the printed text or as it is; else every node is looked at, and the
    `most` best matches are told of. pass_name: if not given, every pass that has the rule. Raises RuleError for an
    unknown rule, pass or target, RewriteError for a node that the graph has not.

    >>> from rulegrad import UOp
    >>> i = UOp("RANGE", (UOp.const(100, "index"),), id=0, kind="output")
    >>> print(explain("index_division.nested", i // 3, pass_name="symbolic").answers[0].message)
    source 0 is %1 = RANGE[id=0, kind="output"](100), not FLOORDIV
    """
    question = Question(rule, at, pass_name, most)
    return question.answered([Subject(graph, "", target)] if isinstance(graph, UOp) else graph)


__all__ = ["Answer", "Explanation", "Spot", "Subject", "explain"]
