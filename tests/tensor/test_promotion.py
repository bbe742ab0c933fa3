"""The dtypes of results: NumPy's promotion with weak Python numbers, but a float wins over integers, as in PyTorch."""

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
    floats = {name for name in (first, second) if name.startswith("float")}
    expected = floats.pop() if len(floats) == 1 else np.result_type(first, second)
    assert result_dtype(Tensor.ones(2, dtype=first), Tensor.ones(2, dtype=second)) == expected
    assert (Tensor.ones(2, dtype=first) * Tensor.ones(2, dtype=second)).dtype == expected


@pytest.mark.parametrize(("name", "number"), list(itertools.product(NAMES, [True, 3, 2.5])))
def test_a_tensor_and_a_python_number(name, number):
    array, tensor = np.ones(2, name), Tensor.ones(2, dtype=name)
    of_float = name if name.startswith("float") else "float32"
    expected = of_float if isinstance(number, float) else (array * number).dtype
    assert (tensor * number).dtype == (number + tensor).dtype == expected
    assert (tensor / number).dtype == of_float
    assert Tensor.where(tensor > 0, tensor, number).dtype == expected


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_reductions(name):
    array, tensor = np.ones((2, 2), name), Tensor.ones(2, 2, dtype=name)
    for function in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax"):
        assert getattr(tensor, function)().dtype == getattr(array, function)().dtype, function
    for function in ("exp", "log", "sqrt", "sin", "cos", "tanh"):
        assert getattr(tensor, function)().dtype == (name if name.startswith("float") else "float32"), function
    assert (tensor @ tensor).dtype == (array @ array).dtype


def test_numpy_scalars():
    """NumPy's float64 is a Python float, and counts as one: `x * np.sqrt(2)`. The others have their own dtypes."""
    tensor = Tensor.ones(2, dtype="float32")
    for product in (tensor * np.float64(2), np.float64(2) * tensor, np.multiply(tensor, np.sqrt(2))):
        assert product.dtype == "float32"
    assert (Tensor([1, 2]) * np.float64(0.5)).dtype == Tensor.full((2,), np.float64(0.5)).dtype == "float32"
    assert (Tensor.ones(2, dtype="bfloat16") / np.sqrt(2)).dtype == "bfloat16"
    assert (tensor * np.complex128(2)).dtype == "complex64"
    assert (tensor * np.float16(2)).dtype == "float32"
    assert (Tensor.ones(2, dtype="int8") + np.int16(1)).dtype == "int16"
    assert (Tensor.ones(2, dtype="int8") * np.float32(1)).dtype == "float32"
    assert Tensor(np.float64(2)).dtype == Tensor(np.ones(2)).dtype == "float64"


def test_integers_with_floats():
    whole, share = Tensor([1, 2]), Tensor([0.5, 1.0])
    half = share.half()
    results = {
        "float32": [
            whole * share, whole / 2, whole**0.5, 2.5**whole, whole // 1.5, whole % 1.5, whole.fmod(1.5), whole.sqrt(),
            Tensor.cat([whole, share]), Tensor.stack([whole, share]), Tensor.where(share > 1, whole, 2.5),
            whole.clamp(0.5, 1.5), whole.clip(share), whole.maximum(share), whole.atan2(whole), whole.lerp(whole, 0.5),
            share.addcmul(whole, whole), whole @ share, whole.logsumexp(0), whole.sigmoid(), Tensor.arange(4) / 4,
            (whole > 1) * 0.5, whole.softmax(0), whole.outer(share), whole.dot(share), whole.pad([(1, 1)], value=0.5),
        ],
        "float16": [whole * half, half - whole, whole / half, whole**half, (whole > 1) * half, Tensor.cat([half, whole])],
        "complex64": [whole * 1j, whole * Tensor([1j, 2]), half.float() * 1j],
    }  # fmt: skip
    for dtype, found in results.items():
        assert [str(x.dtype) for x in found] == [dtype] * len(found)
    with pytest.raises(DtypeError):
        whole += 1.5


def test_integers_alone_stay_exact():
    large = Tensor([2**62 + 1, -(2**53) - 1])
    assert (large + 0).tolist() == (large // 1).tolist() == large.clip(-(2**62), 2**63 - 1).tolist() == large.tolist()
    assert (large == large + 1).tolist() == [False, False]
    # Beside a float an integer is compared as that float, as in PyTorch.
    assert (Tensor([2**24 + 1]) == Tensor([2.0**24])).item() is True


def test_a_gradient_has_the_dtype_of_its_parameter():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    (weight * Tensor([3, 4])).sum().backward()
    assert weight.grad.dtype == "float32" and weight.grad.tolist() == [3.0, 4.0]


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
