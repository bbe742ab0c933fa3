"""Updates in place: what nobody else holds is overwritten, and whoever holds old values keeps them.

`test_views` has what views have to do with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import AliasError, DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.memory import peak_memory, reset_peak_memory


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
        lambda x: x[3:9].add_(1),
        lambda x: [view.mul_(2) for view in (x[::-3, 1::2].T, x.reshape(4096)[:70].flip(0))],
    ],
    ids=["assign", "add", "put", "mask", "reshape", "index_add", "sum", "part", "views"],
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
        lambda x: x.assign(x - x.amax(1, keepdim=True)),
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
    copy, graph, memory = x[3:5].clone(), x * 2, _memory(x)
    lent = np.from_dlpack(x)
    x += 1
    x.realize()
    assert _memory(x) is not memory
    np.testing.assert_array_equal(copy.numpy(), np.arange(192, 320, dtype=np.float32).reshape(2, 64))
    assert graph[0, 1].item() == 2.0
    del copy, graph
    again = _memory(x)
    x += 1
    x.realize()
    assert _memory(x) is again
    assert lent[0, 1] == 1.0


def test_borrowed_memory_is_never_written(any_device: str) -> None:
    array = np.arange(4096, dtype=np.float32)
    x = Tensor.from_dlpack(array)
    for part in (x, x[3:5], x.reshape(64, 64).T, x.detach()):
        with pytest.raises(AliasError, match=r"belongs to an array of another library.*\.clone\(\)"):
            part *= 2
    doubled = x.clone()
    doubled *= 2
    doubled.realize()
    assert array[3] == 3.0
    assert doubled[3].item() == 6.0


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
    scalar = Tensor(3)
    same = [
        x.pad(0), x.cast("uint32"), abs(x), +x, x.floor(), x.conj(), x.roll(0, 1), x.dropout(0.0), x.clip(), x.tile(),
        x.repeat(1, 1), x.repeat_interleave(1, 0), x.clone(), x.masked_scatter(x > 9, x),
        x.index_put((slice(0),), 1), x.astype("uint32"), x.max(()),
    ]  # fmt: skip
    values = scalar.sort(0).values
    values += 1
    assert scalar.item() == 3
    for tensor in same:
        tensor += 1
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert all(tensor.tolist() == [[1, 2, 3], [4, 5, 6]] for tensor in same)
