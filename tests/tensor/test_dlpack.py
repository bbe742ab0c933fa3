"""DLPack in both directions, memory that is shared, and the hooks of the array API."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError
from rulegrad.runtime import devices

DTYPES = ("bool", "int8", "int64", "uint16", "float16", "float32", "float64")


def aligned(values: Any) -> Any:
    """The values where every device can read them."""
    memory = np.empty(values.nbytes + 256, np.uint8)
    begin = -memory.ctypes.data % 256
    array = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


@pytest.fixture
def host_device(device: str) -> str:
    """A device whose memory the host reads."""
    if devices.kind_of(device) == "gpu":
        pytest.skip(f"memory of {device} is not the host's")
    return device


# ---- lending ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_tensors(host_device: str, dtype: str):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    read = np.from_dlpack(Tensor(values))
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)


def test_memory_is_lent_without_a_copy(host_device: str):
    x = Tensor([1.0, 2.0]) * 2
    first, second = np.from_dlpack(x), np.from_dlpack(x, copy=False)
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    assert np.from_dlpack(x, copy=True).flags.writeable


def test_numpy_shares_memory_where_it_may_not_copy(host_device: str):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2
    shared = np.asarray(x, copy=False)
    assert np.shares_memory(shared, np.array(x, copy=False)) and not shared.flags.writeable
    assert np.asarray(x).flags.writeable and not np.shares_memory(np.asarray(x), shared)
    x += 1
    assert shared.tolist() == [[2.0, 4.0], [6.0, 8.0]] and x.tolist() == [[3.0, 5.0], [7.0, 9.0]]
    assert np.asarray(x[1], "float32", copy=False).tolist() == [7.0, 9.0]
    del x
    gc.collect()
    assert shared.sum() == 20.0
    with pytest.raises(ValueError, match="float32 cannot become float64 without a copy"):
        np.asarray(Tensor([1.0]), np.float64, copy=False)


def test_numpy_shares_no_memory_of_a_device_with_its_own(monkeypatch: pytest.MonkeyPatch):
    from rulegrad.runtime import devices

    x = Tensor([1.0], device="numpy")
    monkeypatch.setattr(devices.get("numpy"), "in_host_memory", False)
    with pytest.raises(ValueError, match="memory of numpy cannot be shared"):
        np.asarray(x, copy=False)


def test_lent_memory_outlives_the_tensor(host_device: str):
    read = np.from_dlpack(Tensor(np.arange(5, dtype=np.float32)) + 1)
    gc.collect()
    Tensor.realize(*[Tensor(np.full(5, k, np.float32)) * 3 for k in range(8)])
    assert read.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_tensors_without_elements_or_axes(host_device: str):
    assert np.from_dlpack(Tensor(np.zeros((0, 3)))).shape == (0, 3)
    assert np.from_dlpack(Tensor(2.5)).item() == 2.5
    assert Tensor.from_dlpack(np.zeros((2, 0))).shape == (2, 0)


def test_older_capsules_have_copies(host_device: str):
    x = Tensor([1, 2])

    class Older:
        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

        def __dlpack__(self, copy: bool | None = None, **arguments: Any) -> Any:
            return x.__dlpack__(copy=copy)

    assert np.from_dlpack(Older()).tolist() == [1, 2]
    x.realize()
    lent = np.from_dlpack(Older(), copy=False)
    assert lent.tolist() == [1, 2] and np.shares_memory(lent, np.from_dlpack(x))


def test_what_cannot_be_lent(device: str):
    with pytest.raises(BufferError, match="ask for dl_device=\\(1, 0\\)"):
        Tensor([1]).__dlpack__(dl_device=(2, 0))
    with pytest.raises(DeviceError, match="stream is 1"):
        Tensor([1]).__dlpack__(stream=1)


# ---- borrowing ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_read_numpy(host_device: str, dtype: str):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    x = Tensor.from_dlpack(values)
    assert (x.dtype, x.device) == (dtype, host_device)
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal(Tensor.from_dlpack(values.T).numpy(), values.T)


def test_memory_is_borrowed_without_a_copy(host_device: str):
    values = aligned(np.array([1.0, 2.0], np.float32))
    x, copied = Tensor.from_dlpack(values, copy=False), Tensor.from_dlpack(values, copy=True)
    values[0] = 5
    assert (x + 1).tolist() == [6.0, 3.0]
    assert copied.tolist() == [1.0, 2.0]


def test_read_only_memory_is_borrowed(host_device: str):
    values = aligned(np.array([1, 2]))
    values.flags.writeable = False
    assert (Tensor.from_dlpack(values, copy=False) * 2).tolist() == [2, 4]


def test_borrowed_memory_is_given_back(host_device: str):
    values = aligned(np.arange(4.0))
    x = Tensor.from_dlpack(values, copy=False)
    assert (x + 1).sum().item() == 10.0
    del x
    gc.collect()
    Tensor.realize(*[Tensor(np.full(4, k)) * 2.0 for k in range(4)])
    assert values.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_what_cannot_be_borrowed(device: str):
    with pytest.raises(BufferError, match="cannot use the memory of this array as it is"):
        Tensor.from_dlpack(np.zeros((2, 3)).T, copy=False)
    with pytest.raises(DtypeError, match="a list has no __dlpack__"):
        Tensor.from_dlpack([1, 2])


def test_from_dlpack_of_a_tensor(any_device: str):
    x = Tensor([1, 2])
    assert Tensor.from_dlpack(x) is x
    assert Tensor.from_dlpack(x, copy=True) is not x


def test_torch_reads_and_is_read(host_device: str):
    torch = pytest.importorskip("torch")
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.from_dlpack(x).tolist() == x.tolist()
    assert Tensor.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]


# ---- hooks ----


def test_to_device(any_device: str):
    x = Tensor([1, 2])
    assert x.to_device("numpy") is x
    assert x.to_device("opencl").device == "opencl:0"
    with pytest.raises(DeviceError, match="stream is 0"):
        x.to_device("numpy", stream=0)
