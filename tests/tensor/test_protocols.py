"""Python's protocols on tensors: memory, pickle, copy, format, `in`, and moving with `to`."""

from __future__ import annotations

import array
import copy
import pickle
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError, RulegradError
from rulegrad.ir.dtype import ALL, as_dtype


def test_an_array_of_a_tensor_can_be_written_and_is_a_copy(device: str) -> None:
    x = Tensor([[1, 2, 3], [4, 5, 6]], dtype="int32") + 1
    values = np.asarray(x)
    assert values.dtype == np.int32 and values.flags.writeable and values.flags.c_contiguous
    values += 1
    assert x.tolist() == [[2, 3, 4], [5, 6, 7]] and values.tolist() == [[3, 4, 5], [6, 7, 8]]
    assert bytes(x) == x.tobytes() == np.arange(2, 8, dtype=np.int32).tobytes()
    assert array.array("i", bytes(x)).tolist() == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("dtype", ALL)
def test_arrays_have_the_dtype_and_the_shape(any_device: str, dtype: str) -> None:
    for values in (np.array([[0, 1, 1]]), np.array(1), np.zeros((0, 3))):
        x = Tensor(values.astype(as_dtype(dtype).numpy), device="numpy")
        found = np.asarray(x)
        assert found.dtype == as_dtype(dtype).numpy and found.shape == values.shape
        assert found.tolist() == x.numpy().tolist()
    assert np.asarray(Tensor([1.5], device="numpy"), dtype=np.int8).dtype == np.int8


def test_the_array_interface_is_for_pillow_and_for_dtypes_of_numpy(any_device: str) -> None:
    reader: dict[str, Any] = {"__name__": "PIL.Image"}
    exec("def read(x): return getattr(x, '__array_interface__', None)", reader)
    interface = reader["read"](Tensor([[1, 2]], dtype="int16"))
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((1, 2), "<i2", (4, 2))
    assert reader["read"](Tensor([1.0], dtype="bfloat16")) is None
    assert not hasattr(Tensor([1.0]), "__array_interface__")
    # A buffer would be taken for raw bytes by torch.asarray.
    with pytest.raises(TypeError, match="a bytes-like object is required"):
        memoryview(Tensor([1.0]))  # type: ignore[arg-type]


def test_an_array_is_a_copy_unless_copies_are_forbidden(any_device: str) -> None:
    x = Tensor([1.0, 2.0])
    assert x.__array__("float64").dtype == np.float64
    for ask in (x.__array__, lambda copy: np.asarray(x, copy=copy), lambda copy: np.array(x, copy=copy)):
        lent = ask(copy=False)
        assert lent.tolist() == [1.0, 2.0] and not lent.flags.writeable
    for wanted in (None, True):
        values = np.array(x, copy=wanted)
        values[0] = 5
        assert x.tolist() == [1.0, 2.0]


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
