"""Products of vectors, matrices and batches of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import bool_, float32, float64
from rulegrad.runtime.source_lines import reading
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, result_dtype
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


@built_once
def matmul(self: Tensor, other: Operand) -> Tensor:
    """`self @ other`: vectors, matrices, and batches of matrices, which broadcast as in NumPy.

    float16, bfloat16 and fp8 are multiplied and added up in float32, and rounded once at the end.
    Raises ShapeError when the inner extents differ, or an operand is a scalar.

    >>> from rulegrad import Tensor
    >>> (Tensor([[1, 2], [3, 4]]) @ Tensor([1, 1])).tolist()
    [3, 7]
    """
    right: Tensor = as_operand(self, other, "matmul")
    if not isinstance(right, TensorCore) or not self.ndim or not right.ndim:
        raise ShapeError("matmul: an operand is a scalar; use * to scale a tensor")
    return matrix_product(self, right)


def matrix_product(self: Tensor, right: Tensor, name: str = "matmul") -> Tensor:
    inner = right.shape[-2] if right.ndim > 1 else right.shape[0]
    if self.shape[-1] != inner:
        raise ShapeError(
            f"{name}: the shapes {self.shape} and {right.shape} do not fit: the last axis of the first "
            f"has {self.shape[-1]} elements and the {'second last' if right.ndim > 1 else 'only'} axis "
            f"of the second has {inner}"
        )
    if self.ndim == right.ndim == 2 and _is_plain(self, right):
        return self._result(_product_of_matrices(self.uop, right.uop), right)
    result = result_dtype(self, right)
    wide = accumulation_dtype(result)
    # (…, rows, 1, inner) * (…, 1, columns, inner), added up over inner; a vector has no rows or columns.
    rows = self.cast(wide)
    columns = right.cast(wide)
    if right.ndim > 1:
        columns = columns.mT
        if self.ndim > 1:
            rows, columns = rows.unsqueeze(-2), columns.unsqueeze(-3)
    product = rows * columns
    if result == bool_:
        return product.any(axis=-1)
    return product.sum(axis=-1, dtype=wide).cast(result)


def _is_plain(self: Tensor, right: Tensor) -> bool:
    """Whether the operands need no conversion, no axis has one element or none, and nobody reads lines of nodes."""
    dtype = self.dtype
    if dtype is not right.dtype or dtype not in (float32, float64) or reading():
        return False
    return min(self.shape) > 1 and min(right.shape) > 1


def _product_of_matrices(left: UOp, right: UOp) -> UOp:
    """The node that the general way makes for two matrices, in a few steps."""
    (rows, inner), columns = left.shape, right.shape[1]
    whole = (rows, columns, inner)
    turned = UOp("PERMUTE", (right,), order=(1, 0))
    first = UOp("EXPAND", (UOp("RESHAPE", (left,), shape=(rows, 1, inner)),), shape=whole)
    second = UOp("EXPAND", (UOp("RESHAPE", (turned,), shape=(1, columns, inner)),), shape=whole)
    total = UOp("REDUCE", (UOp("MUL", (first, second)),), op="ADD", axes=(2,))
    return UOp("RESHAPE", (total,), shape=(rows, columns))


def reflected_matmul(self: Tensor, other: Operand) -> Tensor:
    left: Tensor = as_operand(self, other, "matmul")
    if not isinstance(left, TensorCore):
        raise ShapeError("matmul: an operand is a scalar; use * to scale a tensor")
    return left.matmul(self)


def dot(self: Tensor, other: Operand) -> Tensor:
    """`matmul`, whose products of vectors are PyTorch's and NumPy's `dot`.

    >>> Tensor([1, 2]).dot(Tensor([3, 4])).item()
    11
    """
    right = as_tensor(self, other, "dot")
    if not self.ndim or not right.ndim:
        raise ShapeError("dot: an operand is a scalar; use * to scale a tensor")
    return matrix_product(self, right, "dot")


def outer(self: Tensor, other: Operand) -> Tensor:
    """All products of an element of this vector and one of the other.

    >>> Tensor([1, 2]).outer(Tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    right = as_tensor(self, other, "outer")
    if self.ndim != 1 or right.ndim != 1:
        raise ShapeError(f"outer: the shapes are {self.shape} and {right.shape}; both must be vectors")
    return self.unsqueeze(1) * right


@built_once
def linear(self: Tensor, weight: Operand, bias: Operand | None = None) -> Tensor:
    """`self @ weight.T + bias`, from (…, inputs) to (…, outputs), as in PyTorch.

    weight: (outputs, inputs); bias: (outputs,). Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0]).linear([[1.0, 1.0], [0.0, 1.0]], [10.0, 20.0]).tolist()
    [13.0, 22.0]
    """
    factors = as_tensor(self, weight, "linear")
    if factors.ndim != 2 or not self.ndim or self.shape[-1] != factors.shape[1]:
        raise ShapeError(
            f"linear: a weight of shape {factors.shape} for a tensor of shape {self.shape}; they need "
            "(outputs, inputs) and (…, inputs)"
        )
    product = matrix_product(self, factors.mT)
    if bias is None:
        return product
    added = as_tensor(self, bias, "linear")
    if added.shape != product.shape[-1:]:
        raise ShapeError(
            f"linear: a bias of shape {added.shape} for {product.shape[-1]} outputs; give one number for each"
        )
    return product + added


def mm(self: Tensor, other: Operand) -> Tensor:
    """The product of two matrices. Raises ShapeError for others.

    >>> Tensor([[1, 2], [3, 4]]).mm(Tensor([[0, 1], [1, 0]])).tolist()
    [[2, 1], [4, 3]]
    """
    return _product(self, other, 2, "mm")


def bmm(self: Tensor, other: Operand) -> Tensor:
    """The products of two batches of matrices, (batch, n, k) and (batch, k, m). Raises ShapeError for others.

    >>> Tensor([[[1, 2]], [[3, 4]]]).bmm(Tensor([[[1], [1]], [[2], [0]]])).tolist()
    [[[3]], [[6]]]
    """
    return _product(self, other, 3, "bmm")


def mv(self: Tensor, vector: Operand) -> Tensor:
    """The product of a matrix and a vector. Raises ShapeError for others.

    >>> Tensor([[1, 2], [3, 4]]).mv(Tensor([1, 1])).tolist()
    [3, 7]
    """
    right = as_tensor(self, vector, "mv")
    if (self.ndim, right.ndim) != (2, 1):
        raise ShapeError(f"mv: the shapes {self.shape} and {right.shape}; it needs a matrix and a vector")
    return matrix_product(self, right, "mv")


def _product(self: Tensor, other: Operand, rank: int, name: str) -> Tensor:
    right = as_tensor(self, other, name)
    if (self.ndim, right.ndim) != (rank, rank):
        raise ShapeError(f"{name}: the shapes {self.shape} and {right.shape}; both need {rank} axes; or use @")
    return matrix_product(self, right, name)


@built_once
def addmm(self: Tensor, mat1: Operand, mat2: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (mat1 @ mat2)`

    >>> Tensor([[10]]).addmm(Tensor([[1, 2]]), Tensor([[3], [4]]), alpha=2).tolist()
    [[32]]
    """
    product = _product(as_tensor(self, mat1, "addmm"), mat2, 2, "addmm")
    return _plus(self, product, beta, alpha, "addmm")


def addbmm(self: Tensor, batch1: Operand, batch2: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (batch1 @ batch2).sum(0)`: the products of two batches of matrices, added up.

    >>> Tensor([[10]]).addbmm(Tensor([[[1, 2]], [[1, 1]]]), Tensor([[[3], [4]], [[1], [0]]])).tolist()
    [[22]]
    """
    product = _product(as_tensor(self, batch1, "addbmm"), batch2, 3, "addbmm")
    return _plus(self, product.sum(0, dtype=product.dtype), beta, alpha, "addbmm")


def _plus(self: Tensor, product: Tensor, beta: float, alpha: float, name: str) -> Tensor:
    """`beta * self + alpha * product`; where `beta` is 0, nan and infinities of this tensor do not matter."""
    added = product if alpha == 1 else product * alpha
    if beta == 0:
        shape = broadcast_shapes(name, self.shape, added.shape)
        return added.cast(result_dtype(self, added)).expand(shape)._same()
    return (self if beta == 1 else self * beta) + added


def addmv(self: Tensor, mat: Operand, vec: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (mat @ vec)`

    >>> Tensor([10, 20]).addmv(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [13, 27]
    """
    product = as_tensor(self, mat, "addmv").mv(vec)
    return _plus(self, product, beta, alpha, "addmv")


def addr(self: Tensor, vec1: Operand, vec2: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * outer(vec1, vec2)`

    >>> Tensor([[10, 20]]).addr(Tensor([1, 2]), Tensor([3, 4])).tolist()
    [[13, 24], [16, 28]]
    """
    product = as_tensor(self, vec1, "addr").outer(vec2)
    return _plus(self, product, beta, alpha, "addr")


@built_once
def baddbmm(self: Tensor, batch1: Operand, batch2: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (batch1 @ batch2)` of batches of matrices.

    >>> Tensor([[[10]]]).baddbmm(Tensor([[[1, 2]]]), Tensor([[[3], [4]]]), beta=2).tolist()
    [[[31]]]
    """
    product = _product(as_tensor(self, batch1, "baddbmm"), batch2, 3, "baddbmm")
    return _plus(self, product, beta, alpha, "baddbmm")
