"""Activations of networks, and softmax with its relatives. Formulas are those of PyTorch's documentation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.axes import axis_or_dim, one_axis
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.linalg.norms import vector_norm
from rulegrad.tensor.operands import as_operand
from rulegrad.tensor.reduce import accumulation_dtype, element_count, reduced_axes
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.transcendental import as_floating, in_float32

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

# Of a network whose activations keep mean 0 and variance 1 (Klambauer et al. 2017, "Self-Normalizing Neural Networks").
_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946

#: x cosh(x) - sinh(x) as a series in x**2, without its factor x**3.
_TANHSHRINK_SERIES: Final = tuple(2 * k / math.factorial(2 * k + 1) for k in range(1, 11))


# ---- pieces of lines ----


@built_once
def hardtanh(self: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """The values limited to `min_val … max_val`, with gradient 0 at the limits.

    >>> from rulegrad import Tensor
    >>> Tensor([-2.0, 0.5, 2.0]).hardtanh().tolist()
    [-1.0, 0.5, 1.0]
    """
    if min_val > max_val:
        raise ConfigError(f"hardtanh: min_val={min_val} is above max_val={max_val}; give the lower limit first")
    return (self <= min_val).where(min_val, (self >= max_val).where(max_val, self))


@built_once
def relu6(self: Tensor) -> Tensor:
    """`min(max(self, 0), 6)`

    >>> Tensor([-1.0, 3.0, 8.0]).relu6().tolist()
    [0.0, 3.0, 6.0]
    """
    return self.hardtanh(0, 6)


@built_once
def hardsigmoid(self: Tensor) -> Tensor:
    """`relu6(self + 3) / 6`

    >>> Tensor([-4.0, 0.0, 4.0]).hardsigmoid().tolist()
    [0.0, 0.5, 1.0]
    """
    return (self + 3).relu6() / 6


@built_once
@in_float32
def hardswish(self: Tensor) -> Tensor:
    """`self * hardsigmoid(self)`

    >>> [round(v, 3) for v in Tensor([-1.0, 4.0]).hardswish().tolist()]
    [-0.333, 4.0]
    """
    return self * self.hardsigmoid()


@built_once
def threshold(self: Tensor, threshold: float, value: float) -> Tensor:
    """The element where it is above `threshold`, `value` elsewhere.

    >>> Tensor([1.0, 3.0]).threshold(2.0, -1.0).tolist()
    [-1.0, 3.0]
    """
    return (self <= threshold).where(value, self)


@built_once
def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where the absolute value is at most `lambd`, the element elsewhere.

    >>> Tensor([-2.0, 0.25, 1.0]).hardshrink().tolist()
    [-2.0, 0.0, 1.0]
    """
    return (self.abs() <= lambd).where(0, self)


@built_once
def softshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """The element moved towards 0 by `lambd`, not beyond 0.

    >>> Tensor([-2.0, 0.25, 1.0]).softshrink().tolist()
    [-1.5, 0.0, 0.5]
    """
    return (self > lambd).where(self - lambd, (self < -lambd).where(self + lambd, self * 0))


@built_once
def prelu(self: Tensor, weight: Operand) -> Tensor:
    """The element where it is positive, `weight` times it elsewhere.

    weight: of one element, or one for each channel (axis 1). Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([-2.0, 3.0]).prelu(Tensor([0.25])).tolist()
    [-0.5, 3.0]
    """
    channels = self.shape[1] if self.ndim > 1 else 1
    factor: Any = as_operand(self, weight, "prelu")
    if is_weak_scalar(factor):
        return (self > 0).where(self, self * factor)
    if factor.ndim > 1 or factor.size not in (1, channels):
        raise ShapeError(
            f"prelu: a weight of shape {factor.shape} for the shape {self.shape}; "
            f"give one number, or one for each of the {channels} channels"
        )
    factor = factor.reshape(-1, *(1,) * (self.ndim - 2)) if factor.size > 1 else factor.reshape(())
    return (self > 0).where(self, self * factor)


# ---- exponentials ----


@built_once
@in_float32
def elu(self: Tensor, alpha: float = 1.0) -> Tensor:
    """The element where it is positive, `alpha * (exp(self) - 1)` elsewhere.

    >>> [round(v, 3) for v in Tensor([-1.0, 2.0]).elu().tolist()]
    [-0.632, 2.0]
    """
    x = as_floating(self)
    positive = x > 0
    # The exponential is only taken of what is not positive, so it does not overflow in the other branch.
    return positive.where(x, positive.where(0.0, x).expm1() * alpha)


@built_once
@in_float32
def selu(self: Tensor) -> Tensor:
    """`elu` scaled such that networks keep the mean 0 and the variance 1.

    >>> [round(v, 3) for v in Tensor([-1.0, 2.0]).selu().tolist()]
    [-1.111, 2.101]
    """
    return self.elu(_SELU_ALPHA) * _SELU_SCALE


@built_once
@in_float32
def celu(self: Tensor, alpha: float = 1.0) -> Tensor:
    """`max(0, self) + min(0, alpha * (exp(self / alpha) - 1))`, whose slope is continuous for every alpha.

    >>> [round(v, 3) for v in Tensor([-1.0, 2.0]).celu(alpha=2.0).tolist()]
    [-0.787, 2.0]
    """
    if alpha == 0.0:
        raise ConfigError("celu: alpha=0 divides by zero; use another number")
    x = as_floating(self)
    positive = x > 0
    return positive.where(x, (positive.where(0.0, x) / alpha).expm1() * alpha)


@built_once
@in_float32
def mish(self: Tensor) -> Tensor:
    """`self * tanh(softplus(self))`

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).mish().tolist()]
    [0.0, 0.865]
    """
    return self * self.softplus().tanh()


@built_once
@in_float32
def logsigmoid(self: Tensor) -> Tensor:
    """`log(sigmoid(self))`, without overflow.

    >>> [round(v, 3) for v in Tensor([-100.0, 0.0]).logsigmoid().tolist()]
    [-100.0, -0.693]
    """
    return -(-as_floating(self)).softplus()


@built_once
@in_float32
def softsign(self: Tensor) -> Tensor:
    """`self / (1 + abs(self))`

    >>> Tensor([-1.0, 3.0]).softsign().tolist()
    [-0.5, 0.75]
    """
    x = as_floating(self)
    size = x.abs() + 1.0
    near = size < 2.0
    # Far out the gradient 1 / size**2 would be a difference of almost equal numbers.
    far = 1.0 - size.reciprocal()
    return near.where(near.where(x, 0.0) / size, (x < 0).where(-far, far))


@built_once
@in_float32
def tanhshrink(self: Tensor) -> Tensor:
    """`self - tanh(self)`

    >>> [round(v, 3) for v in Tensor([0.0, 1.0]).tanhshrink().tolist()]
    [0.0, 0.238]
    """
    x = as_floating(self)
    near = x.abs() < 1.0
    small = near.where(x, 0.0)
    square = small.square()
    # x cosh(x) - sinh(x) as a series: the difference of x and tanh(x) has few digits there
    series = square * 0.0 + _TANHSHRINK_SERIES[-1]
    for factor in _TANHSHRINK_SERIES[-2::-1]:
        series = series * square + factor
    return near.where(series * square * small / small.cosh(), x - x.tanh())


@built_once
def glu(self: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second. Raises ShapeError for an odd extent.

    >>> Tensor([4.0, 6.0, 0.0, 0.0]).glu().tolist()
    [2.0, 3.0]
    """
    k = one_axis(dim, self.ndim, "glu")
    if self.shape[k] % 2:
        raise ShapeError(f"glu: axis {k} of the shape {self.shape} has no two halves; use an even extent")
    first, second = self.split(self.shape[k] // 2, k)
    return first * second.sigmoid()


@built_once
@in_float32
def gelu(self: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """The Gaussian error linear unit: `self` times the normal distribution function, or its tanh approximation.

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 20.0]).gelu().tolist()
    [0.0, 20.0]
    """
    if approximate not in ("none", "tanh"):
        raise ConfigError(f"gelu: unknown approximation {approximate!r}; use none or tanh")
    x = as_floating(self)
    if approximate == "tanh":
        return x * 0.5 * ((x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)).tanh().add(1.0)
    return x * 0.5 * (x * -math.sqrt(0.5)).erfc()


# ---- softmax ----


def _stable(self: Tensor, axis: int, name: str) -> tuple[Tensor, int]:
    """The values less their largest along `axis`, which changes no softmax; no gradient flows to that."""
    k = one_axis(axis, self.ndim, name, of_scalar=True)
    x = as_floating(self)
    return (x if 0 in x.shape else x - x.detach().max(k, keepdims=True)), k


@built_once
def softmax(self: Tensor, axis: int = -1, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """`exp(self)` as shares of its sum along `axis`, computed in `dtype` where one is given.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 1.0]).softmax().tolist()
    [0.5, 0.5]
    """
    wide = self if dtype is None else self.cast(dtype)
    return _softmax(wide, axis_or_dim(axis, dim, "softmax", -1))


@in_float32
def _softmax(self: Tensor, axis: int) -> Tensor:
    shifted, k = _stable(self, axis, "softmax")
    powers = shifted.exp()
    return powers / powers.sum(k, keepdims=True)


@built_once
def softmin(self: Tensor, axis: int = -1, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """`softmax` of the negative, computed in `dtype` where one is given.

    >>> [round(v, 3) for v in Tensor([1.0, 2.0]).softmin().tolist()]
    [0.731, 0.269]
    """
    return self.neg().softmax(axis, dtype, dim=dim)


@built_once
def log_softmax(self: Tensor, axis: int = -1, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """The logarithm of `softmax`, exact where a share is tiny; computed in `dtype` where one is given.

    >>> [round(v, 3) for v in Tensor([1.0, 1.0]).log_softmax().tolist()]
    [-0.693, -0.693]
    """
    wide = self if dtype is None else self.cast(dtype)
    return _log_softmax(wide, axis_or_dim(axis, dim, "log_softmax", -1))


@in_float32
def _log_softmax(self: Tensor, axis: int) -> Tensor:
    shifted, k = _stable(self, axis, "log_softmax")
    return shifted - shifted.exp().sum(k, keepdims=True).log()


@built_once
@in_float32
def logsumexp(
    self: Tensor, axis: Any = -1, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False
) -> Tensor:
    """`log(exp(self).sum(axis))`, without overflow; over one axis, several, or (None) all.

    >>> from rulegrad import Tensor
    >>> Tensor([[0.0, 0.0], [0.0, 0.0]]).logsumexp((0, 1), keepdim=True).tolist()
    [[1.3862943649291992]]
    """
    k = reduced_axes(self, axis, dim, "logsumexp", -1)
    x = as_floating(self)
    if not element_count(self, k):
        return x.sum(k, keepdims or keepdim).log()
    largest = (x.real if x.dtype.is_complex else x).detach().max(k, keepdims=True)
    # inf - inf would be nan; a row of -inf has the logsumexp -inf, and one with an inf has inf.
    largest = largest.isfinite().where(largest, 0.0)
    total = (x - largest).exp().sum(k, keepdims=True).log() + largest
    return total if keepdims or keepdim else total.squeeze(k)


# ---- directions ----


@built_once
def normalize(self: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by its p-norm along `dim`, or by `eps` where the norm is smaller.

    >>> from rulegrad import Tensor
    >>> Tensor([[3.0, 4.0]]).normalize().tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    x = as_floating(self)
    wide = x.cast(accumulation_dtype(x.dtype))
    norm: Tensor = vector_norm(wide, p, reduced_axes(self, dim, None, "normalize"), True)
    return (wide / norm.clip(eps)).cast(x.dtype)
