"""Kernels with several stores that write over what others of their stores read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile.realize import find_plan
from rulegrad.runtime.buffer import Buffer

Change = Callable[[Any, Any, Any], tuple[Any, Any]]

# New values of x and y, from both and from an operand that stays.
CHANGES: dict[str, Change] = {
    "swapped": lambda x, y, _: (y + 0, x + 0),
    "moments": lambda x, y, a: (x * 0.9 + a * 0.1, y - x * 0.5),
    "each of both": lambda x, y, a: ((x * 0.9 + a) / (y + 2), (y * 0.5 + x) * (x - y)),
    "beside a product": lambda x, y, a: (x * 0.9 + (a @ a) * 0.1, y - (x * 0.9 + (a @ a) * 0.1) / (y + 2)),
    "beside a sum": lambda x, y, a: (x + a.sum(1).reshape(-1, 1), y * x - a.sum(1).reshape(-1, 1)),
    "in parts": lambda x, y, a: (x + y, (y.T + x.T).T * a),
    "of a row of its own": lambda x, y, a: (x * 2, y + x.sum(1).reshape(-1, 1)),
    "of another place": lambda x, y, a: (x * 2, y + x.T),
}


def both(device: str, size: int) -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(size)
    x, y, a = (Tensor(rng.uniform(-1, 1, (size, size)).astype(np.float32), device=device) for _ in range(3))
    return x, y, a


@pytest.mark.parametrize("size", [3, 16, 37])
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("on_c", [False, True], ids=["", "c"])
def test_stores_that_read_what_others_overwrite(device: str, name: str, size: int, on_c: bool) -> None:
    x, y, a = both("c" if on_c else device, size)
    expected = CHANGES[name](x.numpy(), y.numpy(), a.numpy())
    new = CHANGES[name](x, y, a)
    x.assign(new[0])
    y.assign(new[1])
    del new
    Tensor.realize(x, y)
    for found, wanted in zip((x, y), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["swapped", "moments", "beside a product", "in parts"])
def test_what_is_read_at_its_own_place_is_overwritten(name: str) -> None:
    x, y, a = both("c", 16)
    plan, _ = find_plan([value.uop for value in CHANGES[name](x, y, a)])
    assert len(plan.schedule.steps) == 1
    assert plan.memory(plan.takeable).nbytes == 0


@pytest.mark.parametrize("name", ["of another place", "of a row of its own"])
def test_what_another_iteration_reads_is_not_overwritten(name: str) -> None:
    x, y, a = both("c", 16)
    plan, buffers = find_plan([value.uop for value in CHANGES[name](x, y, a)])
    (read,) = (place for place, buffer in enumerate(buffers) if buffer is Buffer.of(x.uop))
    assert read not in {first for first, _ in plan.pairs}


def test_the_state_of_an_optimizer_stays_in_its_memory() -> None:
    """Adam's update: the new value of each state lies where the old one was, and nothing else is allocated."""
    rng = np.random.default_rng(0)
    w, m, v, g = (Tensor(rng.uniform(0.5, 1, (24, 16)).astype(np.float32), device="c") for _ in range(4))
    first, second = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    graphs = [(w - first / (second.sqrt() + 1e-8)).uop, first.uop, second.uop]
    plan, buffers = find_plan(graphs)
    inputs = [buffers.index(Buffer.of(state.uop)) for state in (w, m, v)]
    own = tuple(zip(plan.schedule.outputs, inputs, strict=True))
    memory = plan.memory(tuple(sorted(inputs)), own)
    assert memory.nbytes == 0
    count = plan.schedule.inputs
    assert [memory.blocks[memory.block_of[k - count]].taken for k in plan.schedule.outputs] == inputs
    expected = [Tensor(state.numpy(), device="numpy") for state in (w, m, v, g)]
    handles = [buffers[place].handle for place in inputs]
    found = plan.launch(buffers, graphs, tuple(sorted(inputs)), own)
    assert [one.handle for one in found] == handles
    w, m, v, g = expected
    first, second = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    for one, wanted in zip(found, (w - first / (second.sqrt() + 1e-8), first, second), strict=True):
        np.testing.assert_allclose(one.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_stores_beside_kernels_of_other_loops(device: str) -> None:
    """One launch computes several kernels, each in a part of its grid: there too an element's loads come before its stores."""
    x, y, a = (np.array(values, np.float32) for values in ([-2.5, 1, 4, 0.5, 7], [3, -1, 0, 2, 5], [9, 8, 7, 6, 5]))
    b, c = x > 0.6, np.zeros((5, 5), np.float32)
    on = {name: Tensor(array, device=device) for name, array in (("x", x), ("y", y), ("b", b), ("c", c))}
    found = [
        on["x"].maximum(on["y"]),
        Tensor(a, device=device).maximum(6),
        on["b"].where(Tensor(a, device=device), 0.0),
        Tensor(b, device=device).where(Tensor(a, device=device), on["x"]),
        on["x"].minimum(0.5),
        on["b"].unsqueeze(1).where(on["x"], on["y"]),
    ]
    wanted = [np.maximum(x, y), np.maximum(a, 6), np.where(b, a, 0), np.where(b, a, x), np.minimum(x, 0.5)]
    wanted.append(np.where(b[:, None], x, y))
    Tensor.realize(*found)
    for tensor, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), expected)
