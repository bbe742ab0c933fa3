"""PyTorch's operations in place that are functions besides: `x.exp_()` is `x` with the values of `x.exp()`.

Each gives the tensor itself. A result that does not fit the tensor's shape or dtype is an error, and so is a leaf that
requires a gradient outside `no_grad()`; see `inplace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError
from rulegrad.ir.limits import integer_bounds
from rulegrad.tensor.statistics import Statistics

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand


class InPlaceFunctions(Statistics):
    """exp_, sqrt_, relu_, lerp_, addcmul_, index_put_, exponential_, random_, …"""

    __slots__ = ()

    # ---- of one tensor ----

    def abs_(self) -> Self:
        """`abs`, in place."""
        return self._become(self.abs(), "abs_")

    def acos_(self) -> Self:
        """`acos`, in place."""
        return self._become(self.acos(), "acos_")

    def acosh_(self) -> Self:
        """`acosh`, in place."""
        return self._become(self.acosh(), "acosh_")

    def asin_(self) -> Self:
        """`asin`, in place."""
        return self._become(self.asin(), "asin_")

    def asinh_(self) -> Self:
        """`asinh`, in place."""
        return self._become(self.asinh(), "asinh_")

    def atan_(self) -> Self:
        """`atan`, in place."""
        return self._become(self.atan(), "atan_")

    def atanh_(self) -> Self:
        """`atanh`, in place."""
        return self._become(self.atanh(), "atanh_")

    def ceil_(self) -> Self:
        """`ceil`, in place."""
        return self._become(self.ceil(), "ceil_")

    def cos_(self) -> Self:
        """`cos`, in place."""
        return self._become(self.cos(), "cos_")

    def cosh_(self) -> Self:
        """`cosh`, in place."""
        return self._become(self.cosh(), "cosh_")

    def deg2rad_(self) -> Self:
        """`deg2rad`, in place."""
        return self._become(self.deg2rad(), "deg2rad_")

    def digamma_(self) -> Self:
        """`digamma`, in place."""
        return self._become(self.digamma(), "digamma_")

    def erf_(self) -> Self:
        """`erf`, in place."""
        return self._become(self.erf(), "erf_")

    def erfc_(self) -> Self:
        """`erfc`, in place."""
        return self._become(self.erfc(), "erfc_")

    def exp_(self) -> Self:
        """`exp`, in place."""
        return self._become(self.exp(), "exp_")

    def exp2_(self) -> Self:
        """`exp2`, in place."""
        return self._become(self.exp2(), "exp2_")

    def expm1_(self) -> Self:
        """`expm1`, in place."""
        return self._become(self.expm1(), "expm1_")

    def floor_(self) -> Self:
        """`floor`, in place."""
        return self._become(self.floor(), "floor_")

    def frac_(self) -> Self:
        """`frac`, in place."""
        return self._become(self.frac(), "frac_")

    def lgamma_(self) -> Self:
        """`lgamma`, in place."""
        return self._become(self.lgamma(), "lgamma_")

    def log_(self) -> Self:
        """`log`, in place."""
        return self._become(self.log(), "log_")

    def log10_(self) -> Self:
        """`log10`, in place."""
        return self._become(self.log10(), "log10_")

    def log1p_(self) -> Self:
        """`log1p`, in place."""
        return self._become(self.log1p(), "log1p_")

    def log2_(self) -> Self:
        """`log2`, in place."""
        return self._become(self.log2(), "log2_")

    def logical_not_(self) -> Self:
        """`logical_not`, in place."""
        return self._become(self.logical_not(), "logical_not_")

    def neg_(self) -> Self:
        """`neg`, in place."""
        return self._become(self.neg(), "neg_")

    def negative_(self) -> Self:
        """`negative`, in place."""
        return self._become(self.negative(), "negative_")

    def rad2deg_(self) -> Self:
        """`rad2deg`, in place."""
        return self._become(self.rad2deg(), "rad2deg_")

    def reciprocal_(self) -> Self:
        """`reciprocal`, in place."""
        return self._become(self.reciprocal(), "reciprocal_")

    def relu_(self) -> Self:
        """`relu`, in place."""
        return self._become(self.relu(), "relu_")

    def rsqrt_(self) -> Self:
        """`rsqrt`, in place."""
        return self._become(self.rsqrt(), "rsqrt_")

    def sigmoid_(self) -> Self:
        """`sigmoid`, in place."""
        return self._become(self.sigmoid(), "sigmoid_")

    def sign_(self) -> Self:
        """`sign`, in place."""
        return self._become(self.sign(), "sign_")

    def sin_(self) -> Self:
        """`sin`, in place."""
        return self._become(self.sin(), "sin_")

    def sinc_(self) -> Self:
        """`sinc`, in place."""
        return self._become(self.sinc(), "sinc_")

    def sinh_(self) -> Self:
        """`sinh`, in place."""
        return self._become(self.sinh(), "sinh_")

    def sqrt_(self) -> Self:
        """`sqrt`, in place."""
        return self._become(self.sqrt(), "sqrt_")

    def square_(self) -> Self:
        """`square`, in place."""
        return self._become(self.square(), "square_")

    def tan_(self) -> Self:
        """`tan`, in place."""
        return self._become(self.tan(), "tan_")

    def tanh_(self) -> Self:
        """`tanh`, in place."""
        return self._become(self.tanh(), "tanh_")

    def trunc_(self) -> Self:
        """`trunc`, in place."""
        return self._become(self.trunc(), "trunc_")

    def bitwise_not_(self) -> Self:
        """`bitwise_not`, in place."""
        return self._become(self.bitwise_not(), "bitwise_not_")

    def round_(self, decimals: int = 0) -> Self:
        """`round`, in place."""
        return self._become(self.round(decimals), "round_")

    def nan_to_num_(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """`nan_to_num`, in place."""
        return self._become(self.nan_to_num(nan, posinf, neginf), "nan_to_num_")

    def cumsum_(self, dim: int, dtype: Any = None) -> Self:
        """`cumsum`, in place."""
        return self._become(self.cumsum(dim, dtype), "cumsum_")

    def tril_(self, diagonal: int = 0) -> Self:
        """`tril`, in place."""
        return self._become(self.tril(diagonal), "tril_")

    def triu_(self, diagonal: int = 0) -> Self:
        """`triu`, in place."""
        return self._become(self.triu(diagonal), "triu_")

    # ---- of two and more ----

    def atan2_(self, other: Operand) -> Self:
        """`atan2`, in place."""
        return self._become(self.atan2(other), "atan2_")

    def bitwise_and_(self, other: Operand) -> Self:
        """`bitwise_and`, in place."""
        return self._become(self.bitwise_and(other), "bitwise_and_")

    def bitwise_or_(self, other: Operand) -> Self:
        """`bitwise_or`, in place."""
        return self._become(self.bitwise_or(other), "bitwise_or_")

    def bitwise_xor_(self, other: Operand) -> Self:
        """`bitwise_xor`, in place."""
        return self._become(self.bitwise_xor(other), "bitwise_xor_")

    def copysign_(self, other: Operand) -> Self:
        """`copysign`, in place."""
        return self._become(self.copysign(other), "copysign_")

    def divide_(self, other: Operand) -> Self:
        """`divide`, in place."""
        return self._become(self.divide(other), "divide_")

    def eq_(self, other: Operand) -> Self:
        """`eq`, in place."""
        return self._become(self.eq(other), "eq_")

    def floor_divide_(self, other: Operand) -> Self:
        """`floor_divide`, in place."""
        return self._become(self.floor_divide(other), "floor_divide_")

    def fmod_(self, other: Operand) -> Self:
        """`fmod`, in place."""
        return self._become(self.fmod(other), "fmod_")

    def ge_(self, other: Operand) -> Self:
        """`ge`, in place."""
        return self._become(self.ge(other), "ge_")

    def gt_(self, other: Operand) -> Self:
        """`gt`, in place."""
        return self._become(self.gt(other), "gt_")

    def hypot_(self, other: Operand) -> Self:
        """`hypot`, in place."""
        return self._become(self.hypot(other), "hypot_")

    def le_(self, other: Operand) -> Self:
        """`le`, in place."""
        return self._become(self.le(other), "le_")

    def logical_and_(self, other: Operand) -> Self:
        """`logical_and`, in place."""
        return self._become(self.logical_and(other), "logical_and_")

    def logical_or_(self, other: Operand) -> Self:
        """`logical_or`, in place."""
        return self._become(self.logical_or(other), "logical_or_")

    def lt_(self, other: Operand) -> Self:
        """`lt`, in place."""
        return self._become(self.lt(other), "lt_")

    def multiply_(self, other: Operand) -> Self:
        """`multiply`, in place."""
        return self._become(self.multiply(other), "multiply_")

    def ne_(self, other: Operand) -> Self:
        """`ne`, in place."""
        return self._become(self.ne(other), "ne_")

    def remainder_(self, other: Operand) -> Self:
        """`remainder`, in place."""
        return self._become(self.remainder(other), "remainder_")

    def subtract_(self, other: Operand) -> Self:
        """`subtract`, in place."""
        return self._become(self.subtract(other), "subtract_")

    def true_divide_(self, other: Operand) -> Self:
        """`true_divide`, in place."""
        return self._become(self.true_divide(other), "true_divide_")

    def xlogy_(self, other: Operand) -> Self:
        """`xlogy`, in place."""
        return self._become(self.xlogy(other), "xlogy_")

    def clip_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """`clip`, in place."""
        return self._become(self.clip(min, max), "clip_")

    def clamp_min_(self, min: Operand) -> Self:
        """`clamp_min`, in place."""
        return self._become(self.clamp_min(min), "clamp_min_")

    def clamp_max_(self, max: Operand) -> Self:
        """`clamp_max`, in place."""
        return self._become(self.clamp_max(max), "clamp_max_")

    def lerp_(self, end: Operand, weight: Operand) -> Self:
        """`lerp`, in place."""
        return self._become(self.lerp(end, weight), "lerp_")

    def addcmul_(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`addcmul`, in place."""
        return self._become(self.addcmul(first, second, value=value), "addcmul_")

    def addcdiv_(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`addcdiv`, in place."""
        return self._become(self.addcdiv(first, second, value=value), "addcdiv_")

    def addmm_(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addmm`, in place."""
        return self._become(self.addmm(first, second, beta=beta, alpha=alpha), "addmm_")

    def index_put_(self, indices: tuple[Any, ...], values: Any, accumulate: bool = False) -> Self:
        """`index_put`, in place.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 2.0]).index_put_(([0],), 5.0, accumulate=True).tolist()
        [6.0, 2.0]
        """
        return self._become(self.index_put(indices, values, accumulate), "index_put_")

    def masked_scatter_(self, mask: Operand, source: Operand) -> Self:
        """`masked_scatter`, in place."""
        return self._become(self.masked_scatter(mask, source), "masked_scatter_")

    def fill_diagonal_(self, fill_value: float) -> Self:
        """The diagonal of the last two axes filled with a number, in place."""
        rows, columns = self.shape[-2:] if self.ndim > 1 else self.shape * 2
        places = [self.arange(n, device=self._device or None) for n in (rows, columns)]
        return self._become(self.masked_fill(places[0].unsqueeze(1) == places[1], fill_value), "fill_diagonal_")

    # ---- random values ----

    def exponential_(self, lambd: float = 1) -> Self:
        """Exponentially distributed with the rate `lambd`, in place. Raises ConfigError for a rate of 0 or less."""
        if not lambd > 0:
            raise ConfigError(f"exponential_: lambd={lambd}; use a rate above 0")
        draws = self.rand(self.shape, dtype=self.dtype, device=self.device)
        return self._become(draws.sub(1.0, swapped=True).log() / -lambd, "exponential_")

    def log_normal_(self, mean: float = 1, std: float = 2) -> Self:
        """The exponential of normal values with this mean and standard deviation, in place."""
        values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device)
        return self._become(values.exp(), "log_normal_")

    def random_(self, low: int = 0, high: int | None = None) -> Self:
        """Whole numbers from `low` up to, not including, `high`, in place; by default all that the dtype has.

        One number alone is `high`. At most 2**32 different ones, so that is the default of wider dtypes.

        >>> from rulegrad import Tensor
        >>> Tensor.zeros(3).random_(1).tolist()
        [0.0, 0.0, 0.0]
        """
        if high is None and low:
            low, high = 0, low
        if high is None:
            exact = integer_bounds(self.dtype)[1] + 1 if self.dtype.is_integer else 1 << (self.dtype.mantissa + 1)
            high = min(exact, 1 << 32) if self.dtype.kind != "bool" else 2
        drawn = self.randint(self.shape, low=low, high=high, device=self.device)
        return self._become(drawn.cast(self.dtype), "random_")
