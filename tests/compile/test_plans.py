"""Plans and their programs: all launches of a plan at once, on the buffers of each call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad._core import Replay
from rulegrad.compile.realize import find_plan
from rulegrad.errors import GraphError, IndexRangeError
from rulegrad.runtime import devices


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def products(device: str, seed: int = 0) -> Tensor:
    """Several kernels, with values between them."""
    x, y = (Tensor(numbers(24, 24, seed=seed + k), device=device) for k in range(2))
    for _ in range(4):
        x = (x @ y).tanh()
    return x


@pytest.mark.parametrize("on", ["", "c"])
def test_a_program_and_single_launches_give_the_same(device: str, on: str) -> None:
    at_once = [products(on or device).numpy() for _ in range(3)][-1]
    with rg.profile() as record:
        one_by_one = products(on or device).numpy()
    assert len(record.kernels) > (3 if on == "c" else 0)
    np.testing.assert_array_equal(at_once, one_by_one)
    np.testing.assert_allclose(at_once, products("numpy").numpy(), rtol=1e-4, atol=1e-6)


def test_temporaries_are_places_in_one_arena() -> None:
    x, y = Tensor(numbers(24, 24), device="c"), Tensor(numbers(24, 24, seed=1), device="c")
    plan, buffers = find_plan([((x @ y) @ (y @ x) @ x).uop])
    prepared = plan.prepared()
    assert prepared.recorded is not None
    assert len(prepared.recorded.bound) == 1 and prepared.recorded.arena is not None
    inner = sum(block.nbytes for block in prepared.memory.blocks) - 24 * 24 * 4
    assert prepared.recorded.arena.nbytes == inner > 0
    before = devices.allocator("c").in_use
    (result,) = plan.launch(buffers, [])
    assert devices.allocator("c").in_use - before == result.nbytes
    a, b = x.numpy(), y.numpy()
    np.testing.assert_allclose(result.numpy(), (a @ b) @ (b @ a) @ a, rtol=1e-3, atol=1e-3)


def test_a_large_temporary_is_an_allocation_of_its_own() -> None:
    x = Tensor(numbers(640, 512), device="c")
    plan, _ = find_plan([((x @ x.T) @ x).sum().uop])
    recorded = plan.prepared().recorded
    assert recorded is not None and len(recorded.bound) > 1


@pytest.mark.parametrize("on", ["", "c"])
def test_a_plan_runs_on_other_buffers(device: str, on: str) -> None:
    x, y = (Tensor(numbers(5, 7, seed=seed), device=on or device) for seed in range(2))
    plan, (first, second) = find_plan([(x - y).uop])
    (result,) = plan.launch([second, first], [])
    np.testing.assert_array_equal(result.numpy(), y.numpy() - x.numpy())
    (again,) = plan.launch([first, second], [])
    np.testing.assert_array_equal(again.numpy(), x.numpy() - y.numpy())


def test_a_program_checks_indices() -> None:
    table = Tensor(numbers(10, 4), device="c")

    def row(index: int) -> Tensor:
        return (table[Tensor(np.array([index]), device="c")] @ table.T).softmax(1)

    assert row(3).shape == (1, 10) and np.isclose(row(4).sum().item(), 1)
    with pytest.raises(IndexRangeError, match="12 is out of range for axis 0 of size 10"):
        row(12).numpy()
    assert np.isclose(row(5).sum().item(), 1)


def test_threads_run_one_program_at_once() -> None:
    expected = products("c").numpy()
    found: list[Any] = []

    def work() -> None:
        found.extend(products("c").numpy() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_a_program_that_does_not_fit_its_buffers() -> None:
    with pytest.raises(GraphError, match="a launch on buffer 2 of a plan that has 2"):
        Replay([(0, (0, 2), ())], 1, [0], True)
    program = Replay([], 2, [64], True)
    assert len(program) == 0
    with pytest.raises(GraphError, match="a plan on 2 buffers was given 1"):
        program.run([0], 0)
    with pytest.raises(GraphError, match="was given none"):
        program.run([0, 0], None)
    with pytest.raises(TypeError):
        program.run([0, "x"], 0)  # type: ignore[list-item]
