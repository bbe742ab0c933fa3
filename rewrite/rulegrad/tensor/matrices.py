"""Linear algebra as methods, with PyTorch's names. The functions are in `rulegrad.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.tensor import linalg
from rulegrad.tensor.dlpack import Interchange
from rulegrad.tensor.operands import as_tensor

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand


class Matrices(Interchange):
    """det, inverse, norm, …"""

    __slots__ = ()

    def det(self) -> Self:
        """The determinants of square matrices. Computes the tensor and waits, as all that calls LAPACK.

        >>> from rulegrad import Tensor
        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).det().shape
        ()
        """
        return linalg.det(self)  # type: ignore[type-var]

    def slogdet(self) -> linalg.Slogdet:
        """The signs of the determinants, and the logarithms of their absolute values.

        >>> sign, logarithm = Tensor([[0.0, 1.0], [1.0, 0.0]]).slogdet()
        >>> sign.item(), logarithm.item()
        (-1.0, 0.0)
        """
        return linalg.slogdet(self)  # type: ignore[type-var]

    def logdet(self) -> Self:
        """The logarithms of the determinants: nan for negative ones.

        >>> Tensor([[1.0, 5.0], [0.0, 1.0]]).logdet().item()
        0.0
        """
        sign, logarithm = self.slogdet()
        result: Self = (sign < 0).where(float("nan"), logarithm)  # type: ignore[assignment]
        return result

    def inverse(self) -> Self:
        """The inverses of square matrices. Raises LinalgError for a singular one.

        >>> Tensor([[1.0, 2.0], [0.0, 4.0]]).inverse().tolist()
        [[1.0, -0.5], [0.0, 0.25]]
        """
        return linalg.inv(self)  # type: ignore[type-var]

    def pinverse(self, rcond: float | None = None) -> Self:
        """The pseudo-inverses; singular values up to `rcond` times the largest count as 0.

        >>> Tensor([[2.0], [2.0]]).pinverse().round(decimals=3).tolist()
        [[0.25, 0.25]]
        """
        return linalg.pinv(self, rcond)  # type: ignore[type-var]

    def cholesky(self, upper: bool = False) -> Self:
        """Lower triangles L with `L @ L.mT == self`, or upper ones. Raises LinalgError.

        >>> Tensor([[4.0, 2.0], [2.0, 5.0]]).cholesky().tolist()
        [[2.0, 0.0], [1.0, 2.0]]
        """
        return linalg.cholesky(self, upper)  # type: ignore[type-var]

    def matrix_power(self, n: int) -> Self:
        """Square matrices multiplied by themselves `n` times; for n < 0 their inverses.

        >>> Tensor([[1.0, 1.0], [0.0, 1.0]]).matrix_power(3).tolist()
        [[1.0, 3.0], [0.0, 1.0]]
        """
        return linalg.matrix_power(self, n)  # type: ignore[type-var]

    def vdot(self, other: Operand) -> Self:
        """The sum of `conj(self) * other` of two vectors.

        >>> Tensor([1 + 2j, 3 + 1j]).vdot(Tensor([1j, 1j])).item()
        (3+4j)
        """
        right = as_tensor(self, other, "vdot")
        if self.ndim != 1 or right.shape != self.shape:
            raise ShapeError(f"vdot: the shapes are {self.shape} and {right.shape}; both must be vectors of one length")
        return linalg.vecdot(self, right)  # type: ignore[type-var]

    def norm(self, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Self:
        """The p-norm over `dim`, all axes by default; "fro" is p = 2, "nuc" the sum of a matrix's singular values.

        >>> from rulegrad import Tensor
        >>> Tensor([3.0, 4.0]).norm().item(), Tensor([3.0, -4.0]).norm(1).item()
        (5.0, 7.0)
        """
        if p == "nuc":
            return linalg.matrix_norm(self, p, keepdim)  # type: ignore[type-var]
        return linalg.vector_norm(self, dim, 2 if p == "fro" else p, keepdim)  # type: ignore[type-var]
