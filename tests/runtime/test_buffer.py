"""Buffers and the allocator that reuses their memory."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from rulegrad.errors import DeviceError, DtypeError, OutOfMemoryError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL
from rulegrad.runtime import devices
from rulegrad.runtime.allocator import Allocator
from rulegrad.runtime.buffer import Buffer


@pytest.mark.parametrize("dtype", ALL)
def test_there_and_back(dtype: str, device: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(Buffer((1,), dtype, device).dtype.numpy)
    buffer = Buffer((2, 3), dtype, device)
    assert not buffer.is_allocated and buffer.nbytes == array.nbytes
    buffer.copy_in(array)
    result = buffer.numpy()
    assert buffer.is_allocated and result.dtype == array.dtype and result.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_shapes_without_axes_or_elements(shape: tuple[int, ...], device: str) -> None:
    buffer = Buffer(shape, "float32", device)
    array = np.ones(shape, np.float32)
    buffer.copy_in(array)
    np.testing.assert_array_equal(buffer.numpy(), array)
    assert buffer.handle is not None


def test_an_array_that_is_not_contiguous(device: str) -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T[::2]
    buffer = Buffer(array.shape, "int32", device)
    buffer.copy_in(array)
    np.testing.assert_array_equal(buffer.numpy(), array)


def test_the_array_may_change_after_copy_in(device: str) -> None:
    array = np.ones(1000, np.float32)
    buffer = Buffer((1000,), "float32", device)
    buffer.copy_in(array)
    array[:] = 2
    assert buffer.numpy().sum() == 1000


def test_the_node() -> None:
    buffer = Buffer((2, 3), "float32", "numpy:0")
    assert buffer.uop.op == "BUFFER" and buffer.uop.dtype == "float32" and buffer.uop.shape == (2, 3)
    assert buffer.uop.attrs["device"] == "numpy" and buffer.uop.attrs["id"] == buffer.id
    assert buffer.uop == buffer.uop and Buffer.of(buffer.uop) is buffer
    assert Buffer((2, 3), "float32", "numpy").uop != buffer.uop


def test_a_buffer_that_is_gone() -> None:
    uop = Buffer((2,), "float32", "numpy").uop
    gc.collect()
    with pytest.raises(DeviceError, match="nothing holds it any more"):
        Buffer.of(uop)
    with pytest.raises(DeviceError, match="nothing holds it"):
        Buffer.of(UOp("BUFFER", (), "float32", id=10**9, shape=(2,), device="numpy"))


def test_what_a_buffer_refuses() -> None:
    buffer = Buffer((2,), "float32", "numpy")
    with pytest.raises(DeviceError, match="has no contents yet"):
        buffer.numpy()
    with pytest.raises(ShapeError, match=r"an array of shape \(3,\) does not fit a buffer of shape \(2,\)"):
        buffer.copy_in(np.zeros(3, np.float32))
    with pytest.raises(DtypeError, match="an array of float64 was given to a buffer of float32"):
        buffer.copy_in(np.zeros(2))
    with pytest.raises(DtypeError, match="index cannot be stored"):
        Buffer((2,), "index", "numpy")
    with pytest.raises(ShapeError, match="no negative sizes"):
        Buffer((2, -1), "float32", "numpy")
    with pytest.raises(DeviceError, match="there is no device 'gpuu'"):
        Buffer((2,), "float32", "gpuu")


def test_memory_is_reused(device: str) -> None:
    allocator = devices.allocator(device)
    gc.collect()  # what other tests left
    before = allocator.in_use
    first = Buffer((1237,), "float32", device)
    first.copy_in(np.zeros(1237, np.float32))
    handle = first.handle
    assert allocator.in_use > before
    del first
    gc.collect()
    assert allocator.in_use == before
    assert Buffer((1237,), "float32", device).handle is handle


class FakeDevice:
    """Counts blocks; holds at most `memory` bytes."""

    name = "fake"

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.blocks: dict[int, int] = {}

    def allocate(self, nbytes: int) -> Any:
        if sum(self.blocks.values()) + nbytes > self.memory:
            raise OutOfMemoryError(f"cannot allocate {nbytes} bytes")
        handle = object()
        self.blocks[id(handle)] = nbytes
        return handle

    def free(self, handle: Any) -> None:
        del self.blocks[id(handle)]


def make_allocator(memory: int) -> tuple[Allocator, FakeDevice]:
    device = FakeDevice(memory)
    return Allocator(device), device


def test_sizes_that_are_nearly_equal_share_blocks() -> None:
    allocator, device = make_allocator(1 << 20)
    block = allocator.allocate(100)
    allocator.free(block, 100)
    assert allocator.allocate(0) is block and list(device.blocks.values()) == [128]
    assert allocator.in_use == 128 and allocator.waiting == 0


def test_waiting_blocks_are_given_back_when_memory_is_short() -> None:
    allocator, device = make_allocator(1024)
    allocator.most_kept = 1 << 20
    for block in [allocator.allocate(256) for _ in range(3)]:
        allocator.free(block, 256)
    assert allocator.waiting == 768
    allocator.allocate(1024)
    assert allocator.waiting == 0 and list(device.blocks.values()) == [1024]
    with pytest.raises(OutOfMemoryError, match=r"out of memory: .*1,024 are in use"):
        allocator.allocate(100)


def test_a_quarter_of_the_memory_is_kept() -> None:
    allocator, device = make_allocator(4096)
    blocks = [(allocator.allocate(size), size) for size in (512, 256, 256, 1024)]
    for block, size in blocks:
        allocator.free(block, size)
    assert allocator.waiting == 1024 and sorted(device.blocks.values()) == [1024]
    allocator.trim()
    assert not device.blocks


def test_threads() -> None:
    def work() -> None:
        for k in range(300):
            buffer = Buffer((k % 7 + 1,), "int64", "numpy")
            buffer.copy_in(np.full(k % 7 + 1, k))
            assert (buffer.numpy() == k).all()

    before = devices.allocator("numpy").in_use
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert devices.allocator("numpy").in_use == before


def test_the_table_of_an_out_of_memory_error_has_the_live_buffers_with_their_lines() -> None:
    kept = Buffer((300, 1000), "float32", "numpy")
    _ = kept.handle
    with pytest.raises(OutOfMemoryError) as found:
        _ = Buffer((1 << 60,), "int8", "numpy").handle
    assert isinstance(found.value, MemoryError)
    table = str(found.value).splitlines()[1:]
    assert table[0].split()[:2] == ["requested", f"{1 << 60:,}"] and "int8" in table[0]
    assert any("float32 300 × 1000" in row and "1,200,000 bytes" in row and "test_buffer.py:" in row for row in table)
