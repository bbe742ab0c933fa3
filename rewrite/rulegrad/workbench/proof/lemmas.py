"""Lemmas on the quotients and products of a question: the theorems on integers, for the terms that occur."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import z3

from rulegrad.workbench.proof.theorems import (
    DIGITS,
    FACTOR,
    GREATER_PRODUCT,
    MONOTONE,
    NOT_NEGATIVE,
    QUOTIENT,
    RECIPROCAL,
    SHIFTED,
    UNIQUE,
)

Pair = tuple[Any, Any]


@dataclass(slots=True)
class Occurring:
    """The quotients and remainders by what is not a number, the products, and the conditions of some formulas.

    Every quotient makes a product: that with its divisor.
    """

    divisions: list[Pair] = field(default_factory=list)  # (dividend, divisor)
    products: list[Pair] = field(default_factory=list)  # of two factors that are not numbers
    conditions: list[Any] = field(default_factory=list)  # of choices
    wrapped: list[Any] = field(default_factory=list)  # remainders by a number

    @classmethod
    def of(cls, terms: Sequence[Subterm]) -> Occurring:
        found = cls()
        divisions: dict[tuple[int, int], Pair] = {}
        for term, kind, children in terms:
            if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):
                a, b = children
                if not z3.is_int_value(b):
                    divisions[a.get_id(), b.get_id()] = (a, b)
                elif kind == z3.Z3_OP_MOD:
                    found.wrapped.append(term)
            elif kind == z3.Z3_OP_MUL and z3.is_int(term):
                factors = [x for x in children if not z3.is_int_value(x)]
                if len(factors) == 2:
                    found.products.append((factors[0], factors[1]))
            elif kind == z3.Z3_OP_ITE:
                found.conditions.append(children[0])
        found.divisions = list(divisions.values())
        found.products.extend((b, a / b) for a, b in found.divisions)
        return found


class Subterm(NamedTuple):
    """A part of a formula, as z3 has it. Asking z3 for kinds and children takes long, so it is asked once."""

    term: Any
    kind: int
    children: list[Any]


def subterms(formulas: Sequence[Any]) -> list[Subterm]:
    """Every part of some formulas, once; parts before what they are parts of."""
    found: list[Subterm] = []
    seen: set[int] = set()
    waiting: list[Any] = [*reversed(formulas)]
    while waiting:
        term = waiting.pop()
        if isinstance(term, Subterm):
            found.append(term)
        elif term.get_id() not in seen and z3.is_app(term):
            seen.add(term.get_id())
            children = term.children()
            waiting.append(Subterm(term, term.decl().kind(), children))
            waiting.extend(reversed(children))
    return found


def lemmas(formulas: Sequence[Any]) -> list[Any]:
    """Instances of the theorems, for the terms of some formulas. Raises TheoremError."""
    found = Occurring.of(subterms(formulas))
    return [
        *_of_products(found.products),
        *(theorem(a, b) for a, b in found.divisions for theorem in (QUOTIENT, NOT_NEGATIVE)),
        *_of_two_quotients(found),
        *_of_digits(found.divisions),
        *_of_reciprocals(found),
    ]


def _of_products(products: Sequence[Pair]) -> Iterator[Any]:
    for a, b in products:
        yield FACTOR(a, b)
        yield FACTOR(b, a)
        yield GREATER_PRODUCT(z3.IntVal(0), a, b)
    for p, q in itertools.permutations(products, 2):
        for (x, m), (n, other) in itertools.product((p, p[::-1]), (q, q[::-1])):
            if m.eq(other):
                yield GREATER_PRODUCT(x, n, m)


def _of_two_quotients(found: Occurring) -> Iterator[Any]:
    """Of quotients by one divisor whose dividends are ordered, or differ by a multiple of it; of one of a quotient."""
    for (a, b), (c, d) in itertools.permutations(found.divisions, 2):
        if z3.is_app(a) and a.decl().kind() == z3.Z3_OP_IDIV and a.arg(0).eq(c):
            yield DIGITS(c, a.arg(1), b)
            yield _same_divisor(c, a.arg(1) * b, d)
        if not b.eq(d):
            continue
        yield MONOTONE(a, c, b)
        for times in (1, -1, *_multiples(b, found.products)):
            yield SHIFTED(a, c, b, z3.IntVal(times) if isinstance(times, int) else times)
        for more in (0, 1):  # c rounded down or up to a multiple
            yield UNIQUE(a, b, c / b + more, z3.IntVal(0))


def _multiples(b: Any, products: Sequence[Pair]) -> Iterator[Any]:
    """The other factor of the products that b is a factor of."""
    for p, q in products:
        if p.eq(b) or q.eq(b):
            yield q if p.eq(b) else p
            yield -(q if p.eq(b) else p)


def _same_divisor(a: Any, b: Any, c: Any) -> Any:
    return z3.Implies(b == c, z3.And(a / b == a / c, a % b == a % c))


def _of_digits(divisions: Sequence[Pair]) -> Iterator[Any]:
    """x by n and by a divisor d of n: k = n // d is one of the quotients, or of the divisors."""
    divisors = list({b.get_id(): b for _, b in divisions}.values())
    for (x, n), d in itertools.product(divisions, divisors):
        if n.eq(d):
            continue
        quotients = [c / b for c, b in divisions if c.eq(n) and b.eq(d)]
        for k in (*quotients, *(b for b in divisors if not (b.eq(n) or b.eq(d)))):
            yield DIGITS(x, d, k)
            yield _same_divisor(x, d * k, n)


def _of_reciprocals(found: Occurring) -> Iterator[Any]:
    """A quotient by p of a product with m, in place of a quotient by d: with m = ceil(p / d)."""
    factors: dict[int, Pair] = {(a * b).get_id(): (a, b) for a, b in found.products}
    for (w, p), (y, d) in itertools.permutations(found.divisions, 2):
        if w.get_id() not in factors:
            continue
        for x, m in itertools.permutations(factors[w.get_id()]):
            if not x.eq(y):
                continue
            for (n, _), (c, _) in itertools.permutations([pair for pair in found.divisions if pair[1].eq(d)], 2):
                yield RECIPROCAL(x, n - 1, d, m, p, d - 1 - (c - d * (c / d)))
