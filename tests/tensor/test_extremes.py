"""Gradients of maxima: elements that are computed again, rounded otherwise, would not be equal to the maximum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor

VALUES = np.random.default_rng(0).standard_normal((4, 18, 16)).astype(np.float32)
GROUPS = np.repeat([0, 1, 2], [5, 6, 7])


def of_rows(y: Tensor) -> Tensor:
    return y.amax(1, keepdim=True)


def of_columns(y: Tensor) -> Tensor:
    return y.amin(0, keepdim=True)


def of_groups(y: Tensor) -> Tensor:
    index = Tensor(GROUPS).view(-1, 1).expand(-1, 16)
    return rg.zeros(3, 16).scatter_reduce(0, index, y, "amax", include_self=False)


def running(y: Tensor) -> Tensor:
    return y.cummax(0)[0]


@pytest.mark.parametrize("largest", [of_rows, of_columns, of_groups, running])
@pytest.mark.parametrize("when", ["together", "before", "with a product"])
def test_gradients_of_maxima_of_products(largest: Callable[[Tensor], Tensor], when: str) -> None:
    """Of products, whose sums have another order in each kind of kernel."""
    x, w, b = Tensor(VALUES[0]), Tensor(VALUES[1, :16], requires_grad=True), Tensor(VALUES[2, 0])
    found = largest(x @ w.mT + b)  # nobody holds the product
    if when == "before":
        found.numpy()
    loss = (found @ Tensor(VALUES[3, : found.shape[1], :3])).sum() if when == "with a product" else found.sum()
    (slope,) = rg.autograd.grad(loss, [w])

    product = VALUES[0].astype(np.float64) @ VALUES[1, :16].T.astype(np.float64) + VALUES[2, 0]
    shown = np.zeros_like(product)  # how often each element is a maximum, times the slope of the loss there
    ends = found.numpy().astype(np.float64)
    slopes = np.broadcast_to(
        VALUES[3, : ends.shape[1], :3].sum(1) if when == "with a product" else np.ones(ends.shape[1]), ends.shape
    )
    for place in np.ndindex(*ends.shape):
        of = np.abs(product - ends[place])
        allowed = np.full(product.shape, True)
        if largest is of_rows:
            allowed[:] = np.arange(18)[:, None] == place[0]
        elif largest is of_groups:
            allowed = (place[0] == GROUPS)[:, None] & (np.arange(16) == place[1])
        else:
            allowed[:] = np.arange(16) == place[1]
        at = np.unravel_index(np.where(allowed, of, np.inf).argmin(), product.shape)
        shown[at] += slopes[place]
    assert slope.numpy() == pytest.approx(shown.T @ VALUES[0], rel=1e-4, abs=1e-4)
