"""Whether an `eval` line may be computed step by step: an op's value is the exact one, rounded (or wrapped) once.

A fused `a * b + c` is not the sum of a rounded product. An op with the flag `rounds_each` is computed step by step, as
its line says.
"""

from __future__ import annotations

from typing import Any, Protocol

from rulegrad.lang.terms import Evaluated, Term

ROUNDS_EACH = "rounds_each"
_EXACT = frozenset(("negate", "abs", "max", "min", "not"))  # they commute with rounding
_RING = _EXACT - {"abs", "max", "min"} | {"+", "-", "*", "shift_left", "convert"}  # wrapping around commutes with them


class Dtype(Protocol):
    """What is asked of a dtype: `ir.dtype.DType` has it, which is above this package."""

    @property
    def kind(self) -> str: ...
    @property
    def is_integer(self) -> bool: ...
    @property
    def is_float(self) -> bool: ...
    @property
    def numpy(self) -> Any: ...


def steps_round(op: Evaluated, dtype: Dtype) -> bool:
    """Whether the op's `eval` line, computed step by step in the dtype of its sources, may differ from the exact value.

    >>> from rulegrad.ir.dtype import DType
    >>> fused = Evaluated(("a", "b", "c"), ("+", ("*", "a", "b"), "c"), None, (), "")
    >>> [steps_round(fused, DType(name)) for name in ("float32", "int32")]
    [True, False]
    """
    x = op.evaluator
    if x is None or ROUNDS_EACH in op.flags or dtype.kind not in ("float", "int", "uint"):
        return False
    return not _in_one(x, dtype, _RING if dtype.is_integer else _EXACT)


def _in_one(x: Term, dtype: Dtype, through: frozenset[str]) -> bool:
    """Whether there is one step that rounds, under others that commute with it."""
    if _is_leaf(x, dtype):
        return True
    match x:
        case ("where", condition, then, otherwise):
            return _of_leaves(condition, dtype) and _in_one(then, dtype, through) and _in_one(otherwise, dtype, through)
        case (function, *arguments) if function in through:
            return all(_in_one(argument, dtype, through) for argument in arguments)
        case (_, *arguments):
            return all(_is_leaf(argument, dtype) for argument in arguments)
    return False


def _of_leaves(x: Term, dtype: Dtype) -> bool:
    """Whether nothing is computed below: a comparison of the sources, say, and what joins such comparisons."""
    if _is_leaf(x, dtype):
        return True
    match x:
        case ("and" | "or" | "not", *arguments):
            return all(_of_leaves(argument, dtype) for argument in arguments)
        case (_, *arguments):
            return all(_is_leaf(argument, dtype) for argument in arguments)
    return False


def _is_leaf(x: Term, dtype: Dtype) -> bool:
    """A source, a number that the dtype has, or one of these with the other sign or in another dtype."""
    match x:
        case str() | ("dtype_min" | "dtype_max",) | ("convert" | "bitcast", str()):
            return True
        case ("negate", operand):
            return dtype.is_float and _is_leaf(operand, dtype)
        case int() | float():
            return _has(dtype, x)
    return False


def _has(dtype: Dtype, value: float) -> bool:
    if not dtype.is_float:
        return True
    import numpy as np  # late: the package is built where NumPy need not be

    with np.errstate(all="ignore"):
        stored = float(np.asarray(value, np.float64).astype(dtype.numpy))
    return stored == value or value != value
