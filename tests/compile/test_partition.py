"""Graphs of very many nodes, as loops make them, that are computed in subgraphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, config
from rulegrad._core import signature
from rulegrad.compile import partition, plans, realize
from rulegrad.errors import GraphError
from rulegrad.ir import UOp
from rulegrad.runtime.eager import eager

STEPS = 300


def numbers(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def states(x: Tensor, steps: int = STEPS) -> list[Tensor]:
    state, found = Tensor.zeros(x.shape[0]), []
    for step in range(steps):
        state = 0.9 * state + x[:, step]
        found.append(state)
    return found


def expected(x: Any) -> Any:
    state, found = np.zeros(len(x), np.float32), []
    for step in range(x.shape[1]):
        state = np.float32(0.9) * state + x[:, step]
        found.append(state)
    return np.stack(found, 1)


def updated(x: Tensor, steps: int = STEPS) -> Tensor:
    found = Tensor.zeros(x.shape[0], steps + 1)
    for step in range(steps):
        found[:, step + 1] = 0.9 * found[:, step] + x[:, step]
    return found[:, 1:]


def subgraphs(*uops: UOp, most: int = 400) -> list[partition.Subgraph]:
    with config(longest_graph=most):
        key, _ = signature(uops)
        return partition.partition(uops, key)[1] if partition.is_long(key) else []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of kernels of the plans that are made."""
    found: list[int] = []
    make = plans.make_plan

    def counted(schedule: Any, *rest: Any) -> Any:
        found.append(len(schedule.steps))
        return make(schedule, *rest)

    monkeypatch.setattr(realize, "make_plan", counted)
    yield found


@pytest.mark.parametrize("device", ["c", "numpy"])
def test_loops_give_the_same_in_subgraphs(device: str) -> None:
    x = numbers(3, STEPS)
    with config(longest_graph=400, device=device):
        given = Tensor(x)
        np.testing.assert_allclose(states(given)[-1].numpy(), expected(x)[:, -1], rtol=1e-5)
        np.testing.assert_allclose(rg.stack(states(given), 1).numpy(), expected(x), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(updated(given).numpy(), expected(x), rtol=2e-5, atol=1e-6)


def test_a_longer_loop_needs_no_more_plans(made: list[int]) -> None:
    counts = []
    with config(longest_graph=400, device="c", general_plans=1):
        for steps in (450, 1800):
            made.clear()
            x = numbers(5, steps)
            np.testing.assert_allclose(states(Tensor(x), steps)[-1].numpy(), expected(x)[:, -1], rtol=1e-5)
            counts.append(len(made))
    # the first step, the next ones, and what is left; all others have the general plan
    assert counts[1] <= counts[0] <= 3


def test_known_subgraphs_are_computed_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(7, STEPS)
    by_python: list[UOp] = []
    substituted = partition.substituted

    def counted(root: UOp, nodes: Any) -> UOp:
        by_python.append(root)
        return substituted(root, nodes)

    monkeypatch.setattr(partition, "substituted", counted)
    counts = []
    with config(longest_graph=400, device="c"):
        for _ in range(2):
            by_python.clear()
            found = rg.stack(states(Tensor(x)), 1)
            np.testing.assert_allclose(found.numpy(), expected(x), rtol=2e-5, atol=1e-6)
            counts.append(len(by_python))
    assert counts[0] > 3
    # the first reads nothing, so its device is not known by what it reads
    assert counts[1] <= 1


def test_each_node_of_a_subgraph_has_a_buffer_in_its_place() -> None:
    x = Tensor([1.0, 2.0]).realize() + 1.5
    with pytest.raises(GraphError, match="each node has one buffer"):
        eager.compute([(x * 2).uop], [x.uop], [])
    with pytest.raises(GraphError, match="in the place of a node is a buffer"):
        eager.compute([(x * 2).uop], [x.uop], [x.uop])


def test_what_goes_from_step_to_step_is_all_that_is_stored() -> None:
    x = Tensor(numbers(3, STEPS))
    found = subgraphs(states(x)[-1].uop)
    assert len(found) >= 3
    assert {len(outputs) for _, outputs, _ in found} == {1}
    assert [reads for reads, _, _ in found[1:]] == [outputs for _, outputs, _ in found[:-1]]
    assert [unread for _, _, unread in found[1:]] == [outputs for _, outputs, _ in found[:-1]]


def test_values_that_are_asked_for_are_results_of_their_subgraphs() -> None:
    x = numbers(3, STEPS)
    with config(longest_graph=400):
        found = states(Tensor(x))
        early, late, again = found[10], found[-1], found[10] * 1.0
        early.realize(late, again)
    np.testing.assert_allclose(early.numpy(), expected(x)[:, 10], rtol=1e-5)
    np.testing.assert_allclose(again.numpy(), expected(x)[:, 10], rtol=1e-5)
    np.testing.assert_allclose(late.numpy(), expected(x)[:, -1], rtol=1e-5)


def test_gradients_of_loops_in_subgraphs() -> None:
    x, w = numbers(2, 4, 120) * 0.5, numbers(4, 4) * 0.3

    def gradients(most: int) -> list[Any]:
        with config(longest_graph=most, device="numpy"):
            weight, given = Tensor(w, requires_grad=True), Tensor(x, requires_grad=True)
            state = Tensor.zeros(2, 4)
            total = Tensor(0.0)
            for step in range(x.shape[2]):
                state = rg.tanh(state @ weight + given[:, :, step])
                total = total + (state * state).sum()
            total.backward()
            assert weight.grad is not None and given.grad is not None
            return [total.numpy(), weight.grad.numpy(), given.grad.numpy()]

    for one, other in zip(gradients(0), gradients(400), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_random_numbers_are_the_same_in_subgraphs() -> None:
    def walk(most: int) -> Any:
        with config(longest_graph=most, device="numpy"):
            rg.manual_seed(3)
            place = Tensor.zeros(4)
            for _ in range(60):
                place = place * 0.5 + rg.randn(4)
            return place.numpy()

    np.testing.assert_allclose(walk(0), walk(400), rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_loops_of_random_steps(seed: int) -> None:
    """A step is a few random operations on two states, of sizes that grow in some loops, with a step left out at times."""
    rng = np.random.default_rng(seed)
    operations = [
        lambda a, b: a + b,
        lambda a, b: a * 0.5 - b,
        lambda a, b: rg.tanh(a) + b.mean(),
        rg.maximum,
        lambda a, b: a.flip(0) - b,
    ]
    body = [operations[k] for k in rng.integers(len(operations), size=3)]
    left_out, grows = int(rng.integers(5, 30)), bool(seed % 2)
    x = numbers(6, 90)

    def run(most: int) -> list[Any]:
        with config(longest_graph=most, device="numpy"):
            given, total = Tensor(x), Tensor(numbers(6))
            first, second = Tensor.ones(6), given[:, 0]
            kept = [second]
            for step in range(x.shape[1]):
                for operation in body if step % left_out else body[:1]:
                    first, second = second * 0.9, operation(first, second) * 0.7 + given[:, step] * 0.1
                total = total * 0.5 + second
                if grows:
                    kept.append(first)
            return [total.numpy(), rg.stack(kept).sum(0).numpy()]

    for one, other in zip(run(0), run(300), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_graphs_that_stay_whole() -> None:
    x = Tensor(numbers(3, STEPS))
    assert not subgraphs(states(x)[-1].uop, most=0)
    assert not subgraphs(states(x)[-1].uop, most=100_000)
    value = x
    for step in range(120):  # nothing recurs
        value = (
            value + x.sum(0, keepdim=True) * step if step * step % 7 % 3 else rg.exp(value[: 3 - step % 2] * 0.01)[:1]
        )
    assert not subgraphs(value.uop, most=200)
    with config(longest_graph=200):  # which is remembered
        assert not partition.is_long(signature([value.uop])[0])


def test_a_step_that_uses_up_much_memory_is_one_plan(monkeypatch: pytest.MonkeyPatch, made: list[int]) -> None:
    """The new parameters take the memory of the old ones, which subgraphs would not."""

    def plans_of_a_step() -> int:
        parameter, x = Tensor(numbers(16, 16) * 0.1).realize(), Tensor(numbers(2, 16)).realize()
        made.clear()
        with config(longest_graph=400, device="c"):
            value = x
            for _ in range(600):
                value = value * 0.9 + x
            parameter.assign(parameter - value.mean())
            del value
            parameter.realize()
        return len(made)

    assert plans_of_a_step() > 1
    monkeypatch.setattr(realize, "MOST_USED_UP", 100)
    assert plans_of_a_step() == 1


def test_what_is_to_be_computed_again_is_not_kept() -> None:
    layers = [Tensor(numbers(4, 4) * 0.1, requires_grad=True) for _ in range(200)]
    for recomputed in (False, True):
        value = Tensor(numbers(2, 4))
        for weight in layers:
            step = lambda x, w=weight: rg.tanh(x @ w) + x  # noqa: E731
            value = rg.utils.checkpoint.checkpoint(step, value) if recomputed else step(value)
        (gradient,) = rg.autograd.grad(value.sum(), [layers[0]])
        assert bool(subgraphs(gradient.uop, most=300)) != recomputed


@pytest.mark.parametrize("value", [-1, 1.5, "many", True])
def test_settings_that_are_no_number_of_nodes(value: Any) -> None:
    with pytest.raises(rg.errors.ConfigError, match="longest_graph"), config(longest_graph=value):
        pass
