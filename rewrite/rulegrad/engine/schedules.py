"""Schedules as text: the steps on the loops of a kernel, written and read as the op table says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rulegrad import engine
from rulegrad._core import UOp
from rulegrad.lang.step_text import Attribute, Form

CHOOSES: Final = "choose_schedule"  # the pass that gives a kernel its schedule


class Candidate(NamedTuple):
    """A schedule that a rule proposes for a kernel, and its cost, by which the pass compares."""

    scheduled: UOp
    cost: float
    rule: str
    location: str  # file and line of the rule

    @property
    def text(self) -> str:
        """The tactic and its steps."""
        return described(self.scheduled)

    @property
    def tactic(self) -> str:
        """The name of the tactic."""
        return str(self.scheduled.attrs["tactic"])


def candidates(graph: UOp, target: str, kept: int = 1) -> list[Candidate]:
    """All schedules that the rules propose for a kernel whose loops have names, the cheapest first.

    kept: a `least` line of a rule keeps so many choices, not one. Raises RewriteError when a rule is wrong.
    """
    _, information = engine.program(target).rewrite(CHOOSES, graph, trace=True, kept_choices=kept)
    rounds = information["inside"][:1] or [information["remaining"]]
    found = [
        Candidate(one["after"], one["cost"], one["rule"], one["location"])
        for one in rounds[0]
        if one["after"] is not None and one["after"].op == "SCHEDULED" and one["cost"] is not None
    ]
    return sorted(found, key=lambda one: one.cost)


_forms: tuple[object, dict[str, Form]] = (None, {})  # and the summary that they are of


def forms() -> dict[str, Form]:
    """How each step is written, by its first word, in the rules that are in force."""
    global _forms
    steps = engine.summary()["steps"]
    if _forms[0] is not steps:
        found = {
            word: Form(op, text, tuple(Attribute(*attribute) for attribute in attributes))
            for word, (op, text, attributes) in steps.items()
        }
        _forms = steps, found
    return _forms[1]


def schedule_text(steps: Sequence[UOp]) -> str:
    """Steps as text; one of an op that has no text as its node is described.

    >>> from rulegrad import UOp
    >>> step = UOp("SPLIT", (), loop=("i0", "inner"), by=8, tail="guard")
    >>> schedule_text([step, UOp("UNROLL", (), loop=("i0", "inner", "inner"))])
    'split i0.inner by 8 tail guard; unroll i0.inner.inner'
    """
    by_op = {form.op: form for form in forms().values()}
    return "; ".join(by_op[s.op].written(s.attrs) if s.op in by_op else s.describe() for s in steps)


def described(scheduled: UOp) -> str:
    """The tactic of a kernel with a schedule and its steps, "rows: bind i0 to thread"; "" for another kernel.

    >>> from rulegrad import UOp
    >>> described(UOp("SCHEDULED", (UOp("SINK", ()), *parse_schedule("bind i0 to thread")), tactic="rows"))
    'rows: bind i0 to thread'
    """
    return schedule_of(*choice_of(scheduled))


def choice_of(scheduled: UOp) -> tuple[str, tuple[UOp, ...]]:
    """The tactic of a kernel with a schedule, and its steps; "" and none for another kernel.

    >>> from rulegrad import UOp
    >>> choice_of(UOp("SCHEDULED", (UOp("SINK", ()),), tactic="rows"))
    ('rows', ())
    """
    return (scheduled.attrs["tactic"], scheduled.src[1:]) if scheduled.op == "SCHEDULED" else ("", ())


def schedule_of(tactic: str, steps: Sequence[UOp]) -> str:
    """A tactic and its steps as text.

    >>> schedule_of("rows", parse_schedule("bind i0 to thread"))
    'rows: bind i0 to thread'
    """
    return f"{tactic}: {schedule_text(steps)}" if steps else tactic


def parse_schedule(text: str) -> list[UOp]:
    """The steps that a text says, each a node. Raises RuleError, with the place in the text.

    >>> steps = parse_schedule("split i0 by 8; vectorize i0.inner")
    >>> steps[0].attrs["by"], schedule_text(steps)
    (8, 'split i0 by 8; vectorize i0.inner')
    """
    from rulegrad.lang import quoted_steps  # late: reading needs the language, printing does not

    engine.install_op_table()
    return [UOp(op, (), **attributes) for op, attributes in quoted_steps.parse_schedule(text, forms())]
