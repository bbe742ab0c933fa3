"""Dtypes: facts, names, promotion."""

from __future__ import annotations

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir import dtype as d
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import DtypeDeclaration
from rulegrad.support.paths import data_folder

NUMPY_DTYPES = [x for x in d.ALL if x not in ("bfloat16", "float8_e4m3fn", "float8_e5m2")]
ML_DTYPES = [x for x in d.ALL if x not in NUMPY_DTYPES]


def test_a_dtype_stands_for_its_name() -> None:
    assert not isinstance(d.float32, str)
    assert all(one == other for one, other in [(d.float32, "float32"), ("float32", d.float32)])
    assert d.float32 != "float64" and d.float32 != d.float64
    assert d.as_dtype("float32") is d.DType("float32") is d.float32
    assert {d.int8: 1}["int8"] == {"int8": 1}[d.int8] == 1 and d.int8 in ("int16", "int8")
    assert sorted([d.uint8, d.int8, "float32"]) == ["float32", "int8", "uint8"]
    assert "bool" < d.int8 <= d.int8 and d.uint8 > "int8" and d.uint8 >= d.int8
    assert str(d.int8) == f"{d.int8}" == "int8" and f"{d.int8:>6}" == "  int8" and repr(d.int8) == "DType('int8')"


def test_there_is_one_object_of_each_name() -> None:
    for made in (pickle.loads(pickle.dumps(d.float32)), copy.copy(d.float32), copy.deepcopy(d.float32)):
        assert made is d.float32
    for change in (lambda: setattr(d.float32, "bits", 64), lambda: delattr(d.float32, "bits")):
        with pytest.raises(AttributeError, match="a dtype cannot be changed"):
            change()
    with pytest.raises(TypeError):
        _ = d.float32 < 3  # type: ignore[operator]


def test_a_dtype_goes_for_numpys() -> None:
    assert np.dtype(d.float32) == np.float32 and np.dtype(d.bfloat16) == ml_dtypes.bfloat16
    assert np.zeros(2, d.int8).dtype == np.int8
    assert d.float32 == np.float32 == d.float32 and d.float32 == np.dtype("float32") and d.float32 != np.float64
    assert d.float32 not in (float, 3, None) and d.index != np.int64


def test_nodes_have_dtypes_and_take_them() -> None:
    node = UOp("PARAM", (), d.float32, slot=0, shape=(4,))
    assert node.dtype is d.float32 and UOp.const(1, d.int8) is not None
    assert UOp("PARAM", (), "float32", slot=0, shape=(4,)) == node


def test_dtypes_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for dtype in d.ALL:
        assert d.as_dtype(getattr(torch, dtype.name)) is dtype
    assert d.float32 == torch.float32 and d.float32 != torch.float64
    assert Tensor([1.0], dtype=torch.float64).to(torch.float16).dtype == "float16"
    with pytest.raises(DtypeError, match="unknown dtype 'torch.qint8'"):
        d.as_dtype(torch.qint8)


def test_facts_are_those_of_the_op_table() -> None:
    path = data_folder("rules") / "ops" / "ops.rules"
    declared = {
        x.name: x.properties
        for x in parse_file(path.read_text(), str(path)).declarations
        if isinstance(x, DtypeDeclaration)
    }
    assert set(declared) == {*d.ALL, "void", "index"}
    for name, properties in declared.items():
        dtype = d.DType(name)
        facts = {"kind": dtype.kind, "bits": dtype.bits}
        if dtype.is_float:
            facts |= {"exponent": dtype.exponent, "mantissa": dtype.mantissa}
        assert facts == properties


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMPY_DTYPES, repeat=2)))
def test_promotion_is_numpys_but_a_float_wins_over_integers(a: d.DType, b: d.DType) -> None:
    inexact = [one for one in (a, b) if one.is_inexact]
    expected = inexact[0] if len(inexact) == 1 else np.promote_types(a.numpy, b.numpy).name
    assert d.promote(a, b) == expected


def test_promotion_of_three_does_not_depend_on_their_order() -> None:
    for three in (("uint64", "int64", "float32"), ("int8", "float16", "complex64"), ("bool", "bfloat16", "float16")):
        assert len({d.promote(*order) for order in itertools.permutations(three)}) == 1
    assert d.promote("uint64", "int64", "float16") == "float16"


@pytest.mark.parametrize(("a", "b"), list(itertools.product(d.ALL, repeat=2)))
def test_promotion_commutes_and_keeps_values(a: d.DType, b: d.DType) -> None:
    result = d.promote(a, b)
    assert result == d.promote(b, a)
    if a.is_inexact != b.is_inexact:
        return  # an integer is rounded to the float beside it
    if result not in ("float64", "complex128"):
        assert d.lossless(a, result) and d.lossless(b, result)
    for source in (a, b):
        if source.bits <= 16 and result != "float64" and source.kind != "bool":
            bits = np.arange(2**source.bits, dtype=np.uint64).astype(f"uint{source.bits}")
            values = bits.view(source.numpy)
            with np.errstate(all="ignore"):
                there = values.astype(result.numpy).astype(np.complex128)
                here = values.astype(np.float64)
            np.testing.assert_array_equal(there, here)


def test_promotion_of_small_floats() -> None:
    assert d.promote("float16", "bfloat16") == "float32"
    assert d.promote("float8_e4m3fn", "float8_e5m2") == "float16"
    assert d.promote("bfloat16", "int32") == "bfloat16"
    assert d.promote("bool", "int8", "uint8", "float32") == "float32"


def test_promotion_of_index() -> None:
    assert d.promote("index", "int32") == d.promote("bool", "index") == "index"
    with pytest.raises(DtypeError, match="cast the index first"):
        d.promote("index", "float32")
    with pytest.raises(DtypeError, match="void has no values"):
        d.promote("void", "int8")
    with pytest.raises(DtypeError, match="at least one"):
        d.promote()


@pytest.mark.parametrize("dtype", d.ALL)
def test_numpy_and_back(dtype: d.DType) -> None:
    assert d.as_dtype(dtype.numpy) is dtype
    assert d.as_dtype(dtype.numpy.type) is dtype
    assert dtype.numpy.itemsize == dtype.itemsize


def test_what_as_dtype_takes() -> None:
    assert d.as_dtype(bool) == "bool" and d.as_dtype(int) == "int64" and d.as_dtype(float) == "float64"
    assert d.as_dtype(np.float16) == "float16" and d.as_dtype(ml_dtypes.bfloat16) == "bfloat16"
    assert d.as_dtype("index") is d.index
    assert d.index.numpy == np.int64


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("flaot32", "did you mean float32"),
        ("Int32", "did you mean int32"),
        ("quaternion", "use one of"),
        (np.clongdouble, "unknown dtype 'complex256'"),
        (None, "unknown dtype 'None'"),
        (3, "unknown dtype '3'"),
        (object, "unknown dtype 'object'"),
        (np.dtype("V8"), "unknown dtype"),
    ],
)
def test_unknown_dtypes(wrong: object, message: str) -> None:
    with pytest.raises(DtypeError, match=message):
        d.as_dtype(wrong)


def test_void_has_no_numpy_dtype() -> None:
    with pytest.raises(DtypeError, match="void has no values"):
        _ = d.void.numpy
