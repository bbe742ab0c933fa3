"""The functions that `eval` lines of the op table are made of, in logic, for each dtype.

Machine integers are bit-vectors, or (`integers`) Ints that wrap around; an index is an Int; a bool is a truth value;
floats are values of which nothing is known but that a function of the same values is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import z3

from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.workbench.proof import arithmetic
from rulegrad.workbench.proof.values import Exact, UntranslatableError, limits

_COMMUTATIVE = frozenset(("+", "*", "max", "min", "==", "bit_and", "bit_or", "bit_xor"))
_HIGHEST = 64  # degree of a polynomial in Ints
_COMPARING = frozenset(("<", "<=", ">", ">=", "==", "!="))


@dataclass(frozen=True)
class Encoding:
    """How integers are written.

    integers: machine integers are Ints that wrap around, for rules in which an index occurs; words: an index is a word
    of 64 bits, for rules about its bits (an index that does not fit in 64 bits is an error wherever it is computed).
    """

    integers: bool = False
    words: bool = False
    opaque: bool = (
        False  # of no function is anything known: what holds then holds for all of them, and is found at once
    )
    axioms: list[Any] = field(default_factory=list, compare=False)  # that a function used is commutative

    degrees: dict[int, tuple[Any, int]] = field(default_factory=dict, compare=False)  # of products, by their ids

    # ---- sorts and values ----

    def sort(self, dtype: str) -> Any:
        kind = as_dtype(dtype).kind
        if kind == "bool":
            return z3.BoolSort()
        if kind == "float":
            return z3.DeclareSort(str(dtype))
        if kind == "void":
            raise UntranslatableError("a node without a value")
        return z3.IntSort() if self.is_int(dtype) else z3.BitVecSort(as_dtype(dtype).bits)

    def is_int(self, dtype: str) -> bool:
        """Whether values of the dtype are Ints."""
        kind = as_dtype(dtype).kind
        return (kind == "index" and not self.words) or (self.integers and kind in ("int", "uint"))

    def symbol(self, name: str, dtype: str) -> tuple[Any, list[Any]]:
        """A value that is not known, and what holds for it."""
        term = z3.Const(name, self.sort(dtype))
        if not self.is_int(dtype) or as_dtype(dtype).kind == "index":
            return term, []
        low, high = limits(dtype)
        return term, [term >= low, term <= high]

    def constant(self, value: Any, dtype: str) -> Any:
        """A number as the dtype stores it."""
        kind = as_dtype(dtype).kind
        if isinstance(value, Exact):
            return self._stored(value, dtype)
        if z3.is_expr(value):
            return self.convert(value, "bool", dtype)
        if kind == "bool":
            return z3.BoolVal(bool(value))
        if kind == "float":
            return z3.Const(f"{dtype} {float(value)!r}", self.sort(dtype))
        if isinstance(value, float):
            if not value.is_integer():
                raise UntranslatableError("a fraction as an integer")
            value = int(value)
        if kind == "index" and not self.words:
            return z3.IntVal(value)
        low, high = limits(dtype)
        wrapped = (value - low) % (high - low + 1) + low
        return z3.IntVal(wrapped) if self.integers else z3.BitVecVal(wrapped, as_dtype(dtype).bits)

    def _stored(self, value: Exact, dtype: str) -> Any:
        kind = as_dtype(dtype).kind
        if kind == "bool":
            return value.term != 0
        if kind == "float" or self.is_int(dtype) != (value.width is None):
            raise UntranslatableError("a computed constant of another kind of number")
        if kind == "index" and not self.words:
            return value.term
        if value.width is None:
            return self.wrapped(value.term, dtype)
        bits = as_dtype(dtype).bits
        if value.term.decl().kind() in _EXTENSIONS and value.term.arg(0).size() == bits:
            return value.term.arg(0)
        if value.width < bits:
            return z3.SignExt(bits - value.width, value.term)
        return z3.Extract(bits - 1, 0, value.term)

    def exact(self, term: Any, dtype: str, name: str = "") -> Any:
        """A term as a number of the rule language."""
        kind = as_dtype(dtype).kind
        if kind == "bool":
            return term
        if kind == "float":
            raise UntranslatableError("the value of a float that is not known")
        if self.is_int(dtype):
            return Exact(term, None, name)
        extend = z3.ZeroExt if kind == "uint" else z3.SignExt
        return Exact(extend(1, term), as_dtype(dtype).bits + 1, name)

    def wrapped(self, term: Any, dtype: str) -> Any:
        if as_dtype(dtype).kind == "index":
            return term
        low, high = limits(dtype)
        return (term - low) % (high - low + 1) + low

    # ---- functions of `eval` lines ----

    def apply(self, function: str, dtype: str, terms: Sequence[Any]) -> Any:
        """A function of `eval` lines on values of one dtype (a comparison gives a truth value)."""
        d = as_dtype(dtype)
        if function in ("max", "min") and len(terms) > 2:
            return reduce(lambda a, b: self.apply(function, dtype, (a, b)), terms)
        if d.kind == "bool" or (terms and all(z3.is_bool(t) for t in terms)):
            return _boolean(function, terms)
        if d.kind == "float" or self.opaque:
            return self._opaque(function, dtype, terms)
        if self.is_int(dtype):
            found = _integer(function, d, terms)
            if found is None and function == "shift_right":
                return self._shifted(d, dtype, *terms)
            if found is None:
                return self._opaque(function, dtype, terms)
            if not z3.is_bool(found) and function not in _NEVER_OVERFLOWS:
                found = self.wrapped(found, dtype)
            if function == "*":
                self._note_degree(terms, found)
            return found
        found = _bits(function, d, terms)
        return self._opaque(function, dtype, terms) if found is None else found

    def unknown(self, op: str, dtype: str, terms: Sequence[Any]) -> Any:
        """A function of which nothing is known, with a result of that dtype."""
        return z3.Function(f"{op} {dtype}", *[t.sort() for t in terms], self.sort(dtype))(*terms)

    def _note_degree(self, factors: Sequence[Any], product: Any) -> None:
        """z3 multiplies polynomials out, which for a ** (2 ** 60) has no end."""
        degree = sum(self.degrees.get(x.get_id(), (x, 1))[1] for x in factors)
        if degree > _HIGHEST:
            raise UntranslatableError(f"a power of more than {_HIGHEST}")
        self.degrees[product.get_id()] = (product, degree)

    def _shifted(self, d: DType, dtype: str, a: Any, b: Any) -> Any:
        """An Int shifted right by a number that is not known: rounded down."""
        by = arithmetic.two_to(b)
        inside = z3.And(b >= 0, b < d.bits)
        self.axioms.extend((z3.Implies(inside, by >= 1), z3.Implies(b >= d.bits, by >= 2**d.bits)))
        return z3.If(inside, a / by, self._opaque("shift_right", dtype, (a, b)))

    def _opaque(self, function: str, dtype: str, terms: Sequence[Any]) -> Any:
        """A function of which nothing is known."""
        if function == "!=":
            return z3.Not(self._opaque("==", dtype, terms))
        if function in (">", ">="):
            return self._opaque({">": "<", ">=": "<="}[function], dtype, terms[::-1])
        result = z3.BoolSort() if function in _COMPARING else self.sort(dtype)
        made = z3.Function(f"{function} {dtype}", *[t.sort() for t in terms], result)
        if function in _COMMUTATIVE:
            self.axioms.append(made(*terms) == made(*terms[::-1]))
        return made(*terms)

    # ---- conversions ----

    def convert(self, term: Any, source: str, target: str) -> Any:
        a, b = as_dtype(source), as_dtype(target)
        if a == b:
            return term
        if a.is_float or b.is_float:
            if a.kind == "bool":
                return z3.If(term, self.constant(1.0, target), self.constant(0.0, target))
            if b.kind == "bool":
                return z3.Not(self._opaque("==", source, (term, self.constant(0.0, source))))
            return z3.Function(f"convert {source} {target}", self.sort(source), self.sort(target))(term)
        if b.kind == "bool":
            return term != 0
        if a.kind == "bool":
            return z3.If(term, self.constant(1, target), self.constant(0, target))
        if self.is_int(source) and self.is_int(target):
            return self.wrapped(term, target)
        if self.is_int(source) or self.is_int(target):
            raise UntranslatableError("an index and a bit-vector in one rule")
        if b.bits <= a.bits:
            return z3.Extract(b.bits - 1, 0, term) if b.bits < a.bits else term
        return (z3.ZeroExt if a.kind == "uint" else z3.SignExt)(b.bits - a.bits, term)

    def bitcast(self, term: Any, source: str, target: str) -> Any:
        a, b = as_dtype(source), as_dtype(target)
        if a == b:
            return term
        if a.is_float or b.is_float:
            return z3.Function(f"bitcast {source} {target}", self.sort(source), self.sort(target))(term)
        return self.convert(term, source, target)


_EXTENSIONS = (z3.Z3_OP_SIGN_EXT, z3.Z3_OP_ZERO_EXT)
_NEVER_OVERFLOWS = frozenset(("%", "trunc_mod", "max", "min", "bit_and", "shift_right"))


def _boolean(function: str, terms: Sequence[Any]) -> Any:
    table: dict[str, Callable[..., Any]] = {
        "+": z3.Or, "*": z3.And, "max": z3.Or, "min": z3.And, "bit_and": z3.And, "bit_or": z3.Or, "bit_xor": z3.Xor,
        "and": z3.And, "or": z3.Or, "not": z3.Not, "bit_not": z3.Not,
        "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
        "<": lambda a, b: z3.And(z3.Not(a), b), "<=": z3.Implies,
        ">": lambda a, b: z3.And(a, z3.Not(b)), ">=": lambda a, b: z3.Implies(b, a),
    }  # fmt: skip
    if function not in table:
        raise UntranslatableError(f"{function} of truth values")
    return table[function](*terms)


def _bits(function: str, dtype: DType, terms: Sequence[Any]) -> Any:
    """On bit-vectors; None where there is no such function."""
    signed = dtype.kind != "uint"
    a, b = (terms[0], terms[-1])
    match function:
        case "+" | "-" | "*":
            return {"+": a + b, "-": a - b, "*": a * b}[function]
        case "negate":
            return -a
        case "abs":
            return z3.If(a < 0, -a, a) if signed else a
        case "//":
            return arithmetic.floor_divide(a, b, True, signed)
        case "%":
            return arithmetic.floor_modulo(a, b, True, signed)
        case "trunc_div" | "trunc_mod":
            return arithmetic.truncated(a, b, True, signed, function == "trunc_mod")
        case "bit_and" | "bit_or" | "bit_xor":
            return {"bit_and": a & b, "bit_or": a | b, "bit_xor": a ^ b}[function]
        case "bit_not":
            return ~a
        case "shift_left":
            return a << b
        case "shift_right":
            return a >> b if signed else z3.LShR(a, b)
        case "max" | "min":
            above = a > b if signed else z3.UGT(a, b)
            return z3.If(above, a, b) if function == "max" else z3.If(above, b, a)
        case "<" | ">":
            p, q = (a, b) if function == "<" else (b, a)
            return p < q if signed else z3.ULT(p, q)
        case "<=" | ">=":
            p, q = (a, b) if function == "<=" else (b, a)
            return p <= q if signed else z3.ULE(p, q)
        case "==" | "!=":
            return a == b if function == "==" else a != b
        case "pow":
            return _power(a, b, dtype)
    return None


def _power(a: Any, b: Any, dtype: DType) -> Any:
    """One factor for each digit of the exponent; an integer to a negative power is 1 / a**-b towards zero."""
    one = z3.BitVecVal(1, dtype.bits)
    result, square = one, a
    for k in range(dtype.bits - (dtype.kind != "uint")):
        result = result * z3.If(z3.Extract(k, k, b) == 1, square, one)
        square = square * square
    if dtype.kind == "uint":
        return result
    odd = z3.If(z3.Extract(0, 0, b) == 1, a, one)
    return z3.If(b < 0, z3.If(z3.Or(a == 1, a == -1), odd, z3.BitVecVal(0, dtype.bits)), result)


def _integer(function: str, dtype: DType, terms: Sequence[Any]) -> Any:
    """On Ints, exact; None where there is no such function."""
    a, b = (terms[0], terms[-1])
    match function:
        case "+" | "-" | "*":
            return {"+": a + b, "-": a - b, "*": a * b}[function]
        case "negate":
            return -a
        case "abs":
            return z3.If(a < 0, -a, a)
        case "//":
            return arithmetic.floor_divide(a, b, False)
        case "%":
            return arithmetic.floor_modulo(a, b, False)
        case "trunc_div" | "trunc_mod":
            return arithmetic.truncated(a, b, False, True, function == "trunc_mod")
        case "max" | "min":
            return z3.If(a > b, a, b) if function == "max" else z3.If(a > b, b, a)
        case "<" | "<=" | ">" | ">=" | "==" | "!=":
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[function]
        case "bit_not":
            return -a - 1 if dtype.kind != "uint" else limits(str(dtype))[1] - a
        case "bit_and":
            return _masked(a, b) if z3.is_int_value(b) else _masked(b, a) if z3.is_int_value(a) else None
        case "shift_left" | "shift_right" if z3.is_int_value(b) and 0 <= b.as_long() < dtype.bits:
            factor = z3.IntVal(1 << b.as_long())
            return a * factor if function == "shift_left" else a / factor
        case "pow" if z3.is_int_value(b) and 0 <= b.as_long() <= 8:
            return reduce(lambda x, _: x * a, range(b.as_long()), z3.IntVal(1))
    return None


def _masked(a: Any, mask: Any) -> Any:
    """a & 2**k - 1 is a modulo 2**k, a & -2**k is a without that."""
    value = mask.as_long()
    if value >= 0 and value & (value + 1) == 0:
        return a % z3.IntVal(value + 1)
    if value < 0 and -value & (-value - 1) == 0:
        return a - a % z3.IntVal(-value)
    return None
