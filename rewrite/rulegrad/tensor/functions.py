"""Rounding, kinds of values, and activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.ir.limits import finfo
from rulegrad.tensor.arithmetic import from_parts
from rulegrad.tensor.constants import constant
from rulegrad.tensor.elementwise import unary
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, result_dtype
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.transcendental import as_floating, in_float32

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def _rounded(self: Tensor, op: str) -> Tensor:
    return unary(self, op) if self.dtype.is_inexact else self._same()


def floor(self: Tensor) -> Tensor:
    """The next integer below; integers stay as they are.

    >>> Tensor([1.5, -1.5]).floor().tolist()
    [1.0, -2.0]
    """
    return _rounded(self, "FLOOR")


def ceil(self: Tensor) -> Tensor:
    """The next integer above; integers stay as they are.

    >>> Tensor([1.5, -1.5]).ceil().tolist()
    [2.0, -1.0]
    """
    return _rounded(self, "CEIL")


def round(self: Tensor, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, halves to even; integers stay as they are.

    >>> from rulegrad import Tensor
    >>> Tensor([0.5, 1.5]).round().tolist(), Tensor([1250.0]).round(decimals=-2).tolist()
    ([0.0, 2.0], [1200.0])
    """
    if self.dtype.is_complex:
        return from_parts(self, self.real.round(decimals), self.imag.round(decimals))
    if decimals == 0 or not self.dtype.is_float:
        return _rounded(self, "ROUND")
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return _rounded((self / scale), "ROUND") * scale
    return _rounded((self * scale), "ROUND") / scale


def trunc(self: Tensor) -> Tensor:
    """The next integer towards zero; integers stay as they are.

    >>> Tensor([1.5, -1.5]).trunc().tolist()
    [1.0, -1.0]
    """
    return _rounded(self, "TRUNC")


# ---- kinds of values ----


@built_once
def isinf(self: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Whether an element is infinite, of either sign; a complex number, whether one of its parts is.

    detect_positive, detect_negative: whether `inf` counts, and whether `-inf` does.

    >>> Tensor([1.0, float("-inf"), float("nan")]).isinf().tolist()
    [False, True, False]
    """
    if self.dtype.is_complex:
        parts = (part.isinf(detect_positive, detect_negative) for part in (self.real, self.imag))
        return next(parts) | next(parts)
    if not self.dtype.is_float:
        return self.not_equal(self)
    if detect_positive and detect_negative:
        return self.abs().equal(math.inf)
    return self.equal(math.inf) & detect_positive | self.equal(-math.inf) & detect_negative


@built_once
def isfinite(self: Tensor) -> Tensor:
    """Whether an element (each part of a complex number) is neither infinite nor nan.

    >>> Tensor([1.0, float("-inf"), float("nan")]).isfinite().tolist()
    [True, False, False]
    """
    if self.dtype.is_complex:
        return self.real.isfinite() & self.imag.isfinite()
    if not self.dtype.is_float:
        return self == self
    return self.abs() <= finfo(self.dtype).max


# ---- activations ----


@built_once
def relu(self: Tensor) -> Tensor:
    """`max(self, 0)`, with gradient 0 at 0; nan stays nan.

    >>> Tensor([-1.0, 2.0]).relu().tolist()
    [0.0, 2.0]
    """
    return (self <= 0).where(0, self)


@built_once
def leaky_relu(self: Tensor, slope: float = 0.01) -> Tensor:
    """The element where it is positive, `slope` times it elsewhere.

    >>> Tensor([-1.0, 2.0]).leaky_relu(0.25).tolist()
    [-0.25, 2.0]
    """
    return (self <= 0).where(self * slope, self)


@built_once
@in_float32
def sigmoid(self: Tensor) -> Tensor:
    """`1 / (1 + exp(-self))`, without overflow on either side.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).sigmoid().tolist()]
    [0.5, 0.731]
    """
    x = as_floating(self)
    negative = (x.real if x.dtype.is_complex else x) < 0
    small = negative.where(x, -x).exp()
    return negative.where(small, 1.0) / (small + 1.0)


@built_once
@in_float32
def silu(self: Tensor) -> Tensor:
    """`self * sigmoid(self)`, also called swish.

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).silu().tolist()]
    [0.0, 0.731]
    """
    return self * self.sigmoid()


@built_once
@in_float32
def softplus(self: Tensor, beta: float = 1.0, threshold: float | None = None) -> Tensor:
    """`log(1 + exp(beta * self)) / beta`, without overflow.

    threshold: where `beta * self` is larger, the element itself is taken, as PyTorch does from 20 on. It does
    without by default, because nothing overflows here.

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 3.0]).softplus(2.0, threshold=4.0).tolist()
    [0.3465735912322998, 3.0]
    """
    if beta != 1.0 or threshold is not None:
        scaled = as_floating(self) * beta
        soft = scaled.softplus() / beta
        return soft if threshold is None else (scaled > threshold).where(self, soft).cast(soft.dtype)
    x = as_floating(self)
    negative = x < 0
    small = negative.where(x, -x).exp()
    return negative.where(0.0, x) + small.log1p()


def frac(self: Tensor) -> Tensor:
    """The fractional part, which `trunc` cuts off.

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
