"""Dtypes: the names, sizes and kinds of values, NumPy's counterpart of each, and promotion.

A dtype is an object that compares equal to its name, and can be given wherever the name can:

    >>> from rulegrad.ir.dtype import as_dtype, promote, float32
    >>> float32 == "float32", float32.bits, as_dtype(float32.numpy)
    (True, 32, DType('float32'))
    >>> print(promote("int8", "uint8"))
    int16
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache, reduce
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


# The same table as in rules/ops/ops.rules; a test compares the two.
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


class DType:
    """A dtype: its name, and facts about its values. There is one object of each name.

    It compares with names, with NumPy's dtypes and with PyTorch's, it is hashed and ordered as its name, and `str` of
    it is the name; `np.dtype(dtype)` is NumPy's counterpart. Raises DtypeError for an unknown name.

    >>> DType("bfloat16").kind, DType("bfloat16").mantissa, DType("bfloat16") == "bfloat16"
    ('float', 7, True)
    """

    __slots__ = (
        "_hash", "_numpy", "bits", "exponent", "is_complex", "is_float", "is_inexact", "is_integer", "is_signed",
        "itemsize", "kind", "mantissa", "name",
    )  # fmt: skip

    name: str
    kind: Kind
    """One of void, bool, int, uint, float, complex, index."""
    bits: int
    """The size of one value in memory."""
    itemsize: int
    """The size of one value in bytes."""
    exponent: int
    """Exponent bits of a float, 0 for the others."""
    mantissa: int
    """Stored mantissa bits of a float, 0 for the others."""
    is_float: bool
    is_complex: bool
    is_inexact: bool
    """True for floats and complex numbers."""
    is_integer: bool
    """True for signed, unsigned and index integers, not for bool."""
    is_signed: bool
    _hash: int
    _numpy: np.dtype[Any] | None

    def __new__(cls, name: str) -> DType:
        found = _BY_NAME.get(name)
        if found is None:
            if name not in _FACTS:
                raise DtypeError(_unknown(name))
            found = _BY_NAME[str(name)] = cls._made(str(name), _FACTS[name])
        return found

    @classmethod
    def _made(cls, name: str, facts: _Facts) -> DType:
        new = super().__new__(cls)
        values: dict[str, Any] = {
            "name": name,
            "kind": facts.kind,
            "bits": facts.bits,
            "itemsize": facts.bits // 8,
            "exponent": facts.exponent,
            "mantissa": facts.mantissa,
            "is_float": facts.kind == "float",
            "is_complex": facts.kind == "complex",
            "is_inexact": facts.kind in ("float", "complex"),
            "is_integer": facts.kind in ("int", "uint", "index"),
            "is_signed": facts.kind in ("int", "float", "complex", "index"),
            "_hash": hash(name),
            "_numpy": None,
        }
        for slot, value in values.items():
            object.__setattr__(new, slot, value)
        return new

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self.name}.{name}: a dtype cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self.name}.{name}: a dtype cannot be changed")

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return DType, (self.name,)

    # ---- as its name ----

    def __eq__(self, other: object) -> bool:
        if other.__class__ is DType:
            return self is other
        if isinstance(other, str):
            return self.name == other
        return _of_library(other) is self

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: DType | str) -> bool:
        return self.name < str(other) if isinstance(other, (DType, str)) else NotImplemented

    def __le__(self, other: DType | str) -> bool:
        return self.name <= str(other) if isinstance(other, (DType, str)) else NotImplemented

    def __gt__(self, other: DType | str) -> bool:
        return self.name > str(other) if isinstance(other, (DType, str)) else NotImplemented

    def __ge__(self, other: DType | str) -> bool:
        return self.name >= str(other) if isinstance(other, (DType, str)) else NotImplemented

    def __str__(self) -> str:
        return self.name

    def __format__(self, specification: str) -> str:
        return format(self.name, specification)

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    @property
    def is_floating_point(self) -> bool:
        """`is_float`, under PyTorch's name."""
        return self.is_float

    # ---- counterparts ----

    @property
    def real(self) -> DType:
        """The dtype of the parts of a complex number; other dtypes are their own."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same values (through ml_dtypes for bfloat16 and fp8; int64 for index)."""
        if self._numpy is None:
            object.__setattr__(self, "_numpy", self._find_numpy())
        found: np.dtype[Any] | None = self._numpy
        assert found is not None
        return found

    def _find_numpy(self) -> np.dtype[Any]:
        import numpy as np  # late: what dtypes there are can be said without NumPy

        if self.kind == "void":
            raise DtypeError("void has no values, and so no NumPy dtype")
        if self.name in _ML_DTYPES:
            import ml_dtypes  # late: for bfloat16 and fp8

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
            return found
        return np.dtype("int64" if self.kind == "index" else self.name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """`numpy`, under the name that `np.dtype` and functions with an argument `dtype` of NumPy look for."""
        return self.numpy

    # The name that NumPy 2.4 and later look for.
    __numpy_dtype__ = dtype


_BY_NAME: Final[dict[str, DType]] = {}

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
_PYTHON_TYPES: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float64, complex: complex128}

#: Every dtype that a tensor can have.
ALL: Final[tuple[DType, ...]] = tuple(d for d in EVERY if d.kind not in ("void", "index"))
# The candidates of a promotion: integers before floats, unsigned before signed of the same size.
_SMALLEST_FIRST: Final = sorted(ALL, key=lambda d: (d.is_complex, d.is_float, d.bits, d.kind == "int"))


def as_dtype(value: Any) -> DType:
    """The dtype that `value` names: a DType, a string (NumPy's, such as "f4", too), a dtype or scalar type of NumPy or
    ml_dtypes, a dtype of PyTorch, or Python's bool, int (int64), float (float64) or complex (complex128).

    Raises DtypeError for anything else.

    >>> print(as_dtype(int), as_dtype("float16"))
    int64 float16
    """
    if value.__class__ is DType:
        found: DType = value
        return found
    if isinstance(value, str):
        return _BY_NAME.get(value) or _from_numpy(value)
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    if isinstance(value, type) and isinstance(name := getattr(value, "dtype", None), str):
        return as_dtype(name)  # PyTorch's classes of one dtype: `x.type(torch.FloatTensor)`
    return _of_library(value) or _from_numpy(value)


def promote(*dtypes: Any) -> DType:
    """The dtype that holds the result of an operation on values of these dtypes.

    A float or complex dtype stays as it is beside integers and bools, as in PyTorch. Otherwise it is the smallest dtype
    that holds every value of both, as in NumPy (float64 when there is none, as for int64 with uint64). bfloat16 and the
    fp8 types follow the same rule, so float16 with bfloat16 gives float32, and the two fp8 types give float16. An index
    goes with integers and bools only. Raises DtypeError for void, or no dtypes.

    >>> print(promote("int64", "float16"), promote("int8", "uint8"), promote("float16", "bfloat16"))
    float16 int16 float32
    """
    if not dtypes:
        raise DtypeError("promote needs at least one dtype; give those of the operands")
    return _promote(tuple(map(as_dtype, dtypes)))


@cache
def _promote(dtypes: tuple[DType, ...]) -> DType:
    if void in dtypes:
        raise DtypeError("void has no values and cannot be promoted; use a node that has a value")
    if index in dtypes:
        other = next((one for one in dtypes if not one.is_integer and one != bool_), None)
        if other is not None:
            raise DtypeError(f"{other} and index have no common dtype; cast the index first, to int64 for example")
        return index
    inexact = [one for one in dtypes if one.is_inexact]
    return reduce(_smallest_for_both, inexact or dtypes)


def _smallest_for_both(a: DType, b: DType) -> DType:
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


def _of_library(value: object) -> DType | None:
    """The dtype that an object of NumPy (a dtype or a scalar type) or PyTorch (torch.float32) stands for, or None.

    The libraries are not imported: where an object of theirs is, they are.
    """
    kind = type(value)
    if kind.__name__ == "dtype" and kind.__module__ == "torch":
        return _BY_NAME.get(str(value).removeprefix("torch."))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if not (isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic))):
        return None
    return _of_numpy(numpy.dtype(value))


@lru_cache(maxsize=1000)  # there are a few, but for those of records; NumPy makes up a name each time that it is asked
def _of_numpy(value: np.dtype[Any]) -> DType | None:
    found = _BY_NAME.get(value.name)
    return None if found is None or found.kind in ("void", "index") else found


def _from_numpy(value: Any) -> DType:
    import numpy as np  # late: what dtypes there are can be said without NumPy

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
    import difflib  # late: only a message needs it

    close = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "use one of " + ", ".join(names)
    return f"unknown dtype {str(name)!r}; {hint}"
