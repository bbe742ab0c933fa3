"""Steps in which each element is computed from others of the step before: a few steps are one kernel, not all of them.

Each step would be computed anew for every way in which the next one reads it, so the text of one kernel would grow by
a factor with each step: stencils, shifted values, gathered ones, and the gradients of all of these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.ir import UOp
from rulegrad.nn import functional as F

STEPS = 14
LINE = np.random.default_rng(0).normal(size=24).astype(np.float32)
PLANE = np.random.default_rng(1).normal(size=(6, 7)).astype(np.float32)
FIRST, SECOND = np.random.default_rng(2).integers(0, 24, (2, 24))

Array = np.ndarray
Step = Callable[..., object]


def interior(u):
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def with_interior(u: Array, new: Array) -> Array:
    u = u.copy()
    u[(slice(1, -1),) * u.ndim] = new
    return u


def written_to(u: Tensor) -> Tensor:
    u = u * 1
    u[1:-1, 1:-1] += 0.1 * interior(u)
    return u


def line_written_to(u: Tensor) -> Tensor:
    u = u * 1
    u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def shifted(u: Array, by: int) -> Array:
    return np.concatenate([np.zeros(by, u.dtype), u[:-by]])


#: The first value, a step with tensors, the same with NumPy.
STEPS_OF: dict[str, tuple[Array, Step, Step]] = {
    "a stencil that is padded": (
        PLANE,
        lambda u: F.pad(u[1:-1, 1:-1] + 0.1 * interior(u), (1, 1, 1, 1)),
        lambda u: np.pad(u[1:-1, 1:-1] + 0.1 * interior(u), 1),
    ),
    "a padded value and its stencil": (
        PLANE,
        lambda u: u + 0.1 * interior(F.pad(u, (1, 1, 1, 1))),
        lambda u: u + 0.1 * interior(np.pad(u, 1)),
    ),
    "a stencil in place": (PLANE, written_to, lambda u: with_interior(u, u[1:-1, 1:-1] + 0.1 * interior(u))),
    "a stencil of a line in place": (
        LINE,
        line_written_to,
        lambda u: with_interior(u, u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])),
    ),
    "a line between its ends": (
        LINE,
        lambda u: rg.cat([u[:1], u[1:-1] + 0.1 * rg.sin(u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]]),
        lambda u: with_interior(u, u[1:-1] + 0.1 * np.sin(u[2:] - 2 * u[1:-1] + u[:-2])),
    ),
    "rolled values": (
        PLANE,
        lambda u: rg.tanh(u + 0.3 * rg.roll(u, 1, 0) - 0.2 * rg.roll(u, 2, 1)),
        lambda u: np.tanh(u + 0.3 * np.roll(u, 1, 0) - 0.2 * np.roll(u, 2, 1)),
    ),
    "shifted values": (
        LINE,
        lambda u: rg.tanh(u + 0.5 * F.pad(u[:-1], (1, 0)) - F.pad(u[:-3], (3, 0))),
        lambda u: np.tanh(u + 0.5 * shifted(u, 1) - shifted(u, 3)),
    ),
    "transposed and flipped values": (
        PLANE[:, :6],
        lambda u: rg.sin(u + 0.5 * u.T - 0.2 * u.flip(0)),
        lambda u: np.sin(u + 0.5 * u.T - 0.2 * u[::-1]),
    ),
    "gathered values": (
        LINE,
        lambda u: rg.tanh(0.5 * (u[Tensor(FIRST, device=u.device)] + u[Tensor(SECOND, device=u.device)]) + 0.1 * u),
        lambda u: np.tanh(0.5 * (u[FIRST] + u[SECOND]) + 0.1 * u),
    ),
    "every other element": (
        LINE,
        lambda u: rg.cat([u[::2] + u[1::2], u[::2] - u[1::2]]) * 0.7,
        lambda u: np.concatenate([u[::2] + u[1::2], u[::2] - u[1::2]]) * np.float32(0.7),
    ),
}


def repeated(step: Step, value):
    for _ in range(STEPS):
        value = step(value)
    return value


@pytest.mark.parametrize("name", STEPS_OF)
def test_values_and_gradients(name):
    first, step, with_numpy = STEPS_OF[name]
    x = Tensor(first, device="numpy", requires_grad=True)
    result = repeated(step, x)
    np.testing.assert_allclose(result.numpy(), repeated(with_numpy, first), rtol=2e-4, atol=2e-5)
    (result * result).sum().backward()
    direction = np.random.default_rng(3).normal(size=first.shape)
    doubles = first.astype(np.float64)
    before, after = ((repeated(with_numpy, doubles + sign * 1e-5 * direction) ** 2).sum() for sign in (-1, 1))
    assert (x.grad.numpy() * direction).sum() == pytest.approx((after - before) / 2e-5, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("name", STEPS_OF)
def test_kernels_do_not_grow_with_the_steps(name):
    first, step, _ = STEPS_OF[name]
    x = Tensor(first, device="c")
    kernels = compile_graph([repeated(step, x).uop], "c")
    assert max(len(kernel.source) for kernel in kernels) < 15_000
    assert len({kernel.source for kernel in kernels}) <= (
        STEPS if name == "gathered values" else 6
    )  # each checks its own indices


def test_ways_through_padding_of_another_axis_are_one_index() -> None:
    """Stages of a solver are columns: a column that is put in and read again has the state's index, as the state has."""

    def shifted(x: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            columns = F.pad(x[:, None], (6, 0))
            x = F.pad((0.5 * columns[:, 6] + x)[:-1], (1, 0))
        return x

    expected = np.pad(LINE[:-STEPS] * np.float32(1.5) ** STEPS, (STEPS, 0))
    np.testing.assert_allclose(shifted(Tensor(LINE), STEPS).numpy(), expected, rtol=1e-5)
    sizes = []
    for steps in (STEPS, 2 * STEPS):
        x = UOp("PARAM", (), "float32", slot=1, shape=(24,))
        graph = shifted(Tensor._new(x, None, "c"), steps).uop
        place = UOp("PARAM", (), "float32", slot=0, shape=(24,))
        kernel, _ = engine.run(UOp("SINK", (UOp("STORE", (place, graph)),)), "indexing", "c")
        sizes.append(kernel.count_nodes())
    assert sizes[1] < 2.5 * sizes[0] < 2500
