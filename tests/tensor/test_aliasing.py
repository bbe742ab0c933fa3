"""Assignments and views: tensors are values, whatever memory they share.

Programs are generated and compared with NumPy, where every view is a copy. What nobody else holds is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.memory import peak_memory, reset_peak_memory

SHAPE = (2, 3)


class Machine:
    """Names for tensors, and NumPy arrays that should have the same values."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.arrays: list[Any] = []
        for _ in range(3):
            self.new()

    def new(self) -> None:
        array = np.arange(6, dtype=np.int32).reshape(SHAPE) + 10 * len(self.arrays)
        self.keep(Tensor(array), array.copy())

    def keep(self, tensor: Any, array: Any) -> None:
        self.tensors.append(tensor)
        self.arrays.append(np.array(array))

    def both(self, number: int, change: Callable[[Any], None]) -> None:
        """The same change to a tensor and to an array."""
        change(self.tensors[number])
        change(self.arrays[number])


def _views(x: Any) -> list[Any]:
    return [x[:], x[::-1], x[:, ::-1], x.reshape(3, 2).T, x[[1, 0]], x + x[:, ::-1], x.reshape(6)[::-1].reshape(2, 3)]


@st.composite
def steps(draw: st.DrawFn) -> tuple[Any, ...]:
    """The kind of a step, and three numbers that say which tensors and how."""
    kinds = [
        "new",
        "view",
        "add",
        "add_",
        "put",
        "put_part",
        "assign",
        "index_add",
        "exchange",
        "realize",
        "drop",
        "read",
    ]
    return draw(st.sampled_from(kinds)), *(draw(st.integers(0, 6)) for _ in range(3))


def run(machine: Machine, kind: str, a: int, b: int, k: int) -> None:
    tensors, arrays = machine.tensors, machine.arrays
    a, b = a % len(tensors), b % len(tensors)
    if kind == "new":
        machine.new()
    elif kind == "view":
        machine.keep(_views(tensors[a])[k], _views(arrays[a])[k])
    elif kind == "add":
        machine.keep(tensors[a] + tensors[b], arrays[a] + arrays[b])
    elif kind == "add_":
        tensors[a] += _views(tensors[b])[k]
        arrays[a] = arrays[a] + _views(arrays[b])[k]
    elif kind == "put":
        tensors[a][:, 1:] = tensors[b][:, :2]
        arrays[a][:, 1:] = arrays[b][:, :2].copy()
    elif kind == "put_part":
        machine.both(a, lambda x: x.__setitem__((k % 2, slice(None, None, 2)), k))
    elif kind == "assign":
        tensors[a].assign(_views(tensors[b])[k])
        arrays[a] = np.array(_views(arrays[b])[k])
    elif kind == "index_add":
        places = np.array([0, k % 2, 1])
        values = np.arange(9, dtype=np.int32).reshape(3, 3)
        tensors[a].index_add_(0, Tensor(places), Tensor(values))
        np.add.at(arrays[a], places, values)
    elif kind == "exchange":
        before = tensors[a] + 0
        tensors[a].assign(tensors[b])
        tensors[b].assign(before)
        arrays[a], arrays[b] = arrays[b].copy(), arrays[a].copy()
    elif kind == "realize":
        Tensor.realize(tensors[a], tensors[b], *tensors[: k % 3])
    elif kind == "drop":
        if len(tensors) > 1:
            del tensors[a], arrays[a]
    else:
        np.testing.assert_array_equal(tensors[a].numpy(), arrays[a])


def check(program: list[tuple[Any, ...]], device: str) -> None:
    with config(device=device):
        machine = Machine()
        for step in program:
            run(machine, *step)
        Tensor.realize(*machine.tensors)
        for tensor, array in zip(machine.tensors, machine.arrays, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)


@given(st.lists(steps(), min_size=2, max_size=14))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_programs(program: list[tuple[Any, ...]]) -> None:
    check(program, "numpy")


@given(st.lists(steps(), min_size=4, max_size=8))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_programs_on_opencl(program: list[tuple[Any, ...]]) -> None:
    check(program, "opencl")


def _memory(tensor: Tensor) -> Any:
    return Buffer.of(tensor.uop).handle


def _large() -> Tensor:
    return Tensor(np.arange(4096, dtype=np.float32).reshape(64, 64))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.assign(x * 2 - 1),
        lambda x: x.__iadd__(1),
        lambda x: x.__setitem__((slice(3, 9), slice(None, None, 2)), 5.0),
        lambda x: x.masked_fill_(x > 7, 0),
        lambda x: x.assign((x.reshape(4096) + 1).reshape(64, 64)),
        lambda x: x.index_add_(0, Tensor([3, 5, 3]), Tensor.ones(3, 64)),
        lambda x: x.assign(x - x.sum()),
    ],
    ids=["assign", "add", "put", "mask", "reshape", "index_add", "sum"],
)
def test_an_update_needs_no_second_copy(device: str, change: Callable[[Any], Any]) -> None:
    x = _large()
    expected = _large()
    change(expected)
    values = (expected + 0).numpy()
    memory = _memory(x)
    reset_peak_memory(x.device)
    before = peak_memory(x.device)
    change(x)
    x.realize()
    assert _memory(x) is memory
    assert peak_memory(x.device) - before < x.nbytes
    np.testing.assert_array_equal(x.numpy(), values)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.assign(x[::-1] + 0),
        lambda x: x.assign(x.T + x),
        lambda x: x.assign(x - x.max(1, keepdim=True)),
        lambda x: x.assign(x.cumsum(0)),
        lambda x: x.assign(x @ x),
    ],
    ids=["flip", "transpose", "rows", "cumsum", "product"],
)
def test_what_other_iterations_read_is_not_overwritten(device: str, change: Callable[[Any], Any]) -> None:
    x = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4))
    y = x + 0
    expected = change(y.realize()).numpy()
    memory = _memory(x)
    change(x)
    x.realize()
    np.testing.assert_array_equal(x.numpy(), expected)
    del memory


def test_whoever_holds_the_old_values_keeps_them(any_device: str) -> None:
    x = _large()
    view, graph, memory = x[3:5], x * 2, _memory(x)
    lent = np.from_dlpack(x)
    x += 1
    x.realize()
    assert _memory(x) is not memory
    np.testing.assert_array_equal(view.numpy(), np.arange(192, 320, dtype=np.float32).reshape(2, 64))
    assert graph[0, 1].item() == 2.0
    del view, graph
    again = _memory(x)
    x += 1
    x.realize()
    assert _memory(x) is again
    assert lent[0, 1] == 1.0


def test_borrowed_memory_is_never_written(any_device: str) -> None:
    array = np.arange(4096, dtype=np.float32)
    x = Tensor.from_dlpack(array)
    x *= 2
    x.realize()
    assert array[3] == 3.0
    assert x[3].item() == 6.0


def test_reads_come_before_the_write(device: str) -> None:
    """Two results of one call: one is computed from the old values of the other's memory."""
    x = _large()
    memory = _memory(x)
    total = x.T.sum(0)
    x += 1
    Tensor.realize(x, total)
    np.testing.assert_array_equal(total.numpy(), np.arange(4096, dtype=np.float32).reshape(64, 64).T.sum(0))
    assert x[1, 1].item() == 66.0
    del memory


def test_a_failed_computation_leaves_the_values(any_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _large()
    x += 1
    with monkeypatch.context() as patch:
        patch.setattr(type(devices.get("numpy")), "compile", _failing)
        with pytest.raises(DeviceError, match="no compiler"):
            (x * 3).realize()
        with pytest.raises(DeviceError, match="no compiler"):
            x.assign(x * 3).realize()
    assert x[0, 1].item() == 6.0


def _failing(*_: object) -> None:
    raise DeviceError("no compiler today")


def test_a_running_mean_stays_where_it_is(any_device: str) -> None:
    mean = _large()
    memory = _memory(mean)
    for _ in range(3):
        mean.assign(mean * 0.5 + Tensor.ones(64, 64) * 0.5)
        mean.realize()
    assert _memory(mean) is memory
    assert mean[0, 0].item() == 0.875


def test_an_operation_that_changes_nothing_gives_another_tensor(any_device: str) -> None:
    x = Tensor(np.arange(6, dtype=np.uint32).reshape(2, 3))
    same = [
        x[:], x.reshape(2, 3), x.permute(0, 1), x.expand(2, 3), x.pad(0), x.flip(()), x.cast("uint32"), abs(x), +x,
        x.floor(), x.real, x.conj(), x.roll(0, 1), x.dropout(0.0), x.clip(), x.tile(), x.rot90(4),
    ]  # fmt: skip
    for tensor in same:
        tensor += 1
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert all(tensor.tolist() == [[1, 2, 3], [4, 5, 6]] for tensor in same)
