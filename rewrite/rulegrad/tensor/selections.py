"""Elements along an axis with their places: PyTorch's `max(dim=…)` and `min(dim=…)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.graph_functions import built_once

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


class Selected(NamedTuple):
    """Elements along an axis, and where they are."""

    values: Tensor
    indices: Tensor


def largest(x: Tensor, dim: int, keepdim: bool) -> Selected:
    """The largest elements, and the first places where they are."""
    return Selected(_largest(x, dim, keepdim), x.argmax(dim, keepdims=keepdim)) if x.ndim else only(x, x.argmax(dim))


def smallest(x: Tensor, dim: int, keepdim: bool) -> Selected:
    """The smallest elements, and the first places where they are."""
    return Selected(_smallest(x, dim, keepdim), x.argmin(dim, keepdims=keepdim)) if x.ndim else only(x, x.argmin(dim))


@built_once
def _largest(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    return values_at(x, x.argmax(dim, keepdims=True), dim, keepdim)


@built_once
def _smallest(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    return values_at(x, x.argmin(dim, keepdims=True), dim, keepdim)


def only(x: Tensor, place: Tensor) -> Selected:
    """The element of a tensor without axes."""
    return Selected(x.clone(), place)


def values_at(x: Tensor, places: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The elements at these places, which alone have the gradient, also where others are equal."""
    axis = one_axis(dim, x.ndim, "dim")
    # which are places of the axis: rules that see it leave no check of them
    values = x.gather(axis, places.clip(0, max(x.shape[axis] - 1, 0)))
    return values if keepdim else values.squeeze(axis)
