"""PyTorch's functions of shapes that NumPy lacks or does otherwise: parts, blocks, combinations, filled tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import as_dtype, float64
from rulegrad.tensor import operands
from rulegrad.tensor.axes import either, extents, one_axis, whole_number
from rulegrad.tensor.operands import as_operand, as_tensor, result_dtype, tensors_of
from rulegrad.tensor.storage import default_float, is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that all shapes (tuples, or numbers for vectors) broadcast to. Raises ShapeError.

    >>> from rulegrad import broadcast_shapes
    >>> broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    given = [extents((shape,), "broadcast_shapes") for shape in shapes]
    return operands.broadcast_shapes("broadcast_shapes", *given) if given else ()


def pairs_of_axes(pad: Sequence[int], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """PyTorch's numbers of a padding, the last axis first, as a pair for each axis in order. Raises ShapeError."""
    numbers, rank = list(pad), len(shape)
    count = len(numbers) // 2
    if len(numbers) % 2 or count > rank:
        raise ShapeError(f"pad: {numbers} for the shape {shape}; give a pair for each of the last axes")
    return [(0, 0)] * (rank - count) + [(numbers[2 * k], numbers[2 * k + 1]) for k in reversed(range(count))]


# ---- more axes ----


def atleast_1d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several as a tuple, with an axis at least.

    >>> Tensor(3).atleast_1d().tolist()
    [3]
    """
    return _each(self, others, lambda x: x if x.ndim else x.reshape(1), "atleast_1d")


def atleast_2d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several, with two axes at least: vectors are rows.

    >>> [part.tolist() for part in Tensor(3).atleast_2d(Tensor([1, 2]))]
    [[[3]], [[1, 2]]]
    """
    return _each(self, others, lambda x: x if x.ndim > 1 else x.reshape(1, -1), "atleast_2d")


def atleast_3d(self: Tensor | Sequence[Tensor], *others: Tensor) -> Any:
    """The tensor, or each of several, with three axes at least: matrices get one at the end, vectors on each side.

    >>> Tensor([1, 2]).atleast_3d().tolist()
    [[[1], [2]]]
    """

    def wide(x: Tensor) -> Tensor:
        return x if x.ndim > 2 else x.unsqueeze(2) if x.ndim == 2 else x.reshape(1, -1, 1)

    return _each(self, others, wide, "atleast_3d")


# ---- apart ----


def hsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """Parts along the second axis, of a vector along its only one: so many equal ones, or those between places.

    Raises ShapeError for an extent that is no multiple; `tensor_split` takes any.

    >>> [part.tolist() for part in Tensor([[1, 2], [3, 4]]).hsplit(2)]
    [[[1], [3]], [[2], [4]]]
    """
    return _equal_parts(self, sections, 0 if self.ndim == 1 else 1, 1, "hsplit")


def vsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """`hsplit` along the first of two axes at least.

    >>> [part.tolist() for part in Tensor([[1, 2], [3, 4]]).vsplit(2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _equal_parts(self, sections, 0, 2, "vsplit")


def dsplit(self: Tensor, sections: Any) -> tuple[Tensor, ...]:
    """`hsplit` along the third axis.

    >>> [part.tolist() for part in Tensor([[[1, 2]]]).dsplit(2)]
    [[[[1]]], [[[2]]]]
    """
    return _equal_parts(self, sections, 2, 3, "dsplit")


def _equal_parts(self: Tensor, sections: Any, axis: int, rank: int, name: str) -> tuple[Tensor, ...]:
    if self.ndim < rank:
        raise ShapeError(f"{name}: the shape is {self.shape}; it needs {rank} {'axes' if rank > 1 else 'axis'}")
    if not isinstance(sections, Sequence):
        count = whole_number(sections, name)
        if count < 1 or self.shape[axis] % count:
            raise ShapeError(
                f"{name}: {count} equal parts of axis {axis} of the shape {self.shape}; use tensor_split for others"
            )
    return self.tensor_split(sections, axis)


# ---- together ----


def block_diag(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """The matrix with these matrices (vectors as rows, numbers) along its diagonal, and zeros elsewhere.

    >>> Tensor([[1, 2]]).block_diag(Tensor([[3], [4]])).tolist()
    [[1, 2, 0], [0, 0, 3], [0, 0, 4]]
    """
    blocks = [x.atleast_2d() for x in tensors_of(self, others, "block_diag")]
    if any(x.ndim > 2 for x in blocks):
        raise ShapeError(f"block_diag: the shapes {[x.shape for x in blocks]}; give matrices")
    width, begin, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        rows.append(block.pad([(0, 0), (begin, width - begin - block.shape[1])]))
        begin += block.shape[1]
    found: Tensor = rows[0].cat(*rows[1:])
    return found


def cartesian_prod(self: Tensor | Sequence[Tensor], *others: Tensor) -> Tensor:
    """All tuples with an element of each vector, as rows in order; of one vector the vector.

    >>> Tensor([1, 2]).cartesian_prod(Tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    vectors = tensors_of(self, others, "cartesian_prod")
    if any(v.ndim != 1 for v in vectors):
        raise ShapeError(f"cartesian_prod: the shapes {[v.shape for v in vectors]}; give vectors")
    if len(vectors) == 1:
        return vectors[0]._same()
    columns = [grid.flatten() for grid in vectors[0].meshgrid(*vectors[1:], indexing="ij")]
    return columns[0].stack(*columns[1:], axis=1)


def combinations(self: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take `r` elements of this vector in order, as rows; with replacement one may come again.

    >>> Tensor([1, 2, 3]).combinations().tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    count = whole_number(r, "combinations")
    if self.ndim != 1 or count < 0:
        raise ShapeError(f"combinations: {r} elements of the shape {self.shape}; take 0 or more of a vector")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(self.size), count)), np.int64)
    if not places.size:
        return self.shrink((0, 0)) if not count else self.new_empty(0, count)
    return self.take(places)


# ---- parts replaced ----


def diagonal_scatter(self: Tensor, src: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """This tensor with `src`, of the shape of `diagonal(offset, dim1, dim2)`, on that diagonal.

    >>> Tensor([[1, 2], [3, 4]]).diagonal_scatter(Tensor([8, 9])).tolist()
    [[8, 2], [3, 9]]
    """
    values = as_tensor(self, src, "diagonal_scatter")
    shape = self.diagonal(offset, dim1, dim2).shape
    if values.shape != shape:
        raise ShapeError(f"diagonal_scatter: values of shape {values.shape} for a diagonal of shape {shape}")
    first, second = (one_axis(axis, self.ndim, "diagonal_scatter") for axis in (dim1, dim2))
    matrices = self.moveaxis((first, second), (-2, -1))
    rows, columns = matrices.shape[-2:]
    device = self._device or None
    # The diagonal along the rows or the columns, whichever its elements begin at first.
    lines = values.pad([(0, 0)] * (values.ndim - 1) + [(max(-offset, 0), rows - max(-offset, 0) - shape[-1])])
    on = self.arange(columns, device=device) == self.arange(rows, device=device).unsqueeze(1) + offset
    return on.where(lines.unsqueeze(-1), matrices).cast(self.dtype).moveaxis((-2, -1), (first, second))


def fill(self: Tensor, value: Operand) -> Tensor:
    """A tensor of this shape and dtype with one number everywhere, which may come from a tensor without axes.

    >>> Tensor([1, 2]).fill(7).tolist()
    [7, 7]
    """
    number: Any = as_operand(self, value, "fill")
    if is_weak_scalar(number):
        return self.full_like(number)
    if number.ndim:
        raise ShapeError(f"fill: a value of shape {number.shape}; give one number")
    found: Tensor = number.cast(self.dtype).expand(self.shape)._same()
    return found


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a value: pairs (before, after) for the last axis, then for the one before it.

    >>> Tensor([[1, 2]]).constant_pad_nd((1, 0), 9).tolist()
    [[9, 1, 2]]
    """
    pairs = pairs_of_axes(pad, self.shape)
    # What is cut off at one end is still there for the other.
    padded = self.pad([(max(before, 0), max(after, 0)) for before, after in pairs], "constant", value)
    cut = [(max(-before, 0), min(after, 0)) for before, after in pairs]
    if not any(map(any, cut)):
        return padded
    return padded.shrink(*((first, n + last) for (first, last), n in zip(cut, padded.shape)))


# ---- new tensors ----


def scalar_tensor(cls: type[Tensor], value: Any, dtype: Any = default_float, device: str | None = None) -> Tensor:
    """A tensor without axes, float32 by default.

    >>> Tensor.scalar_tensor(3).tolist()
    3.0
    """
    return cls.full((), value, dtype, device)


def logspace(
    cls: type[Tensor],
    start: float,
    stop: float | None = None,
    count: int | None = None,
    base: float = 10.0,
    dtype: Any = default_float,
    device: str | None = None,
    *,
    end: float | None = None,
    steps: int | None = None,
) -> Tensor:
    """`count` powers of `base`, with exponents at equal distances from `start` to `stop`, both included.

    end, steps: PyTorch's names of `stop` and `count`.

    >>> Tensor.logspace(0, 2, 3, base=2.0).tolist()
    [1.0, 2.0, 4.0]
    """
    wanted = as_dtype(dtype)
    exact = float64 if wanted == float64 else default_float
    stop, count = either(stop, end, "logspace", "stop", "end"), either(count, steps, "logspace", "count", "steps")
    return cls.linspace(start, stop, count, exact, device).pow(float(base), swapped=True).cast(wanted)


# ---- numbers ----


def rsub(self: Tensor, other: Operand, *, alpha: float = 1) -> Tensor:
    """`other - alpha * self`

    >>> Tensor([1, 2]).rsub(10, alpha=2).tolist()
    [8, 6]
    """
    return (self if alpha == 1 else self * alpha).sub(other, swapped=True)


def polar(self: Tensor, angle: Operand) -> Tensor:
    """The complex numbers with these absolute values and angles.

    >>> Tensor([2.0]).polar(Tensor([0.0])).tolist()
    [(2+0j)]
    """
    turn = as_tensor(self, angle, "polar")
    if not result_dtype(self, turn).is_float:
        raise DtypeError(f"polar: {self.dtype} and {turn.dtype}; give floats")
    return self.complex(self * turn.cos(), self * turn.sin())


def view_as_complex(self: Tensor) -> Tensor:
    """The last axis, of two floats, as the parts of complex numbers: `complex(x[..., 0], x[..., 1])`, a copy.

    >>> Tensor([[1.0, 2.0]]).view_as_complex().tolist()
    [(1+2j)]
    """
    if not self.ndim or self.shape[-1] != 2 or not self.dtype.is_float:
        raise ShapeError(f"view_as_complex: {self.dtype} of shape {self.shape}; it needs floats of shape (…, 2)")
    real, imaginary = self.unbind(-1)
    return self.complex(real, imaginary)


def view_as_real(self: Tensor) -> Tensor:
    """The parts of complex numbers along a new last axis, `stack(x.real, x.imag)`: a copy. Raises DtypeError.

    >>> Tensor([1 + 2j]).view_as_real().tolist()
    [[1.0, 2.0]]
    """
    if not self.dtype.is_complex:
        raise DtypeError(f"view_as_real: the dtype is {self.dtype}; it needs complex numbers")
    return self.real.stack(self.imag, axis=-1)


def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim` with a p-norm above `maxnorm` scaled down to it; the others as they are.

    >>> [[round(v, 3) for v in row] for row in Tensor([[3.0, 4.0], [0.0, 1.0]]).renorm(2, 0, 2.5).tolist()]
    [[1.5, 2.0], [0.0, 1.0]]
    """
    k = one_axis(dim, self.ndim, "renorm")
    if not self.dtype.is_inexact:
        raise DtypeError(f"renorm: the dtype is {self.dtype}; cast it to a float dtype")
    size = self.norm(p, tuple(j for j in range(self.ndim) if j != k), True)
    # PyTorch's 1e-7 keeps the product below the limit.
    return self * (size > maxnorm).where(maxnorm / (size + 1e-7), 1.0).cast(self.dtype)


def _each(first: Any, others: tuple[Any, ...], change: Any, name: str) -> Any:
    """`change` of one tensor, or of each of several, as a tuple."""
    if not others and not isinstance(first, Sequence):
        return change(first)
    return tuple(change(x) for x in tensors_of(first, others, name))
