"""PyTorch's names of facts about a tensor and of its views, where NumPy has others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import complete_shape, extents, integers, one_axis, whole_number
from rulegrad.tensor.movement import slice_axis

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def numel(self: Tensor) -> int:
    """The number of elements.

    >>> Tensor([[1, 2, 3]]).numel()
    3
    """
    return int(self.size)


def dim(self: Tensor) -> int:
    """The number of axes.

    >>> Tensor([[1, 2, 3]]).dim()
    2
    """
    return self.ndim


def element_size(self: Tensor) -> int:
    """The bytes of one element.

    >>> Tensor([0.5]).element_size()
    4
    """
    return self.itemsize


def is_floating_point(self: Tensor) -> bool:
    """Whether the dtype is one of floats.

    >>> Tensor([0.5]).is_floating_point(), Tensor([1]).is_floating_point()
    (True, False)
    """
    return self.dtype.is_float


def is_contiguous(self: Tensor) -> bool:
    """Always True: the memory of a tensor is in C order whenever anyone can see it.

    >>> Tensor([[1, 2]]).T.is_contiguous()
    True
    """
    return True


def clone(self: Tensor) -> Tensor:
    """The same values, through which gradients flow, in a tensor that is a view of no other.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0])
    >>> y = x.clone()
    >>> _ = x.add_(1)
    >>> x.tolist(), y.tolist()
    ([2.0], [1.0])
    """
    return self._result(self.uop)


def type(self: Tensor, dtype: Any = None) -> Any:
    """The values as another dtype; without one, the name of this tensor's. Python's types are no dtypes.

    >>> Tensor([0.5]).type(), Tensor([2.5]).type("int32").tolist()
    ('float32', [2])
    """
    return str(self.dtype) if dtype is None else self.cast(as_dtype(dtype))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The values in the dtype of `other`.

    >>> Tensor([2.5]).type_as(Tensor([1])).tolist()
    [2]
    """
    return self.cast(other.dtype)


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


# ---- views ----


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


def select_scatter(self: Tensor, src: Operand, dim: int, index: int) -> Tensor:
    """This tensor with `src` at `index` along `dim`.

    >>> Tensor([[1, 2], [3, 4]]).select_scatter(Tensor([8, 9]), 1, 0).tolist()
    [[8, 2], [9, 4]]
    """
    k = one_axis(dim, self.ndim, "select_scatter")
    return self.index_put((slice(None),) * k + (whole_number(index, "select_scatter"),), src)


def slice_scatter(
    self: Tensor, src: Operand, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """This tensor with `src` at a slice along `dim`.

    >>> Tensor([1, 2, 3, 4]).slice_scatter(Tensor([8, 9]), 0, 1, 3).tolist()
    [1, 8, 9, 4]
    """
    k = one_axis(dim, self.ndim, "slice_scatter")
    return self.index_put((slice(None),) * k + (slice(start, end, step),), src)


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


def diagflat(self: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements, in order, on a diagonal.

    >>> Tensor([[1, 2]]).diagflat().tolist()
    [[1, 0], [0, 2]]
    """
    return self.flatten().diag_embed(offset)


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


def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` by a list of sizes.

    >>> [part.tolist() for part in Tensor([1, 2, 3]).split_with_sizes([1, 2])]
    [[1], [2, 3]]
    """
    return self.split(list(split_sizes), dim)


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
