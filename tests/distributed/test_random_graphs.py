"""Random programs on tensors that are placed at random compute what they compute on one device."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.distributed import Mesh, shard

MESHES = ({"a": 2}, {"a": 3}, {"a": 2, "b": 2}, {"a": 2, "b": 4}, {"a": 1})
Step = Callable[[Tensor], Tensor]


def _movement(chance: random.Random, shape: tuple[int, ...]) -> Step:
    axis = chance.randrange(len(shape))
    begin = chance.randrange(shape[axis])
    ways: list[Step] = [
        lambda x: x.permute(*np.random.default_rng(begin).permutation(len(shape)).tolist()),
        lambda x: x.reshape(-1),
        lambda x: x.reshape(x.shape[0], -1),
        lambda x: x.flip(axis),
        lambda x: x[(slice(None),) * axis + (slice(begin, None),)],
        lambda x: x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:]),
        lambda x: x.reshape(*[f for n in x.shape for f in ((2, n // 2) if n % 2 == 0 else (n,))]),
        lambda x: x.pad([(1, 2) if k == axis else (0, 0) for k in range(x.ndim)]),
        lambda x: x.roll(1, axis),
        lambda x: x.unfold(axis, min(2, x.shape[axis]), 1),
        lambda x: x.unfold(axis, (x.shape[axis] + 1) // 2, 2).transpose(axis, -1),
        lambda x: x[(slice(None),) * axis + (slice(None, max(x.shape[axis] - 1, 1)),)],
    ]
    return chance.choice(ways)


def _other(chance: random.Random, shape: tuple[int, ...], place: Callable[[np.ndarray], Tensor]) -> Step:
    axis = chance.randrange(len(shape))
    values = np.random.default_rng(chance.randrange(99)).integers(-3, 4, shape).astype(np.float32)
    table = np.random.default_rng(5).integers(-3, 4, (shape[-1], 6)).astype(np.float32)
    places = np.random.default_rng(6).integers(0, shape[axis], shape)
    ways: list[Step] = [
        lambda x: x * 2 + 1,
        lambda x: (x * 0.25).tanh(),
        lambda x: x + place(values),
        lambda x: x * place(values) - x,
        lambda x: x @ place(table),
        lambda x: x.sum(axis, keepdim=True) * 0.5,
        lambda x: x.amax(axis, keepdim=True) - x,
        lambda x: x.mean(),
        lambda x: x.cumsum(axis) * 0.25,
        lambda x: (x * 0.25).softmax(axis),
        lambda x: x.gather(axis, place(places)),
        lambda x: x.scatter_add(axis, place(places), place(values)),
        lambda x: x[place(places).reshape(-1)[:4].maximum(0).minimum(x.shape[0] - 1)],
        lambda x: (x > 0).where(x, place(values)),
    ]
    return chance.choice(ways)


def _placed(chance: random.Random, mesh: Mesh) -> Callable[[np.ndarray], Tensor]:
    """A function that places arrays at random, in the same way for equal programs."""
    return lambda array: shard(array, mesh, **{
        name: chance.choice([None, *range(array.ndim)]) if array.ndim else None for name in mesh.names
    })  # fmt: skip


def _run(seed: int, place: Callable[[np.ndarray], Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The result of a random program, and a gradient."""
    chance = random.Random(seed)
    shape = tuple(chance.randrange(1, 7) for _ in range(chance.randrange(1, 4)))
    x = start = place(np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)).requires_grad_()
    for _ in range(chance.randrange(1, 7)):
        if not x.ndim or not x.size or x.size > 5000:
            break
        step = _movement(chance, x.shape) if chance.random() < 0.5 else _other(chance, x.shape, place)
        x = step(x)
    (x * x).sum().backward()
    assert start.grad is not None
    return x.numpy(), start.grad.numpy()


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs_with_random_placements(first: int) -> None:
    for seed in range(first, first + 20):
        expected = _run(seed, lambda array: Tensor(array, device="numpy"))
        sizes = MESHES[seed % len(MESHES)]
        mesh = Mesh(sizes, device=f"numpy*{np.prod(list(sizes.values()))}")
        found = _run(seed, _placed(random.Random(seed), mesh))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed} on {mesh}")
