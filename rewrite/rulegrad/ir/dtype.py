"""Dtypes: the names, sizes and kinds of values, NumPy's counterpart of each, and promotion.

A dtype *is* its name, so it compares equal to the plain string and can be given to the engine as it is:

    >>> from rulegrad.ir.dtype import as_dtype, promote, float32
    >>> float32 == "float32", float32.bits, as_dtype(float32.numpy)
    (True, 32, 'float32')
    >>> promote("int8", "uint8")
    'int16'
"""

from __future__ import annotations

import difflib
from functools import cache, cached_property, reduce
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from rulegrad.errors import DtypeError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["void", "bool", "int", "uint", "float", "complex", "index"]


class _Facts(NamedTuple):
    kind: Kind
    bits: int
    exponent: int = 0
    mantissa: int = 0


# The same table as in rules/ops.rules; a test compares the two.
_FACTS: Final[dict[str, _Facts]] = {
    "void": _Facts("void", 0),
    "bool": _Facts("bool", 8),
    "int8": _Facts("int", 8),
    "int16": _Facts("int", 16),
    "int32": _Facts("int", 32),
    "int64": _Facts("int", 64),
    "uint8": _Facts("uint", 8),
    "uint16": _Facts("uint", 16),
    "uint32": _Facts("uint", 32),
    "uint64": _Facts("uint", 64),
    "float8_e4m3fn": _Facts("float", 8, 4, 3),
    "float8_e5m2": _Facts("float", 8, 5, 2),
    "float16": _Facts("float", 16, 5, 10),
    "bfloat16": _Facts("float", 16, 8, 7),
    "float32": _Facts("float", 32, 8, 23),
    "float64": _Facts("float", 64, 11, 52),
    "complex64": _Facts("complex", 64),
    "complex128": _Facts("complex", 128),
    "index": _Facts("index", 64),
}
_ML_DTYPES: Final = frozenset({"float8_e4m3fn", "float8_e5m2", "bfloat16"})


class DType(str):
    """The name of a dtype, with its facts as properties. Raises DtypeError for an unknown name.

    >>> DType("bfloat16").kind, DType("bfloat16").mantissa
    ('float', 7)
    """

    def __new__(cls, name: str) -> DType:
        if name not in _FACTS:
            raise DtypeError(_unknown(name))
        return super().__new__(cls, name)

    @cached_property
    def _facts(self) -> _Facts:
        return _FACTS[str(self)]

    @cached_property
    def kind(self) -> Kind:
        """One of void, bool, int, uint, float, complex, index."""
        return self._facts.kind

    @cached_property
    def bits(self) -> int:
        """The size of one value in memory."""
        return self._facts.bits

    @cached_property
    def itemsize(self) -> int:
        """The size of one value in bytes."""
        return self._facts.bits // 8

    @cached_property
    def exponent(self) -> int:
        """Exponent bits of a float, 0 for the others."""
        return self._facts.exponent

    @cached_property
    def mantissa(self) -> int:
        """Stored mantissa bits of a float, 0 for the others."""
        return self._facts.mantissa

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @cached_property
    def is_inexact(self) -> bool:
        """True for floats and complex numbers."""
        return self.kind in ("float", "complex")

    @cached_property
    def real(self) -> DType:
        """The dtype of the parts of a complex number; other dtypes are their own."""
        return {"complex64": float32, "complex128": float64}.get(str(self), self)

    @cached_property
    def is_integer(self) -> bool:
        """True for signed, unsigned and index integers, not for bool."""
        return self.kind in ("int", "uint", "index")

    @cached_property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "complex", "index")

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same values (through ml_dtypes for bfloat16 and fp8; int64 for index)."""
        import numpy as np

        if self.kind == "void":
            raise DtypeError("void has no values, and so no NumPy dtype")
        if self in _ML_DTYPES:
            import ml_dtypes

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, str(self)))
            return found
        return np.dtype("int64" if self.kind == "index" else str(self))


void: Final = DType("void")
bool_: Final = DType("bool")
int8: Final = DType("int8")
int16: Final = DType("int16")
int32: Final = DType("int32")
int64: Final = DType("int64")
uint8: Final = DType("uint8")
uint16: Final = DType("uint16")
uint32: Final = DType("uint32")
uint64: Final = DType("uint64")
float8_e4m3fn: Final = DType("float8_e4m3fn")
float8_e5m2: Final = DType("float8_e5m2")
float16: Final = DType("float16")
bfloat16: Final = DType("bfloat16")
float32: Final = DType("float32")
float64: Final = DType("float64")
complex64: Final = DType("complex64")
complex128: Final = DType("complex128")
index: Final = DType("index")

#: Every dtype of the engine: those of tensors, void, and index.
EVERY: Final = (
    void, bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, complex64, complex128, index,
)  # fmt: skip
_BY_NAME: Final[dict[str, DType]] = {str(dtype): dtype for dtype in EVERY}
_PYTHON_TYPES: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float64, complex: complex128}

#: Every dtype that a tensor can have.
ALL: Final[tuple[DType, ...]] = tuple(d for d in EVERY if d.kind not in ("void", "index"))
# The candidates of a promotion: integers before floats, unsigned before signed of the same size.
_SMALLEST_FIRST: Final = sorted(ALL, key=lambda d: (d.is_complex, d.is_float, d.bits, d.kind == "int"))


def as_dtype(value: Any) -> DType:
    """The dtype that `value` names: a DType, a string (NumPy's, such as "f4", too), a NumPy or ml_dtypes dtype or
    scalar type, or Python's bool, int (int64) or float (float64). Raises DtypeError for anything else.

    >>> as_dtype(int), as_dtype("float16")
    ('int64', 'float16')
    """
    if type(value) is DType:
        return value
    if isinstance(value, str):
        found = _BY_NAME.get(value)
        return _from_numpy(value) if found is None else found
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    return _from_numpy(value)


def promote(*dtypes: Any) -> DType:
    """The dtype that holds the result of an operation on values of these dtypes.

    NumPy's rule: the smallest dtype that holds every value of both (float64 when there is none). bfloat16
    and the fp8 types follow the same rule, so float16 with bfloat16 gives float32, and the two fp8 types
    give float16. An index goes with integers and bools only. Raises DtypeError for void, or no dtypes.

    >>> promote("uint8", "float16"), promote("int64", "float32"), promote("float16", "bfloat16")
    ('float16', 'float64', 'float32')
    """
    if not dtypes:
        raise DtypeError("promote needs at least one dtype; give those of the operands")
    return reduce(_promote_two, map(as_dtype, dtypes))


@cache
def _promote_two(a: DType, b: DType) -> DType:
    if "void" in (a.kind, b.kind):
        raise DtypeError("void has no values and cannot be promoted; use a node that has a value")
    if "index" in (a.kind, b.kind):
        if not (a.is_integer or a == bool_) or not (b.is_integer or b == bool_):
            raise DtypeError(f"{a} and {b} have no common dtype; cast the index first, to int64 for example")
        return index
    widest = complex128 if a.is_complex or b.is_complex else float64
    return next((d for d in _SMALLEST_FIRST if lossless(a, d) and lossless(b, d)), widest)


def lossless(source: Any, target: Any) -> bool:
    """Whether every value of dtype `source` is a value of dtype `target` (nan and infinities aside).

    >>> lossless("uint8", "bfloat16"), lossless("int16", "float16")
    (True, False)
    """
    a, b = as_dtype(source), as_dtype(target)
    if a == b or a.kind == "bool":
        return b.kind != "void"
    if b.is_complex:
        return lossless(a.real, b.real)
    if a.is_float:
        return b.is_float and a.mantissa <= b.mantissa and a.exponent <= b.exponent
    if a.is_integer and b.is_float:
        largest_exponent = 2 ** (b.exponent - 1) - 1
        digits = a.bits - (a.kind != "uint")
        return digits <= b.mantissa + 1 and digits <= largest_exponent
    if a.kind == "uint":
        return b.is_integer and a.bits + (b.kind != "uint") <= b.bits
    return b.kind in ("int", "index") and a.is_integer and a.bits <= b.bits


def _from_numpy(value: Any) -> DType:
    import numpy as np

    try:
        name = np.dtype(value).name if value is not None else "None"
    except (TypeError, ValueError):
        name = f"of type {type(value).__name__}" if hasattr(value, "shape") else str(value)
    found = _BY_NAME.get(name)
    if found is None or found.kind in ("void", "index"):
        raise DtypeError(_unknown(name))
    return found


def _unknown(name: str) -> str:
    names = list(map(str, ALL))
    close = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "use one of " + ", ".join(names)
    return f"unknown dtype {str(name)!r}; {hint}"
