"""Arithmetic of rules on integers that are not known: exact, as the rule language computes inside `{...}`.

As bit-vectors, a result is made wide enough to hold it, so nothing wraps around; as Int there is nothing to do.
"""

from __future__ import annotations

from typing import Any

import z3

from rulegrad.workbench.proof.values import Exact, UndefinedError, UntranslatableError, Value

_WIDEST = 300
EXPONENTS = tuple(range(127))  # those for which the engine computes 2 ** k


def both(a: Value, b: Value) -> tuple[Exact, Exact]:
    """Two operands as terms of one sort."""
    known = a if isinstance(a, Exact) else b if isinstance(b, Exact) else Exact(None, 2)
    x, y = _lifted(a, known), _lifted(b, known)
    if x.width is None or y.width is None:
        if x.width != y.width:
            raise UntranslatableError("an index and a machine integer in one computation")
        return x, y
    width = max(x.width, y.width)
    return widened(x, width), widened(y, width)


def widened(x: Exact, width: int) -> Exact:
    """The same number in more bits."""
    if width > _WIDEST:
        raise UntranslatableError("a constant of too many bits")
    if x.width is None or x.width == width:
        return x
    return Exact(z3.SignExt(width - x.width, x.term), width)


def _lifted(v: Value, like: Exact) -> Exact:
    if isinstance(v, Exact):
        return v
    if isinstance(v, bool | int):
        width = None if like.width is None else int(v).bit_length() + 1
        return Exact(z3.IntVal(int(v)) if width is None else z3.BitVecVal(int(v), width), width)
    if z3.is_bool(v):
        if like.width is None:
            return Exact(z3.If(v, z3.IntVal(1), z3.IntVal(0)), None)
        return Exact(z3.If(v, z3.BitVecVal(1, 2), z3.BitVecVal(0, 2)), 2)
    raise UntranslatableError(f"a number is needed, not {v}")


def _grown(x: Exact, y: Exact, more: int) -> tuple[Any, Any, int | None]:
    if x.width is None:
        return x.term, y.term, None
    width = x.width + more
    return widened(x, width).term, widened(y, width).term, width


def binary(operator: str, a: Value, b: Value) -> tuple[Value, Any]:
    """(result, when it is defined) of an operator of the rule language on numbers, at least one not known."""
    if operator in ("<<", "**") and isinstance(b, Exact):
        return power_of_two(operator, a, b)
    if operator == "<<":
        if b < 0 or b > 126:
            raise UndefinedError
        return binary("*", a, 1 << b)
    if operator == ">>" and isinstance(b, int) and b >= 0:
        if isinstance(a, Exact) and a.width is not None:
            return Exact(a.term >> min(b, a.width - 1), a.width), True
        return binary("//", a, 1 << b)
    x, y = both(a, b)
    if operator in _COMPARISONS:
        return _COMPARISONS[operator](x.term, y.term), True
    if operator in ("+", "-"):
        p, q, width = _grown(x, y, 1)
        return _named(operator, a, b, Exact(p + q if operator == "+" else p - q, width)), True
    if operator == "*":
        p, q, width = _grown(x, y, x.width or 0)
        return Exact(p * q, width), True
    if operator in ("//", "%"):
        p, q, width = _grown(x, y, 1)
        divide = floor_divide if operator == "//" else floor_modulo
        return Exact(divide(p, q, width is not None), width), q != 0
    if operator in ("&", "|", "^") and x.width is not None:
        return Exact({"&": x.term & y.term, "|": x.term | y.term, "^": x.term ^ y.term}[operator], x.width), True
    raise UntranslatableError(f"the operator {operator} on integers that are not known")


def _named(operator: str, a: Value, b: Value, found: Exact) -> Exact:
    """A sum; of a constant of the pattern and a number it is known that it is one."""
    if isinstance(b, Exact) and operator == "+":
        a, b = b, a
    if not isinstance(a, Exact) or not a.name or not isinstance(b, int):
        return found
    return Exact(found.term, found.width, a.name, a.excluded, a.offset + (b if operator == "+" else -b))


_COMPARISONS = {
    "<": lambda p, q: p < q, "<=": lambda p, q: p <= q, ">": lambda p, q: p > q, ">=": lambda p, q: p >= q,
    "==": lambda p, q: p == q, "!=": lambda p, q: p != q,
}  # fmt: skip


def power_of_two(operator: str, a: Value, b: Exact) -> tuple[Value, Any]:
    """a << b, a ** b for an exponent that is not known: a proof by cases."""
    if b.name and not b.is_one_of(EXPONENTS):
        raise UndefinedError
    if b.width is not None or (operator == "**" and a != 2):
        raise UntranslatableError("an exponent that is computed")
    power = Exact(two_to(b.term), None)
    defined = z3.And(b.term >= 0, b.term < len(EXPONENTS), power.term >= 1)
    if operator == "**" or a == 1:
        return power, defined
    return binary("*", a, power)[0], defined


def two_to(exponent: Any) -> Any:
    """2 ** exponent, of which z3 knows only that equal exponents give the same."""
    return z3.Function("2 **", z3.IntSort(), z3.IntSort())(exponent)


def floor_divide(a: Any, b: Any, bits: bool, signed: bool = True) -> Any:
    """a // b, rounded down; b is not 0."""
    if not bits:
        if z3.is_int_value(b):
            return a / b if b.as_long() > 0 else (-a) / (-b)
        return z3.If(b > 0, a / b, (-a) / (-b))
    if not signed:
        return z3.UDiv(a, b)
    quotient, rest = a / b, z3.SRem(a, b)
    return z3.If(z3.And(rest != 0, (rest < 0) != (b < 0)), quotient - 1, quotient)


def floor_modulo(a: Any, b: Any, bits: bool, signed: bool = True) -> Any:
    """a % b, with the sign of b; b is not 0."""
    if not bits:
        if z3.is_int_value(b):
            return a % b if b.as_long() > 0 else -((-a) % (-b))
        return a - b * floor_divide(a, b, False)
    if not signed:
        return z3.URem(a, b)
    rest = z3.SRem(a, b)
    return z3.If(z3.And(rest != 0, (rest < 0) != (b < 0)), rest + b, rest)


def truncated(a: Any, b: Any, bits: bool, signed: bool, modulo: bool) -> Any:
    """a / b rounded towards zero, or the rest; by zero: 0."""
    if bits and modulo:
        value = z3.SRem(a, b) if signed else z3.URem(a, b)
    elif bits:
        value = a / b if signed else z3.UDiv(a, b)
    else:
        size, by = z3.If(a < 0, -a, a), z3.If(b < 0, -b, b)
        value = size % by if modulo else size / by
        value = z3.If((a < 0) != (z3.BoolVal(False) if modulo else b < 0), -value, value)
    return z3.If(b == 0, value - value, value)


def exact_of(a: int) -> Exact:
    """A number that is known, as a term."""
    return _lifted(a, Exact(None, 2))


def negated(a: Exact) -> Exact:
    result, _ = binary("-", 0, a)
    assert isinstance(result, Exact)
    return result


def chosen(condition: Any, a: Value, b: Value) -> Exact:
    """a where the condition holds, else b; at least one is not known."""
    x, y = both(a, b)
    return Exact(z3.If(condition, x.term, y.term), x.width)


def equal(a: Value, b: Value) -> Any:
    """Whether two numbers, at least one of them not known, are equal."""
    result, _ = binary("==", a, b)
    return result


def truth(value: Value) -> Any:
    """A truth value of z3."""
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if not z3.is_bool(value):
        raise UntranslatableError("a truth value is needed")
    return value
