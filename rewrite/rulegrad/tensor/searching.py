"""Binary search in vectors and rows that are in order: searchsorted, bucketize.

The search takes a fixed number of steps for each value, so it is one kernel. Values are compared by the keys of
`sorting`, with nan as the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import int32, int64
from rulegrad.tensor.gathering import taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, as_tensor, result_dtype
from rulegrad.tensor.sorting import order_keys

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


@built_once
def searchsorted(
    self: Tensor,
    values: Operand,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
    *,
    right: bool = False,
    out_int32: bool = False,
) -> Tensor:
    """Where `values` would be put into this vector, which is in order: before equal elements, or after ("right").

    Rows of several axes each have values of their own: the other axes are the same. sorter: the places that sort
    this tensor, if it is not in order. int64, or int32 with `out_int32`. One kernel, of a binary search.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 3, 5]).searchsorted(Tensor([0, 3, 9])).tolist()
    [0, 1, 3]
    """
    if not self.ndim:
        raise ShapeError(f"searchsorted: the shape is {self.shape}; it must be a vector, in order, or rows")
    if side not in ("left", "right"):
        raise ShapeError(f'searchsorted: side={side!r}; use "left" or "right"')
    found: Any = as_operand(self, values, "searchsorted")
    wanted: Tensor = found if hasattr(found, "uop") else self.full((), found, device=self._device or None)
    if self.ndim > 1 and wanted.shape[:-1] != self.shape[:-1]:
        raise ShapeError(f"searchsorted: values of shape {wanted.shape} for rows of shape {self.shape}")
    dtype = int32 if out_int32 else int64
    if not self.size or not wanted.size:
        return self.zeros(wanted.shape, dtype=dtype, device=self._device or None)
    own, targets = _comparable(self, wanted)
    keys, line = order_keys(own, False), order_keys(targets, False).flatten()
    if sorter is not None:
        keys = keys.take_along_axis(as_tensor(self, sorter, "searchsorted"), -1)
    keys = keys.contiguous().flatten()
    after = right or side == "right"

    def before(place: Tensor) -> Tensor:
        key = taken(keys, place, 0)
        return key <= line if after else key < line

    begin = line.zeros_like("int64")
    if self.ndim > 1:
        positions = self.arange(line.size, device=self._device or None)
        begin = positions // wanted.shape[-1] * self.shape[-1]
    place = _first_false(before, begin, self.shape[-1])
    found_places: Tensor = (place - begin if self.ndim > 1 else place).reshape(wanted.shape).cast(dtype)
    return found_places


@built_once
def bucketize(self: Tensor, boundaries: Operand, right: bool = False, *, out_int32: bool = False) -> Tensor:
    """PyTorch's bucketize: the number of the interval between the boundaries in which each element lies.

    int64, or int32 with `out_int32`. Raises ShapeError for boundaries that are not a vector.

    >>> Tensor([1, 5, 9]).bucketize([2, 4, 6]).tolist()
    [0, 2, 3]
    """
    borders = as_tensor(self, boundaries, "bucketize")
    if borders.ndim != 1:
        raise ShapeError(f"bucketize: boundaries of shape {borders.shape}; they are a vector, in order")
    return borders.searchsorted(self, right=right, out_int32=out_int32)


def _comparable(self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the dtype in which they are compared."""

    dtype = result_dtype(self, other)
    return self.cast(dtype), other.cast(dtype)


def _first_false(holds: Callable[[Any], Any], start: Any, most: int) -> Any:
    """The first number, of `most` from `start` on, for which a condition does not hold that once fails for good.

    holds: also asked about numbers at or behind `start + most`, whose answer does not count.
    """
    end = start + most
    found, step = start, 1 << max(most.bit_length() - 1, 0)
    while step:
        ahead = found + step
        found = ((ahead <= end) & holds(ahead - 1)).where(ahead, found)
        step //= 2
    return found
