"""PyTorch's names for what tensors have under NumPy's, and its random fillings in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.matrices import Matrices
from rulegrad.tensor.operands import as_tensor

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

    def bernoulli(self) -> Self:
        """1 with the probability that the element says, else 0."""
        return (self.rand(self.shape, device=self.device) < self).cast(self.dtype)

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

    # ---- what is not there ----

    @property
    def data(self) -> Self:
        """Not there: what is done to `x.data` could not be seen in `x`. Raises AttributeError."""
        raise AttributeError(
            "Tensor.data: two tensors never share memory here. To read the values use .detach(); to change them use "
            "`with no_grad():` and an operation in place (x.copy_(…), x.normal_(), x += …), nn.init, or x.assign(…)"
        )
