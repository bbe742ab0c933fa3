"""Views of a tensor: the same elements in another shape or order. They move no data by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad._core import Size, permuted, reshaped
from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_
from rulegrad.runtime import source_lines
from rulegrad.tensor import operands
from rulegrad.tensor.axes import (
    axis_or_dim,
    complete_shape,
    extents,
    integers,
    is_list,
    one_axis,
    several_axes,
    whole_number,
)
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.history import join, renamed
from rulegrad.tensor.operands import cast_to, number_of, result_dtype
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Scalar
    from rulegrad.tensor.tensor import Tensor


# ---- the six views ----


def reshape(self: Tensor, *extents: Any, shape: Any = None) -> Tensor:
    """The same elements, in order, in another shape; one extent may be -1. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor.arange(6).reshape(2, -1).shape, Tensor.arange(6).reshape(shape=(3, 2)).shape
    ((2, 3), (3, 2))
    """
    made: Tensor | None = reshaped(self, extents) if shape is None else None
    if made is not None:
        return made
    new = complete_shape(integers(extents if shape is None else (shape,), "reshape"), self.shape, "reshape")
    return self._shared() if new == self.shape else self._viewed("RESHAPE", shape=new)


def permute(self: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The axes in another order: axis k of the result is axis `order[k]`; PyTorch calls it `dims`.

    >>> Tensor.zeros(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    made: Tensor | None = permuted(self, order) if dims is None else None
    if made is not None:
        return made
    axes = tuple(
        one_axis(axis, self.ndim, "permute") for axis in integers(order if dims is None else (*order, dims), "permute")
    )
    if sorted(axes) != list(range(self.ndim)):
        raise ShapeError(
            f"permute: {axes} is not an order of the {self.ndim} axes of shape {self.shape}; name each axis once"
        )
    if axes == tuple(range(self.ndim)):
        return self._shared()
    return self._viewed("PERMUTE", order=axes)


def expand(self: Tensor, *shape: Any) -> Tensor:
    """Broadcast to `shape`: axes of size 1 are repeated, new axes come first, -1 keeps an extent.

    >>> Tensor([[1], [2]]).expand(2, 3).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    new, own = integers(shape, "expand"), self.shape
    padded = (1,) * (len(new) - len(own)) + own
    new = tuple(n if e == -1 and at >= len(new) - len(own) else e for at, (e, n) in enumerate(zip(new, padded)))
    if len(padded) != len(new) or any(n not in (1, e) or e < 0 for e, n in zip(new, padded)):
        raise ShapeError(f"expand: the shape {own} cannot be expanded to {new}; only axes of size 1 can grow")
    if new == own:
        return self._shared()
    whole = self if len(own) == len(new) else self._viewed("RESHAPE", shape=padded)
    return whole if new == padded else whole._viewed("EXPAND", shape=new)


def shrink(self: Tensor, *bounds: tuple[int, int] | None) -> Tensor:
    """The part from `begin` to `end` of each axis; None keeps an axis whole.

    >>> Tensor([[1, 2, 3], [4, 5, 6]]).shrink(None, (1, 3)).tolist()
    [[2, 3], [5, 6]]
    """
    if len(bounds) != self.ndim:
        raise ShapeError(f"shrink: {len(bounds)} bounds for {self.ndim} axes of shape {self.shape}; give one each")
    pairs = [(0, n) if bound is None else bound for bound, n in zip(bounds, self.shape)]
    begin = tuple(whole_number(pair[0], "shrink") for pair in pairs)
    end = tuple(whole_number(pair[1], "shrink") for pair in pairs)
    if any(not 0 <= b <= e <= n for b, e, n in zip(begin, end, self.shape)):
        raise ShapeError(f"shrink: {tuple(pairs)} is not within the shape {self.shape}")
    if end == self.shape and not any(begin):
        return self._shared()
    return self._viewed("SHRINK", begin=begin, end=end)


def slice_axis(self: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """The part from `begin` to `end` of one axis, which is counted from the front."""
    shape: tuple[int, ...] = tuple(self.shape)
    if not 0 <= begin <= end <= shape[axis]:
        raise ShapeError(f"shrink: {(begin, end)} is not within axis {axis} of the shape {shape}")
    part = (*shape[:axis], end - begin, *shape[axis + 1 :])
    first = (*((0,) * axis), begin, *((0,) * (len(shape) - axis - 1)))
    return self._part(first, (*shape[:axis], end, *shape[axis + 1 :]), part)


@built_once
def pad_constant(self: Tensor, padding: Any, value: Scalar) -> Tensor:
    """Surrounded by `value`: `padding` is one number, one pair (before, after), or a pair for each axis."""
    pairs = padding_pairs(self, padding)
    if not any(b or a for b, a in pairs):
        return self._same()
    before, after = tuple(b for b, _ in pairs), tuple(a for _, a in pairs)
    if not is_weak_scalar(value):
        value = number_of(value, "pad")[0]
    if self.dtype == bool_ and value in (0, 1):
        value = bool(value)
    dtype = result_dtype(self, value)
    node = cast_to(self.uop, dtype)
    padded = UOp("PAD", (node,), before=before, after=after)
    if value == 0:
        return self._result(padded)
    inside = UOp("PAD", (filled(self.shape, True, bool_),), before=before, after=after)
    return self._result(UOp("WHERE", (inside, padded, constant(value, dtype, "pad"))))


def padding_pairs(self: Tensor, padding: Any) -> list[tuple[int, int]]:
    if not isinstance(padding, Sequence):
        padding = [(padding, padding)] * self.ndim
    elif len(padding) == 2 and not any(isinstance(part, Sequence) for part in padding):
        padding = [tuple(padding)] * self.ndim
    pairs = [integers((pair,), "pad") for pair in padding]
    if len(pairs) != self.ndim or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ShapeError(
            f"pad: {padding} does not fit the shape {self.shape}; give a pair (before, after) "
            "of numbers of 0 or more for each axis"
        )
    return [(pair[0], pair[1]) for pair in pairs]


def flip(self: Tensor, *axis: Any, dims: Any = None) -> Tensor:
    """The elements in reverse order along the axes (all of them by default); PyTorch calls them `dims`.

    >>> Tensor([[1, 2], [3, 4]]).flip(1).tolist(), Tensor([[1, 2], [3, 4]]).flip().tolist()
    ([[2, 1], [4, 3]], [[4, 3], [2, 1]])
    """
    given = axis if dims is None else (*axis, dims)
    named = None if not given or given == (None,) else integers(given, "flip")
    axes = several_axes(named, self.ndim, "flip")
    return self._viewed("FLIP", axes=axes) if axes else self._shared()


# ---- axes ----


def transpose(self: Tensor, dim0: Any = None, dim1: int | None = None) -> Tensor:
    """Two axes exchanged, as PyTorch's; without arguments all in reverse order, as NumPy's. Raises ShapeError.

    A single sequence is an order of all axes, as in NumPy: that is `permute`.

    >>> from rulegrad import Tensor
    >>> x = Tensor.zeros(2, 3, 4)
    >>> x.transpose(0, 1).shape, x.transpose().shape
    ((3, 2, 4), (4, 3, 2))
    """
    if dim1 is None:
        if dim0 is None:
            return self.T
        if not is_list(dim0):
            raise ShapeError(f"transpose: axis {dim0} alone; name two axes, or use permute for an order of all")
        return self.permute(*dim0)
    order = list(range(self.ndim))
    a, b = (one_axis(axis, self.ndim, "transpose", of_scalar=True) for axis in (dim0, dim1))
    if a != b:
        order[a], order[b] = order[b], order[a]
    return self.permute(order)


def all_axes_reversed(self: Tensor) -> Tensor:
    """All axes in reverse order.

    >>> Tensor([[1, 2], [3, 4]]).T.tolist()
    [[1, 3], [2, 4]]
    """
    return self.permute(tuple(reversed(range(self.ndim))))


def matrices_transposed(self: Tensor) -> Tensor:
    """The last two axes exchanged.

    >>> Tensor.zeros(2, 3, 4).mT.shape
    (2, 4, 3)
    """
    return self.transpose(-2, -1)


def squeeze(self: Tensor, axis: Any = None, *, dim: Any = None) -> Tensor:
    """Without axes of size 1: all of them, or those named; larger ones stay, as in PyTorch.

    >>> x = Tensor.zeros(1, 3, 1)
    >>> x.squeeze().shape, x.squeeze(0).shape
    ((3,), (3, 1))
    """
    axes = several_axes(axis_or_dim(axis, dim, "squeeze"), self.ndim, "squeeze")
    return self.reshape(tuple(n for k, n in enumerate(self.shape) if n != 1 or k not in axes))


def squeeze_ones(self: Tensor, axis: Any = None) -> Tensor:
    """`squeeze` as in NumPy and the array API: raises ShapeError for a larger axis."""
    axes = several_axes(axis, self.ndim, "squeeze")
    if axis is not None and any(self.shape[k] != 1 for k in axes):
        raise ShapeError(f"squeeze: axis {axis} of the shape {self.shape} is not of size 1")
    return self.squeeze(axis)


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new axis of size 1 at `dim`.

    >>> x = Tensor.zeros(2, 3)
    >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
    ((1, 2, 3), (2, 3, 1))
    """
    place = one_axis(dim, self.ndim + 1, "unsqueeze")
    return self.reshape(self.shape[:place] + (1,) + self.shape[place:])


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` as one.

    >>> x = Tensor.zeros(2, 3, 4)
    >>> x.flatten().shape, x.flatten(1).shape
    ((24,), (2, 12))
    """
    if not self.ndim:
        return self.reshape(1)
    a, b = (one_axis(axis, self.ndim, "flatten") for axis in (start_dim, end_dim))
    if a > b:
        raise ShapeError(f"flatten: axis {a} comes after axis {b}; give the first axis first")
    return self.reshape(self.shape[:a] + (math.prod(self.shape[a : b + 1]),) + self.shape[b + 1 :])


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The same values, kept in memory: what comes before and what comes after are not one kernel.

    As in PyTorch it is the tensor itself, but for a view, of which it is a copy. memory_format: for programs of
    PyTorch, as in `clone`; memory is in C order.

    >>> Tensor([[1, 2], [3, 4]]).T.contiguous().tolist()
    [[1, 3], [2, 4]]
    """
    node = self.uop
    if self._view is not None and self._view.base is not None and self._view.steps:
        return self._result(UOp("MATERIALIZE", (node,)))
    if node.op not in ("BUFFER", "ARGUMENT", "MATERIALIZE") and not self._leaf and self._view is None:
        self._uop = UOp("MATERIALIZE", (node,))
        if source_lines.recording():
            source_lines.note(self._uop)
    return self


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all shapes (tuples, or numbers for vectors) broadcast to. Raises ShapeError.

    >>> from rulegrad import broadcast_shapes
    >>> broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    given = [extents((shape,), "broadcast_shapes") for shape in shapes]
    return Size(operands.broadcast_shapes("broadcast_shapes", *given) if given else ())


def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The same values, through which gradients flow, in a tensor that is a view of no other.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0])
    >>> y = x.clone()
    >>> _ = x.add_(1)
    >>> x.tolist(), y.tolist()
    ([2.0], [1.0])
    """
    if not (self._requires_grad and gradients_enabled()):
        return self._result(self.uop)
    node, name = renamed(self.uop)
    copy = self._result(node)
    copy._history = join(copy._history, name)
    return copy


def view(self: Tensor, *shape: Any) -> Tensor:
    """`reshape`; of a single dtype, `bitcast`.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(2, 3).view(-1).shape
    (6,)
    """
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
        return self.bitcast(shape[0])
    return self.reshape(*shape)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`.

    >>> Tensor([1, 2, 3, 4]).view_as(Tensor.zeros(2, 2)).tolist()
    [[1, 2], [3, 4]]
    """
    return self.reshape(other.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`.

    >>> Tensor([1, 2, 3, 4]).reshape_as(Tensor.zeros(2, 2)).tolist()
    [[1, 2], [3, 4]]
    """
    return self.reshape(other.shape)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of `other`.

    >>> Tensor([1, 2]).expand_as(Tensor.zeros(2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return self.expand(other.shape)


def unflatten(self: Tensor, dim: int, sizes: Any) -> Tensor:
    """The axis `dim` as several of these sizes, one of which may be -1.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(2, 6).unflatten(1, (3, -1)).shape
    (2, 3, 2)
    """
    k = one_axis(dim, self.ndim, "unflatten")
    parts = complete_shape(integers((sizes,), "unflatten"), (self.shape[k],), "unflatten")
    return self.reshape(self.shape[:k] + parts + self.shape[k + 1 :])


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The `length` elements from `start` on along `dim`. Raises ShapeError where there are not so many.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2, 3, 4]).narrow(0, 1, 2).tolist()
    [2, 3]
    """
    k = one_axis(dim, self.ndim, "narrow")
    extent, count = self.shape[k], whole_number(length, "narrow")
    begin = whole_number(start, "narrow")
    begin += extent if begin < 0 else 0
    if not 0 <= begin <= begin + count <= extent:
        raise ShapeError(f"narrow: {length} elements from {start} on, of axis {k} of the shape {self.shape}")
    return slice_axis(self, k, begin, begin + count)


def select(self: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that axis. Raises IndexRangeError.

    >>> Tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
    [1, 3]
    """
    k = one_axis(dim, self.ndim, "select")
    return self[(slice(None),) * k + (whole_number(index, "select"),)]


def fliplr(self: Tensor) -> Tensor:
    """The columns (axis 1) in the other order.

    >>> Tensor([[1, 2], [3, 4]]).fliplr().tolist()
    [[2, 1], [4, 3]]
    """
    return self.flip(one_axis(1, self.ndim, "fliplr"))


def flipud(self: Tensor) -> Tensor:
    """The rows (axis 0) in the other order.

    >>> Tensor([[1, 2], [3, 4]]).flipud().tolist()
    [[3, 4], [1, 2]]
    """
    return self.flip(one_axis(0, self.ndim, "flipud"))


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sums that bring the tensor to a shape that broadcasts to its own. Raises ShapeError.

    >>> Tensor([[1, 2], [3, 4]]).sum_to_size(1, 2).tolist()
    [[4, 6]]
    """
    shape = extents(size, "sum_to_size")
    lead = self.ndim - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, self.shape[lead:])):
        raise ShapeError(f"sum_to_size: the shape {shape} does not broadcast to {self.shape}")
    axes = (*range(lead), *(lead + k for k, n in enumerate(shape) if n == 1 != self.shape[lead + k]))
    return self.sum(axes, dtype=self.dtype).reshape(shape) if axes else self


def t(self: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars stay. Raises ShapeError for more axes.

    >>> Tensor([[1, 2], [3, 4]]).t().tolist()
    [[1, 3], [2, 4]]
    """
    if self.ndim > 2:
        raise ShapeError(f"t: the shape {self.shape} has {self.ndim} axes; use .mT, or transpose(a, b)")
    return self.transpose(0, 1) if self.ndim == 2 else self


def matrices_adjoint(self: Tensor) -> Tensor:
    """The conjugate transposes of matrices.

    >>> Tensor([[1 + 2j, 3 + 4j]]).mH.tolist()
    [[(1-2j)], [(3-4j)]]
    """
    return self.mT.conj()


def matrix_adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix.

    >>> Tensor([[1 + 2j, 3 + 4j]]).H.tolist()
    [[(1-2j)], [(3-4j)]]
    """
    return self.t().conj()


def adjoint(self: Tensor) -> Tensor:
    """The conjugate transposes of matrices.

    >>> Tensor([[1 + 2j, 3 + 4j]]).adjoint().tolist()
    [[(1-2j)], [(3-4j)]]
    """
    return self.mH
