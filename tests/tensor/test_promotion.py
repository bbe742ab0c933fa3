"""The dtypes of results: NumPy's promotion, with weak Python numbers (NEP 50)."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DtypeError
from rulegrad.tensor.operands import result_dtype

NAMES = (
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    + ["float16", "float32", "float64"]
)  # fmt: skip


@pytest.mark.parametrize(("first", "second"), list(itertools.product(NAMES, NAMES)))
def test_two_tensors(first, second):
    assert result_dtype(Tensor.ones(2, dtype=first), Tensor.ones(2, dtype=second)) == np.result_type(first, second)
    product = Tensor.ones(2, dtype=first) * Tensor.ones(2, dtype=second)
    assert product.dtype == (np.ones(2, first) * np.ones(2, second)).dtype


@pytest.mark.parametrize(("name", "number"), list(itertools.product(NAMES, [True, 3, 2.5])))
def test_a_tensor_and_a_python_number(name, number):
    array, tensor = np.ones(2, name), Tensor.ones(2, dtype=name)
    assert (tensor * number).dtype == (array * number).dtype
    assert (number + tensor).dtype == (number + array).dtype
    assert (tensor / number).dtype == (array / number).dtype
    assert Tensor.where(tensor > 0, tensor, number).dtype == np.where(array > 0, array, number).dtype


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_reductions(name):
    array, tensor = np.ones((2, 2), name), Tensor.ones(2, 2, dtype=name)
    for function in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax"):
        assert getattr(tensor, function)().dtype == getattr(array, function)().dtype, function
    for function in ("exp", "log", "sqrt", "sin", "cos", "tanh"):
        assert getattr(tensor, function)().dtype == getattr(np, function)(array).dtype, function
    assert (tensor @ tensor).dtype == (array @ array).dtype


def test_numpy_scalars_are_not_weak():
    tensor = Tensor.ones(2, dtype="float32")
    assert (tensor * np.float64(2)).dtype == "float64"
    assert (tensor * np.float16(2)).dtype == "float32"
    assert (Tensor.ones(2, dtype="int8") + np.int16(1)).dtype == "int16"


def test_small_floats():
    assert (Tensor.ones(2, dtype="bfloat16") * 2.0).dtype == "bfloat16"
    assert (Tensor.ones(2, dtype="bfloat16") + Tensor.ones(2, dtype="float32")).dtype == "float32"
    assert (Tensor.ones(2, dtype="bfloat16") + Tensor.ones(2, dtype="float16")).dtype == "float32"


def test_numbers_alone():
    assert Tensor(1).dtype == "int64"
    assert Tensor(1.0).dtype == "float32"
    assert Tensor(True).where(1, 2.0).dtype == "float32"
    with pytest.raises(DtypeError):
        Tensor.ones(2, dtype="int8") + 128


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8"])
def test_comparisons_with_integers_beyond_the_dtype(any_device, check, dtype):
    values = np.array([0, 1, np.iinfo(dtype).max], dtype)
    x = Tensor(values)
    pairs = []
    for number in (-(2**63) - 1, -1, 2**64, 2**70):
        for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
            pairs += [(compare(x, number), compare(values, number)), (compare(number, x), compare(number, values))]
    pairs.append((x.clip(-(2**65), 2**65), values))
    check(*pairs)
    with pytest.raises(DtypeError, match="the number .* does not fit"):
        x.clip(2**65, None)
