"""Steps of schedules in rules, as they are written, and the forms of an op table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulegrad.lang import syntax
from rulegrad.lang.step_text import Attribute, Form

if TYPE_CHECKING:
    from rulegrad.lang.optable import OpTable


@dataclass(frozen=True, slots=True)
class StepWord(syntax.Expression):
    """A word of a step, a part of a loop's name, or a comma."""

    text: str


@dataclass(frozen=True, slots=True)
class StepValue(syntax.Expression):
    """`i0.inner`, `8`, `{column}.inner`, `{loops...}`: parts that dots join, each a word, a literal or `{e}`."""

    parts: tuple[syntax.Expression, ...]


@dataclass(frozen=True, slots=True)
class StepGroup(syntax.Expression):
    """`(i1.inner, k0, 2)`: values that are one item among several."""

    items: tuple[syntax.Expression, ...]


@dataclass(frozen=True, slots=True)
class Step(syntax.Expression):
    """One step as it is written: values, words among them, and commas; or a Splice of steps from elsewhere.

    `STEP for a, b in iterable if condition`: the step for each item; `STEP if condition`: the step or none.
    """

    items: tuple[syntax.Expression, ...]
    variables: tuple[str, ...] = ()
    iterable: syntax.Expression | None = None
    condition: syntax.Expression | None = None


@dataclass(frozen=True, slots=True)
class Steps(syntax.Expression):
    """`steps {split i0 by 8; unroll i0.inner}`: these nodes, as the op table's `step` lines say."""

    steps: tuple[Step, ...]


def forms_of(table: OpTable) -> dict[str, Form]:
    """The forms of an op table, by their first words; of two that begin alike, the first."""
    found: dict[str, Form] = {}
    for op in table.ops.values():
        if op.declaration.step:
            allowed = dict(op.declaration.values)
            attributes = tuple(
                Attribute(a.name, a.type, a.default is None, getattr(a.default, "value", None), allowed.get(a.name, ()))
                for a in op.attributes.values()
            )
            form = Form(op.name, op.declaration.step, attributes)
            found.setdefault(form.keyword, form)
    return found
