"""Loops of users' programs that put one slice after the other into a tensor: each slice is computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.compile import compile_graph

Step = Callable[[Tensor], Tensor]
Loop = Callable[[Tensor, Step], Tensor]


def stacked(x: Tensor, step: Step) -> Tensor:
    state, steps = x[0] * 0, []
    for t in range(len(x)):
        state = step((0.9 * state + 0.1 * x[t]).tanh())
        steps.append(state)
    return rg.stack(steps)


def stacked_along_the_last_axis(x: Tensor, step: Step) -> Tensor:
    state, steps = x[0], []
    for t in range(len(x)):
        state = step(state * x[t] - 1)
        steps.append(state)
    return rg.stack(steps, 1)


def hidden(x: Tensor, step: Step) -> Tensor:
    """The value that goes from step to step is not the one that is put together."""
    charge, steps = x[0] * 0, []
    for t in range(len(x)):
        charge = 0.9 * charge + x[t]
        steps.append(step((charge - 1).sigmoid()))
        charge = step(charge - steps[-1])
    return rg.stack(steps)


def put_in_place(x: Tensor, step: Step) -> Tensor:
    out = rg.zeros_like(x)
    out[0] = x[0]
    for t in range(1, len(x)):
        out[t] = step(0.9 * out[t - 1] + 0.1 * x[t])
    return out


def backwards(x: Tensor, step: Step) -> Tensor:
    """Generalized advantages, as programs for reinforcement learning compute them."""
    out, last = rg.zeros_like(x), x[0] * 0
    for t in reversed(range(len(x))):
        last = step(x[t] + 0.95 * (1 - x[t]) * last)
        out[t] = last
    return out


def columns(x: Tensor, step: Step) -> Tensor:
    x = x.T
    out, state = rg.zeros_like(x), x[:, 0] * 0
    for t in range(x.shape[1]):
        state = step(0.5 * state - x[:, t])
        out[:, t] = state
    return out


def some_rows(x: Tensor, step: Step) -> Tensor:
    """Other rows stay what they were."""
    out, state = x * 2, x[0]
    for t in range(1, len(x) - 1):
        state = step(state * x[t] + 1)
        out[t] = state
    return out


def pairs_of_rows(x: Tensor, step: Step) -> Tensor:
    state, steps = x[:2] * 0, []
    for t in range(len(x)):
        state = step((state + x[t]).cos())
        steps.append(state)
    return rg.cat(steps)


def window_means(x: Tensor, step: Step) -> Tensor:
    """All steps begin with a sum."""
    out, total = rg.zeros_like(x), x[:4].sum(0)
    for t in range(len(x)):
        if t >= 4:
            total = step(total + x[t] - x[t - 4])
        out[t] = x[t] - total / 4
    return out


LOOPS: list[Loop] = [stacked, stacked_along_the_last_axis, hidden, put_in_place, backwards, columns, some_rows,
                     pairs_of_rows, window_means]  # fmt: skip
loops = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)


def together(value: Tensor) -> Tensor:
    return value


def one_by_one(value: Tensor) -> Tensor:
    return value.realize()


def inputs(steps: int, device: str) -> Tensor:
    return Tensor(np.random.default_rng(0).standard_normal((steps, 3)).astype(np.float32), device=device).realize()


@loops
def test_values(loop: Loop, device: str) -> None:
    x = inputs(9, device)
    np.testing.assert_allclose(loop(x, together).numpy(), loop(x, one_by_one).numpy(), rtol=2e-5, atol=1e-6)


@loops
def test_gradients(loop: Loop, device: str) -> None:
    found, wanted = (inputs(9, device).requires_grad_(True) for _ in range(2))
    for x, step in ((found, together), (wanted, one_by_one)):
        (loop(x, step) ** 2).sum().backward()
    assert found.grad is not None and wanted.grad is not None
    np.testing.assert_allclose(found.grad.numpy(), wanted.grad.numpy(), rtol=2e-4, atol=1e-5)


@loops
def test_each_slice_is_computed_once(loop: Loop) -> None:
    """Text grows with the steps. As choices between slices, of which each needs those before it, it grew with their square."""
    few, many = (
        sum(len(kernel.source) for kernel in compile_graph([loop(inputs(steps, "c"), together).uop], "c"))
        for steps in (20, 40)
    )
    assert many < 2.5 * few


def test_slices_that_have_nothing_in_common_are_chosen() -> None:
    x = inputs(9, "c")
    (kernel,) = compile_graph([rg.stack([x[t].sin() for t in range(9)]).uop], "c")
    assert kernel.source.count("sin") < 9


def test_long_loops_are_several_kernels(device: str) -> None:
    """Each of them reads what the one before has put together."""
    x = inputs(300, device)
    wanted = np.zeros((300, 3), np.float32)
    last = np.zeros(3, np.float32)
    for t in reversed(range(300)):
        last = x.numpy()[t] + np.float32(0.5) * last
        wanted[t] = last

    def sums(x: Tensor) -> Tensor:
        out, last = rg.zeros_like(x), x[0] * 0
        for t in reversed(range(len(x))):
            last = x[t] + 0.5 * last
            out[t] = last
        return out

    np.testing.assert_allclose(sums(x).numpy(), wanted, rtol=1e-5)
    assert 1 < len(compile_graph([sums(inputs(300, "c")).uop], "c")) < 6


def test_values_that_are_used_twice_again_and_again(device: str) -> None:
    """The cost of computing them doubles in each step of a model that counts each use: numbers did not hold it."""
    x = Tensor(np.ones((4, 1), np.float32), device=device).realize()
    value = x
    for _ in range(70):
        value = value * 0.5 + value.tanh() * value * 0.25
    wanted = np.float64(1)
    for _ in range(70):
        wanted = wanted * 0.5 + np.tanh(wanted) * wanted * 0.25
    np.testing.assert_allclose(value.expand(4, 5000).sum(1).numpy(), np.full(4, 5000 * wanted), rtol=1e-3)


def test_states_that_are_taken_apart_and_put_together(device: str) -> None:
    """Each step saw the ones before it by more ways than the last: a kernel of six had 480,000 nodes."""

    def slope(state: Tensor) -> Tensor:
        x, y, z = state[..., 0], state[..., 1], state[..., 2]
        return rg.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    state = Tensor([[1.0, 1.0, 1.0], [1.0, 2.0, 1.5]], device=device).realize()
    exact = np.asarray(state.numpy(), np.float64)
    for _ in range(12):
        middle = state + 0.005 * slope(state)
        state = state + 0.01 * slope(middle)
        x, y, z = exact.T
        half = exact + 0.005 * np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)
        x, y, z = half.T
        exact = exact + 0.01 * np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)
    np.testing.assert_allclose(state.numpy(), exact, rtol=1e-4)


def test_rows_in_the_middle_are_put_there_at_once(device: str) -> None:
    x = inputs(40, device)

    def some(x: Tensor, step: Step) -> Tensor:
        out, state = x * 2, x[0]
        out = step(out)
        for t in range(10, 30):
            state = step((state * x[t] + 1).tanh())
            out[t] = state
        return out

    np.testing.assert_allclose(some(x, together).numpy(), some(x, one_by_one).numpy(), rtol=2e-5, atol=1e-6)
    kernels = compile_graph([some(inputs(40, "c"), together).uop], "c")
    assert sum(kernel.source.count("tanh") for kernel in kernels) <= 22


def test_many_values_of_equal_shapes_in_one_program() -> None:
    """Each of 200 losses was looked for among all of them, for each pair of them."""
    x = inputs(8, "numpy")
    weight, losses = Tensor(np.zeros(3, np.float32), device="numpy"), []
    for _ in range(200):
        difference = x @ weight - x.sum(1)
        losses.append((difference**2).mean())
        weight = weight - 0.1 * (difference @ x) / 8
    assert compile_graph([rg.stack(losses).uop, weight.uop], "c")
    found = rg.stack(losses).numpy()
    assert found[0] > found[-1] >= 0
    np.testing.assert_allclose(weight.numpy(), np.ones(3), atol=0.5)


@pytest.mark.parametrize(("target", "most"), [("c_avx512", 64), ("opencl", 64), ("metal", 31), ("webgpu", 16)])
def test_what_recurrent_layers_put_together_fits_into_kernels(target: str, most: int) -> None:
    """Each state is stored by the kernel of its step: those that put them together are given a part of them each."""
    layer = nn.LSTM(3, 4)
    with rg.no_grad():
        states, _ = layer(Tensor(np.zeros((100, 2, 3), np.float32)).realize())
    kernels = compile_graph([states.uop], target)
    assert max(kernel.buffers for kernel in kernels) <= most


def test_slices_that_several_kernels_put_together(device: str) -> None:
    layer = nn.LSTM(3, 4, device=device)
    x = Tensor(np.random.default_rng(0).standard_normal((70, 2, 3)).astype(np.float32), device=device)
    states, (last, _) = layer(x)
    one_by_one, state = [], None
    for t in range(70):
        out, state = layer(x[t : t + 1], state)
        one_by_one.append(out.numpy())
    np.testing.assert_allclose(states.numpy(), np.concatenate(one_by_one), atol=1e-5)
    np.testing.assert_allclose(last.numpy()[0], one_by_one[-1][0], atol=1e-5)


@pytest.mark.parametrize("join", [rg.stack, rg.cat])
def test_gradients_of_what_is_put_together_are_slices(join: Callable[[list[Tensor]], Tensor]) -> None:
    """Not choices in the whole gradient, one inside the other, which were as many as the slices."""
    parts = [Tensor(np.ones((1, 3), np.float32)).requires_grad_() for _ in range(50)]
    joined = join(parts)
    gradient = Tensor(np.arange(150, dtype=np.float32).reshape(joined.shape)).realize()
    joined.backward(gradient)
    for k, part in enumerate(parts):
        assert part.grad is not None
        assert {node.op for node in part.grad.uop.toposort()} <= {"BUFFER", "SHRINK", "RESHAPE", "DETACH"}
        assert part.grad.tolist() == [[3.0 * k, 3.0 * k + 1, 3.0 * k + 2]]


def test_gradients_of_slices_that_are_written_over() -> None:
    """What is put into a place twice has the gradient of the second time only."""
    first, second, base = (Tensor(np.full(n, 2.0, np.float32)).requires_grad_() for n in (3, 2, 6))
    out = base * 1
    out[1:4] = first
    out[2:4] = second
    (out * Tensor(np.arange(6, dtype=np.float32))).sum().backward()
    assert first.grad is not None and second.grad is not None and base.grad is not None
    assert (first.grad.tolist(), second.grad.tolist()) == ([1.0, 0.0, 0.0], [2.0, 3.0])
    assert base.grad.tolist() == [0.0, 0.0, 0.0, 0.0, 4.0, 5.0]


def test_gradients_of_what_is_hidden_are_zero() -> None:
    """Of a part that is written over as a whole, or twice."""
    first, rest = (Tensor(np.ones(n, np.float32)).requires_grad_() for n in (1, 3))
    joined = rg.cat([first, rest])
    joined[0:1] = 0
    joined.sum().backward()
    assert first.grad is not None and rest.grad is not None
    assert (first.grad.tolist(), rest.grad.tolist()) == ([0.0], [1.0, 1.0, 1.0])
    out = Tensor(np.zeros(6, np.float32))
    first.grad = rest.grad = None
    out[2:3] = first
    out[1:4] = rest
    (out * out).sum().backward()
    assert (first.grad.tolist(), rest.grad.tolist()) == ([0.0], [2.0, 2.0, 2.0])


def test_gradients_of_long_loops_of_assignments() -> None:
    """Each place is looked for in a few of the choices only."""
    x = Tensor(np.ones(2500, np.float32)).requires_grad_()
    out = x * 1
    for k in range(len(x)):
        out[k] = x[k] * 2
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == (2500,)


def uneven(x: list[Tensor]) -> list[Tensor]:
    return [sum(x[8 * k : 8 * k + 8], x[0]) if k < 5 else part for k, part in enumerate(x)]


@pytest.mark.parametrize("target", ["c", "metal", "webgpu"])
@pytest.mark.parametrize(
    "parts",
    [
        lambda x: [sum(x[max(0, k - 12) : k + 1], x[0]) for k in range(len(x))],
        uneven,
        lambda x: [(part * x[0]).abs() * x[0] for part in x],
        lambda x: [part[: 1 + k % 3] for k, part in enumerate(x)],
    ],
    ids=["windows", "uneven", "shared", "extents"],
)
def test_parts_of_any_kind_fit_into_kernels(parts: Callable[[list[Tensor]], list[Tensor]], target: str) -> None:
    x = [Tensor(np.full(3, k, np.float32)).realize() for k in range(90)]
    kernels = compile_graph([rg.cat(parts(x)).uop], target)
    assert max(kernel.buffers for kernel in kernels) <= {"c": 64, "metal": 31, "webgpu": 16}[target]


@pytest.mark.parametrize("extents", [[3] * 80, [1 + k % 40 for k in range(80)], [1] + [20] * 9, [70_000] * 8])
def test_many_parts_side_by_side(device: str, extents: list[int]) -> None:
    arrays = [np.arange(2 * n, dtype=np.float32).reshape(2, n) + k for k, n in enumerate(extents)]
    found = rg.cat([Tensor(array, device=device).realize() + 1 for array in arrays], 1)
    assert np.array_equal(found.numpy(), np.concatenate(arrays, 1) + 1)
    found = rg.cat([Tensor(array, device=device).realize().T for array in arrays]).abs()
    assert np.array_equal(found.numpy(), np.concatenate([array.T for array in arrays]))


def test_few_large_parts_are_copied_by_kernels_of_their_own() -> None:
    parts = [Tensor(np.zeros(200_000, np.float32), device="c").realize() for _ in range(9)]
    kernels = compile_graph([rg.cat(parts).uop], "c_avx512")
    assert [kernel.buffers for kernel in kernels] == [2] * 9 and len({kernel.name for kernel in kernels}) == 1
