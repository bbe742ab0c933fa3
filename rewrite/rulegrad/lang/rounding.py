"""Whether an `eval` line may be computed step by step: an op's value is the exact one, rounded (or wrapped) once.

A fused `a * b + c` is not the sum of a rounded product. An op with the flag `rounds_each` is computed step by step, as
its line says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rulegrad.lang import syntax

if TYPE_CHECKING:
    from rulegrad.ir.dtype import DType

ROUNDS_EACH = "rounds_each"
_EXACT = frozenset(("negate", "abs", "max", "min", "not"))  # they commute with rounding
_RING = _EXACT - {"abs", "max", "min"} | {"+", "-", "*", "shift_left", "convert"}  # wrapping around commutes with them


def steps_round(op: syntax.OpDeclaration, dtype: DType) -> bool:
    """Whether the op's `eval` line, computed step by step in the dtype of its sources, may differ from the exact value.

    >>> from rulegrad.ir.dtype import DType
    >>> from rulegrad.lang.parser import parse_file
    >>> text = "op FMADD(a: T, b: T, c: T) -> T where T: Float\\n    eval a * b + c\\n"
    >>> (fused,) = parse_file(text, "fused.rules").declarations
    >>> [steps_round(fused, DType(name)) for name in ("float32", "int32")]
    [True, False]
    """
    x = op.evaluator
    if x is None or ROUNDS_EACH in op.flags or dtype.kind not in ("float", "int", "uint"):
        return False
    return not _in_one(x, dtype, _RING if dtype.is_integer else _EXACT)


def _in_one(x: syntax.Expression, dtype: DType, through: frozenset[str]) -> bool:
    """Whether there is one step that rounds, under others that commute with it."""
    if _is_leaf(x, dtype):
        return True
    match x:
        case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
            return _of_leaves(condition, dtype) and _in_one(then, dtype, through) and _in_one(otherwise, dtype, through)
        case syntax.Name() | syntax.Literal():
            return False
    function, arguments = _parts(x)
    if function in through:
        return all(_in_one(argument, dtype, through) for argument in arguments)
    return all(_is_leaf(argument, dtype) for argument in arguments)


def _of_leaves(x: syntax.Expression, dtype: DType) -> bool:
    """Whether nothing is computed below: a comparison of the sources, say, and what joins such comparisons."""
    if _is_leaf(x, dtype):
        return True
    function, arguments = _parts(x)
    if function in ("and", "or", "not"):
        return all(_of_leaves(argument, dtype) for argument in arguments)
    return all(_is_leaf(argument, dtype) for argument in arguments)


def _is_leaf(x: syntax.Expression, dtype: DType) -> bool:
    """A source, a number that the dtype has, or one of these with the other sign or in another dtype."""
    match x:
        case syntax.Name() | syntax.Call(function="dtype_min" | "dtype_max"):
            return True
        case syntax.Literal(value=value):
            return _has(dtype, value)
        case syntax.Prefix(operator="-", operand=operand):
            return dtype.is_float and _is_leaf(operand, dtype)
        case syntax.Call(function="convert" | "bitcast", arguments=(syntax.Name(),)):
            return True
    return False


def _has(dtype: DType, value: object) -> bool:
    if not dtype.is_float or not isinstance(value, int | float):
        return True
    with np.errstate(all="ignore"):
        stored = float(np.asarray(value, np.float64).astype(dtype.numpy))
    return stored == value or value != value


def _parts(x: syntax.Expression) -> tuple[str, tuple[syntax.Expression, ...]]:
    match x:
        case syntax.Prefix(operator=operator, operand=operand):
            return "negate" if operator == "-" else operator, (operand,)
        case syntax.Infix(operator=operator, left=left, right=right):
            return operator, (left, right)
        case syntax.Call(function=function, arguments=arguments):
            return function, tuple(arguments)
    return "", (x,)
