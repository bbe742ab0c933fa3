"""In-place operations: the tensor stands for the result from now on, in every place that holds it.

So do its base and other views of it, see `aliasing`; graphs that were built on the old values keep them. A leaf that
requires a gradient, or a view of one, can only be changed inside `no_grad()`, as in PyTorch: the gradient would be that
of another value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError, GradientError, ShapeError
from rulegrad.tensor.aliasing import check_writable, leaf_behind, write
from rulegrad.tensor.gathering import Gathering
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.operands import as_operand, broadcast_shapes
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.gathering import Indices
    from rulegrad.tensor.operands import Operand

_KINDS = ("bool", "uint", "int", "float", "complex")


class InPlace(Gathering):
    """`+=` and its relatives, add_, fill_, zero_, copy_, masked_fill_, scatter_, …"""

    __slots__ = ()

    def _become(self, value: Any, name: str) -> Self:
        """Stand for `value`, of this tensor's shape and a dtype of no higher kind, from now on."""
        leaf = leaf_behind(self) if gradients_enabled() else None
        if leaf is not None:
            what = "a leaf" if leaf is self else "a view of a leaf"
            raise GradientError(
                f"{name}: this tensor is {what} that requires a gradient, and cannot be changed in place; "
                "do it inside no_grad(), or use the result of an operation"
            )
        check_writable(self, name)
        if value.shape != self.shape:
            raise ShapeError(
                f"{name}: the result has the shape {value.shape}, and the tensor {self.shape}; they must agree"
            )
        if _KINDS.index(value.dtype.kind) > _KINDS.index(self.dtype.kind) and value.dtype != self.dtype:
            raise DtypeError(
                f"{name}: the result is {value.dtype} and does not fit a tensor of {self.dtype}; cast it first"
            )
        write(self, value if value.dtype == self.dtype else value.cast(self.dtype))
        return self

    def __iadd__(self, other: Operand) -> Self:
        return self._become(self + other, "+=")

    def __isub__(self, other: Operand) -> Self:
        return self._become(self - other, "-=")

    def __imul__(self, other: Operand) -> Self:
        return self._become(self * other, "*=")

    def __imatmul__(self, other: Operand) -> Self:
        product: Any = self
        return self._become(product @ other, "@=")

    def __itruediv__(self, other: Operand) -> Self:
        return self._become(self / other, "/=")

    def __ifloordiv__(self, other: Operand) -> Self:
        return self._become(self // other, "//=")

    def __imod__(self, other: Operand) -> Self:
        return self._become(self % other, "%=")

    def __ipow__(self, other: Operand) -> Self:
        return self._become(self**other, "**=")

    def __iand__(self, other: Operand) -> Self:
        return self._become(self & other, "&=")

    def __ior__(self, other: Operand) -> Self:
        return self._become(self | other, "|=")

    def __ixor__(self, other: Operand) -> Self:
        return self._become(self ^ other, "^=")

    def __ilshift__(self, other: Operand) -> Self:
        return self._become(self << other, "<<=")

    def __irshift__(self, other: Operand) -> Self:
        return self._become(self >> other, ">>=")

    def add_(self, other: Operand, alpha: float = 1) -> Self:
        """`self += other * alpha`

        >>> from rulegrad import Tensor
        >>> x = Tensor([1.0, 2.0])
        >>> x.add_(1).tolist(), x.tolist()
        ([2.0, 3.0], [2.0, 3.0])
        """
        return self._become(self + (other if alpha == 1 else as_operand(self, other, "add_") * alpha), "add_")

    def sub_(self, other: Operand, alpha: float = 1) -> Self:
        """`self -= other * alpha`

        >>> Tensor([1.0, 2.0]).sub_(1, alpha=2).tolist()
        [-1.0, 0.0]
        """
        return self._become(self - (other if alpha == 1 else as_operand(self, other, "sub_") * alpha), "sub_")

    def mul_(self, other: Operand) -> Self:
        """`self *= other`

        >>> Tensor([1.0, 2.0]).mul_(3).tolist()
        [3.0, 6.0]
        """
        return self._become(self * other, "mul_")

    def div_(self, other: Operand, *, rounding_mode: str | None = None) -> Self:
        """`self /= other`, rounded as in `div`

        >>> Tensor([1.0, 2.0]).div_(2).tolist()
        [0.5, 1.0]
        """
        return self._become(self.div(other, rounding_mode=rounding_mode), "div_")

    def pow_(self, exponent: Operand) -> Self:
        """`self **= exponent`

        >>> Tensor([2.0, 3.0]).pow_(2).tolist()
        [4.0, 9.0]
        """
        return self._become(self**exponent, "pow_")

    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The values limited to `min … max`, in place.

        >>> Tensor([-1.0, 0.5, 2.0]).clamp_(0, 1).tolist()
        [0.0, 0.5, 1.0]
        """
        return self._become(self.clip(min, max), "clamp_")

    def fill_(self, value: Operand) -> Self:
        """`value` everywhere, in place: a number, or a tensor of one element.

        >>> Tensor([1.0, 2.0]).fill_(5).tolist()
        [5.0, 5.0]
        """
        return self._copied(value, "fill_")

    def zero_(self) -> Self:
        """Zeros everywhere, in place.

        >>> Tensor([1.0, 2.0]).zero_().tolist()
        [0.0, 0.0]
        """
        return self._copied(0, "zero_")

    def copy_(self, src: Operand, non_blocking: bool = False) -> Self:
        """The values of `src` (which is broadcast and converted), in place. non_blocking: PyTorch's; nothing waits.

        >>> Tensor([1.0, 2.0]).copy_(Tensor([3, 4])).tolist()
        [3.0, 4.0]
        """
        return self._copied(src, "copy_")

    def _copied(self, source: Operand, name: str) -> Self:
        found: Any = as_operand(self, source, name)
        if is_weak_scalar(found):
            found = self.full_like(found)
        if broadcast_shapes(name, self.shape, found.shape) != self.shape:
            raise ShapeError(f"{name}: values of shape {found.shape} do not fit a tensor of shape {self.shape}")
        return self._become(found.expand(self.shape).cast(self.dtype), name)

    def masked_fill_(self, mask: Operand, value: Operand) -> Self:
        """`masked_fill`, in place.

        >>> Tensor([1.0, 2.0]).masked_fill_(Tensor([True, False]), 0).tolist()
        [0.0, 2.0]
        """
        return self._become(self.masked_fill(mask, value), "masked_fill_")

    def scatter_(
        self, dim: int, index: Indices, src: Operand | None = None, reduce: str | None = None, *, value: Any = None
    ) -> Self:
        """`scatter`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).scatter_(0, Tensor([2, 0]), Tensor([8.0, 9.0])).tolist()
        [9.0, 2.0, 8.0]
        """
        return self._become(self.scatter(dim, index, src, reduce, value=value), "scatter_")

    def scatter_add_(self, dim: int, index: Indices, src: Operand) -> Self:
        """`scatter_add`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).scatter_add_(0, Tensor([2, 0]), Tensor([8.0, 9.0])).tolist()
        [10.0, 2.0, 11.0]
        """
        return self._become(self.scatter_add(dim, index, src), "scatter_add_")

    def index_add_(self, dim: int, index: Indices, source: Operand, alpha: float = 1) -> Self:
        """`index_add`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).index_add_(0, [0, 0], Tensor([10.0, 20.0])).tolist()
        [31.0, 2.0, 3.0]
        """
        return self._become(self.index_add(dim, index, source, alpha), "index_add_")

    def index_copy_(self, dim: int, index: Indices, source: Operand) -> Self:
        """`index_copy`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).index_copy_(0, [2, 0], Tensor([8.0, 9.0])).tolist()
        [9.0, 2.0, 8.0]
        """
        return self._become(self.index_copy(dim, index, source), "index_copy_")

    def index_fill_(self, dim: int, index: Indices, value: Operand) -> Self:
        """`index_fill`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).index_fill_(0, [0, 2], 5).tolist()
        [5.0, 2.0, 5.0]
        """
        return self._become(self.index_fill(dim, index, value), "index_fill_")
