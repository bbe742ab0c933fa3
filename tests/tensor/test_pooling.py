"""The gradient of the largest element of windows that overlap: equal elements share it, for every way that windows lie."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.interpreter.numerics import Array


class Pooling(NamedTuple):
    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool = False


POOLINGS = [
    Pooling((9,), (3,), (1,), (0,)),
    Pooling((9,), (3,), (2,), (1,)),
    Pooling((7,), (4,), (3,), (2,), True),
    Pooling((6, 7), (3, 3), (2, 2), (1, 1)),
    Pooling((5, 8), (4, 2), (1, 3), (2, 0), True),
    Pooling((6, 9), (3, 5), (2, 2), (0, 1)),
    Pooling((3, 4, 5), (2, 3, 2), (1, 2, 2), (1, 0, 1)),
]


def shared(x: Array, d: Array, how: Pooling) -> Array:
    """The gradient by x (one image), window by window."""
    found = np.zeros_like(x)
    for place in np.ndindex(d.shape):
        begins = [k * s - p for k, s, p in zip(place, how.stride, how.padding)]
        spans = [range(max(b, 0), min(b + n, e)) for b, n, e in zip(begins, how.kernel, x.shape)]
        inside = list(itertools.product(*spans))
        values = np.array([x[at] for at in inside])
        hit = np.isnan(values) if np.isnan(values).any() else values == values.max()
        for at, one in zip(inside, hit):
            found[at] += d[place] * one / hit.sum()
    return found


@pytest.mark.parametrize("device", ["numpy", "c"])
@pytest.mark.parametrize("how", POOLINGS, ids=str)
def test_gradients(how: Pooling, device: str) -> None:
    random = np.random.default_rng(5)
    values = random.integers(-2, 3, (2, *how.extents)).astype(np.float32)  # many of them equal
    values.flat[[3, -1]] = np.nan
    x = Tensor(values, device=device, requires_grad=True)
    pool = getattr(x, f"max_pool{len(how.extents)}d")
    largest = pool(how.kernel, how.stride, how.padding, ceil_mode=how.ceil_mode)
    d = random.standard_normal(largest.shape).astype(np.float32)
    largest.backward(Tensor(d, device=device))
    assert x.grad is not None
    wanted = [shared(image, of_image, how) for image, of_image in zip(values, d)]
    np.testing.assert_allclose(x.grad.numpy(), np.array(wanted), rtol=1e-5, atol=1e-6)
