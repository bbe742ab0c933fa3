"""`torch._higher_order_ops.associative_scan`: running values of an associative function, in a tree of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.pytorch.trees import tree_flatten, tree_unflatten
from rulegrad.tensor.mapping import vmap
from rulegrad.tensor.tensor import Tensor

__all__ = ["associative_scan"]

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """The first element along `dim`, it combined with the second, these with the third, and so on.

    xs: a tensor, or a tree of tensors with as many elements along `dim`. combine_mode: "pointwise" gives `combine_fn`
    many elements at once, "generic" one of each tensor, without the axis `dim`. Calls grow with the logarithm of the
    number of elements. Raises ConfigError for another mode, ShapeError for no tensors or different numbers of elements.

    >>> associative_scan(lambda x, y: x * y, Tensor([1, 2, 3, 4]), 0).tolist()
    [1, 2, 6, 24]
    >>> associative_scan(lambda x, y: x + y, Tensor([1, 2, 3]), 0, reverse=True).tolist()
    [6, 5, 3]
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ConfigError(f"associative_scan: combine_mode={combine_mode!r}; use 'pointwise' or 'generic'")
    leaves, tree = tree_flatten(xs)
    if len({leaf.shape[dim] for leaf in leaves}) != 1:
        raise ShapeError(f"associative_scan: the shapes {[leaf.shape for leaf in leaves]} differ along axis {dim}")

    def combine(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = tree_flatten(combine_fn(tree_unflatten(left, tree), tree_unflatten(right, tree)))[0]
        return found

    mapped: Combine = vmap(combine) if combine_mode == "generic" else combine
    rows = [leaf.movedim(dim, 0) for leaf in leaves]
    found = _scanned(mapped, [row.flip(0) for row in rows] if reverse else rows)
    found = [row.flip(0) for row in found] if reverse else found
    return tree_unflatten([row.movedim(0, dim) for row in found], tree)


def _scanned(combine: Combine, rows: list[Tensor]) -> list[Tensor]:
    """Running values along the first axis: those at odd places are the running values of pairs."""
    count = rows[0].shape[0]
    if count < 2:
        return rows
    odd = _scanned(combine, combine([row[: count - 1 : 2] for row in rows], [row[1::2] for row in rows]))
    even = [row[:1] for row in rows]
    if count > 2:
        later = combine([row[: (count - 1) // 2] for row in odd], [row[2::2] for row in rows])
        even = [Tensor.cat([first, row]) for first, row in zip(even, later, strict=True)]
    return [_interleaved(one, other) for one, other in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    paired = Tensor.stack([even[: odd.shape[0]], odd], 1).flatten(0, 1)
    return paired if even.shape[0] == odd.shape[0] else Tensor.cat([paired, even[-1:]])
