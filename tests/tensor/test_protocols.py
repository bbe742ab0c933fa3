"""What Python's own modules ask of a tensor: buffers, pickle, copy, format, `in`, and moving with `to`."""

from __future__ import annotations

import array
import copy
import pickle

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError, RulegradError
from rulegrad.ir.dtype import ALL


def test_a_view_of_the_buffer_has_the_values_and_cannot_be_written(device: str) -> None:
    x = Tensor([[1, 2, 3], [4, 5, 6]], dtype="int32") + 1
    view = memoryview(x)
    assert (view.shape, view.format, view.readonly, view.contiguous) == ((2, 3), "i", True, True)
    assert view.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert bytes(x) == np.arange(2, 8, dtype=np.int32).tobytes()
    assert array.array("i", bytes(x)).tolist() == [2, 3, 4, 5, 6, 7]
    shared = np.asarray(x)
    assert not shared.flags.writeable and shared.dtype == np.int32
    with pytest.raises(TypeError):
        view[0, 0] = 1


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "float64"])
def test_the_formats_are_numpys(any_device: str, dtype: str) -> None:
    values = np.array([0, 1, 1], dtype)
    assert memoryview(Tensor(values)).format == memoryview(values).format


def test_what_the_buffer_protocol_cannot_do(any_device: str) -> None:
    with pytest.raises(BufferError, match="bfloat16 has no format.*numpy"):
        memoryview(Tensor([1.0], dtype="bfloat16"))
    with pytest.raises(BufferError, match="cannot be written"):
        Tensor([1.0]).__buffer__(1)
    with pytest.raises((BufferError, TypeError)):
        (Tensor([1], dtype="uint8")).__buffer__(0).cast("B").__setitem__(0, 1)


def test_an_array_is_always_a_copy(any_device: str) -> None:
    x = Tensor([1.0, 2.0])
    assert x.__array__("float64").dtype == np.float64
    with pytest.raises(ValueError, match="always copied"):
        x.__array__(copy=False)


@pytest.mark.parametrize("dtype", ALL)
def test_pickle_keeps_values_dtype_and_device(device: str, dtype: str) -> None:
    x = Tensor([[0, 1], [2, 3]], dtype=dtype).reshape(4)[1:]
    back = pickle.loads(pickle.dumps(x))
    assert (back.shape, back.dtype, back.device) == (x.shape, x.dtype, x.device)
    assert back.numpy().tobytes() == x.numpy().tobytes() and not back.requires_grad


def test_a_leaf_stays_a_leaf_and_a_result_is_refused(any_device: str) -> None:
    leaf = Tensor([1.0, 2.0], requires_grad=True)
    back = pickle.loads(pickle.dumps(leaf))
    (back * back).sum().backward()
    assert back.grad is not None and back.grad.tolist() == [2.0, 4.0] and leaf.grad is None
    for operation in (pickle.dumps, copy.deepcopy):
        with pytest.raises(RulegradError, match=r"requires_grad=True.*detach"):
            operation(leaf * 2)


def test_a_pickle_of_a_device_that_is_not_here(any_device: str) -> None:
    text = pickle.dumps(Tensor([1.0], device="numpy"), protocol=0).replace(b"numpy\n", b"opencl:77\n")
    restore, state = Tensor([1.0], device="numpy").__reduce__()
    assert text
    with pytest.raises(DeviceError, match="opencl:77"):
        restore(*state[:2], "opencl:77", False)


def test_a_deep_copy_shares_nothing(any_device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    both = copy.deepcopy({"a": x, "b": x})
    assert both["a"] is both["b"] and both["a"] is not x
    assert both["a"].grad is not x.grad and both["a"].grad.tolist() == [3.0, 3.0]
    x.assign(Tensor([5.0, 6.0]))
    assert both["a"].tolist() == [1.0, 2.0] and both["a"].requires_grad


def test_a_shallow_copy(any_device: str) -> None:
    x = Tensor([1.0, 2.0])
    assert copy.copy(x) is not x and copy.copy(x).tolist() == [1.0, 2.0]
    leaf = Tensor([1.0], requires_grad=True)
    other = copy.copy(leaf)
    (other * 2).backward()
    assert leaf.grad is None and other.grad is not None
    result = leaf * 4
    copy.copy(result).backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [4.0]


def test_formats(any_device: str) -> None:
    assert f"{Tensor(2.5):.3f} {Tensor(7):>4d} {Tensor(True)}" == "2.500    7 True"
    assert f"{Tensor([1])}" == repr(Tensor([1]))
    with pytest.raises(TypeError, match=r"'.2f' is for numbers.*\(2,\)"):
        format(Tensor([1.0, 2.0]), ".2f")


def test_in_round_and_divmod(any_device: str) -> None:
    x = Tensor([1.26, 2.5, -3.5])
    assert 2.5 in x and 7 not in x
    assert round(x).tolist() == [1.0, 2.0, -4.0]
    assert round(x, 1).numpy() == pytest.approx(np.round(x.numpy(), 1))
    quotient, rest = divmod(Tensor([7, -7]), 4)
    assert quotient.tolist() == [1, -2] and rest.tolist() == [3, 1]
    quotient, rest = divmod(7, Tensor([2, -2]))
    assert quotient.tolist() == [3, -4] and rest.tolist() == [1, -1]


def test_to_takes_devices_dtypes_and_tensors(any_device: str) -> None:
    x = Tensor([1, 2])
    assert x.to("numpy") is x and x.to() is x and x.cpu() is x
    assert x.to("float32").dtype == "float32" and x.to(np.float64).dtype == "float64"
    moved = x.to("opencl", "int8")
    assert (moved.device, moved.dtype, moved.tolist()) == ("opencl:0", "int8", [1, 2])
    assert moved.to(x).device == "numpy" and moved.to(x).dtype == "int64"
    assert x.to(device="opencl", dtype="bool").tolist() == [True, True]
    with pytest.raises(DeviceError, match="abacus"):
        x.to("abacus")
    with pytest.raises(DtypeError):
        x.to(dtype="int7")


def test_sizes_in_bytes(any_device: str) -> None:
    x = Tensor.zeros(3, 4, dtype="int16")
    assert (x.itemsize, x.nbytes) == (2, 24)
