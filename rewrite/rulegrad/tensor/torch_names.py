"""PyTorch's names of operations that NumPy names otherwise, and its random fillings in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor.constants import constant
from rulegrad.tensor.history import GradientPoint, argument_numbers, gradient_points, join
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, result_dtype
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.torch_shapes import TorchShapes

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.operands import Operand


class TorchNames(TorchShapes):
    """addcmul, amax, bmm, addmm, new_zeros, normal_, retain_grad, …"""

    __slots__ = ()

    # ---- elementwise ----

    def absolute(self) -> Self:
        """`abs`

        >>> Tensor([-1, 2]).absolute().tolist()
        [1, 2]
        """
        return self.abs()

    def fix(self) -> Self:
        """`trunc`

        >>> Tensor([1.5, -2.5]).fix().tolist()
        [1.0, -2.0]
        """
        return self.trunc()

    def frac(self) -> Self:
        """What `trunc` cuts off.

        >>> Tensor([1.5, -2.25]).frac().tolist()
        [0.5, -0.25]
        """
        return self - self.trunc()

    def sgn(self) -> Self:
        """`sign`, which of complex numbers is the number divided by its absolute value.

        >>> Tensor([-2.0, 0.0, 3.0]).sgn().tolist()
        [-1.0, 0.0, 1.0]
        """
        return self.sign()

    def clamp_min(self, min: Operand) -> Self:
        """The values limited from below.

        >>> Tensor([1, 2, 3]).clamp_min(2).tolist()
        [2, 2, 3]
        """
        return self.clip(min, None)

    def clamp_max(self, max: Operand) -> Self:
        """The values limited from above.

        >>> Tensor([1, 2, 3]).clamp_max(2).tolist()
        [1, 2, 2]
        """
        return self.clip(None, max)

    def fmax(self, other: Operand) -> Self:
        """The larger of two elements; nan only when both are.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, float("nan")]).fmax(0.5).tolist()
        [1.0, 0.5]
        """
        return self._extreme_number(other, "maximum", "fmax")

    def fmin(self, other: Operand) -> Self:
        """The smaller of two elements; nan only when both are.

        >>> Tensor([1.0, float("nan")]).fmin(0.5).tolist()
        [0.5, 0.5]
        """
        return self._extreme_number(other, "minimum", "fmin")

    def _extreme_number(self, other: Operand, method: str, name: str) -> Self:
        second: Any = as_operand(self, other, name)
        if is_weak_scalar(second):
            second = self._new(constant(second, result_dtype(self, second), name), None, self._device)
        found: Self = getattr(self, method)(second)
        if not found.dtype.is_float:
            return found
        # Where they are equal, the gradient is that of the first.
        found = (second.isnan() | self.equal(second)).where(self, found)
        return self.isnan().where(second, found)

    def addcmul(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`self + value * first * second`

        >>> Tensor([1, 2]).addcmul(Tensor([3, 4]), Tensor([5, 6]), value=2).tolist()
        [31, 50]
        """
        product = as_tensor(self, first, "addcmul") * second
        return self + (product if value == 1 else product * value)

    def addcdiv(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`self + value * first / second`

        >>> Tensor([1.0, 2.0]).addcdiv(Tensor([3.0, 4.0]), Tensor([2.0, 8.0])).tolist()
        [2.5, 2.5]
        """
        quotient = as_tensor(self, first, "addcdiv") / second
        return self + (quotient if value == 1 else quotient * value)

    def xlogy(self, other: Operand) -> Self:
        """`self * log(other)`, and 0 where this tensor is 0 (but nan where `other` is).

        >>> from rulegrad import Tensor
        >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
        [0.0, 0.0]
        """
        x, y = self, self.full_like(0) + other
        # At x = 0 the derivative by x is still log(y), where that is finite.
        zero = x.equal(0) & ((y <= 0) | y.equal(math.inf))
        return x * zero.where(1.0, y).log()

    def isposinf(self) -> Self:
        """Whether an element is infinite and positive.

        >>> Tensor([1.0, float("inf"), -float("inf")]).isposinf().tolist()
        [False, True, False]
        """
        return self.equal(math.inf)

    def isneginf(self) -> Self:
        """Whether an element is infinite and negative.

        >>> Tensor([1.0, float("inf"), -float("inf")]).isneginf().tolist()
        [False, False, True]
        """
        return self.equal(-math.inf)

    def isreal(self) -> Self:
        """Whether the imaginary part of an element is 0.

        >>> Tensor([1 + 2j, 3 + 0j]).isreal().tolist()
        [False, True]
        """
        return self.imag.equal(0) if self.dtype.is_complex else self.equal(self) | self.isnan()

    # ---- reductions ----

    def amax(self, dim: Any = None, keepdim: bool = False) -> Self:
        """The largest element along one or several axes.

        >>> Tensor([[1, 4], [3, 2]]).amax(1).tolist()
        [4, 3]
        """
        return self.max(dim, keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Self:
        """The smallest element along one or several axes.

        >>> Tensor([[1, 4], [3, 2]]).amin((0, 1)).item()
        1
        """
        return self.min(dim, keepdim)

    # ---- dtypes ----

    def short(self) -> Self:
        """`cast("int16")`

        >>> Tensor([1.5]).short().dtype
        DType('int16')
        """
        return self.cast("int16")

    def char(self) -> Self:
        """`cast("int8")`

        >>> Tensor([1.5]).char().dtype
        DType('int8')
        """
        return self.cast("int8")

    def byte(self) -> Self:
        """`cast("uint8")`

        >>> Tensor([1.5]).byte().dtype
        DType('uint8')
        """
        return self.cast("uint8")

    def cfloat(self) -> Self:
        """`cast("complex64")`

        >>> Tensor([1.5]).cfloat().dtype
        DType('complex64')
        """
        return self.cast("complex64")

    def cdouble(self) -> Self:
        """`cast("complex128")`

        >>> Tensor([1.5]).cdouble().dtype
        DType('complex128')
        """
        return self.cast("complex128")

    def is_complex(self) -> bool:
        """Whether the dtype is one of complex numbers.

        >>> Tensor([1j]).is_complex(), Tensor([1.0]).is_complex()
        (True, False)
        """
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        >>> Tensor([1]).is_signed(), Tensor([1], dtype="uint8").is_signed()
        (True, False)
        """
        return self.dtype.kind not in ("bool", "uint")

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0. Raises ShapeError for another number of elements.

        >>> Tensor([2]).is_nonzero(), Tensor(0.0).is_nonzero()
        (True, False)
        """
        return bool(self)

    def ndimension(self) -> int:
        """The number of axes.

        >>> Tensor([[1, 2]]).ndimension()
        2
        """
        return self.ndim

    # ---- products ----

    def mm(self, other: Operand) -> Self:
        """The product of two matrices. Raises ShapeError for others.

        >>> Tensor([[1, 2], [3, 4]]).mm(Tensor([[0, 1], [1, 0]])).tolist()
        [[2, 1], [4, 3]]
        """
        return self._product(other, 2, "mm")

    def bmm(self, other: Operand) -> Self:
        """The products of two batches of matrices, (batch, n, k) and (batch, k, m). Raises ShapeError for others.

        >>> Tensor([[[1, 2]], [[3, 4]]]).bmm(Tensor([[[1], [1]], [[2], [0]]])).tolist()
        [[[3]], [[6]]]
        """
        return self._product(other, 3, "bmm")

    def mv(self, vector: Operand) -> Self:
        """The product of a matrix and a vector. Raises ShapeError for others.

        >>> Tensor([[1, 2], [3, 4]]).mv(Tensor([1, 1])).tolist()
        [3, 7]
        """
        right = as_tensor(self, vector, "mv")
        if (self.ndim, right.ndim) != (2, 1):
            raise ShapeError(f"mv: the shapes {self.shape} and {right.shape}; it needs a matrix and a vector")
        return self._matmul(right, "mv")

    def _product(self, other: Operand, rank: int, name: str) -> Self:
        right = as_tensor(self, other, name)
        if (self.ndim, right.ndim) != (rank, rank):
            raise ShapeError(f"{name}: the shapes {self.shape} and {right.shape}; both need {rank} axes; or use @")
        return self._matmul(right, name)

    def addmm(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (first @ second)`

        >>> Tensor([[10]]).addmm(Tensor([[1, 2]]), Tensor([[3], [4]]), alpha=2).tolist()
        [[32]]
        """
        product = as_tensor(self, first, "addmm")._product(second, 2, "addmm")
        return self._plus(product, beta, alpha, "addmm")

    def addbmm(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (first @ second).sum(0)`: the products of two batches of matrices, added up.

        >>> Tensor([[10]]).addbmm(Tensor([[[1, 2]], [[1, 1]]]), Tensor([[[3], [4]], [[1], [0]]])).tolist()
        [[22]]
        """
        product = as_tensor(self, first, "addbmm")._product(second, 3, "addbmm")
        return self._plus(product.sum(0, dtype=product.dtype), beta, alpha, "addbmm")

    def _plus(self, product: Self, beta: float, alpha: float, name: str) -> Self:
        """`beta * self + alpha * product`; where `beta` is 0, nan and infinities of this tensor do not matter."""
        added = product if alpha == 1 else product * alpha
        if beta == 0:
            shape = broadcast_shapes(name, self.shape, added.shape)
            return added.cast(result_dtype(self, added)).expand(shape)._same()
        return (self if beta == 1 else self * beta) + added

    def addmv(self, matrix: Operand, vector: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (matrix @ vector)`

        >>> Tensor([10, 20]).addmv(Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
        [13, 27]
        """
        product = as_tensor(self, matrix, "addmv").mv(vector)
        return self._plus(product, beta, alpha, "addmv")

    def addr(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * outer(first, second)`

        >>> Tensor([[10, 20]]).addr(Tensor([1, 2]), Tensor([3, 4])).tolist()
        [[13, 24], [16, 28]]
        """
        product = as_tensor(self, first, "addr").outer(second)
        return self._plus(product, beta, alpha, "addr")

    def ger(self, other: Operand) -> Self:
        """PyTorch's old name of `outer`.

        >>> Tensor([1, 2]).ger(Tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        return self.outer(other)

    def baddbmm(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (first @ second)` of batches of matrices.

        >>> Tensor([[[10]]]).baddbmm(Tensor([[[1, 2]]]), Tensor([[[3], [4]]]), beta=2).tolist()
        [[[31]]]
        """
        product = as_tensor(self, first, "baddbmm")._product(second, 3, "baddbmm")
        return self._plus(product, beta, alpha, "baddbmm")

    # ---- random values ----

    def rand_like(self, dtype: Any = None, *, generator: Generator | None = None) -> Self:
        """`rand` with the shape, dtype and device of this tensor.

        >>> Tensor.ones(2, 3).rand_like().shape
        (2, 3)
        """
        return self.rand(self.shape, dtype=dtype or self.dtype, device=self.device, generator=generator)

    def randn_like(self, dtype: Any = None, *, generator: Generator | None = None) -> Self:
        """`randn` with the shape, dtype and device of this tensor.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(2, 3).randn_like().shape
        (2, 3)
        """
        return self.randn(self.shape, dtype=dtype or self.dtype, device=self.device, generator=generator)

    def randint_like(
        self, low: int, high: int | None = None, dtype: Any = None, *, generator: Generator | None = None
    ) -> Self:
        """`randint` from `low` (0 with one number) up to `high`, with the shape, dtype and device of this tensor.

        Of a tensor of floats the integers are floats, too.

        >>> Tensor.ones(2, 3).randint_like(1).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        """
        low, high = (0, low) if high is None else (low, high)
        wanted = dtype or self.dtype
        return self.randint(self.shape, low=low, high=high, dtype=wanted, device=self.device, generator=generator)

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Self:
        """1 with the probability `p`, or without it the probability that the element says; else 0.

        >>> Tensor([0.0, 1.0]).bernoulli().tolist(), Tensor([0.0, 1.0]).bernoulli(1.0).tolist()
        ([0.0, 1.0], [1.0, 1.0])
        """
        return (self.rand(self.shape, device=self.device, generator=generator) < (self if p is None else p)).cast(
            self.dtype
        )

    def uniform_(self, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Uniform in [a, b), in place.

        >>> (Tensor.zeros(3).uniform_(2.0, 4.0) >= 2.0).tolist()
        [True, True, True]
        """
        values = self.uniform(self.shape, low=a, high=b, dtype=self.dtype, device=self.device, generator=generator)
        return self._become(values, "uniform_")

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Normal with this mean and standard deviation, in place.

        >>> Tensor.zeros(3).normal_(5.0, 0.0).tolist()
        [5.0, 5.0, 5.0]
        """
        values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device, generator=generator)
        return self._become(values, "normal_")

    def bernoulli_(self, p: float = 0.5, *, generator: Generator | None = None) -> Self:
        """1 with the probability `p`, else 0, in place.

        >>> Tensor.zeros(3).bernoulli_(1.0).tolist()
        [1.0, 1.0, 1.0]
        """
        return self._become(
            (self.rand(self.shape, device=self.device, generator=generator) < p).cast(self.dtype), "bernoulli_"
        )

    # ---- new tensors of the same dtype and device ----

    def new_tensor(self, data: Any, dtype: Any = None) -> Self:
        """A tensor of `data` with this tensor's dtype and device.

        >>> Tensor([0.5]).new_tensor([1, 2]).tolist()
        [1.0, 2.0]
        """
        return type(self)(data, dtype=dtype or self.dtype, device=self.device)

    def new_zeros(self, *shape: Any, dtype: Any = None) -> Self:
        """`zeros` with this tensor's dtype and device.

        >>> Tensor([1, 2]).new_zeros(3).tolist()
        [0, 0, 0]
        """
        return self.zeros(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_ones(self, *shape: Any, dtype: Any = None) -> Self:
        """`ones` with this tensor's dtype and device.

        >>> Tensor([1, 2]).new_ones(1, 3).tolist()
        [[1, 1, 1]]
        """
        return self.ones(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_empty(self, *shape: Any, dtype: Any = None) -> Self:
        """`empty` with this tensor's dtype and device: zeros.

        >>> Tensor([1, 2]).new_empty(3).shape
        (3,)
        """
        return self.empty(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Self:
        """`full` with this tensor's dtype and device.

        >>> Tensor([0.5]).new_full((2,), 7).tolist()
        [7.0, 7.0]
        """
        return self.full(shape, fill_value, dtype=dtype or self.dtype, device=self.device)

    # ---- gradients ----

    @property
    def is_leaf(self) -> bool:
        """Whether `backward` gives this tensor a gradient by itself, or it has none at all.

        >>> x = Tensor([1.0], requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf, Tensor([1.0]).is_leaf
        (True, False, True)
        """
        return self._leaf or not self.requires_grad

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called.

        >>> y = Tensor([1.0], requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad, (y * 2).retains_grad
        (True, False)
        """
        return not self._leaf and any(
            point.leaf is not None and point.leaf() is self for point in gradient_points(self._history)
        )

    def retain_grad(self) -> None:
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

    def detach_(self) -> Self:
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

    @property
    def data(self) -> Self:
        """`detach()`: the values without a gradient; a view. Setting it is `assign`, which takes the values.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> _ = x.data.mul_(10)
        >>> x.data = x.data + 1
        >>> x.tolist(), x.requires_grad
        ([11.0, 21.0], True)
        """
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self.assign(value)
