"""PyTorch's operations in place of two and more tensors, and with random values: `x.lerp_(end, 0.5)`, `x.random_(6)`.

Each gives the tensor itself; what is an error is the same as for those of one tensor, see `inplace_functions`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError
from rulegrad.ir.limits import integer_bounds
from rulegrad.tensor.inplace_functions import InPlaceFunctions

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.operands import Operand


class InPlaceCombinations(InPlaceFunctions):
    """atan2_, eq_, clip_, lerp_, addcmul_, index_put_, exponential_, random_, …"""

    __slots__ = ()

    # ---- of two and more ----

    def atan2_(self, other: Operand) -> Self:
        """`atan2`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 1.0]).atan2_(1.0).tolist()]
        [0.0, 0.785]
        """
        return self._become(self.atan2(other), "atan2_")

    def bitwise_and_(self, other: Operand) -> Self:
        """`bitwise_and`, in place.

        >>> Tensor([6, 5]).bitwise_and_(3).tolist()
        [2, 1]
        """
        return self._become(self.bitwise_and(other), "bitwise_and_")

    def bitwise_or_(self, other: Operand) -> Self:
        """`bitwise_or`, in place.

        >>> Tensor([6, 5]).bitwise_or_(3).tolist()
        [7, 7]
        """
        return self._become(self.bitwise_or(other), "bitwise_or_")

    def bitwise_xor_(self, other: Operand) -> Self:
        """`bitwise_xor`, in place.

        >>> Tensor([6, 5]).bitwise_xor_(3).tolist()
        [5, 6]
        """
        return self._become(self.bitwise_xor(other), "bitwise_xor_")

    def copysign_(self, other: Operand) -> Self:
        """`copysign`, in place.

        >>> Tensor([1.0, -2.0]).copysign_(-1.0).tolist()
        [-1.0, -2.0]
        """
        return self._become(self.copysign(other), "copysign_")

    def divide_(self, other: Operand, *, rounding_mode: str | None = None) -> Self:
        """`divide`, in place.

        >>> Tensor([1.0, 3.0]).divide_(2).tolist()
        [0.5, 1.5]
        """
        return self._become(self.divide(other, rounding_mode=rounding_mode), "divide_")

    def eq_(self, other: Operand) -> Self:
        """`eq`, in place.

        >>> Tensor([1.0, 2.0]).eq_(2).tolist()
        [0.0, 1.0]
        """
        return self._become(self.eq(other), "eq_")

    def floor_divide_(self, other: Operand) -> Self:
        """`floor_divide`, in place.

        >>> Tensor([5.0, -5.0]).floor_divide_(2).tolist()
        [2.0, -3.0]
        """
        return self._become(self.floor_divide(other), "floor_divide_")

    def fmod_(self, other: Operand) -> Self:
        """`fmod`, in place.

        >>> Tensor([5.0, -5.0]).fmod_(3).tolist()
        [2.0, -2.0]
        """
        return self._become(self.fmod(other), "fmod_")

    def ge_(self, other: Operand) -> Self:
        """`ge`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).ge_(2).tolist()
        [0.0, 1.0, 1.0]
        """
        return self._become(self.ge(other), "ge_")

    def gt_(self, other: Operand) -> Self:
        """`gt`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).gt_(2).tolist()
        [0.0, 0.0, 1.0]
        """
        return self._become(self.gt(other), "gt_")

    def hypot_(self, other: Operand) -> Self:
        """`hypot`, in place.

        >>> Tensor([3.0, 6.0]).hypot_(Tensor([4.0, 8.0])).round().tolist()
        [5.0, 10.0]
        """
        return self._become(self.hypot(other), "hypot_")

    def le_(self, other: Operand) -> Self:
        """`le`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).le_(2).tolist()
        [1.0, 1.0, 0.0]
        """
        return self._become(self.le(other), "le_")

    def logical_and_(self, other: Operand) -> Self:
        """`logical_and`, in place.

        >>> Tensor([0.0, 2.0]).logical_and_(3).tolist()
        [0.0, 1.0]
        """
        return self._become(self.logical_and(other), "logical_and_")

    def logical_or_(self, other: Operand) -> Self:
        """`logical_or`, in place.

        >>> Tensor([0.0, 2.0]).logical_or_(0).tolist()
        [0.0, 1.0]
        """
        return self._become(self.logical_or(other), "logical_or_")

    def lt_(self, other: Operand) -> Self:
        """`lt`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).lt_(2).tolist()
        [1.0, 0.0, 0.0]
        """
        return self._become(self.lt(other), "lt_")

    def multiply_(self, other: Operand) -> Self:
        """`multiply`, in place.

        >>> Tensor([1.0, 3.0]).multiply_(2).tolist()
        [2.0, 6.0]
        """
        return self._become(self.multiply(other), "multiply_")

    def ne_(self, other: Operand) -> Self:
        """`ne`, in place.

        >>> Tensor([1.0, 2.0]).ne_(2).tolist()
        [1.0, 0.0]
        """
        return self._become(self.ne(other), "ne_")

    def remainder_(self, other: Operand) -> Self:
        """`remainder`, in place.

        >>> Tensor([5.0, -5.0]).remainder_(3).tolist()
        [2.0, 1.0]
        """
        return self._become(self.remainder(other), "remainder_")

    def subtract_(self, other: Operand, *, alpha: float = 1) -> Self:
        """`subtract`, in place.

        >>> Tensor([1.0, 3.0]).subtract_(2).tolist()
        [-1.0, 1.0]
        """
        return self._become(self.subtract(other, alpha=alpha), "subtract_")

    def true_divide_(self, other: Operand) -> Self:
        """`true_divide`, in place.

        >>> Tensor([1.0, 3.0]).true_divide_(2).tolist()
        [0.5, 1.5]
        """
        return self._become(self.true_divide(other), "true_divide_")

    def xlogy_(self, other: Operand) -> Self:
        """`xlogy`, in place.

        >>> [round(v, 3) for v in Tensor([0.0, 2.0]).xlogy_(Tensor([0.0, 2.0])).tolist()]
        [0.0, 1.386]
        """
        return self._become(self.xlogy(other), "xlogy_")

    def clip_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """`clip`, in place.

        >>> Tensor([-1.0, 0.5, 2.0]).clip_(0, 1).tolist()
        [0.0, 0.5, 1.0]
        """
        return self._become(self.clip(min, max), "clip_")

    def clamp_min_(self, min: Operand) -> Self:
        """`clamp_min`, in place.

        >>> Tensor([-1.0, 0.5]).clamp_min_(0).tolist()
        [0.0, 0.5]
        """
        return self._become(self.clamp_min(min), "clamp_min_")

    def clamp_max_(self, max: Operand) -> Self:
        """`clamp_max`, in place.

        >>> Tensor([0.5, 2.0]).clamp_max_(1).tolist()
        [0.5, 1.0]
        """
        return self._become(self.clamp_max(max), "clamp_max_")

    def lerp_(self, end: Operand, weight: Operand) -> Self:
        """`lerp`, in place.

        >>> Tensor([0.0, 2.0]).lerp_(Tensor([4.0, 4.0]), 0.5).tolist()
        [2.0, 3.0]
        """
        return self._become(self.lerp(end, weight), "lerp_")

    def addcmul_(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`addcmul`, in place.

        >>> Tensor([1.0, 1.0]).addcmul_(Tensor([2.0, 3.0]), 4.0, value=0.5).tolist()
        [5.0, 7.0]
        """
        return self._become(self.addcmul(first, second, value=value), "addcmul_")

    def addcdiv_(self, first: Operand, second: Operand, *, value: float = 1) -> Self:
        """`addcdiv`, in place.

        >>> Tensor([1.0, 1.0]).addcdiv_(Tensor([4.0, 6.0]), 2.0, value=0.5).tolist()
        [2.0, 2.5]
        """
        return self._become(self.addcdiv(first, second, value=value), "addcdiv_")

    def addmm_(self, first: Operand, second: Operand, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addmm`, in place.

        >>> Tensor([[1.0]]).addmm_(Tensor([[2.0, 3.0]]), Tensor([[4.0], [5.0]])).tolist()
        [[24.0]]
        """
        return self._become(self.addmm(first, second, beta=beta, alpha=alpha), "addmm_")

    def index_put_(self, indices: tuple[Any, ...], values: Any, accumulate: bool = False) -> Self:
        """`index_put`, in place.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 2.0]).index_put_(([0],), 5.0, accumulate=True).tolist()
        [6.0, 2.0]
        """
        return self._become(self.index_put(indices, values, accumulate), "index_put_")

    def masked_scatter_(self, mask: Operand, source: Operand) -> Self:
        """`masked_scatter`, in place.

        >>> Tensor([1.0, 2.0, 3.0]).masked_scatter_(Tensor([True, False, True]), Tensor([8.0, 9.0])).tolist()
        [8.0, 2.0, 9.0]
        """
        return self._become(self.masked_scatter(mask, source), "masked_scatter_")

    def fill_diagonal_(self, fill_value: float) -> Self:
        """The diagonal of the last two axes filled with a number, in place.

        >>> Tensor([[1, 2], [3, 4]]).fill_diagonal_(0).tolist()
        [[0, 2], [3, 0]]
        """
        rows, columns = self.shape[-2:] if self.ndim > 1 else self.shape * 2
        places = [self.arange(n, device=self._device or None) for n in (rows, columns)]
        return self._become(self.masked_fill(places[0].unsqueeze(1) == places[1], fill_value), "fill_diagonal_")

    # ---- random values ----

    def exponential_(self, lambd: float = 1, *, generator: Generator | None = None) -> Self:
        """Exponentially distributed with the rate `lambd`, in place. Raises ConfigError for a rate of 0 or less.

        >>> (Tensor.zeros(3).exponential_() >= 0).tolist()
        [True, True, True]
        """
        if not lambd > 0:
            raise ConfigError(f"exponential_: lambd={lambd}; use a rate above 0")
        draws = self.rand(self.shape, dtype=self.dtype, device=self.device, generator=generator)
        return self._become(draws.sub(1.0, swapped=True).log() / -lambd, "exponential_")

    def cauchy_(self, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Self:
        """Cauchy's distribution around `median` with half of its width `sigma`, in place. Raises ConfigError for a
        width of 0 or less.

        >>> Tensor.zeros(3).cauchy_(5.0, 0.5).shape
        (3,)
        """
        if not sigma > 0:
            raise ConfigError(f"cauchy_: sigma={sigma}; use a width above 0")
        draws = self.rand(self.shape, dtype=self.dtype, device=self.device, generator=generator)
        return self._become(((draws - 0.5) * math.pi).tan() * sigma + median, "cauchy_")

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Self:
        """How many trials it takes until one succeeds, each with the probability p, in place.

        Raises ConfigError unless p is above 0 and below 1.

        >>> (Tensor.zeros(3).geometric_(0.5) >= 1).tolist()
        [True, True, True]
        """
        if not 0 < p < 1:
            raise ConfigError(f"geometric_: p={p}; use a probability above 0 and below 1")
        draws = self.rand(self.shape, device=self.device, generator=generator).sub(1.0, swapped=True)
        trials = (draws.log() / math.log1p(-p)).ceil().clip(1, None)
        return self._become(trials.cast(self.dtype), "geometric_")

    def log_normal_(self, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Self:
        """The exponential of normal values with this mean and standard deviation, in place.

        >>> (Tensor.zeros(3).log_normal_() > 0).tolist()
        [True, True, True]
        """
        values = self.normal(self.shape, mean=mean, std=std, dtype=self.dtype, device=self.device, generator=generator)
        return self._become(values.exp(), "log_normal_")

    def random_(self, low: int = 0, high: int | None = None, *, generator: Generator | None = None) -> Self:
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
        drawn = self.randint(self.shape, low=low, high=high, device=self.device, generator=generator)
        return self._become(drawn.cast(self.dtype), "random_")
