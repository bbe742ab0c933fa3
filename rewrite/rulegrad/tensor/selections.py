"""Elements along an axis with their places: PyTorch's `max(dim=…)`, `min(dim=…)` and `median(dim=…)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad.tensor.axes import one_axis, several_axes
from rulegrad.tensor.graph_functions import built_once

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


class Selected(NamedTuple):
    """Elements along an axis, and where they are."""

    values: Tensor
    indices: Tensor


def largest(x: Tensor, dim: int, keepdim: bool) -> Selected:
    """The largest elements, and the first places where they are."""
    return Selected(_largest(x, dim, keepdim), x.argmax(dim, keepdims=keepdim)) if x.ndim else _only(x, x.argmax(dim))


def smallest(x: Tensor, dim: int, keepdim: bool) -> Selected:
    """The smallest elements, and the first places where they are."""
    return Selected(_smallest(x, dim, keepdim), x.argmin(dim, keepdims=keepdim)) if x.ndim else _only(x, x.argmin(dim))


@built_once
def _largest(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    return _values(x, x.argmax(dim, keepdims=True), dim, keepdim)


@built_once
def _smallest(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    return _values(x, x.argmin(dim, keepdims=True), dim, keepdim)


def _only(x: Tensor, place: Tensor) -> Selected:
    """The element of a tensor without axes."""
    return Selected(x.clone(), place)


def _values(x: Tensor, places: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The elements at these places, which alone have the gradient, also where others are equal."""
    axis = one_axis(dim, x.ndim, "dim")
    # which are places of the axis: rules that see it leave no check of them
    values = x.gather(axis, places.clip(0, max(x.shape[axis] - 1, 0)))
    return values if keepdim else values.squeeze(axis)


def middle(x: Tensor, dim: int | None, keepdim: bool, skips_nan: bool) -> Any:
    """The elements in the middle, the lower ones of two, with their places; of all elements the one alone."""
    if dim is None:
        return middle(x.reshape(-1), 0, False, skips_nan).values
    if not several_axes(dim, x.ndim, "median"):
        return _only(x, x.argmax())
    axis = one_axis(dim, x.ndim, "median")
    order = x.argsort(dim, stable=True)  # nan is the last
    count = x.isnan().logical_not().sum(dim, keepdims=True)
    place = (count - 1).clamp(min=0) // 2 if skips_nan else count.full_like((x.shape[dim] - 1) // 2)
    if not skips_nan:
        place = (count < x.shape[dim]).where(count.full_like(x.shape[dim] - 1), place)
    places = order.gather(axis, place)
    return Selected(_values(x, places, dim, keepdim), places if keepdim else places.squeeze(axis))
