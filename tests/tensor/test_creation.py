"""Tensors from data and from nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import ConfigError, DeviceError, DtypeError, RulegradError, ShapeError


def test_data_keeps_values_and_gets_the_documented_dtype(device, check):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    check(
        (Tensor([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])),
        (Tensor([1.5, -2.0]), np.array([1.5, -2.0], np.float32)),
        (Tensor([True, False]), np.array([True, False])),
        (Tensor(3), np.array(3)),
        (Tensor(2.5), np.array(2.5, np.float32)),
        (Tensor(True), np.array(True)),
        (Tensor(array), array),
        (Tensor(array.T), array.T),
        (Tensor(array, dtype="float64"), array.astype(np.float64)),
        (Tensor(np.float64(0.1)), np.array(0.1)),
        (Tensor([1, 2], dtype="bfloat16"), np.array([1, 2], ml_dtypes.bfloat16)),
        (Tensor(Tensor([1, 2]), dtype="uint8"), np.array([1, 2], np.uint8)),
        (Tensor((1, 2)), np.array([1, 2])),
        (Tensor(range(3)), np.arange(3)),
        (Tensor(array, device=device), array),
    )


def test_empty_tensors(device, check):
    check(
        (Tensor([]), np.array([], np.float32)),
        (Tensor.zeros(0, 3), np.zeros((0, 3), np.float32)),
        (Tensor.zeros(2, 0).sum(), np.float32(0)),
        (Tensor.zeros(2, 0).sum(axis=1), np.zeros(2, np.float32)),
        (Tensor.zeros(2, 0).prod(axis=1), np.ones(2, np.float32)),
        (Tensor.zeros(2, 0).any(axis=1), np.zeros(2, np.bool_)),
        (Tensor.zeros(2, 0) + 1, np.zeros((2, 0), np.float32)),
        (Tensor.zeros(2, 0) @ Tensor.zeros(0, 3), np.zeros((2, 3), np.float32)),
    )


def test_constants(device, check):
    like = Tensor(np.ones((2, 3), np.int8))
    check(
        (Tensor.zeros(2, 3), np.zeros((2, 3), np.float32)),
        (Tensor.ones((2, 3), dtype="int32"), np.ones((2, 3), np.int32)),
        (Tensor.full((2,), 7), np.full(2, 7)),
        (Tensor.full((), 0.5), np.full((), 0.5, np.float32)),
        (Tensor.full((2, 2), True), np.full((2, 2), True)),
        (like.zeros_like(), np.zeros((2, 3), np.int8)),
        (like.ones_like(dtype="float64"), np.ones((2, 3))),
        (like.full_like(5), np.full((2, 3), 5, np.int8)),
        (Tensor.eye(3), np.eye(3, dtype=np.float32)),
        (Tensor.eye(2, 4, dtype="int32"), np.eye(2, 4, dtype=np.int32)),
    )


@pytest.mark.parametrize("arguments", [(5,), (0,), (2, 9), (9, 2), (2, 9, 3), (9, 2, -3), (300,), (-70000, 70000, 7)])
def test_whole_ranges(any_device, check, arguments):
    check((Tensor.arange(*arguments), np.arange(*arguments)))


def test_ranges(device, check):
    check(
        (Tensor.arange(1000), np.arange(1000)),
        (Tensor.arange(10, 0, -3, dtype="int8"), np.arange(10, 0, -3, dtype=np.int8)),
        (Tensor.arange(0.0, 1.0, 0.25), np.arange(0.0, 1.0, 0.25, dtype=np.float32)),
        (Tensor.arange(1.5), np.arange(1.5, dtype=np.float32)),
        (Tensor.linspace(-1.0, 2.0, 7), np.linspace(-1.0, 2.0, 7, dtype=np.float32)),
        (Tensor.linspace(3.0, 4.0, 1), np.linspace(3.0, 4.0, 1, dtype=np.float32)),
        (Tensor.linspace(0, 1, 5, dtype="float64"), np.linspace(0, 1, 5)),
    )


def test_linspace_ends_exactly(any_device):
    assert Tensor.linspace(0.0, 0.1, 1001)[-1].item() == np.float32(0.1)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Tensor([[1, 2], [3]]), ShapeError, "nested lists"),
        (lambda: Tensor("text"), DtypeError, "cannot be in a tensor"),
        (lambda: Tensor([1j], dtype="int8"), DtypeError, "complex"),
        (lambda: Tensor([None]), DtypeError, "a NoneType cannot be in a tensor"),
        (lambda: Tensor([300], dtype="uint8"), DtypeError, "does not fit uint8"),
        (lambda: Tensor([1], dtype="float31"), DtypeError, "float32"),
        (lambda: Tensor([1], dtype="int32", requires_grad=True), DtypeError, "cast it to a float"),
        (lambda: Tensor([1], device="nowhere"), DeviceError, "nowhere"),
        (lambda: Tensor.zeros(-1), ShapeError, "sizes of 0 or more"),
        (lambda: Tensor.zeros(1.5), ShapeError, "not a whole number"),
        (lambda: Tensor.arange(0, 1, 0), ShapeError, "step of 0"),
        (lambda: Tensor.full((2,), 300, dtype="int8"), DtypeError, "does not fit int8"),
    ],
)
def test_errors(any_device, make, error, text):
    with pytest.raises(error, match=text) as caught:
        make()
    assert isinstance(caught.value, RulegradError)
    assert not isinstance(caught.value, ConfigError)


def test_large_integers_keep_their_digits(any_device: str):
    large = 2**63 + 1
    assert Tensor([large, 1], dtype="uint64").tolist() == Tensor([large, 1]).tolist() == [large, 1]
    assert (Tensor(large).item(), Tensor(large).dtype) == (large, "uint64")
    for data in (2**64, -(2**63) - 1, [-1, large], [2**63, 2**64]):
        with pytest.raises(DtypeError):
            Tensor(data)
    with pytest.raises(DtypeError, match="300 does not fit int8"):
        Tensor(300, dtype="int8")
