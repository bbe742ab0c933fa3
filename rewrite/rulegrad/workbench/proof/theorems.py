"""Theorems on integers that z3 does not find by itself, each with a proof in steps that z3 checks.

z3 is weak at quotients by unknowns. So what a proof of a rule may use of them is stated here for any
integers: premises, conclusion, and claims on the way, each of which must follow from those before it. `check` has z3
confirm every step; a theorem that has not been confirmed is not used. z3's `/` and `%` round down where the divisor
is positive, and so do all theorems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import z3

Steps = Sequence[Any]

STEP_EFFORT = 2_000_000


@dataclass(frozen=True)
class Theorem:
    """For all integers: where the premise holds, the conclusion does.

    proof: the claims on the way; a claim is a formula, or an instance of a theorem before this one.
    """

    name: str
    arity: int
    premise: Callable[..., Any]
    conclusion: Callable[..., Any]
    proof: Callable[..., Steps]

    def __call__(self, *terms: Any) -> Any:
        """The theorem for some terms. Raises TheoremError where it is not confirmed."""
        problem = check(self)
        if problem:
            raise TheoremError(f"the theorem {self.name} is not proved: {problem}")
        return z3.Implies(self.premise(*terms), self.conclusion(*terms))


class TheoremError(Exception):
    """z3 does not confirm a step of a theorem's proof."""


@cache
def check(theorem: Theorem) -> str:
    """The first step that z3 does not confirm; empty where it confirms all."""
    terms = [z3.Int(f"t.{k}") for k in range(theorem.arity)]
    known = [theorem.premise(*terms)]
    for number, claim in enumerate([*theorem.proof(*terms), theorem.conclusion(*terms)], 1):
        if isinstance(claim, _Instance):
            known.append(claim.theorem(*claim.terms))
            continue
        solver = z3.Solver()
        solver.set("rlimit", STEP_EFFORT)
        solver.add(*known, z3.Not(claim))
        if solver.check() != z3.unsat:
            return f"step {number}, {claim}"
        known.append(claim)
    return ""


@dataclass(frozen=True)
class _Instance:
    """A theorem, for these terms, as a step of a proof."""

    theorem: Theorem
    terms: tuple[Any, ...]


def _by(theorem: Theorem, *terms: Any) -> _Instance:
    return _Instance(theorem, terms)


def _no_steps(*terms: Any) -> Steps:
    return ()


# ---- products ----

GREATER_PRODUCT = Theorem(
    "greater_product",
    3,  # 0 <= x <= n and m >= 0: 0 <= x m <= n m
    lambda x, n, m: z3.And(x >= 0, x <= n, m >= 0),
    lambda x, n, m: z3.And(x * m >= 0, x * m <= n * m),
    lambda x, n, m: (x * m >= 0, (n - x) * m >= 0),
)
FACTOR = Theorem(
    "factor",
    2,  # n >= 1 and m >= 0: m <= n m
    lambda n, m: z3.And(n >= 1, m >= 0),
    lambda n, m: n * m >= m,
    lambda n, m: ((n - 1) * m >= 0,),
)

# ---- quotients ----

QUOTIENT = Theorem(
    "quotient",
    2,  # a = b (a // b) + a % b
    lambda a, b: b > 0,
    lambda a, b: z3.And(a == b * (a / b) + a % b, a % b >= 0, a % b < b, b * (a / b) <= a, a < b * (a / b) + b),
    _no_steps,
)
NO_MULTIPLE = Theorem(
    "no_multiple",
    2,  # only 0 is a multiple of b that is nearer to 0 than b
    lambda b, t: z3.And(b > 0, b * t < b, b * t > -b),
    lambda b, t: t == 0,
    lambda b, t: (z3.Implies(t >= 1, b * (t - 1) >= 0), z3.Implies(t <= -1, b * (-1 - t) >= 0)),
)
UNIQUE = Theorem(
    "unique",
    4,  # a = b q + r and 0 <= r < b: q is the quotient, r is the rest
    lambda a, b, q, r: z3.And(b > 0, a == b * q + r, r >= 0, r < b),
    lambda a, b, q, r: z3.And(a / b == q, a % b == r),
    lambda a, b, q, r: (
        _by(QUOTIENT, a, b),
        b * (q - a / b) == a % b - r,
        _by(NO_MULTIPLE, b, q - a / b),
        q == a / b,
    ),
)
NOT_NEGATIVE = Theorem(
    "not_negative",
    2,  # a >= 0: 0 <= a // b <= a
    lambda a, b: z3.And(a >= 0, b > 0),
    lambda a, b: z3.And(a / b >= 0, a / b <= a),
    lambda a, b: (
        _by(QUOTIENT, a, b),
        z3.Implies(a / b <= -1, b * (-1 - a / b) >= 0),
        a / b >= 0,
        _by(FACTOR, b, a / b),
    ),
)
MONOTONE = Theorem(
    "monotone",
    3,  # a larger dividend has no smaller quotient
    lambda a, c, b: z3.And(b > 0, a <= c),
    lambda a, c, b: a / b <= c / b,
    lambda a, c, b: (
        _by(QUOTIENT, a, b),
        _by(QUOTIENT, c, b),
        b * (a / b - c / b) < b,
        z3.Implies(a / b - c / b >= 1, b * (a / b - c / b - 1) >= 0),
    ),
)
SHIFTED = Theorem(
    "shifted",
    4,  # (c + k b) // b = c // b + k, (c + k b) % b = c % b
    lambda a, c, b, k: z3.And(b > 0, a == c + k * b),
    lambda a, c, b, k: z3.And(a / b == c / b + k, a % b == c % b),
    lambda a, c, b, k: (_by(QUOTIENT, c, b), _by(UNIQUE, a, b, c / b + k, c % b)),
)
DIGITS = Theorem(
    "digits",
    3,  # the digits of x to the mixed base d, k: x % (d k) = d (x // d % k) + x % d
    lambda x, d, k: z3.And(d > 0, k > 0),
    lambda x, d, k: z3.And(
        x / (d * k) == (x / d) / k,
        x % (d * k) == d * ((x / d) % k) + x % d,
        (x % (d * k)) / d == (x / d) % k,
        (x % (d * k)) % d == x % d,
    ),
    lambda x, d, k: (
        _by(QUOTIENT, x, d),
        _by(QUOTIENT, x / d, k),
        _by(GREATER_PRODUCT, (x / d) % k, k - 1, d),
        x == (d * k) * ((x / d) / k) + (d * ((x / d) % k) + x % d),
        d * k > 0,
        _by(UNIQUE, x, d * k, (x / d) / k, d * ((x / d) % k) + x % d),
        _by(UNIQUE, x % (d * k), d, (x / d) % k, x % d),
    ),
)


def _last(n: Any, d: Any) -> Any:
    """The greatest number up to n that leaves d - 1."""
    return (n + 1) / d * d - 1


# Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI 1994), for any p, not 2**s
# only: m = ceil(p / d), and m d exceeds p by e. With x = d q + r, q p <= x m < (q + 1) p is to be shown. That times d
# is q d p <= x (p + e) < (q + 1) d p, or x e < (d - r) p. Up to `last`, x e < p. Above, x = last + j with r = j - 1.
RECIPROCAL = Theorem(
    "reciprocal",
    6,
    lambda x, n, d, m, p, e: z3.And(
        d > 1, p >= 1, x >= 0, x <= n, n >= d, e >= 0, e < d, m * d == p + e, _last(n, d) * e < p
    ),
    lambda x, n, d, m, p, e: (x * m) / p == x / d,
    lambda x, n, d, m, p, e: (
        *_error_is_small(x, n, d, p, e, x / d, x % d, _last(n, d)),
        *_quotient_is_found(x, d, m, p, e, x / d, x % d),
    ),
)


def _error_is_small(x: Any, n: Any, d: Any, p: Any, e: Any, q: Any, r: Any, last: Any) -> Steps:
    """That x e < (d - r) p."""
    k = (n + 1) / d
    j = x - last
    return (
        _by(QUOTIENT, x, d),
        _by(QUOTIENT, n + 1, d),
        _by(MONOTONE, d, n + 1, d),
        d / d == 1,
        z3.And(k >= 1, q >= 0),
        _by(FACTOR, k, d),
        z3.And(last >= d - 1, n < last + d),
        # up to last
        _by(GREATER_PRODUCT, x, last, e),
        z3.Implies(x <= last, x * e < p),
        _by(FACTOR, d - r, p),
        z3.Implies(x <= last, x * e < (d - r) * p),
        # above
        _by(UNIQUE, x, d, k, j - 1),
        z3.Implies(x > last, r == j - 1),
        _by(GREATER_PRODUCT, j, last, e),
        z3.Implies(x > last, j * e < p),
        z3.Implies(x > last, x * e == last * e + j * e),
        z3.Implies(x > last, x * e < 2 * p),
        _by(GREATER_PRODUCT, 2, d - r, p),
        z3.Implies(x > last, x * e < (d - r) * p),
        x * e < (d - r) * p,
    )


def _quotient_is_found(x: Any, d: Any, m: Any, p: Any, e: Any, q: Any, r: Any) -> Steps:
    """From d times the quotient back to the quotient: q p <= x m < (q + 1) p."""
    return (
        x * (m * d) == x * p + x * e,
        (x * m) * d == x * p + x * e,
        x * p == (d * q) * p + r * p,
        (x * m - q * p) * d == r * p + x * e,
        _by(GREATER_PRODUCT, 0, r, p),
        _by(GREATER_PRODUCT, 0, x, e),
        (x * m - q * p) * d >= 0,
        (x * m - q * p) * d < d * p,
        (p - (x * m - q * p)) * d > 0,
        z3.Implies(x * m - q * p < 0, (q * p - x * m - 1) * d >= 0),
        x * m - q * p >= 0,
        z3.Implies(x * m - q * p >= p, (x * m - q * p - p) * d >= 0),
        x * m - q * p < p,
        _by(UNIQUE, x * m, p, q, x * m - q * p),
    )


THEOREMS = (GREATER_PRODUCT, FACTOR, QUOTIENT, NO_MULTIPLE, UNIQUE, NOT_NEGATIVE, MONOTONE, SHIFTED, DIGITS, RECIPROCAL)
