"""PyTorch's functions of one tensor in place: `x.exp_()` is `x` with the values of `x.exp()`.

Each gives the tensor itself. A result that does not fit the tensor's shape or dtype is an error, and so is a leaf that
requires a gradient outside `no_grad()`; see `inplace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.tensor.spectrograms import Spectrograms

if TYPE_CHECKING:
    from typing_extensions import Self


class InPlaceFunctions(Spectrograms):
    """exp_, sqrt_, relu_, round_, cumsum_, tril_, …"""

    __slots__ = ()

    def abs_(self) -> Self:
        """`abs`, in place.

        >>> Tensor([-1.0, 2.0]).abs_().tolist()
        [1.0, 2.0]
        """
        return self._become(self.abs(), "abs_")

    def acos_(self) -> Self:
        """`acos`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).acos_().tolist()]
        [1.571, 0.0]
        """
        return self._become(self.acos(), "acos_")

    def acosh_(self) -> Self:
        """`acosh`, in place.

        >>> [round(v, 3) for v in Tensor([1.0, 2.0]).acosh_().tolist()]
        [0.0, 1.317]
        """
        return self._become(self.acosh(), "acosh_")

    def asin_(self) -> Self:
        """`asin`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asin_().tolist()]
        [0.0, 1.571]
        """
        return self._become(self.asin(), "asin_")

    def asinh_(self) -> Self:
        """`asinh`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).asinh_().tolist()]
        [0.0, 0.881]
        """
        return self._become(self.asinh(), "asinh_")

    def atan_(self) -> Self:
        """`atan`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).atan_().tolist()]
        [0.0, 0.785]
        """
        return self._become(self.atan(), "atan_")

    def atanh_(self) -> Self:
        """`atanh`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).atanh_().tolist()]
        [0.0, 0.549]
        """
        return self._become(self.atanh(), "atanh_")

    def ceil_(self) -> Self:
        """`ceil`, in place.

        >>> Tensor([1.5, -1.5]).ceil_().tolist()
        [2.0, -1.0]
        """
        return self._become(self.ceil(), "ceil_")

    def cos_(self) -> Self:
        """`cos`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cos_().tolist()]
        [1.0, 0.54]
        """
        return self._become(self.cos(), "cos_")

    def cosh_(self) -> Self:
        """`cosh`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).cosh_().tolist()]
        [1.0, 1.543]
        """
        return self._become(self.cosh(), "cosh_")

    def deg2rad_(self) -> Self:
        """`deg2rad`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 180.0]).deg2rad_().tolist()]
        [0.0, 3.142]
        """
        return self._become(self.deg2rad(), "deg2rad_")

    def digamma_(self) -> Self:
        """`digamma`, in place.

        >>> [round(v, 3) for v in Tensor([1.0, 2.0]).digamma_().tolist()]
        [-0.577, 0.423]
        """
        return self._become(self.digamma(), "digamma_")

    def erf_(self) -> Self:
        """`erf`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).erf_().tolist()]
        [0.0, 0.843]
        """
        return self._become(self.erf(), "erf_")

    def erfc_(self) -> Self:
        """`erfc`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).erfc_().tolist()]
        [1.0, 0.157]
        """
        return self._become(self.erfc(), "erfc_")

    def exp_(self) -> Self:
        """`exp`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).exp_().tolist()]
        [1.0, 2.718]
        """
        return self._become(self.exp(), "exp_")

    def exp2_(self) -> Self:
        """`exp2`, in place.

        >>> Tensor([0.0, 3.0]).exp2_().round().tolist()
        [1.0, 8.0]
        """
        return self._become(self.exp2(), "exp2_")

    def expm1_(self) -> Self:
        """`expm1`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).expm1_().tolist()]
        [0.0, 1.718]
        """
        return self._become(self.expm1(), "expm1_")

    def floor_(self) -> Self:
        """`floor`, in place.

        >>> Tensor([1.5, -1.5]).floor_().tolist()
        [1.0, -2.0]
        """
        return self._become(self.floor(), "floor_")

    def frac_(self) -> Self:
        """`frac`, in place.

        >>> Tensor([1.5, -1.25]).frac_().tolist()
        [0.5, -0.25]
        """
        return self._become(self.frac(), "frac_")

    def lgamma_(self) -> Self:
        """`lgamma`, in place.

        >>> [round(v, 3) for v in Tensor([3.0, 5.0]).lgamma_().tolist()]
        [0.693, 3.178]
        """
        return self._become(self.lgamma(), "lgamma_")

    def log_(self) -> Self:
        """`log`, in place.

        >>> [round(v, 3) for v in Tensor([1.0, 2.0]).log_().tolist()]
        [0.0, 0.693]
        """
        return self._become(self.log(), "log_")

    def log10_(self) -> Self:
        """`log10`, in place.

        >>> Tensor([1.0, 100.0]).log10_().round().tolist()
        [0.0, 2.0]
        """
        return self._become(self.log10(), "log10_")

    def log1p_(self) -> Self:
        """`log1p`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).log1p_().tolist()]
        [0.0, 0.693]
        """
        return self._become(self.log1p(), "log1p_")

    def log2_(self) -> Self:
        """`log2`, in place.

        >>> Tensor([1.0, 8.0]).log2_().round().tolist()
        [0.0, 3.0]
        """
        return self._become(self.log2(), "log2_")

    def logical_not_(self) -> Self:
        """`logical_not`, in place.

        >>> Tensor([0.0, 2.0]).logical_not_().tolist()
        [1.0, 0.0]
        """
        return self._become(self.logical_not(), "logical_not_")

    def neg_(self) -> Self:
        """`neg`, in place.

        >>> Tensor([1.0, -2.0]).neg_().tolist()
        [-1.0, 2.0]
        """
        return self._become(self.neg(), "neg_")

    def negative_(self) -> Self:
        """`negative`, in place.

        >>> Tensor([1.0, -2.0]).negative_().tolist()
        [-1.0, 2.0]
        """
        return self._become(self.negative(), "negative_")

    def rad2deg_(self) -> Self:
        """`rad2deg`, in place.

        >>> Tensor([0.0, 3.1416]).rad2deg_().round().tolist()
        [0.0, 180.0]
        """
        return self._become(self.rad2deg(), "rad2deg_")

    def reciprocal_(self) -> Self:
        """`reciprocal`, in place.

        >>> Tensor([2.0, 4.0]).reciprocal_().tolist()
        [0.5, 0.25]
        """
        return self._become(self.reciprocal(), "reciprocal_")

    def relu_(self) -> Self:
        """`relu`, in place.

        >>> Tensor([-1.0, 2.0]).relu_().tolist()
        [0.0, 2.0]
        """
        return self._become(self.relu(), "relu_")

    def rsqrt_(self) -> Self:
        """`rsqrt`, in place.

        >>> [round(v, 3) for v in Tensor([1.0, 4.0]).rsqrt_().tolist()]
        [1.0, 0.5]
        """
        return self._become(self.rsqrt(), "rsqrt_")

    def sigmoid_(self) -> Self:
        """`sigmoid`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sigmoid_().tolist()]
        [0.5, 0.731]
        """
        return self._become(self.sigmoid(), "sigmoid_")

    def sign_(self) -> Self:
        """`sign`, in place.

        >>> Tensor([-3.0, 0.0, 2.0]).sign_().tolist()
        [-1.0, 0.0, 1.0]
        """
        return self._become(self.sign(), "sign_")

    def sin_(self) -> Self:
        """`sin`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sin_().tolist()]
        [0.0, 0.841]
        """
        return self._become(self.sin(), "sin_")

    def sinc_(self) -> Self:
        """`sinc`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 0.5]).sinc_().tolist()]
        [1.0, 0.637]
        """
        return self._become(self.sinc(), "sinc_")

    def sinh_(self) -> Self:
        """`sinh`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sinh_().tolist()]
        [0.0, 1.175]
        """
        return self._become(self.sinh(), "sinh_")

    def sqrt_(self) -> Self:
        """`sqrt`, in place.

        >>> Tensor([1.0, 4.0]).sqrt_().tolist()
        [1.0, 2.0]
        """
        return self._become(self.sqrt(), "sqrt_")

    def square_(self) -> Self:
        """`square`, in place.

        >>> Tensor([-3.0, 0.5]).square_().tolist()
        [9.0, 0.25]
        """
        return self._become(self.square(), "square_")

    def tan_(self) -> Self:
        """`tan`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tan_().tolist()]
        [0.0, 1.557]
        """
        return self._become(self.tan(), "tan_")

    def tanh_(self) -> Self:
        """`tanh`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tanh_().tolist()]
        [0.0, 0.762]
        """
        return self._become(self.tanh(), "tanh_")

    def trunc_(self) -> Self:
        """`trunc`, in place.

        >>> Tensor([1.5, -1.5]).trunc_().tolist()
        [1.0, -1.0]
        """
        return self._become(self.trunc(), "trunc_")

    def bitwise_not_(self) -> Self:
        """`bitwise_not`, in place.

        >>> Tensor([0, 5]).bitwise_not_().tolist()
        [-1, -6]
        """
        return self._become(self.bitwise_not(), "bitwise_not_")

    def round_(self, decimals: int = 0) -> Self:
        """`round`, in place.

        >>> Tensor([0.5, 1.5]).round_().tolist()
        [0.0, 2.0]
        """
        return self._become(self.round(decimals), "round_")

    def nan_to_num_(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """`nan_to_num`, in place.

        >>> Tensor([float("nan"), float("inf")]).nan_to_num_(1.0, posinf=2.0).tolist()
        [1.0, 2.0]
        """
        return self._become(self.nan_to_num(nan, posinf, neginf), "nan_to_num_")

    def cumsum_(self, dim: int, dtype: Any = None) -> Self:
        """`cumsum`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).cumsum_(0).tolist()
        [1.0, 3.0, 6.0]
        """
        return self._become(self.cumsum(dim, dtype), "cumsum_")

    def tril_(self, diagonal: int = 0) -> Self:
        """`tril`, in place.

        >>> Tensor([[1, 2], [3, 4]]).tril_().tolist()
        [[1, 0], [3, 4]]
        """
        return self._become(self.tril(diagonal), "tril_")

    def triu_(self, diagonal: int = 0) -> Self:
        """`triu`, in place.

        >>> Tensor([[1, 2], [3, 4]]).triu_().tolist()
        [[1, 2], [0, 4]]
        """
        return self._become(self.triu(diagonal), "triu_")
