"""Theorems that z3 does not think of: about those quotients of a question whose divisor is not known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import z3


def lemmas(formulas: Sequence[Any]) -> Iterator[Any]:
    """For the quotients in some formulas: a = b q + r with 0 <= r < b, and a larger dividend has no smaller quotient.

    Two quotients by one divisor differ by 1 where the dividends differ by the divisor; (a // b) // c = a // (b c).
    """
    pairs = list(_divisions(formulas).values())
    for a, b in pairs:
        q, r = a / b, a % b
        yield z3.Implies(b > 0, z3.And(a == b * q + r, r >= 0, r < b))
        yield z3.Implies(b > 0, z3.And(b * q <= a, a < b * q + b))
    for (a, b), (c, d) in itertools.permutations(pairs, 2):
        if z3.is_app(a) and a.decl().kind() == z3.Z3_OP_IDIV and a.arg(0).eq(c):
            inner = a.arg(1)
            yield z3.Implies(z3.And(inner > 0, b > 0), a / b == c / (inner * b))
            yield z3.Implies(z3.And(inner > 0, b > 0, inner * b == d), a / b == c / d)
        if b.eq(d):
            yield z3.Implies(z3.And(b > 0, a <= c), a / b <= c / b)
            for k in (1, -1):
                yield z3.Implies(z3.And(b > 0, a == c + k * b), z3.And(a / b == c / b + k, a % b == c % b))


def _divisions(formulas: Sequence[Any]) -> dict[tuple[int, int], tuple[Any, Any]]:
    """(dividend, divisor) of every integer quotient or remainder by what is not a number."""
    found: dict[tuple[int, int], tuple[Any, Any]] = {}
    seen: set[int] = set()
    waiting = list(formulas)
    while waiting:
        term = waiting.pop()
        if not z3.is_expr(term) or term.get_id() in seen:
            continue
        seen.add(term.get_id())
        waiting.extend(term.children())
        if z3.is_app(term) and term.decl().kind() in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):
            a, b = term.children()
            if not z3.is_int_value(b):
                found[a.get_id(), b.get_id()] = (a, b)
    return found
