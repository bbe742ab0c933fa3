"""Computation on known values in the rule language: operators, facts of dtypes, built-in functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from rulegrad import _core
from rulegrad.ir.dtype import as_dtype, lossless
from rulegrad.workbench.proof.values import UndefinedError, UntranslatableError, Value, limits


def known_operator(operator: str, a: Value, b: Value) -> Value:
    """An operator of the rule language on numbers that are known."""
    if not all(isinstance(v, int | float) for v in (a, b)):
        raise UndefinedError
    if operator in ("/", "//", "%") and b == 0:
        raise UndefinedError
    if operator in ("**", "<<", ">>") and isinstance(b, int) and isinstance(a, int) and not 0 <= b <= 127:
        raise UndefinedError
    logical = isinstance(a, bool) and isinstance(b, bool)
    table = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a and b if logical else a * b, "/": lambda: a / b,
        "//": lambda: a // b, "%": lambda: a % b, "**": lambda: a**b, "&": lambda: a & b, "|": lambda: a | b,
        "^": lambda: a ^ b, "<<": lambda: a << b, ">>": lambda: a >> b, "<": lambda: a < b, "<=": lambda: a <= b,
        ">": lambda: a > b, ">=": lambda: a >= b,
    }  # fmt: skip
    try:
        return table[operator]()
    except (TypeError, OverflowError, KeyError):
        raise UndefinedError from None


def dtype_fact(dtype: str, name: str) -> Value:
    """`T.bits`, `T.max` and the like."""
    d = as_dtype(str(dtype))
    if name in ("bits", "mantissa", "exponent"):
        return getattr(d, name)
    if name == "bias":
        return 2 ** (d.exponent - 1) - 1
    if name in ("min", "max") and d.is_integer:
        return limits(str(dtype))[name == "max"]
    if name in ("min", "max") and d.is_float:
        largest = 448.0 if d == "float8_e4m3fn" else float("inf")
        return largest if name == "max" else -largest
    raise UntranslatableError(f"`.{name}` of {dtype}")


def _ceildiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def _log2(n: Any) -> Any:
    if isinstance(n, int):
        if n <= 0 or n & (n - 1):
            raise ValueError
        return n.bit_length() - 1
    return math.log2(n)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _flat(arguments: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for argument in arguments:
        found.extend(_flat(argument) if isinstance(argument, tuple) else [argument])
    return found


def _zip(*sequences: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    if len({len(s) for s in sequences}) > 1:
        raise ValueError
    return tuple(zip(*sequences))


def _lossless(a: str, b: str) -> bool:
    return lossless(str(a), str(b))


def _is_pow2(n: Any) -> bool:
    if isinstance(n, float):
        return n > 0 and math.frexp(n)[0] == 0.5
    return bool(n > 0 and n & (n - 1) == 0)


def _convert(value: Any, dtype: str) -> Any:
    source = "bool" if isinstance(value, bool) else "float64" if isinstance(value, float) else None
    if source is None:
        return _core.UOp.const(value, str(dtype)).attrs["value"]
    found = _core.evaluate("CAST", str(dtype), _core.UOp.const(value, source).attrs["value"])
    if found is None:
        raise ValueError
    return found


#: Built-in functions on values that are known.
KNOWN: dict[str, Callable[..., Value]] = {
    "gcd": math.gcd,
    "abs": abs,
    "min": lambda *a: min(_flat(a)),
    "max": lambda *a: max(_flat(a)),
    "floor": math.floor,
    "ceil": math.ceil,
    "ceildiv": _ceildiv,
    "log2": _log2,
    "is_pow2": _is_pow2,
    "is_int": lambda v: float(v).is_integer(),
    "iota": lambda n: tuple(range(n)),
    "product": lambda shape: tuple(itertools.product(*map(range, shape))),
    "total": sum,
    "len": len,
    "zip": _zip,
    "reversed": lambda xs: tuple(reversed(xs)),
    "sorted": lambda xs: tuple(sorted(xs)),
    "argsort": lambda xs: tuple(sorted(range(len(xs)), key=lambda k: xs[k])),
    "distinct": lambda xss: tuple(dict.fromkeys(x for xs in xss for x in xs)),
    "any": any,
    "all": all,
    "strides": _strides,
    "prod": math.prod,
    "lossless": _lossless,
    "is_float": lambda t: as_dtype(str(t)).is_float,
    "is_signed": lambda t: as_dtype(str(t)).is_signed,
    "is_integer": lambda t: as_dtype(str(t)).is_integer,
    "convert": _convert,
}
