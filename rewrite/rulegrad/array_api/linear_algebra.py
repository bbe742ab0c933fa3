"""Linear algebra functions of the main namespace: products, and the matrix transpose."""

from __future__ import annotations

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.tensor import Tensor, linalg
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.operands import result_dtype

from .operands import Array, array, of_arrays

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


matmul = of_arrays(Tensor.matmul, arrays="x1 x2")
tensordot = of_arrays(linalg.tensordot, "* axes", arrays="x1 x2")


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged. Raises ShapeError for fewer than two.

    >>> from rulegrad import array_api as xp
    >>> xp.matrix_transpose(xp.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    values = array(x, "matrix_transpose")
    if values.ndim < 2:
        raise ShapeError(f"matrix_transpose: the shape {values.shape} has no rows and columns")
    return values.mT


def vecdot(x1: Array, x2: Array, /, axis: int = -1) -> Array:
    """The sums of `conj(x1) * x2` along `axis`, counted from the end; the other axes broadcast. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.vecdot(xp.asarray([[1, 2], [3, 4]]), xp.asarray([1, 1])).tolist()
    [3, 7]
    """
    first, second = array(x1, "vecdot"), array(x2, "vecdot")
    rank = min(first.ndim, second.ndim)
    if not rank:
        raise ShapeError(f"vecdot: the shapes are {first.shape} and {second.shape}; vectors have an axis")
    place = one_axis(axis, rank, "vecdot") - rank if axis < 0 else axis - max(first.ndim, second.ndim)
    if not -rank <= place < 0:
        raise ShapeError(f"vecdot: axis {axis} is not an axis of both {first.shape} and {second.shape}")
    if first.shape[place] != second.shape[place]:
        raise ShapeError(f"vecdot: axis {axis} of {first.shape} and of {second.shape} differ; they must be equal")
    if result_dtype(first, second) == "bool":
        raise DtypeError("vecdot: bools cannot be added up; convert them to numbers with astype")
    return linalg.vecdot(first, second, place)
