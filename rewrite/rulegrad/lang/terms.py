"""The `eval` and `identity` lines of ops as terms: plain values, which are kept with compiled rules.

A term is the name of a source, a number, a bool or None, or the name of a function before the terms of its arguments.
What runs ops one by one, as the interpreter does, reads terms and needs neither parser nor syntax tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Term = str | int | float | bool | tuple[Any, ...] | None


class Evaluated(NamedTuple):
    """The part of an op's declaration that says what its values are."""

    parameters: tuple[str, ...]  # the names of its sources
    evaluator: Term  # None where it has no `eval` line, as identity is without an `identity` line
    identity: Term
    flags: tuple[str, ...]
    location: str  # file and line of the declaration
