"""Walking over syntax: the parts of an expression."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rulegrad.lang.syntax import Call, Expression


def expressions_in(root: Expression) -> Iterator[Expression]:
    """`root` and every expression inside it, in no particular order."""
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif isinstance(item, Expression):
            yield item
            waiting.extend(getattr(item, f.name) for f in dataclasses.fields(item) if f.name != "span")


def calls_in(root: Expression) -> set[str]:
    """The names of all functions called in an expression.

    An op variable, an op by its lower-case name, a built-in and a `def` are all written as calls.
    """
    return {item.function for item in expressions_in(root) if isinstance(item, Call)}
