"""Data types and their functions: limits, promotion, conversion."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)
KINDS = {
    "bool": ("bool",),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX),
}


def promotes(first: str, second: str) -> str | None:
    """The standard's table; None where it says nothing (of different kinds, and of uint64 with signed integers)."""
    for kind in (("bool",), SIGNED, UNSIGNED, (*FLOATS, *COMPLEX)):
        if first in kind and second in kind:
            return str(np.result_type(first, second))
    pair = {first, second}
    if pair <= {*SIGNED, *UNSIGNED} and "uint64" not in pair:
        return str(np.result_type(first, second))
    return None


TABLE = [(a, b, promotes(a, b)) for a, b in itertools.product(ALL, ALL) if promotes(a, b)]


@pytest.mark.parametrize("dtype", ALL)
def test_dtypes_are_equal_to_themselves_only(lib: Any, dtype: str):
    assert [name for name in ALL if lib.dtype(name) == lib.dtype(dtype)] == [dtype]
    assert lib.array(np.zeros(2, dtype)).dtype == lib.dtype(dtype)
    hash(lib.dtype(dtype))


@pytest.mark.parametrize(("first", "second", "result"), TABLE)
def test_promotion(lib: Any, xp: Any, first: str, second: str, result: str):
    a, b = lib.dtype(first), lib.dtype(second)
    assert xp.result_type(a, b) == lib.dtype(result)
    x = lib.array(np.zeros(2), first)
    assert xp.result_type(x, b) == lib.dtype(result)
    assert xp.result_type(b, a, x, a) == lib.dtype(result)
    if first != "bool":
        assert (x + lib.array(np.ones(2), second)).dtype == lib.dtype(result)


@pytest.mark.parametrize("dtype", ALL)
def test_promotion_with_python_scalars(lib: Any, xp: Any, dtype: str):
    kind = np.dtype(dtype).kind
    for scalar, kinds in ((True, "b"), (1, "iufc"), (1.5, "fc"), (1j, "c")):
        if kind in kinds:
            assert xp.result_type(lib.dtype(dtype), scalar) == lib.dtype(dtype)
            assert xp.result_type(lib.array(np.zeros(1), dtype), scalar) == lib.dtype(dtype)


def test_a_real_array_and_a_complex_scalar(lib: Any, xp: Any):
    assert xp.result_type(xp.float32, 1j) == xp.complex64
    assert xp.result_type(xp.float64, 1j) == xp.complex128
    lib.same(lib.array([1.0], "float32") + 2j, np.array([1 + 2j], "complex64"))


def test_promotion_needs_a_dtype(xp: Any):
    with pytest.raises(Exception, match=r"."):
        xp.result_type()


@pytest.mark.parametrize(("first", "second", "result"), TABLE)
def test_can_cast_where_promotion_leads(lib: Any, xp: Any, first: str, second: str, result: str):
    assert xp.can_cast(lib.dtype(first), lib.dtype(result)) is True
    assert xp.can_cast(lib.array(np.zeros(2), first), lib.dtype(result)) is True
    if second != result:
        assert xp.can_cast(lib.dtype(result), lib.dtype(second)) is False


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_finfo(lib: Any, xp: Any, dtype: str):
    expected = np.finfo(dtype)
    found = xp.finfo(lib.dtype(dtype))
    for name in ("eps", "max", "min", "smallest_normal"):
        assert float(getattr(found, name)) == float(getattr(expected, name))
        assert isinstance(getattr(found, name), float | np.floating)
    assert int(found.bits) == expected.bits
    assert found.dtype == lib.dtype(expected.dtype.name)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_iinfo(lib: Any, xp: Any, dtype: str):
    expected = np.iinfo(dtype)
    found = xp.iinfo(lib.dtype(dtype))
    assert (found.bits, found.max, found.min) == (expected.bits, expected.max, expected.min)
    assert isinstance(found.max, int) and isinstance(found.min, int)
    assert found.dtype == lib.dtype(dtype)


def test_limits_of_an_arrays_dtype(lib: Any, xp: Any):
    assert float(xp.finfo(lib.array([1.0], "float32")).eps) == float(np.finfo("float32").eps)
    assert xp.iinfo(lib.array([1], "int8")).max == 127


def test_limits_of_another_kind_are_refused(xp: Any):
    with pytest.raises((TypeError, ValueError)):
        xp.finfo(xp.int8)
    with pytest.raises((TypeError, ValueError)):
        xp.iinfo(xp.float32)


@pytest.mark.parametrize("dtype", ALL)
def test_isdtype(lib: Any, xp: Any, dtype: str):
    known = lib.dtype(dtype)
    for kind, members in KINDS.items():
        assert xp.isdtype(known, kind) is (dtype in members)
        assert xp.isdtype(known, (kind, known)) is True
    assert [name for name in ALL if xp.isdtype(known, lib.dtype(name))] == [dtype]
    assert xp.isdtype(known, (lib.dtype("int8"), "complex floating")) is (dtype in ("int8", *COMPLEX))


# ---- astype ----

NUMBERS = {"b": [0, 1, 1], "i": [-3, 0, 7], "u": [3, 0, 7], "f": [-2.5, 0.0, 7.9], "c": [1 + 1j, 0j, 2.5 - 1j]}


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_astype(lib: Any, xp: Any, source: str, target: str):
    values = np.array(NUMBERS[np.dtype(source).kind], source)
    if np.dtype(target).kind == "u":
        values = np.abs(values).astype(source)
    if source in COMPLEX and target not in (*COMPLEX, "bool"):
        return
    lib.exactly(xp.astype(lib.array(values), lib.dtype(target)), values.astype(target))


def test_astype_of_large_integers(lib: Any, xp: Any):
    values = np.array([2**40 + 3, -1, 300])
    for target in ("int8", "uint8", "int32", "uint64"):
        lib.exactly(xp.astype(lib.array(values), lib.dtype(target)), values.astype(target))


def test_astype_of_special_numbers(lib: Any, xp: Any):
    values = np.array([np.nan, np.inf, -np.inf, -0.0])
    lib.exactly(xp.astype(lib.array(values), xp.float32), values.astype(np.float32))
    lib.exactly(xp.astype(lib.array(values), xp.bool), values.astype(bool))


def test_astype_with_and_without_a_copy(lib: Any, xp: Any):
    x = xp.asarray([1, 2])
    assert xp.astype(x, x.dtype, copy=False) is x
    assert xp.astype(x, x.dtype) is not x
    assert xp.astype(x, xp.float32, copy=False).dtype == xp.float32
    assert xp.astype(x, xp.float32, device=x.device).device == x.device
