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


def kept_above(chosen: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    return scores.masked_fill(~(scores >= chosen(scores)), -1e9)


@pytest.mark.parametrize(
    "chosen",
    [
        lambda s: s.topk(5)[0].select(-1, -1).unsqueeze(-1),
        lambda s: s.sort(-1, descending=True)[0][..., 4:5],
        lambda s: s.kthvalue(12, -1, keepdim=True)[0],
        lambda s: s.max(dim=-1, keepdim=True)[0],
        lambda s: s.median(dim=-1, keepdim=True)[0],
    ],
    ids=["topk", "sort", "kthvalue", "max", "median"],
)
@pytest.mark.parametrize("device", ["numpy", "c"])
def test_elements_that_are_compared_with_one_of_them(chosen: Callable[[Tensor], Tensor], device: str) -> None:
    """Attention to the largest scores: the one that was found is equal to itself, though nobody holds the scores."""
    x = VALUES[:2, :16]
    with rg.config(device=device):
        q, k = (Tensor(x).reshape(2, 16, 4, 4).transpose(1, 2) @ Tensor(w) for w in VALUES[2:, :4, :4])
        found = (kept_above(chosen, rg.einsum("bhid,bhjd->bhij", q, k) * 0.5).softmax(-1) @ q).numpy()
    first, second = (x.reshape(2, 16, 4, 4).transpose(0, 2, 1, 3) @ w for w in VALUES[2:, :4, :4])
    values = np.einsum("bhid,bhjd->bhij", first, second) * np.float32(0.5)
    with rg.config(device="numpy"):
        given = chosen(Tensor(values)).numpy()
    assert (values == given).any(-1).all()
    exponents = np.where(values >= given, np.exp(values - values.max(-1, keepdims=True)), 0)
    assert found == pytest.approx(exponents / exponents.sum(-1, keepdims=True) @ first, rel=1e-4, abs=1e-4)
