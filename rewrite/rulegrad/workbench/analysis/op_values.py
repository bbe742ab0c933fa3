"""Values on which ops are tried: all of 8 bits, and of larger dtypes the ends, small ones, and some at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype

_AT_RANDOM = 16
_LARGEST_INDEX = 1 << 20  # products of three stay in 64 bits, beyond which an index is an error
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 2.0, 3.0, -3.0, 0.1, -7.3, np.inf, -np.inf, np.nan)
_FINITE = (0.0, 1.0, -1.0, 0.5, -0.25, 2.0, -3.0, 0.75)


def values_of(dtype: str, generator: random.Random | None = None, few: bool = False, near: Sequence[int] = ()) -> Array:
    """Values of a dtype, integers in their order. few: so that all triples of them are computed in no time.

    near: numbers at which something may change.
    """
    if few:
        return few_values(dtype)
    facts = as_dtype(dtype)
    if facts.kind == "bool":
        return np.array([False, True])
    if facts.is_inexact:
        return _floats(dtype)
    low, high = ends(dtype)
    if facts.bits == 8:
        return np.arange(low, high + 1).astype(facts.numpy)
    r = generator or random.Random(0)
    found = {low, low + 1, high - 1, high, *range(max(low, -9), 13), *_powers(low, high)}
    found |= {n + by for n in near for by in (-1, 0, 1) if low <= n + by <= high}
    found |= {r.randint(low, high) >> r.randrange(facts.bits) for _ in range(_AT_RANDOM)}
    return np.array(sorted(found), dtype=object).astype(facts.numpy)


@cache
def few_values(dtype: str) -> Array:
    """About twenty values, ascending: the ends and small ones. Sums and products of the floats are exact."""
    facts = as_dtype(dtype)
    if facts.kind == "bool":
        return np.array([False, True])
    if facts.is_inexact:
        return np.array(_complex(_FINITE) if facts.is_complex else sorted(_FINITE)).astype(facts.numpy)
    low, high = ends(dtype)
    found = {low, low + 1, high // 2, high - 1, high, *(v for v in (-100, -7, -3, -2, -1, *range(6), 7, 8, 31, 100))}
    return np.array(sorted(v for v in found if low <= v <= high), dtype=object).astype(facts.numpy)


def ends(dtype: str) -> tuple[int, int]:
    """The least and the largest integer that is tried."""
    facts = as_dtype(dtype)
    if facts.kind == "index":
        return -_LARGEST_INDEX, _LARGEST_INDEX
    limits = np.iinfo(facts.numpy)
    return int(limits.min), int(limits.max)


def _powers(low: int, high: int) -> list[int]:
    near = [sign * 2**k + by for k in (4, 7, 8, 15, 16, 31, 32) for sign in (1, -1) for by in (-1, 0, 1)]
    return [v for v in near if low <= v <= high]


@cache
def _floats(dtype: str) -> Array:
    facts = as_dtype(dtype)
    with np.errstate(all="ignore"):
        if facts.is_complex:
            return np.array(_complex(_FINITE)).astype(facts.numpy)
        generator = np.random.default_rng(facts.bits)
        return np.array([*_FLOATS, *generator.uniform(-40, 40, _AT_RANDOM)]).astype(facts.numpy)


def _complex(parts: tuple[float, ...]) -> list[complex]:
    """Those with an infinite part are left out: a product with 1 is nan there."""
    return [complex(a, b) for a in parts[:4] for b in parts[:4]]


def same(a: Array, b: Array, near: Any = 0.0) -> Array:
    """Where values are equal, any nan to any other; floats that differ by at most `near`, too."""
    if a.dtype.kind in "biu":
        return np.asarray(a == b)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    p, q = a.astype(wide), b.astype(wide)
    return np.asarray((p == q) | ((p != p) & (q != q)) | (np.abs(p - q) <= near))
