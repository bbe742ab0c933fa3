"""Inputs on which ops are tried, and the comparison of a device's results with the op table.

>>> import numpy as np
>>> one = np.array([1.0], np.float32)
>>> differs(np.nextafter(one, 2), one, "float32", ulp=0), differs(np.nextafter(one, 2), one, "float32", ulp=4)
(array([ True]), array([False]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import DType, as_dtype

_FLOATS = (
    *(0.0, 0.1, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 100.0, 448.0, 65504.0),
    *(2.0**24 + 2, 3e38, np.inf, 1e-3, 1e-5, 1e-40),
)
_INTEGERS = (*range(-8, 9), 13, 31, 32, 63, 64, 100, 127, -100)
_SMALLEST = 1e-37  # floats below it may be flushed to 0: errors are measured as if they were this large


def special_values(dtype: DType | str) -> Array:
    """Values on which ops go wrong first: limits, nan, both zeros, numbers that overflow, and a few plain ones.

    >>> special_values("bool")
    array([False,  True])
    """
    facts = as_dtype(dtype)
    if facts.kind == "bool":
        return np.array([False, True])
    if facts.is_integer:
        limits = np.iinfo(facts.numpy)
        near = {*_INTEGERS, limits.min, limits.min + 1, limits.max, limits.max - 1}
        return np.array(sorted(v for v in near if limits.min <= v <= limits.max), facts.numpy)
    with np.errstate(all="ignore"):
        return np.array([np.nan, *_FLOATS, *(-v for v in _FLOATS)], facts.numpy)


def operands(dtypes: Sequence[DType | str], size: int) -> list[Array]:
    """Arrays of `size` elements, one for each dtype: special values in all combinations that fit, then random bits.

    >>> [array[:4].tolist() for array in operands(["bool", "bool"], 6)]
    [[False, True, False, True], [False, False, True, True]]
    """
    generator = np.random.default_rng(0)
    sets = [special_values(dtype) for dtype in dtypes]
    combinations = int(np.prod([len(values) for values in sets]))
    count = min(combinations, size * 2 // 3)
    position = np.arange(count, dtype=np.int64)
    if count < combinations:
        position = position * _stride(combinations) % combinations
    found = []
    for dtype, values in zip(dtypes, sets, strict=True):
        chosen = values[position % len(values)]
        position = position // len(values)
        found.append(np.concatenate([chosen, random_bits(dtype, size - len(chosen), generator)]))
    return found


def _stride(combinations: int) -> int:
    """A step that visits each combination before any comes again."""
    stride = max(1, int(combinations * 0.618))
    while np.gcd(stride, combinations) != 1:
        stride += 1
    return stride


def random_bits(dtype: DType | str, count: int, generator: np.random.Generator) -> Array:
    """Values whose bits are random, so that every magnitude is there."""
    facts = as_dtype(dtype)
    if facts.kind == "bool":
        return generator.integers(0, 2, count).astype(np.bool_)
    return generator.integers(0, 256, count * facts.numpy.itemsize, dtype=np.uint8).view(facts.numpy)


def small_integers(dtype: DType | str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """From -3 to 3 (0 and 1 for bool, 0 to 3 for unsigned): a few of them add up exactly, in every order."""
    facts = as_dtype(dtype)
    low = -3 if facts.is_float or facts.kind == "int" else 0
    high = 2 if facts.kind == "bool" else 4
    return np.random.default_rng(seed).integers(low, high, shape).astype(facts.numpy)


def differs(found: Array, wanted: Array, dtype: DType | str, ulp: int, either_zero: bool = False) -> Array:
    """Where the values of a device are not those of the op table, as an array of bool.

    ulp: units in the last place by which floats may differ; 0: they are the same, also the signs of zeros (of which
    `either_zero` takes any). Every nan is the same value.
    """
    facts = as_dtype(dtype)
    if not facts.is_float:
        return np.asarray(found != wanted)
    with np.errstate(all="ignore"):
        a, b = found.astype(np.longdouble), wanted.astype(np.longdouble)
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | either_zero | (ulp > 0)) | np.isnan(a) & np.isnan(b)
        near = np.abs(a - b) <= ulp * 2.0**-facts.mantissa * np.maximum(np.abs(b), _SMALLEST)
    return np.asarray(~(same | (near if ulp else False)))


def first_difference(what: str, sources: Sequence[Array], found: Array, wanted: Array, wrong: Array) -> str:
    """`EXP(1.0) is 2.0, not 2.7182817; 3 of 100 values differ`."""
    k = int(np.argmax(wrong))
    arguments = ", ".join(_shown(source[k]) for source in sources)
    count = f"{int(wrong.sum()):,} of {wrong.size:,} values differ"
    return f"{what}({arguments}) is {_shown(found[k])}, not {_shown(wanted[k])}; {count}"


def _shown(value: Any) -> str:
    """A NumPy scalar, or a row of them, as people write it."""
    if np.ndim(value):
        return "[" + ", ".join(map(_shown, value)) + "]"
    dtype = DType(np.asarray(value).dtype.name)
    return str(float(value)) if dtype.is_float and dtype.bits < 32 else str(value)
