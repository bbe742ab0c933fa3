"""PyTorch's names of operations that NumPy names otherwise, and its random fillings in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor.constants import constant
from rulegrad.tensor.history import GradientPoint, argument_numbers, gradient_points, join
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, result_dtype
from rulegrad.tensor.products import matrix_product
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


# ---- elementwise ----


def frac(self: Tensor) -> Tensor:
    """What `trunc` cuts off.

    >>> Tensor([1.5, -2.25]).frac().tolist()
    [0.5, -0.25]
    """
    return self - self.trunc()


def clamp_min(self: Tensor, min: Operand) -> Tensor:
    """The values limited from below.

    >>> Tensor([1, 2, 3]).clamp_min(2).tolist()
    [2, 2, 3]
    """
    return self.clip(min, None)


def clamp_max(self: Tensor, max: Operand) -> Tensor:
    """The values limited from above.

    >>> Tensor([1, 2, 3]).clamp_max(2).tolist()
    [1, 2, 2]
    """
    return self.clip(None, max)


def fmax(self: Tensor, other: Operand) -> Tensor:
    """The larger of two elements; nan only when both are.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, float("nan")]).fmax(0.5).tolist()
    [1.0, 0.5]
    """
    return _extreme_number(self, other, "maximum", "fmax")


def fmin(self: Tensor, other: Operand) -> Tensor:
    """The smaller of two elements; nan only when both are.

    >>> Tensor([1.0, float("nan")]).fmin(0.5).tolist()
    [0.5, 0.5]
    """
    return _extreme_number(self, other, "minimum", "fmin")


def _extreme_number(self: Tensor, other: Operand, method: str, name: str) -> Tensor:
    second: Any = as_operand(self, other, name)
    if is_weak_scalar(second):
        second = self._new(constant(second, result_dtype(self, second), name), None, self._device)
    found: Tensor = getattr(self, method)(second)
    if not found.dtype.is_float:
        return found
    # Where they are equal, the gradient is that of the first.
    found = (second.isnan() | self.equal(second)).where(self, found)
    return self.isnan().where(second, found)


def addcmul(self: Tensor, first: Operand, second: Operand, *, value: float = 1) -> Tensor:
    """`self + value * first * second`

    >>> Tensor([1, 2]).addcmul(Tensor([3, 4]), Tensor([5, 6]), value=2).tolist()
    [31, 50]
    """
    product = as_tensor(self, first, "addcmul") * second
    return self + (product if value == 1 else product * value)


def addcdiv(self: Tensor, first: Operand, second: Operand, *, value: float = 1) -> Tensor:
    """`self + value * first / second`

    >>> Tensor([1.0, 2.0]).addcdiv(Tensor([3.0, 4.0]), Tensor([2.0, 8.0])).tolist()
    [2.5, 2.5]
    """
    quotient = as_tensor(self, first, "addcdiv") / second
    return self + (quotient if value == 1 else quotient * value)


def xlogy(self: Tensor, other: Operand) -> Tensor:
    """`self * log(other)`, and 0 where this tensor is 0 (but nan where `other` is).

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    x, y = self, self.full_like(0) + other
    # At x = 0 the derivative by x is still log(y), where that is finite.
    zero = x.equal(0) & ((y <= 0) | y.equal(math.inf))
    return x * zero.where(1.0, y).log()


def isposinf(self: Tensor) -> Tensor:
    """Whether an element is infinite and positive.

    >>> Tensor([1.0, float("inf"), -float("inf")]).isposinf().tolist()
    [False, True, False]
    """
    return self.equal(math.inf)


def isneginf(self: Tensor) -> Tensor:
    """Whether an element is infinite and negative.

    >>> Tensor([1.0, float("inf"), -float("inf")]).isneginf().tolist()
    [False, False, True]
    """
    return self.equal(-math.inf)


def isreal(self: Tensor) -> Tensor:
    """Whether the imaginary part of an element is 0.

    >>> Tensor([1 + 2j, 3 + 0j]).isreal().tolist()
    [False, True]
    """
    return self.imag.equal(0) if self.dtype.is_complex else self.equal(self) | self.isnan()


# ---- reductions ----


# ---- dtypes ----


def is_complex(self: Tensor) -> bool:
    """Whether the dtype is one of complex numbers.

    >>> Tensor([1j]).is_complex(), Tensor([1.0]).is_complex()
    (True, False)
    """
    return self.dtype.is_complex


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    >>> Tensor([1]).is_signed(), Tensor([1], dtype="uint8").is_signed()
    (True, False)
    """
    return self.dtype.kind not in ("bool", "uint")


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not 0. Raises ShapeError for another number of elements.

    >>> Tensor([2]).is_nonzero(), Tensor(0.0).is_nonzero()
    (True, False)
    """
    return bool(self)


def ndimension(self: Tensor) -> int:
    """The number of axes.

    >>> Tensor([[1, 2]]).ndimension()
    2
    """
    return self.ndim


# ---- products ----


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


def addmm(self: Tensor, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (first @ second)`

    >>> Tensor([[10]]).addmm(Tensor([[1, 2]]), Tensor([[3], [4]]), alpha=2).tolist()
    [[32]]
    """
    product = _product(as_tensor(self, first, "addmm"), second, 2, "addmm")
    return _plus(self, product, beta, alpha, "addmm")


def addbmm(self: Tensor, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (first @ second).sum(0)`: the products of two batches of matrices, added up.

    >>> Tensor([[10]]).addbmm(Tensor([[[1, 2]], [[1, 1]]]), Tensor([[[3], [4]], [[1], [0]]])).tolist()
    [[22]]
    """
    product = _product(as_tensor(self, first, "addbmm"), second, 3, "addbmm")
    return _plus(self, product.sum(0, dtype=product.dtype), beta, alpha, "addbmm")


def _plus(self: Tensor, product: Tensor, beta: float, alpha: float, name: str) -> Tensor:
    """`beta * self + alpha * product`; where `beta` is 0, nan and infinities of this tensor do not matter."""
    added = product if alpha == 1 else product * alpha
    if beta == 0:
        shape = broadcast_shapes(name, self.shape, added.shape)
        return added.cast(result_dtype(self, added)).expand(shape)._same()
    return (self if beta == 1 else self * beta) + added


def addmv(self: Tensor, matrix: Operand, vector: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (matrix @ vector)`

    >>> Tensor([10, 20]).addmv(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [13, 27]
    """
    product = as_tensor(self, matrix, "addmv").mv(vector)
    return _plus(self, product, beta, alpha, "addmv")


def addr(self: Tensor, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * outer(first, second)`

    >>> Tensor([[10, 20]]).addr(Tensor([1, 2]), Tensor([3, 4])).tolist()
    [[13, 24], [16, 28]]
    """
    product = as_tensor(self, first, "addr").outer(second)
    return _plus(self, product, beta, alpha, "addr")


def baddbmm(self: Tensor, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * self + alpha * (first @ second)` of batches of matrices.

    >>> Tensor([[[10]]]).baddbmm(Tensor([[[1, 2]]]), Tensor([[[3], [4]]]), beta=2).tolist()
    [[[31]]]
    """
    product = _product(as_tensor(self, first, "baddbmm"), second, 3, "baddbmm")
    return _plus(self, product, beta, alpha, "baddbmm")


# ---- random values ----


def rand_like(self: Tensor, dtype: Any = None, *, generator: Generator | None = None) -> Tensor:
    """`rand` with the shape, dtype and device of this tensor.

    >>> Tensor.ones(2, 3).rand_like().shape
    (2, 3)
    """
    return self.rand(self.shape, dtype=dtype or self.dtype, device=self.device, generator=generator)


def randn_like(self: Tensor, dtype: Any = None, *, generator: Generator | None = None) -> Tensor:
    """`randn` with the shape, dtype and device of this tensor.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(2, 3).randn_like().shape
    (2, 3)
    """
    return self.randn(self.shape, dtype=dtype or self.dtype, device=self.device, generator=generator)


def randint_like(
    self: Tensor, low: int, high: int | None = None, dtype: Any = None, *, generator: Generator | None = None
) -> Tensor:
    """`randint` from `low` (0 with one number) up to `high`, with the shape, dtype and device of this tensor.

    Of a tensor of floats the integers are floats, too.

    >>> Tensor.ones(2, 3).randint_like(1).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    low, high = (0, low) if high is None else (low, high)
    wanted = dtype or self.dtype
    return self.randint(self.shape, low=low, high=high, dtype=wanted, device=self.device, generator=generator)


def bernoulli(self: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability `p`, or without it the probability that the element says; else 0.

    >>> Tensor([0.0, 1.0]).bernoulli().tolist(), Tensor([0.0, 1.0]).bernoulli(1.0).tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    return (self.rand(self.shape, device=self.device, generator=generator) < (self if p is None else p)).cast(
        self.dtype
    )


# ---- new tensors of the same dtype and device ----


def new_tensor(self: Tensor, data: Any, dtype: Any = None) -> Tensor:
    """A tensor of `data` with this tensor's dtype and device.

    >>> Tensor([0.5]).new_tensor([1, 2]).tolist()
    [1.0, 2.0]
    """
    return type(self)(data, dtype=dtype or self.dtype, device=self.device)


def new_zeros(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """`zeros` with this tensor's dtype and device.

    >>> Tensor([1, 2]).new_zeros(3).tolist()
    [0, 0, 0]
    """
    return self.zeros(*shape, dtype=dtype or self.dtype, device=self.device)


def new_ones(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """`ones` with this tensor's dtype and device.

    >>> Tensor([1, 2]).new_ones(1, 3).tolist()
    [[1, 1, 1]]
    """
    return self.ones(*shape, dtype=dtype or self.dtype, device=self.device)


def new_empty(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """`empty` with this tensor's dtype and device: zeros.

    >>> Tensor([1, 2]).new_empty(3).shape
    (3,)
    """
    return self.empty(*shape, dtype=dtype or self.dtype, device=self.device)


def new_full(self: Tensor, shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """`full` with this tensor's dtype and device.

    >>> Tensor([0.5]).new_full((2,), 7).tolist()
    [7.0, 7.0]
    """
    return self.full(shape, fill_value, dtype=dtype or self.dtype, device=self.device)


# ---- gradients ----


def is_leaf(self: Tensor) -> bool:
    """Whether `backward` gives this tensor a gradient by itself, or it has none at all.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> x.is_leaf, (x * 2).is_leaf, Tensor([1.0]).is_leaf
    (True, False, True)
    """
    return self._leaf or not self.requires_grad


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called.

    >>> y = Tensor([1.0], requires_grad=True) * 2
    >>> y.retain_grad()
    >>> y.retains_grad, (y * 2).retains_grad
    (True, False)
    """
    return not self._leaf and any(
        point.leaf is not None and point.leaf() is self for point in gradient_points(self._history)
    )


def retain_grad(self: Tensor) -> None:
    """Let `backward` set the `.grad` of this result too. Call it before the result is used further.

    Raises GradientError for a tensor without a gradient; of a leaf it changes nothing.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> y.retain_grad()
    >>> _ = (y * y).sum().backward()
    >>> y.grad.tolist(), x.grad.tolist()
    ([6.0, 12.0], [18.0, 36.0])
    """
    if not self.requires_grad:
        raise GradientError("retain_grad: this tensor has no gradient (it depends on no tensor that requires one)")
    if self._leaf or self.retains_grad:
        return
    # A node of its own, as an equal result is the same node.
    history = self._past()
    self._uop = UOp("ARGUMENT", (self._uop,), id=next(argument_numbers))
    self._history = join(history, GradientPoint(self._uop, None, leaf=self))


def detach_(self: Tensor) -> Tensor:
    """This tensor without its gradient from now on, in place: what it was computed from is forgotten.

    >>> y = Tensor([1.0], requires_grad=True) * 2
    >>> y.detach_().requires_grad, y.tolist()
    (False, [2.0])
    """
    if self._leaf:
        self.requires_grad = False
    elif self.requires_grad:
        self._uop, self._history, self._requires_grad = UOp("DETACH", (self.uop,)), self._past(), False
        if self._view is not None:
            self._view.detached = True
    return self


def data(self: Tensor) -> Tensor:
    """`detach()`: the values without a gradient; a view. Setting it is `assign`, which takes the values.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> _ = x.data.mul_(10)
    >>> x.data = x.data + 1
    >>> x.tolist(), x.requires_grad
    ([11.0, 21.0], True)
    """
    return self.detach()


def set_data(self: Tensor, value: Any) -> None:
    self.assign(value)
