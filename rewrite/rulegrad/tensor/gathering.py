"""Elements read at places that other tensors name: gather, take and their relatives; `scattering` writes.

Reading is an index expression, which fuses like a view.

Indices are checked: one out of range is an IndexRangeError, at once where it is on the host (ints, lists and NumPy
arrays), and when a result is read where it is in a tensor, as nobody waits for its value before. With the setting
`check_indices` off, such an index reads the nearest element and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.config import config
from rulegrad.errors import DtypeError, IndexRangeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_, int64
from rulegrad.runtime import source_lines
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, result_dtype
from rulegrad.tensor.storage import host_array, is_weak_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

    #: What names places: a tensor of integers, or integers on the host, which are checked.
    Indices = TensorCore | NDArray[Any] | Sequence[Any] | int


# ---- reading ----


@built_once
def gather(self: Tensor, dim: int, index: Indices) -> Tensor:
    """PyTorch's gather: element p of the result is this tensor's at p, but with `index[p]` along `dim`.

    The index has as many axes as this tensor, and along the others at most its extents; negative ones are out of
    range, as in PyTorch. Raises ShapeError, DtypeError, and IndexRangeError for an index out of range (one in a
    tensor: when the result is read).

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    if not self.ndim:
        return self.reshape(1).gather(dim, index)
    axis = one_axis(dim, self.ndim, "gather")
    places = indices_along(self, index, axis, "gather", wraps=False)
    if not places.size:
        return taken(self, places, axis)
    if self.ndim == 1 and not places.ndim:
        return taken(self, places.reshape(1), axis).reshape(())
    check_index(self, places, axis, "gather")
    return taken(indexed_region(self, places, axis), places, axis)


@built_once
def take_along_axis(self: Tensor, index: Indices, axis: int = -1) -> Tensor:
    """NumPy's take_along_axis: `gather`, where the other axes are broadcast to each other.

    >>> from rulegrad import Tensor
    >>> x = Tensor([[3, 1, 2]])
    >>> x.take_along_axis(x.argmax(axis=1, keepdims=True), axis=1).tolist()
    [[3]]
    """
    k = one_axis(axis, self.ndim, "take_along_axis")
    x, places = _aligned(self, indices_along(self, index, k, "take_along_axis"), k, "take_along_axis")
    return taken(x, places, k)


def take_along_dim(self: Tensor, indices: Indices, dim: int | None = None) -> Tensor:
    """PyTorch's name of `take_along_axis`; without an axis elements of the flat tensor, as many as indices.

    >>> Tensor([[3, 1, 2]]).take_along_dim(Tensor([[2, 0]]), dim=1).tolist()
    [[2, 3]]
    """
    if dim is None:
        return self.flatten().take(indices).flatten()
    return self.take_along_axis(indices, dim)


@built_once
def take(self: Tensor, index: Indices, axis: int | None = None) -> Tensor:
    """The elements at `index` (of any shape) along `axis`, or of the flat tensor; its axes take that axis' place.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2, 3], [4, 5, 6]]).take(Tensor([2, 0]), axis=1).tolist()
    [[3, 1], [6, 4]]
    """
    if axis is None:
        return _take(self.flatten(), index, 0, "take")
    return _take(self, index, one_axis(axis, self.ndim, "take"), "take")


def _take(self: Tensor, index: Indices, k: int, name: str, wraps: bool = True) -> Tensor:
    return taken_along(self, indices_along(self, index, k, name, wraps), k)


def taken_along(self: Tensor, places: Tensor, k: int) -> Tensor:
    """The elements at places on an axis, which were checked."""
    found = taken(self, along_axis(places.flatten(), self.shape, k), k)
    return found.reshape(self.shape[:k] + places.shape + self.shape[k + 1 :])


@built_once
def index_select(self: Tensor, dim: int, index: Indices) -> Tensor:
    """PyTorch's index_select: the slices at a vector of indices (or one of them) along `dim`.

    >>> Tensor([[1, 2, 3], [4, 5, 6]]).index_select(1, [2, 0]).tolist()
    [[3, 1], [6, 4]]
    """
    if not self.ndim:
        return self.reshape(1).index_select(dim, index).reshape(())
    k = one_axis(dim, self.ndim, "index_select")
    return taken(self, along_axis(line_along(self, index, k, "index_select"), self.shape, k), k)


@built_once
def embedding(self: Tensor, index: Indices) -> Tensor:
    """The rows of this table at `index`; the rows are the last axes of the result.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).embedding(Tensor([[1, 0]])).shape
    (1, 2, 2)
    """
    return _take(self, index, one_axis(0, self.ndim, "embedding"), "embedding", wraps=False)


# ---- masks ----


@built_once
def masked_fill(self: Tensor, mask: Operand, value: Operand) -> Tensor:
    """`value` where the mask (bools, which are broadcast) is true, the tensor's own elements elsewhere.

    value: a number, or a tensor of one element. Raises DtypeError for a mask of numbers, and for a value of a
    higher kind than the tensor's dtype.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0]).masked_fill([True, False], 0).tolist()
    [0.0, 2.0]
    """
    found = as_mask(self, mask, "masked_fill")
    broadcast_shapes("masked_fill", self.shape, found.shape)
    values: Any = as_operand(self, value, "masked_fill")
    if not is_weak_scalar(values):
        if values.size != 1:
            raise ShapeError(f"masked_fill: a value of shape {values.shape}; give one number, or use where")
        values = values.reshape(())
    dtype = result_dtype(self, values)
    if (dtype.is_complex, dtype.is_inexact) > (self.dtype.is_complex, self.dtype.is_inexact):
        raise DtypeError(f"masked_fill: a value of {dtype} does not fit a tensor of {self.dtype}; cast one of them")
    return found.where(values, self).cast(self.dtype)


def as_mask(self: Tensor, mask: Operand, name: str) -> Tensor:
    """Bools, as a tensor. Raises DtypeError for others: what counts as true is for the user to say."""
    found = as_tensor(self, np.asarray(mask) if is_weak_scalar(mask) else mask, name)
    if found.dtype != bool_:
        raise DtypeError(f"{name}: the mask is {found.dtype}; compare it (mask != 0), or cast it to bool")
    return found


# ---- helpers ----


def indices_along(self: Tensor, index: Indices, axis: int, name: str, wraps: bool = True) -> Tensor:
    """The index as places on an axis, which are checked; wraps: negative ones count from the end."""
    if isinstance(index, TensorCore):
        found: Any = index
        _check_integer(found, name)
        return checked_indices(found, self.shape[axis], axis, name, wraps)
    places = host_places(index, self.shape[axis], axis, name, wraps)
    return type(self)(places, device=self._device or None)


def line_along(self: Tensor, index: Indices, axis: int, name: str, wraps: bool = False) -> Tensor:
    """`indices_along` for a vector, or one place."""
    line = indices_along(self, index, axis, name, wraps)
    if line.ndim > 1:
        raise ShapeError(f"{name}: the index has the shape {line.shape}; give a vector")
    return line.flatten()


def _check_integer(self: Tensor, name: str) -> None:
    if not self.dtype.is_integer:
        raise DtypeError(f"{name}: the index is {self.dtype}; cast it to an integer dtype")


def check_index(self: Tensor, index: TensorCore, axis: int, name: str) -> None:
    fits = len(index.shape) == self.ndim and all(
        k == axis or m <= n for k, (m, n) in enumerate(zip(index.shape, self.shape))
    )
    if not fits:
        raise ShapeError(
            f"{name}: an index of shape {index.shape} for a tensor of shape {self.shape} and axis {axis}; it needs "
            "as many axes, and no larger extents but along that axis"
        )


def checked_indices(self: Tensor, extent: int, axis: int, name: str, wraps: bool) -> Tensor:
    """Indices of an axis, which are checked when a result is read; wraps: negative ones count from the end.

    Raises IndexRangeError at once for an axis without elements, in which no index is, also where the result has none.
    """
    if not extent and self.size:
        raise IndexRangeError(f"{name}: axis {axis} has no elements, nothing can be taken from it or put there")
    index = self if self.dtype.bits >= 32 else self.cast(int64)
    wraps = wraps and index.dtype.kind == "int"
    if wraps:
        index = (index < 0).where(index + extent, index)
    if not config.check_indices or not index.size:
        return index
    bound = UOp.const(extent, index.dtype)
    uop = UOp("INSIDE", (index.uop, bound), operation=name, axis=axis, wraps=wraps)
    source_lines.note(uop)
    return index._result(uop)


def indexed_region(self: Tensor, index: TensorCore, axis: int) -> Tensor:
    """The part of the tensor that an index of smaller extents can name."""
    return self.shrink(*(None if k == axis else (0, n) for k, n in enumerate(index.shape)))


def _aligned(self: Tensor, index: Tensor, axis: int, name: str) -> tuple[Tensor, Tensor]:
    """This tensor and the index, with the other axes broadcast."""
    if index.ndim != self.ndim:
        raise ShapeError(
            f"{name}: an index of shape {index.shape} for a tensor of shape {self.shape}; the ranks differ"
        )
    others = [tuple(1 if k == axis else n for k, n in enumerate(t.shape)) for t in (self, index)]
    shape = broadcast_shapes(name, *others)
    own, wide = (shape[:axis] + (t.shape[axis],) + shape[axis + 1 :] for t in (self, index))
    return self.expand(own), index.expand(wide)


def along_axis(self: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """A vector as a tensor of `shape` but for `axis`, along which it lies."""
    line = self.reshape(tuple(self.size if k == axis else 1 for k in range(len(shape))))
    return line.expand(shape[:axis] + (self.size,) + shape[axis + 1 :])


def taken(self: Tensor, index: Tensor, axis: int) -> Tensor:
    """GATHER; the index has the result's shape, and no negative elements."""
    if not index.size:
        return self._new(filled(index.shape, 0, self.dtype), None, self._device)
    if not self.shape[axis]:
        raise IndexRangeError(f"take: axis {axis} of the shape {self.shape} is empty, nothing can be taken from it")
    return self._result(UOp("GATHER", (self.uop, index.uop), axis=axis), index)


def host_places(index: Any, extent: int, axis: int, name: str, wraps: bool = True) -> NDArray[Any]:
    """Integers on the host as places on an axis, counted from the front. Raises IndexRangeError and DtypeError."""
    found = host_array(index, None)
    if not found.size and not hasattr(index, "dtype"):
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise DtypeError(f"{name}: the index is {found.dtype}; cast it to an integer dtype")
    least = -extent if wraps else 0
    wrong = found[(found < least) | (found >= extent)]
    if wrong.size:
        raise IndexRangeError(
            f"{name}: {wrong.flat[0]} is out of range for axis {axis} of size {extent}; "
            f"{f'use {least} to {extent - 1}' if extent else 'it is empty'}"
        )
    return np.where(found < 0, found + extent, found).astype(np.int64)
