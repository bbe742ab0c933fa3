"""PyTorch's names for what tensors have under NumPy's, and its random fillings in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import complete_shape, extents, integers, one_axis, whole_number
from rulegrad.tensor.constants import constant
from rulegrad.tensor.history import GradientPoint, argument_numbers, gradient_points, join
from rulegrad.tensor.matrices import Matrices
from rulegrad.tensor.operands import as_operand, as_tensor, result_dtype
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand


class Size(int):
    """The number of elements, as NumPy and the array API have it; called, the shape, as PyTorch has it."""

    shape: tuple[int, ...]

    def __new__(cls, count: int, shape: tuple[int, ...]) -> Size:
        size = super().__new__(cls, count)
        size.shape = shape
        return size

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or its extent at `dim`. Raises ShapeError for an axis that is not there."""
        return self.shape if dim is None else self.shape[one_axis(dim, len(self.shape), "size")]

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class TorchNames(Matrices):
    """view, numel, dim, clone, t, bmm, addmm, …"""

    __slots__ = ()

    @property
    def size(self) -> Size:
        """The number of elements. `size()` is the shape and `size(dim)` an extent, as in PyTorch.

        >>> from rulegrad import Tensor
        >>> x = Tensor.ones(2, 3)
        >>> x.size, x.size(), x.size(-1)
        (6, (2, 3), 3)
        """
        return Size(super().size, self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return int(super().size)

    nelement = numel

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    def element_size(self) -> int:
        """The bytes of one element."""
        return self.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is one of floats."""
        return self.dtype.is_float

    def is_contiguous(self) -> bool:
        """Always True: the memory of a tensor is in C order whenever anyone can see it."""
        return True

    def clone(self) -> Self:
        """The same values, through which gradients flow. (A tensor shares no memory that others could see.)

        >>> from rulegrad import Tensor
        >>> x = Tensor([1.0])
        >>> y = x.clone()
        >>> _ = x.add_(1)
        >>> x.tolist(), y.tolist()
        ([2.0], [1.0])
        """
        return self._result(self.uop)

    def type(self, dtype: Any = None) -> Any:
        """The values as another dtype; without one, the name of this tensor's. Python's types are no dtypes."""
        return str(self.dtype) if dtype is None else self.cast(as_dtype(dtype))

    def type_as(self, other: Self) -> Self:
        """The values in the dtype of `other`."""
        return self.cast(other.dtype)

    def view(self, *shape: Any) -> Self:
        """`reshape`; of a single dtype, `bitcast`.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(2, 3).view(-1).shape
        (6,)
        """
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            return self.bitcast(shape[0])
        return self.reshape(*shape)

    def view_as(self, other: Self) -> Self:
        """Reshaped to the shape of `other`."""
        return self.reshape(other.shape)

    def reshape_as(self, other: Self) -> Self:
        """Reshaped to the shape of `other`."""
        return self.reshape(other.shape)

    def expand_as(self, other: Self) -> Self:
        """Broadcast to the shape of `other`."""
        return self.expand(other.shape)

    # ---- views ----

    def ravel(self) -> Self:
        """The tensor as a vector."""
        return self.flatten()

    def unflatten(self, dim: int, sizes: Any) -> Self:
        """The axis `dim` as several of these sizes, one of which may be -1.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(2, 6).unflatten(1, (3, -1)).shape
        (2, 3, 2)
        """
        k = one_axis(dim, self.ndim, "unflatten")
        parts = complete_shape(integers((sizes,), "unflatten"), (self.shape[k],), "unflatten")
        return self.reshape(self.shape[:k] + parts + self.shape[k + 1 :])

    def narrow(self, dim: int, start: int, length: int) -> Self:
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
        return self.shrink(*((begin, begin + count) if j == k else None for j in range(self.ndim)))

    def select(self, dim: int, index: int) -> Self:
        """The slice at `index` along `dim`, without that axis. Raises IndexRangeError."""
        k = one_axis(dim, self.ndim, "select")
        return self[(slice(None),) * k + (whole_number(index, "select"),)]

    def select_scatter(self, src: Operand, dim: int, index: int) -> Self:
        """This tensor with `src` at `index` along `dim`."""
        k = one_axis(dim, self.ndim, "select_scatter")
        return self.index_put((slice(None),) * k + (whole_number(index, "select_scatter"),), src)

    def slice_scatter(
        self, src: Operand, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """This tensor with `src` at a slice along `dim`."""
        k = one_axis(dim, self.ndim, "slice_scatter")
        return self.index_put((slice(None),) * k + (slice(start, end, step),), src)

    def movedim(self, source: Any, destination: Any) -> Self:
        """PyTorch's name of `moveaxis`."""
        return self.moveaxis(source, destination)

    def swapdims(self, dim0: int, dim1: int) -> Self:
        """PyTorch's name of `swapaxes`."""
        return self.swapaxes(dim0, dim1)

    def fliplr(self) -> Self:
        """The columns (axis 1) in the other order."""
        return self.flip(one_axis(1, self.ndim, "fliplr"))

    def flipud(self) -> Self:
        """The rows (axis 0) in the other order."""
        return self.flip(one_axis(0, self.ndim, "flipud"))

    def diagflat(self, offset: int = 0) -> Self:
        """The matrix with all elements, in order, on a diagonal."""
        return self.flatten().diag_embed(offset)

    def sum_to_size(self, *size: Any) -> Self:
        """The sums that bring the tensor to a shape that broadcasts to its own. Raises ShapeError."""
        shape = extents(size, "sum_to_size")
        lead = self.ndim - len(shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(shape, self.shape[lead:])):
            raise ShapeError(f"sum_to_size: the shape {shape} does not broadcast to {self.shape}")
        axes = (*range(lead), *(lead + k for k, n in enumerate(shape) if n == 1 != self.shape[lead + k]))
        return self.sum(axes, dtype=self.dtype).reshape(shape) if axes else self

    def split_with_sizes(self, split_sizes: Any, dim: int = 0) -> tuple[Self, ...]:
        """`split` by a list of sizes."""
        return self.split(list(split_sizes), dim)

    @property
    def mH(self) -> Self:  # noqa: N802  (PyTorch's name)
        """The conjugate transposes of matrices."""
        return self.mT.conj()

    @property
    def H(self) -> Self:  # noqa: N802  (PyTorch's name)
        """The conjugate transpose of a matrix."""
        return self.t().conj()

    def adjoint(self) -> Self:
        """The conjugate transposes of matrices."""
        return self.mH

    # ---- elementwise ----

    def absolute(self) -> Self:
        """`abs`"""
        return self.abs()

    def fix(self) -> Self:
        """`trunc`"""
        return self.trunc()

    def frac(self) -> Self:
        """What `trunc` cuts off."""
        return self - self.trunc()

    def sgn(self) -> Self:
        """`sign`, which of complex numbers is the number divided by its absolute value."""
        return self.sign()

    def clamp_min(self, min: Operand) -> Self:
        """The values limited from below."""
        return self.clip(min, None)

    def clamp_max(self, max: Operand) -> Self:
        """The values limited from above."""
        return self.clip(None, max)

    def fmax(self, other: Operand) -> Self:
        """The larger of two elements; nan only when both are.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, float("nan")]).fmax(0.5).tolist()
        [1.0, 0.5]
        """
        return self._extreme_number(other, "maximum", "fmax")

    def fmin(self, other: Operand) -> Self:
        """The smaller of two elements; nan only when both are."""
        return self._extreme_number(other, "minimum", "fmin")

    def _extreme_number(self, other: Operand, method: str, name: str) -> Self:
        second: Any = as_operand(self, other, name)
        if is_weak_scalar(second):
            second = self._new(constant(second, result_dtype(self, second), name), None, self._device)
        found: Self = getattr(self, method)(second)
        if not found.dtype.is_float:
            return found
        found = second.isnan().where(self, found)
        return self.isnan().where(second, found)

    def addcmul(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`self + value * first * second`"""
        product = as_tensor(self, first, "addcmul") * second
        return self + (product if value == 1 else product * value)

    def addcdiv(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`self + value * first / second`"""
        quotient = as_tensor(self, first, "addcdiv") / second
        return self + (quotient if value == 1 else quotient * value)

    def xlogy(self, other: Operand) -> Self:
        """`self * log(other)`, and 0 where this tensor is 0 (but nan where `other` is).

        >>> from rulegrad import Tensor
        >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
        [0.0, 0.0]
        """
        x, y = self, self.full_like(0) + other
        zero = x.equal(0) & ~y.isnan()
        return zero.where(0.0, x * zero.where(1.0, y).log())

    def isposinf(self) -> Self:
        """Whether an element is infinite and positive."""
        return self.equal(math.inf)

    def isneginf(self) -> Self:
        """Whether an element is infinite and negative."""
        return self.equal(-math.inf)

    def isreal(self) -> Self:
        """Whether the imaginary part of an element is 0."""
        return self.imag.equal(0) if self.dtype.is_complex else self.equal(self) | self.isnan()

    # ---- reductions ----

    def amax(self, dim: Any = None, keepdim: bool = False) -> Self:
        """The largest element along one or several axes."""
        return self.max(dim, keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Self:
        """The smallest element along one or several axes."""
        return self.min(dim, keepdim)

    # ---- dtypes ----

    def short(self) -> Self:
        """`cast("int16")`"""
        return self.cast("int16")

    def char(self) -> Self:
        """`cast("int8")`"""
        return self.cast("int8")

    def byte(self) -> Self:
        """`cast("uint8")`"""
        return self.cast("uint8")

    def cfloat(self) -> Self:
        """`cast("complex64")`"""
        return self.cast("complex64")

    def cdouble(self) -> Self:
        """`cast("complex128")`"""
        return self.cast("complex128")

    def is_complex(self) -> bool:
        """Whether the dtype is one of complex numbers."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.kind not in ("bool", "uint")

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0. Raises ShapeError for another number of elements."""
        return bool(self)

    def ndimension(self) -> int:
        """The number of axes."""
        return self.ndim

    # ---- products ----

    def t(self) -> Self:
        """The transpose of a matrix; vectors and scalars stay. Raises ShapeError for more axes."""
        if self.ndim > 2:
            raise ShapeError(f"t: the shape {self.shape} has {self.ndim} axes; use .mT, or transpose(a, b)")
        return self.transpose(0, 1) if self.ndim == 2 else self

    def mm(self, other: Operand) -> Self:
        """The product of two matrices. Raises ShapeError for others."""
        return self._product(other, 2, "mm")

    def bmm(self, other: Operand) -> Self:
        """The products of two batches of matrices, (batch, n, k) and (batch, k, m). Raises ShapeError for others."""
        return self._product(other, 3, "bmm")

    def mv(self, vector: Operand) -> Self:
        """The product of a matrix and a vector. Raises ShapeError for others."""
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
        """`beta * self + alpha * (first @ second)`"""
        product = as_tensor(self, first, "addmm")._product(second, 2, "addmm")
        return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)

    def addmv(self, matrix: Operand, vector: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (matrix @ vector)`"""
        product = as_tensor(self, matrix, "addmv").mv(vector)
        return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)

    def addr(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * outer(first, second)`"""
        product = as_tensor(self, first, "addr").outer(second)
        return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)

    def ger(self, other: Operand) -> Self:
        """PyTorch's old name of `outer`."""
        return self.outer(other)

    def baddbmm(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`beta * self + alpha * (first @ second)` of batches of matrices."""
        product = as_tensor(self, first, "baddbmm")._product(second, 3, "baddbmm")
        return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)

    # ---- random values ----

    def rand_like(self, dtype: Any = None) -> Self:
        """`rand` with the shape, dtype and device of this tensor."""
        return self.rand(self.shape, dtype=dtype or self.dtype, device=self.device)

    def randn_like(self, dtype: Any = None) -> Self:
        """`randn` with the shape, dtype and device of this tensor.

        >>> from rulegrad import Tensor
        >>> Tensor.ones(2, 3).randn_like().shape
        (2, 3)
        """
        return self.randn(self.shape, dtype=dtype or self.dtype, device=self.device)

    def bernoulli(self, p: float | None = None) -> Self:
        """1 with the probability `p`, or without it the probability that the element says; else 0."""
        return (self.rand(self.shape, device=self.device) < (self if p is None else p)).cast(self.dtype)

    def uniform_(self, a: float = 0.0, b: float = 1.0) -> Self:
        """Uniform in [a, b), in place."""
        values = self.uniform(self.shape, low=a, high=b, dtype=self.dtype, device=self.device)
        return self._become(values, "uniform_")

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Normal with this mean and standard deviation, in place."""
        values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device)
        return self._become(values, "normal_")

    def bernoulli_(self, p: float = 0.5) -> Self:
        """1 with the probability `p`, else 0, in place."""
        return self._become((self.rand(self.shape, device=self.device) < p).cast(self.dtype), "bernoulli_")

    # ---- new tensors of the same dtype and device ----

    def new_tensor(self, data: Any, dtype: Any = None) -> Self:
        """A tensor of `data` with this tensor's dtype and device."""
        return type(self)(data, dtype=dtype or self.dtype, device=self.device)

    def new_zeros(self, *shape: Any, dtype: Any = None) -> Self:
        """`zeros` with this tensor's dtype and device."""
        return self.zeros(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_ones(self, *shape: Any, dtype: Any = None) -> Self:
        """`ones` with this tensor's dtype and device."""
        return self.ones(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Self:
        """`full` with this tensor's dtype and device."""
        return self.full(shape, fill_value, dtype=dtype or self.dtype, device=self.device)

    # ---- gradients ----

    @property
    def is_leaf(self) -> bool:
        """Whether `backward` gives this tensor a gradient by itself, or it has none at all."""
        return self._leaf or not self._requires_grad

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called."""
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
        if not self._requires_grad:
            raise GradientError("retain_grad: this tensor has no gradient (it depends on no tensor that requires one)")
        if self._leaf or self.retains_grad:
            return
        # A node of its own, as an equal result is the same node.
        self._uop = UOp("ARGUMENT", (self._uop,), id=next(argument_numbers))
        self._history = join(self._history, GradientPoint(self._uop, None, leaf=self))

    def detach_(self) -> Self:
        """This tensor without its gradient from now on, in place: what it was computed from is forgotten."""
        if self._leaf:
            self.requires_grad = False
        elif self._requires_grad:
            plain = self.detach()
            self._uop, self._history, self._requires_grad = plain._uop, plain._history, False
        return self

    # ---- what is not there ----

    @property
    def data(self) -> Self:
        """Not there: what is done to `x.data` could not be seen in `x`. Raises AttributeError."""
        raise AttributeError(
            "Tensor.data: two tensors never share memory here. To read the values use .detach(); to change them use "
            "`with no_grad():` and an operation in place (x.copy_(…), x.normal_(), x += …), nn.init, or x.assign(…)"
        )
