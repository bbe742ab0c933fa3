"""Why a choose pass took a candidate or did not: its cost, beside that of the graph and of the one that was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad.ir import UOp
from rulegrad.workbench.explaining.lookup import Found
from rulegrad.workbench.explaining.runs import Run

if TYPE_CHECKING:
    from rulegrad._core import Inside


def judgement(found: Found, run: Run, node: UOp) -> str:
    """The result of a rule's candidates at a node: of the one that was taken, else of the cheapest; "" for none."""
    best: tuple[tuple[bool, bool, float], int, Inside] | None = None
    for number, candidates in enumerate(run.rounds):
        for one in candidates:
            if one["rule"] == found.name and one["before"] == node:
                cost = one["cost"]
                rank = (one["verdict"] != "taken", cost is None, cost or 0)
                if best is None or rank < best[0]:
                    best = rank, number, one
    return "" if best is None else _told(run, best[2], run.rounds[best[1]])


def _told(run: Run, one: Inside, candidates: list[Inside]) -> str:
    made = "nothing" if one["after"] is None else run.namer.value(one["after"])
    graph = next((_number(other["cost"]) for other in candidates if other["verdict"] == "given"), "")
    taken = next((other for other in candidates if other["verdict"] == "taken"), None)
    if one["verdict"] == "taken":
        step = next((s.number for s in run.steps if (s.rule, s.before) == (one["rule"], one["before"])), 0)
        others = sum(other["verdict"] in ("not taken", "no cost") for other in candidates)
        beside = f"; {others} other{'s cost' if others > 1 else ' costs'} no less" if others else ""
        costs = f"its candidate costs {_number(one['cost'])}, the graph {graph}{beside}"
        return f"it fires at step {step} and gives {made}: {costs}"
    if one["verdict"] == "failed":
        return f"it matches, but its candidate cannot be judged: {run.problem or 'the pass failed there'}"
    if one["cost"] is None:
        return f"it matches and gives {made}, but its candidate has no cost, so it was dropped"
    told = f"it matches and gives {made}, but its candidate costs {_number(one['cost'])}, the graph {graph}"
    if taken is None:
        return told
    rule = f"{taken['rule']} ({taken['location']}) at {run.namer.node(taken['before'])}"
    return f"{told}, and the one that was taken, by {rule}, {_number(taken['cost'])}"


def _number(cost: float | None) -> str:
    return f"{cost:.12g}" if isinstance(cost, float) else str(cost)
