"""PyTorch's further functions in place: products that are added, updates by places, and old names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.tensor.inplace_combinations import InPlaceCombinations

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.gathering import Indices, Reduction
    from rulegrad.tensor.operands import Operand


class InPlaceNames(InPlaceCombinations):
    """baddbmm_, scatter_reduce_, index_reduce_, put_, renorm_, …"""

    __slots__ = ()

    def absolute_(self) -> Self:
        """`absolute`, in place.

        >>> Tensor([-1.0, 2.0]).absolute_().tolist()
        [1.0, 2.0]
        """
        return self._become(self.absolute(), "absolute_")

    def addbmm_(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addbmm`, in place.

        >>> Tensor([[1.0]]).addbmm_(Tensor([[[2.0]], [[3.0]]]), Tensor([[[4.0]], [[5.0]]])).tolist()
        [[24.0]]
        """
        return self._become(self.addbmm(first, second, beta=beta, alpha=alpha), "addbmm_")

    def addmv_(self, matrix: Operand, vector: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addmv`, in place.

        >>> Tensor([1.0]).addmv_(Tensor([[2.0, 3.0]]), Tensor([4.0, 5.0])).tolist()
        [24.0]
        """
        return self._become(self.addmv(matrix, vector, beta=beta, alpha=alpha), "addmv_")

    def addr_(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addr`, in place.

        >>> Tensor([[1.0, 1.0]]).addr_(Tensor([2.0]), Tensor([3.0, 4.0])).tolist()
        [[7.0, 9.0]]
        """
        return self._become(self.addr(first, second, beta=beta, alpha=alpha), "addr_")

    def baddbmm_(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`baddbmm`, in place.

        >>> Tensor([[[1.0]]]).baddbmm_(Tensor([[[2.0]]]), Tensor([[[3.0]]]), alpha=2).tolist()
        [[[13.0]]]
        """
        return self._become(self.baddbmm(first, second, beta=beta, alpha=alpha), "baddbmm_")

    def cumprod_(self, dim: int, dtype: Any = None) -> Self:
        """`cumprod`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).cumprod_(0).tolist()
        [1.0, 2.0, 6.0]
        """
        return self._become(self.cumprod(dim, dtype), "cumprod_")

    def erfinv_(self) -> Self:
        """`erfinv`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).erfinv_().tolist()]
        [0.0, 0.477]
        """
        return self._become(self.erfinv(), "erfinv_")

    def fix_(self) -> Self:
        """`fix`, in place.

        >>> Tensor([1.5, -1.5]).fix_().tolist()
        [1.0, -1.0]
        """
        return self._become(self.fix(), "fix_")

    def float_power_(self, exponent: Operand) -> Self:
        """`float_power`, in place.

        >>> Tensor([2.0, 3.0], dtype="float64").float_power_(2).tolist()
        [4.0, 9.0]
        """
        return self._become(self.float_power(exponent), "float_power_")

    def gcd_(self, other: Operand) -> Self:
        """`gcd`, in place.

        >>> Tensor([4, 6]).gcd_(Tensor([6, 9])).tolist()
        [2, 3]
        """
        return self._become(self.gcd(other), "gcd_")

    def heaviside_(self, values: Operand) -> Self:
        """`heaviside`, in place.

        >>> Tensor([-1.0, 0.0, 2.0]).heaviside_(0.5).tolist()
        [0.0, 0.5, 1.0]
        """
        return self._become(self.heaviside(values), "heaviside_")

    def i0_(self) -> Self:
        """`i0`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).i0_().tolist()]
        [1.0, 1.266]
        """
        return self._become(self.i0(), "i0_")

    def igamma_(self, other: Operand) -> Self:
        """`igamma`, in place.

        >>> [round(v, 3) for v in Tensor([0.5, 2.0]).igamma_(1.0).tolist()]
        [0.843, 0.264]
        """
        return self._become(self.igamma(other), "igamma_")

    def igammac_(self, other: Operand) -> Self:
        """`igammac`, in place.

        >>> [round(v, 3) for v in Tensor([0.5, 2.0]).igammac_(1.0).tolist()]
        [0.157, 0.736]
        """
        return self._become(self.igammac(other), "igammac_")

    def index_reduce_(
        self, dim: int, index: Indices, source: Operand, reduce: Reduction, *, include_self: bool = True
    ) -> Self:
        """`index_reduce`, in place.

        >>> Tensor([1.0, 2.0]).index_reduce_(0, [0, 0], Tensor([3.0, 5.0]), "prod").tolist()
        [15.0, 2.0]
        """
        return self._become(self.index_reduce(dim, index, source, reduce, include_self=include_self), "index_reduce_")

    def lcm_(self, other: Operand) -> Self:
        """`lcm`, in place.

        >>> Tensor([4, 6]).lcm_(Tensor([6, 9])).tolist()
        [12, 18]
        """
        return self._become(self.lcm(other), "lcm_")

    def ldexp_(self, other: Operand) -> Self:
        """`ldexp`, in place.

        >>> Tensor([0.5, 3.0]).ldexp_(Tensor([4, -1])).tolist()
        [8.0, 1.5]
        """
        return self._become(self.ldexp(other), "ldexp_")

    def logical_xor_(self, other: Operand) -> Self:
        """`logical_xor`, in place.

        >>> Tensor([True, False]).logical_xor_(Tensor([True, True])).tolist()
        [False, True]
        """
        return self._become(self.logical_xor(other), "logical_xor_")

    def logit_(self, eps: float | None = None) -> Self:
        """`logit`, in place.

        >>> Tensor([0.5]).logit_().tolist()
        [0.0]
        """
        return self._become(self.logit(eps), "logit_")

    def mvlgamma_(self, p: int) -> Self:
        """`mvlgamma`, in place.

        >>> [round(v, 3) for v in Tensor([2.5]).mvlgamma_(2).tolist()]
        [0.857]
        """
        return self._become(self.mvlgamma(p), "mvlgamma_")

    def nextafter_(self, other: Operand) -> Self:
        """`nextafter`, in place.

        >>> Tensor([1.0]).nextafter_(Tensor([2.0])).item() > 1
        True
        """
        return self._become(self.nextafter(other), "nextafter_")

    def polygamma_(self, n: int) -> Self:
        """`polygamma`, in place.

        >>> [round(v, 3) for v in Tensor([1.0]).polygamma_(1).tolist()]
        [1.645]
        """
        return self._become(self.polygamma(n), "polygamma_")

    def put_(self, index: Indices, source: Operand, accumulate: bool = False) -> Self:
        """`put`, in place.

        >>> Tensor([1.0, 2.0]).put_([1], [5.0], accumulate=True).tolist()
        [1.0, 7.0]
        """
        return self._become(self.put(index, source, accumulate), "put_")

    def renorm_(self, p: float, dim: int, maxnorm: float) -> Self:
        """`renorm`, in place.

        >>> [[round(v, 3) for v in row] for row in Tensor([[3.0, 4.0]]).renorm_(2, 0, 2.5).tolist()]
        [[1.5, 2.0]]
        """
        return self._become(self.renorm(p, dim, maxnorm), "renorm_")

    def scatter_reduce_(
        self, dim: int, index: Indices, src: Operand, reduce: Reduction, *, include_self: bool = True
    ) -> Self:
        """`scatter_reduce`, in place.

        >>> Tensor([1.0, 1.0]).scatter_reduce_(0, Tensor([1, 1]), Tensor([5.0, 3.0]), "amax").tolist()
        [1.0, 5.0]
        """
        return self._become(self.scatter_reduce(dim, index, src, reduce, include_self), "scatter_reduce_")

    def sgn_(self) -> Self:
        """`sgn`, in place.

        >>> Tensor([-2.0, 0.0]).sgn_().tolist()
        [-1.0, 0.0]
        """
        return self._become(self.sgn(), "sgn_")
