"""Updates at places that other tensors name, and of slices: in the memory of what they change, where nobody else needs that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, profile

Change = Callable[[Any, Callable[[Any], Any]], None]
ROWS = 2048
WIDE = (ROWS, 96)
DEEP = (4, ROWS, 24)
#: What an update of a few rows of these may read and write: the whole is 768 KiB.
FEW = 16_000


def put(index: Callable[[Callable[[Any], Any]], Any], value: Any = 7.0) -> Change:
    def change(x: Any, on: Callable[[Any], Any]) -> None:
        x[index(on)] = value if isinstance(value, float) else on(value)

    return change


def rows(*shape: int) -> Any:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


def _added(x: Any, on: Callable[[Any], Any]) -> None:
    x[on([5, 9, 5])] += 1.0


def _two(x: Any, on: Callable[[Any], Any]) -> None:
    x[on([5, 9])] = 7.0
    x[on([9, 11])] = 8.0


def _of_both_kinds(x: Any, on: Callable[[Any], Any]) -> None:
    x[3:6] += 1.0
    x[on([5, 9])] = 7.0
    x[8:10, 4:8] = -1.0
    x[on([4, 4])] += 2.0


def _by_itself(x: Any, on: Callable[[Any], Any]) -> None:
    x[(abs(x[0, :3]) * 100).astype("int64") if isinstance(x, np.ndarray) else (abs(x[0, :3]) * 100).cast("int64")] = 7.0


def _part_of_a_view(x: Any, on: Callable[[Any], Any]) -> None:
    x[1][2:4][on([0, 1])] = 7.0


def _through_a_transpose(x: Any, on: Callable[[Any], Any]) -> None:
    x.T[:, on([1, 2])] = 7.0


def _through_a_flip(x: Any, on: Callable[[Any], Any]) -> None:
    x[::-1][on([1, 2])] = 7.0


CASES: dict[str, tuple[tuple[int, ...], Change, int]] = {
    "a number at rows": (WIDE, put(lambda on: on([5, 9])), 1),
    "rows": (WIDE, put(lambda on: on([5, -9]), rows(2, 96)), 1),
    "one row": (WIDE, put(lambda on: on([5]), rows(1, 96)), 1),
    "one row by a single number": (WIDE, put(lambda on: on(5), rows(96)), 1),
    "a row several times": (WIDE, put(lambda on: on([5, 5]), rows(2, 96)), 1),
    "another axis": (DEEP, put(lambda on: (slice(None), on([5, 9])), rows(4, 2, 24)), 1),
    "one place of another axis": (DEEP, put(lambda on: (slice(None), on([5])), rows(4, 1, 24)), 1),
    "the last axis": ((4, 24, ROWS), put(lambda on: (..., on([5, 9])), rows(4, 24, 2)), 1),
    "one of a batch": (DEEP, put(lambda on: (1, on([5, 9])), rows(2, 24)), 1),
    "some of a batch": (DEEP, put(lambda on: (slice(1, 3), on([5, 9])), rows(2, 2, 24)), 1),
    "two indices": (DEEP, put(lambda on: (on([0, 3]), on([5, 9])), rows(2, 24)), 1),
    "a list": (WIDE, put(lambda on: [5, 9]), 1),
    "a slice": (WIDE, put(lambda on: slice(5, 8), rows(3, 96)), 1),
    "a slice of another axis": (DEEP, put(lambda on: (slice(None), slice(5, 8)), rows(4, 3, 24)), 1),
    "a row by its number": (WIDE, put(lambda on: 5, rows(96)), 1),
    "a corner": (WIDE, put(lambda on: (slice(5, 8), slice(7, 20)), rows(3, 13)), 1),
    "added to rows": (WIDE, _added, 2),
    "two updates": (WIDE, _two, 2),
    "of both kinds": (WIDE, _of_both_kinds, 5),
    "indices from what is updated": (WIDE, _by_itself, 2),
    "a part of a view": (DEEP, _part_of_a_view, 1),
    "through a transpose": (WIDE, _through_a_transpose, 1),
    "through a flip": (WIDE, _through_a_flip, 1),
}


def updated(case: str, device: str) -> tuple[Tensor, Any]:
    """A tensor that was in memory before an update that waits, and what it is to be."""
    shape, change, _ = CASES[case]
    expected = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    x = Tensor(expected.copy(), device=device).realize()
    change(x, lambda values: Tensor(np.asarray(values), device=device))
    change(expected, np.asarray)
    return x, expected


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize("on_c", [False, True], ids=["", "c"])
@pytest.mark.parametrize("case", CASES)
def test_an_update_costs_what_it_writes(device: str, case: str, on_c: bool) -> None:
    x, expected = updated(case, "c" if on_c else device)
    with profile() as p:
        x.realize()
    np.testing.assert_array_equal(x.numpy(), expected)
    assert len(p.kernels) == CASES[case][2], [kernel.name for kernel in p.kernels]
    assert sum(kernel.nbytes for kernel in p.kernels) < FEW


@pytest.mark.parametrize("case", CASES)
def test_an_old_value_that_somebody_holds_stays(device: str, case: str) -> None:
    """A copy, a graph that was built before, and a graph that is computed together with the update."""
    shape, change, _ = CASES[case]
    start = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    expected = start.copy()
    change(expected, np.asarray)
    x = Tensor(start.copy(), device=device).realize()
    before, sums, held = x * 2, x.sum(-1), x.clone()
    change(x, lambda values: Tensor(np.asarray(values), device=device))
    Tensor.realize(x, sums)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_allclose(sums.numpy(), start.sum(-1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(before.numpy(), start * 2)
    np.testing.assert_array_equal(held.numpy(), start)


@pytest.mark.parametrize("first", [False, True], ids=["read first", "updated first"])
def test_what_is_read_together_with_the_update_needs_no_copy(device: str, first: bool) -> None:
    start = rows(*WIDE)
    x = Tensor(start.copy(), device=device).realize()
    total = x.sum()
    x[Tensor([5, 9], device=device)] = 7.0
    with profile() as p:
        Tensor.realize(*((x, total) if first else (total, x)))
    assert not any(kernel.nbytes > 1.5 * start.nbytes for kernel in p.kernels)
    np.testing.assert_allclose(total.numpy(), start.sum(), rtol=1e-3, atol=1e-3)
    start[[5, 9]] = 7.0
    np.testing.assert_array_equal(x.numpy(), start)


def test_views_follow_and_their_own_updates_are_in_place(device: str) -> None:
    start = rows(*WIDE)
    x = Tensor(start.copy(), device=device).realize()
    view = x[4:10]
    x[Tensor([5, 9], device=device)] = 7.0
    view[Tensor([0, 1], device=device)] = 8.0
    start[[5, 9]] = 7.0
    start[4:6] = 8.0
    with profile() as p:
        x.realize()
    assert sum(kernel.nbytes for kernel in p.kernels) < FEW
    np.testing.assert_array_equal(x.numpy(), start)
    np.testing.assert_array_equal(view.numpy(), start[4:10])


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize("size", [8, 64, ROWS])
@pytest.mark.parametrize(
    "name",
    ["index_add_", "index_copy_", "scatter_", "scatter_add_", "index_put_", "index_fill_", "scatter_reduce_", "put_"],
)
def test_functions_in_place(device: str, name: str, size: int) -> None:
    start, update = rows(size, 24), rows(2, 24)
    x = Tensor(start.copy(), device=device).realize()
    i, u = Tensor([3, 5], device=device), Tensor(update, device=device)
    wide, three = Tensor(np.full((2, 24), 3), device=device), start.copy()
    calls: dict[str, Callable[[], Any]] = {
        "index_add_": lambda: x.index_add_(0, i, u),
        "index_copy_": lambda: x.index_copy_(0, i, u),
        "scatter_": lambda: x.scatter_(0, wide, u),
        "scatter_add_": lambda: x.scatter_add_(0, wide, u),
        "index_put_": lambda: x.index_put_((i,), u),
        "index_fill_": lambda: x.index_fill_(0, i, 2.0),
        "scatter_reduce_": lambda: x.scatter_reduce_(0, wide, u, "amax"),
        "put_": lambda: x.put_(i, u[0, :2]),
    }
    if name == "index_add_":
        three[[3, 5]] += update
    elif name in ("index_copy_", "index_put_"):
        three[[3, 5]] = update
    elif name == "scatter_":
        three[3] = update[1]
    elif name == "scatter_add_":
        three[3] = three[3] + update[0] + update[1]
    elif name == "index_fill_":
        three[[3, 5]] = 2.0
    elif name == "scatter_reduce_":
        three[3] = np.maximum(three[3], update.max(0))
    else:
        three.reshape(-1)[[3, 5]] = update[0, :2]
    calls[name]()
    with profile() as p:
        x.realize()
    assert len(p.kernels) == 1 and p.kernels[0].nbytes < FEW
    np.testing.assert_allclose(x.numpy(), three, rtol=1e-6, atol=1e-6)


def test_a_gradient_flows_through_an_update(device: str) -> None:
    x = Tensor(rows(ROWS, 24), device=device, requires_grad=True)
    y = x * 2
    y.realize()
    y[Tensor([5, 9], device=device)] = 7.0
    y[3:5] = 1.0
    (y * y).sum().backward()
    expected = 8 * rows(ROWS, 24)
    expected[[3, 4, 5, 9]] = 0
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("on_c", [False, True], ids=["", "c"])
def test_a_cache_costs_what_is_written_in_each_step(device: str, on_c: bool) -> None:
    device = "c" if on_c else device
    cache = Tensor(np.zeros((4, ROWS, 24), np.float32), device=device).realize()

    @rg.jit
    def store(position: Tensor, new: Tensor) -> None:
        cache[:, position] = new

    expected = np.zeros((4, ROWS, 24), np.float32)
    for place in range(6):
        new = rows(4, 2, 24) + place
        position, values = Tensor([place, place + 9], device=device), Tensor(new, device=device)
        Tensor.realize(position, values)
        with profile() as p:
            store(position, values)
        expected[:, [place, place + 9]] = new
        if place > 0:
            assert len(p.kernels) == 1 and p.kernels[0].nbytes < FEW
        np.testing.assert_array_equal(cache.numpy(), expected)
    held = cache.clone()
    store(Tensor([1, 2], device=device), Tensor(new, device=device))
    np.testing.assert_array_equal(held.numpy(), expected)


def test_a_single_place_of_what_is_computed_further_is_no_kernel_of_its_own(device: str) -> None:
    x = Tensor(rows(*WIDE), device=device).realize()
    y = x.index_fill(0, Tensor([5], device=device), 3.0) * 2
    with profile() as p:
        y.realize()
    assert len(p.kernels) == 1


def test_an_update_of_what_is_computed_needs_no_copy(device: str) -> None:
    y = Tensor(rows(*WIDE), device=device).realize() * 2
    y[Tensor([5, 9], device=device)] = 7.0
    with profile() as p:
        y.realize()
    assert len(p.kernels) == 2


def test_a_gradient_that_is_added_to_another_is_one_kernel(device: str) -> None:
    weights, update = rows(ROWS, 24), rows(3, 24)
    x, i = Tensor(weights, device=device, requires_grad=True), Tensor([5, 9, 5], device=device)
    expected = np.zeros_like(weights)
    for _ in range(3):
        x[i].backward(Tensor(update, device=device))
        np.add.at(expected, [5, 9, 5], update)
        assert x.grad is not None
        with profile() as p:
            x.grad.realize()
    assert len(p.kernels) == 1 and p.kernels[0].nbytes < FEW
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_two_gathers_have_one_sum(device: str) -> None:
    x = Tensor(rows(64, 24), device=device, requires_grad=True)
    (x[Tensor([1, 2, 1], device=device)].sum() + (x[Tensor([2, 3], device=device)] * 2).sum()).backward()
    expected = np.zeros((64, 24), np.float32)
    expected[[1, 2, 3]] = np.array([2, 3, 2], np.float32)[:, None]
    assert x.grad is not None
    with profile() as p:
        x.grad.realize()
    assert len(p.kernels) == 3  # zeros, and updates for each
    np.testing.assert_array_equal(x.grad.numpy(), expected)
