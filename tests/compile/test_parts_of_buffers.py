"""Kernels that need other parts of the same buffers are one kernel, which each launch gives places in its buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine, nn
from rulegrad.compile import compile_graph
from rulegrad.distributed import Mesh, shard
from rulegrad.errors import GraphError
from rulegrad.runtime.device import Replay
from rulegrad.tensor.realize import realize_all


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def recurrent(x: Tensor, w: Tensor, steps: int) -> list[Tensor]:
    """The states of a network whose steps read one slice of x each."""
    state, states = rg.zeros(x.shape[0], w.shape[1], device=x.device), []
    for t in range(steps):
        state = (x[:, t] @ w + state).tanh()
        states.append(state)
    return states


PROGRAMS: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "rows": lambda x: [x[t] * 2 + t % 2 for t in range(len(x))],
    "columns": lambda x: [x[:, t].exp().sum() for t in range(x.shape[1])],
    "neighbours": lambda x: [x[t] - 2 * x[t + 1] for t in range(len(x) - 1)],
    "neighbours apart": lambda x: [x[t, :3] * x[t + 1, 2:5] for t in range(len(x) - 1)],
    "the other way round": lambda x: [x[t].flip(0) / (1 + x[t] ** 2) for t in range(len(x))],
    "every second one": lambda x: [x[t::2].cos() for t in (1, 3, 5)],
    "a part and the whole": lambda x: [x[t] + x.sum(0) for t in range(len(x))],
    "halves": lambda x: [part.bfloat16() * 3 for part in x.chunk(3)],
    "bytes": lambda x: [(x > 0)[:, t] & (x < 1)[:, -1 - t] for t in range(x.shape[1])],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    values = numbers(9, 7)
    found = PROGRAMS[name](Tensor(values, device="c"))
    realize_all(found)
    for one, other in zip(found, PROGRAMS[name](Tensor(values, device="numpy")), strict=True):
        np.testing.assert_allclose(one.float().numpy(), other.float().numpy(), rtol=1e-5, atol=1e-6)


def distinct(results: list[Tensor], target: str) -> tuple[int, int]:
    """How many kernels compute the results, and how many of them are different."""
    kernels = compile_graph([one.uop for one in results], target)
    return len(kernels), len({kernel.source for kernel in kernels})


def test_steps_of_a_loop_are_one_kernel() -> None:
    x, w = Tensor(numbers(16, 12, 32), device="numpy"), Tensor(numbers(32, 64), device="numpy")
    states = recurrent(x, w, 12)
    count, different = distinct([states[-1]], "c")
    assert count >= 12
    assert different <= 3


def spiking(x: Tensor, weights: list[Tensor], steps: int) -> Tensor:
    """A state that goes from step to step is read by products of each step too."""
    charge, outputs = rg.zeros(x.shape[0], weights[0].shape[1], device=x.device), []
    for t in range(steps):
        charge = 0.9 * charge + x[:, t] @ weights[0] - (charge > 1).float()
        outputs.append((charge > 1).float() @ weights[1])
    return rg.stack(outputs)


def test_kernels_of_a_state_end_where_their_buffers_end() -> None:
    """Each state was computed anew in the kernel of each step, from all steps before."""
    weights = [Tensor(numbers(32, 64), device="numpy"), Tensor(numbers(64, 10), device="numpy")]
    counts = [
        distinct([spiking(Tensor(numbers(16, steps, 32), device="numpy"), weights, steps)], "c") for steps in (24, 72)
    ]
    assert counts[1][0] <= 3.2 * counts[0][0]
    assert counts[1][1] <= counts[0][1] + 6


@pytest.mark.parametrize("target", ["c", "metal"])
def test_kernels_of_many_steps_take_as_many_buffers_as_the_target_allows(target: str) -> None:
    """A value that several kernels need is stored after sums have been looked at, which read it then."""
    x, w = Tensor(numbers(16, 80, 8), device="numpy"), Tensor(numbers(8, 16), device="numpy", requires_grad=True)
    bias = Tensor(numbers(16), device="numpy", requires_grad=True)
    rg.stack([state + bias for state in recurrent(x, w, 80)]).tanh().sum().backward()
    assert w.grad is not None and bias.grad is not None
    kernels = compile_graph([w.grad.uop, bias.grad.uop], target)
    assert max(kernel.slots for kernel in kernels) <= engine.target(target).limits["arguments"]


def test_whole_buffers_have_no_offsets() -> None:
    x = Tensor(numbers(9, 7), device="numpy")
    (kernel,) = compile_graph([(x[2] + x.sum(0)).uop], "c")
    assert kernel.offsets == ()
    (kernel,) = compile_graph([(x[2] * 2).uop], "c")
    assert sorted(kernel.offsets) == [0, 2 * 7 * 4]


def test_gradients_and_capture() -> None:
    values, weights = numbers(4, 10, 6), numbers(6, 8)

    def loss(x: Tensor, w: Tensor) -> Tensor:
        return sum((state**2).sum() for state in recurrent(x, w, 10))  # type: ignore[return-value]

    found = []
    for device in ("c", "numpy"):
        x, w = Tensor(values, device=device, requires_grad=True), Tensor(weights, device=device, requires_grad=True)
        loss(x, w).backward()
        assert x.grad is not None and w.grad is not None
        found.append((x.grad.numpy(), w.grad.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-4)
    captured = rg.jit(loss)
    x, w = Tensor(values, device="c"), Tensor(weights, device="c")
    for factor in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(captured(x * factor, w).item(), loss(x * factor, w).item(), rtol=1e-5)


def test_state_of_which_a_part_is_written() -> None:
    """A part that is read and one that is written of the same buffer."""
    values = numbers(6, 8)
    x = Tensor(values, device="c").contiguous().realize()
    for t in range(1, 6):
        x[t] = x[t] + 2 * x[t - 1]
        x.realize()
        values[t] += 2 * values[t - 1]
    np.testing.assert_allclose(x.numpy(), values, rtol=1e-6)


def test_values_of_each_kind_of_launch() -> None:
    """One by one for a profile, and on several devices of one process."""
    values = numbers(6, 8)
    expected = [np.tanh(row) for row in values]
    with rg.profile():
        rows = [row.tanh() for row in Tensor(values, device="c").unbind()]
        realize_all(rows)
    np.testing.assert_allclose([row.numpy() for row in rows], expected, rtol=1e-6)
    mesh = Mesh({"data": 2}, device="c*2")
    spread = shard(values, mesh, data=1)
    np.testing.assert_allclose([row.tanh().numpy() for row in spread.unbind()], expected, rtol=1e-6)


def test_embedding_lookups_in_a_captured_loop_check_indices() -> None:
    """The flags of an index check come after the buffers that have offsets."""
    table = Tensor(numbers(5, 4), device="c")
    indices = Tensor(np.array([[0, 4, 2], [1, 1, 3]]), device="c")
    found = [(table[indices[:, t]] * 2).numpy() for t in range(3)]
    np.testing.assert_allclose(np.stack(found, 1), 2 * table.numpy()[indices.numpy()])
    embedding = nn.Embedding(5, 4)
    with pytest.raises(IndexError):
        embedding(Tensor(np.array([[0, 9]]))[:, 1] + 0).numpy()


@pytest.mark.parametrize("settings", [{"check": 2}, {"debug": 2}])
def test_passes_that_are_looked_at(settings: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Where single passes are compared or traced, kernels are on whole buffers."""
    x = Tensor(numbers(4, 6), device="c")
    with rg.config(**settings):
        found = [(x[t] * 3 - t).numpy() for t in (1, 3)]
    np.testing.assert_allclose(found, [numbers(4, 6)[t] * 3 - t for t in (1, 3)], rtol=1e-6)
    capfd.readouterr()


def test_offsets_are_those_of_the_buffers() -> None:
    with pytest.raises(GraphError, match="a launch on places in 1 buffers was given 2"):
        Replay([(1, [0, 1], [4])], 2, [], False)
