"""NumPy functions for the ops, made from the `eval` lines of the op table.

>>> import numpy as np
>>> table = evaluators()
>>> table.evaluate("FLOORDIV", "int32", [np.array([7, -7, 1], np.int32), np.array([2, 2, 0], np.int32)])
array([ 3, -4,  0], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np

from rulegrad import engine
from rulegrad.errors import DeviceError, RuleError
from rulegrad.interpreter.numerics import (
    INDEX_PRIMITIVES,
    PRIMITIVES,
    Array,
    bitcast,
    convert,
    dot_bfloat16,
    dot_int8,
    dot_int16,
    joined,
    ldexp,
    tf32,
    threefry,
)
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.lang.rounding import steps_round
from rulegrad.lang.terms import Evaluated, Term


class _Operands(NamedTuple):
    """The inputs of an evaluator: the sources as they are and as they are computed with, and the dtypes."""

    given: dict[str, Array]
    working: dict[str, Array]
    literals: np.dtype[Any]
    sources: list[DType]
    result: DType

    @property
    def source(self) -> DType:
        """That of `dtype_min()`: a WHERE's first source is a bool, the others are what is computed with."""
        return self.sources[-1]

    def dtype(self, name: str) -> DType:
        return self.sources[list(self.given).index(name)]


_Code = Callable[[_Operands], Any]

#: Numbers that NumPy computes poorly or not at all: computed in a larger dtype, and the result rounded.
_WORKING: dict[str, Any] = {
    **dict.fromkeys(("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"), np.float32),
    "complex64": np.complex128,
    "complex128": np.clongdouble,
}


#: In which an `eval` line of several steps is computed, whose exact value is rounded once: as near to it as NumPy gets.
_EXACT: dict[str, Any] = {
    **dict.fromkeys(("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"), np.float64),
    "float64": np.longdouble,
}

#: Ops whose meaning no `eval` line can say, or which are declared beside the rules that make them.
_NATIVE: dict[str, Callable[..., Array]] = {
    "THREEFRY": threefry,
    "COMPLEX": joined,
    "REAL": np.real,
    "IMAG": np.imag,
    "ROUND_TF32": tf32,
    "LDEXP": ldexp,
    "DOT_BFLOAT16": dot_bfloat16,
    "DOT_INT8": dot_int8,
    "DOT_INT16": dot_int16,
    "PRIVATE": lambda value, place: value,
}


class Evaluators:
    """The evaluators of ops by name."""

    def __init__(self, declarations: Mapping[str, Evaluated]) -> None:
        self._declarations = declarations
        self._bound: dict[tuple[str, ...], Callable[..., Array]] = {}

    def __contains__(self, op: str) -> bool:
        """Whether the op computes one element from one element of each source."""
        declaration = self._declarations.get(op)
        return op in _NATIVE or (declaration is not None and declaration.evaluator is not None)

    def bind(self, op: str, result: DType | str, sources: Sequence[DType | str]) -> Callable[..., Array]:
        """The op as a function of arrays that broadcast, for these dtypes of the result and the sources.

        Raises DeviceError for an op without an evaluator.
        """
        key = (op, str(result), *map(str, sources))
        if key not in self._bound:
            self._bound[key] = self._bind(op, as_dtype(result), [as_dtype(source) for source in sources])
        return self._bound[key]

    def evaluate(self, op: str, result: DType | str, arrays: Sequence[Array]) -> Array:
        """The op on arrays that broadcast. Raises DeviceError for an op without an evaluator."""
        with np.errstate(all="ignore"):
            return np.asarray(self.bind(op, result, [as_dtype(array.dtype) for array in arrays])(*arrays))

    def reduce(self, op: str, dtype: DType | str, array: Array, axes: tuple[int, ...]) -> Array:
        """The array reduced by a binary op over the axes, which stay with size 1.

        Small floats are accumulated in float32. Raises DeviceError for an op that cannot reduce.
        """
        if self._ufunc(op) is None and op in self:
            return self._folded(op, dtype, array, axes)
        ufunc = self.ufunc(op)
        axes = tuple(axis for axis in axes if array.shape[axis] != 1)
        if not axes:
            return array
        if op == "ADD" and as_dtype(dtype).is_complex:
            parts = [self.reduce(op, as_dtype(dtype).real, part, axes) for part in (array.real, array.imag)]
            return joined(*parts)
        target = as_dtype(dtype)
        working = _widened(array)
        options: dict[str, Any] = {}
        if not all(array.shape[axis] for axis in axes):
            options["initial"] = self.identity(op, dtype).astype(working.dtype)[()]
        value = ufunc.reduce(working, axis=axes, dtype=working.dtype, keepdims=True, **options)
        return np.asarray(value, target.numpy)

    def identity(self, op: str, dtype: DType | str) -> Array:
        """The value e with op(e, x) = x, as an array without axes. Raises DeviceError when it has none."""
        declaration = self._declarations.get(op)
        if declaration is None or declaration.identity is None:
            raise DeviceError(f"the op {op} cannot reduce: the op table gives it no identity")
        target = as_dtype(dtype)
        value = _constant(declaration.identity, target, declaration.location)
        if target.kind == "bool":
            return np.asarray(value != 0)
        return np.asarray(value).astype(target.numpy)

    def ufunc(self, op: str) -> np.ufunc:
        """The NumPy ufunc that computes the op from its two sources. Raises DeviceError when it cannot reduce."""
        found = self._ufunc(op)
        if found is None:
            raise DeviceError(f"the op {op} cannot reduce; use one of the class Reduction, such as ADD")
        return found

    def _ufunc(self, op: str) -> np.ufunc | None:
        declaration = self._declarations.get(op)
        found = None
        match declaration.evaluator if declaration else None:
            case (function, str(), str()):
                found = PRIMITIVES.get(function)
        return found if isinstance(found, np.ufunc) and found.nin == 2 else None

    def _folded(self, op: str, dtype: DType | str, array: Array, axes: tuple[int, ...]) -> Array:
        """Reduced element by element, by an op that is not a ufunc: one of a user's file."""
        combine = self.bind(op, dtype, [dtype, dtype])
        for axis in axes:
            total = np.broadcast_to(self.identity(op, dtype), (*array.shape[:axis], 1, *array.shape[axis + 1 :]))
            for part in np.split(array, array.shape[axis], axis) if array.shape[axis] else ():
                total = combine(total, part)
            array = np.asarray(total)
        return array

    def _bind(self, op: str, result: DType, sources: list[DType]) -> Callable[..., Array]:
        if op in _NATIVE:
            return _NATIVE[op]
        declaration = self._declarations.get(op)
        if declaration is None or declaration.evaluator is None:
            raise DeviceError(f"the interpreter cannot run {op}: the op table has no `eval` line for it")
        names, table = declaration.parameters, PRIMITIVES
        working = _computed_in(declaration.evaluator, sources, result)
        if working is None or (steps_round(declaration, working) and working.is_integer):
            return _on_exact_integers(declaration, sources, result)
        if working.kind == "index":
            table = INDEX_PRIMITIVES
        numbers = {name: source for name, source in zip(names, sources) if _is_number(source)}
        mixed = working.is_float and any(source != working for source in numbers.values())
        larger = _EXACT if mixed or steps_round(declaration, working) else _WORKING
        literals = np.dtype(larger.get(str(working), working.numpy))
        widened = [name for name, source in numbers.items() if source.numpy != literals]
        if not widened and (direct := _direct(declaration.evaluator, names, table)) is not None:
            return direct
        code = _translate(declaration.evaluator, table, declaration.location)

        def operation(*arrays: Array) -> Array:
            given = dict(zip(names, arrays, strict=True))
            wide = given | {name: given[name].astype(literals) for name in widened}
            value = np.asarray(code(_Operands(given, wide, literals, sources, result)))
            return value if value.dtype == result.numpy else value.astype(result.numpy)

        return operation


@cache
def evaluators() -> Evaluators:
    """Those of the ops in force."""
    return Evaluators(engine.evaluated())


def _widened(array: Array) -> Array:
    working = _WORKING.get(array.dtype.name)
    return array if working is None else array.astype(working)


def _is_number(dtype: DType) -> bool:
    return dtype.kind not in ("bool", "void")


def _computed_in(x: Term, sources: Sequence[DType], result: DType) -> DType | None:
    """The dtype that has the numbers of all the sources, in which an `eval` line is computed; None where none has.

    A result of more bits has what the sources' dtype would cut off. A condition, as of WHERE, is no number.
    """
    numbers = [source for source in sources if _is_number(source)]
    if not numbers:
        return sources[-1]
    if inexact := [number for number in numbers if number.is_inexact]:
        return max(reversed(inexact), key=lambda number: (number.is_complex, number.bits))
    is_cast = isinstance(x, tuple) and x[0] in ("convert", "bitcast")
    if result.is_integer and not is_cast and result.bits > max(number.bits for number in numbers):
        numbers.append(result)
    if len(set(numbers)) == 1:
        return numbers[0]
    common = np.result_type(*(number.numpy for number in numbers))
    if common.kind not in "iu":  # uint64 and one that has a sign
        return None
    return next((number for number in numbers if number.kind == "index"), as_dtype(common))


def _on_exact_integers(declaration: Evaluated, sources: list[DType], result: DType) -> Callable[..., Array]:
    """The `eval` line on Python's integers, and the result wrapped around once."""
    code, names = _translate(declaration.evaluator, PRIMITIVES, declaration.location), declaration.parameters
    integers = [name for name, source in zip(names, sources) if source.is_integer]

    def operation(*arrays: Array) -> Array:
        given = dict(zip(names, arrays, strict=True))
        exact = given | {name: given[name].astype(object) for name in integers}
        value = np.asarray(code(_Operands(given, exact, np.dtype(object), sources, result)))
        if value.dtype != np.dtype(object) or not result.is_integer:
            return value.astype(result.numpy)
        wrapped = value & ((1 << result.bits) - 1)
        return np.asarray(wrapped).astype(f"uint{result.bits}").view(result.numpy)

    return operation


# ---- from terms to functions ----


def _translate(x: Term, table: dict[str, Callable[..., Any]], location: str) -> _Code:
    """A function that computes the term. Raises RuleError for what an `eval` line may not contain."""
    match x:
        case str():
            return lambda operands: operands.working[x]
        case bool() | int() | float():
            return lambda operands: np.asarray(x).astype(operands.literals)
        case ("dtype_min" | "dtype_max" as end,):
            return lambda operands: np.asarray(_extreme(operands.source, end == "dtype_max")).astype(operands.literals)
        case ("where", *arguments):
            return _apply(np.where, [_translate(argument, table, location) for argument in arguments])
        case ("convert" | "bitcast" as function, str() as name):
            return _cast(convert if function == "convert" else bitcast, name)
        case (function, *arguments) if function in table:
            return _apply(table[function], [_translate(argument, table, location) for argument in arguments])
    raise RuleError(f"{location}: the interpreter has no meaning for this part of an `eval` line: {x}")


def _direct(x: Term, names: tuple[str, ...], table: dict[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """The one NumPy function that the term is, if it is one function of the sources in order."""
    return table.get(x[0]) if isinstance(x, tuple) and x[1:] == names else None


def _apply(function: Callable[..., Any], arguments: list[_Code]) -> _Code:
    if len(arguments) == 1:
        (only,) = arguments
        return lambda operands: _held(function(only(operands)))
    if len(arguments) > 2 and isinstance(function, np.ufunc):  # max(a, b, c)
        return lambda operands: _held(reduce(function, [argument(operands) for argument in arguments]))
    return lambda operands: _held(function(*[argument(operands) for argument in arguments]))


def _held(value: Any) -> Any:
    """An exact integer as an array: NumPy gives it bare where there are no axes, and then computes with 64 bits."""
    return np.asarray(value, object) if type(value) is int else value


def _cast(function: Callable[[Array, DType, DType], Array], name: str) -> _Code:
    return lambda operands: function(operands.given[name], operands.dtype(name), operands.result)


def _constant(x: Term, dtype: DType, location: str) -> Any:
    """The value of an `identity` line."""
    match x:
        case bool() | int() | float():
            return x
        case ("negate", operand):
            return -_constant(operand, dtype, location)
        case ("dtype_min" | "dtype_max" as end,):
            return _extreme(dtype, end == "dtype_max")
    raise RuleError(f"{location}: an identity must be a number, dtype_min() or dtype_max()")


def _extreme(dtype: DType, largest: bool) -> Any:
    if dtype.kind == "bool":
        return int(largest)
    if dtype == "float8_e4m3fn":  # has no infinity
        return 448.0 if largest else -448.0
    if dtype.is_float:
        return np.inf if largest else -np.inf
    limits = np.iinfo(dtype.numpy)
    return limits.max if largest else limits.min
