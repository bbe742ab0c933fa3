"""First values of parameters. Each function changes the tensor that it is given and returns it; names are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rulegrad import linalg
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.generators import Generator
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # PyTorch's names of before 0.4, which sources still ask for
    if f"{name}_" in __all__:
        return globals()[f"{name}_"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: What the fan is: the inputs that each output adds up, or the outputs that each input goes to.
Fan = Literal["fan_in", "fan_out"]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b). generator: here and below, what the numbers come from, by default what `manual_seed` starts.

    >>> from rulegrad import Tensor, nn
    >>> weight = nn.init.uniform_(Tensor.zeros(100), 1.0, 2.0)
    >>> bool((weight >= 1.0).all())
    True
    """
    like: dict[str, Any] = {"dtype": tensor.dtype, "device": tensor.device, "generator": generator}
    return _filled(tensor, Tensor.uniform(tensor.shape, low=a, high=b, **like))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with this mean and standard deviation."""
    like: dict[str, Any] = {"dtype": tensor.dtype, "device": tensor.device, "generator": generator}
    return _filled(tensor, Tensor.normal(tensor.shape, mean=mean, std=std, **like))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, but only within [a, b]: by the inverse of the distribution function, so every draw counts."""
    low, high = (0.5 * (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) for x in (a, b))
    between: dict[str, Any] = {"low": 2.0 * low - 1.0, "high": 2.0 * high - 1.0, "generator": generator}
    shares = Tensor.uniform(tensor.shape, device=tensor.device, **between)
    values = _inverse_erf(shares) * (std * math.sqrt(2.0)) + mean
    return _filled(tensor, values.clip(a, b).cast(tensor.dtype))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere."""
    return _filled(tensor, tensor.full_like(val))


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that keeps its channels: 1 in the middle of the windows of equal channels, else 0.

    Raises ShapeError for another number of axes than three to five, and where the groups do not divide the channels.

    >>> from rulegrad import Tensor, nn
    >>> nn.init.dirac_(Tensor.ones(2, 2, 3))[0].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    shape = tensor.shape
    if len(shape) not in (3, 4, 5) or shape[0] % groups:
        raise ShapeError(
            f"dirac_: the shape {shape} with {groups} groups; it needs three to five axes, and whole groups"
        )
    values = np.zeros(shape, np.float32)
    middle = tuple(size // 2 for size in shape[2:])
    outputs = shape[0] // groups
    for group in range(groups):
        for channel in range(min(outputs, shape[1])):
            place = (group * outputs + channel, channel, *middle)
            values[place] = 1.0
    return _filled(tensor, Tensor(values, device=tensor.device).cast(tensor.dtype))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """A matrix of normal numbers with this share of zeros in each column, in places that are drawn.

    Raises ShapeError for another number of axes.

    >>> from rulegrad import Tensor, nn
    >>> (nn.init.sparse_(Tensor.zeros(4, 3), 0.5) == 0).sum(0).tolist()
    [2, 2, 2]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: the shape {tensor.shape} has {tensor.ndim} axes; use a matrix")
    count = math.ceil(sparsity * tensor.shape[0])
    like: dict[str, Any] = {"device": tensor.device, "generator": generator}
    ranks = Tensor.rand(tensor.shape, **like).argsort(0).argsort(0)
    values = Tensor.normal(tensor.shape, mean=0.0, std=std, dtype=tensor.dtype, **like)
    return _filled(tensor, (ranks < count).where(0.0, values))


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, or a rectangular part of it. Raises ShapeError for anything but a matrix."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: the shape {tensor.shape} is not that of a matrix")
    rows, columns = tensor.shape
    return _filled(tensor, Tensor.eye(rows, columns, dtype=tensor.dtype, device=tensor.device))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform within `gain * sqrt(6 / (fan in + fan out))`, from Glorot and Bengio 2010."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor.shape)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation `gain * sqrt(2 / (fan in + fan out))`, from Glorot and Bengio 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor.shape))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform within `gain * sqrt(3 / fan)`, from He et al. 2015; `a` is the slope of the leaky relu.

    >>> from rulegrad import Tensor, nn
    >>> weight = nn.init.kaiming_uniform_(Tensor.zeros(4, 100), nonlinearity="relu")
    >>> 0.0 < weight.abs().max().item() <= 0.06 ** 0.5
    True
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor.shape, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation `gain / sqrt(fan)`, from He et al. 2015."""
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor.shape, mode)), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A matrix (the axes after the first as one) whose rows, or columns, are orthogonal and of length `gain`.

    The QR decomposition of a normal matrix, from Saxe et al. 2013. Raises ShapeError for fewer than two axes.
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: the shape {tensor.shape} has fewer than two axes")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    dtype = "float64" if tensor.dtype == "float64" else "float32"
    extents = max(rows, columns), min(rows, columns)
    matrix = Tensor.randn(extents, dtype=dtype, device=tensor.device, generator=generator)
    q, r = linalg.qr(matrix)
    # With the signs of the diagonal every orthogonal matrix is equally likely.
    signs = (r * Tensor.eye(r.shape[0], dtype=dtype, device=tensor.device)).sum(0).sign()
    q = q * signs
    q = q.T if rows < columns else q
    return _filled(tensor, (q.reshape(tensor.shape) * gain).cast(tensor.dtype))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance behind a nonlinearity. Raises ConfigError for an unknown one.

    >>> calculate_gain("relu")
    1.4142135623730951
    """
    gains = {"tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
    plain = ("linear", "sigmoid", *(f"conv{n}d" for n in (1, 2, 3)), *(f"conv_transpose{n}d" for n in (1, 2, 3)))
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1.0 + slope * slope))
    if nonlinearity in plain:
        return 1.0
    if nonlinearity not in gains:
        known = ", ".join((*gains, "leaky_relu", *plain))
        raise ConfigError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}; use one of {known}")
    return gains[nonlinearity]


# ---- what layers use ----


def bounded(shape: Sequence[int], bound: float, device: str | None, dtype: Any) -> Tensor:
    """A parameter that is uniform within `bound` of 0."""
    return Tensor.uniform(tuple(shape), low=-bound, high=bound, dtype=dtype, device=device, requires_grad=True)


def filled(shape: Sequence[int], value: float, device: str | None, dtype: Any) -> Tensor:
    """A parameter with `value` everywhere."""
    return Tensor.full(tuple(shape), value, dtype, device, requires_grad=True)


def redraw(layer: Any, bound: float) -> None:
    """The layer's own parameters anew, uniform within `bound` of 0."""
    for tensor in layer.parameters(recurse=False):
        uniform_(tensor, -bound, bound)


def refill(layer: Any) -> None:
    """The layer's weight 1 everywhere, its bias 0."""
    for name, tensor in layer.named_parameters(recurse=False):
        constant_(tensor, float(name == "weight"))


def settle(layer: Any, base: type) -> None:
    """The end of the making of a layer: a subclass with a `reset_parameters` of its own chooses the first values."""
    if type(layer).reset_parameters is not base.reset_parameters:  # type: ignore[attr-defined]
        layer.reset_parameters()


def inverse_root(count: int) -> float:
    """`1 / sqrt(count)`: the bound of a layer that adds up `count` inputs (0 without any)."""
    return 1.0 / math.sqrt(count) if count else 0.0


def _filled(tensor: Tensor, values: Tensor) -> Tensor:
    return tensor.assign(values)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        raise ShapeError(f"init: the shape {shape} has fewer than two axes, so it has no fan in and fan out")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Inputs that each output adds up, and outputs that each input goes to, by a weight; programs of PyTorch ask."""
    return _fans(tensor.shape)


def _calculate_correct_fan(tensor: Tensor, mode: Fan) -> int:
    return _fan(tensor.shape, mode)


def _fan(shape: tuple[int, ...], mode: Fan) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ConfigError(f"init: unknown mode {mode!r}; use fan_in or fan_out")
    return _fans(shape)[mode == "fan_out"]


def _inverse_erf(x: Tensor) -> Tensor:
    """A rational approximation after M. Giles 2010, "Approximating the erfinv function", with 7 digits."""
    w = -((1.0 - x) * (1.0 + x)).maximum(1e-30).log()
    near = _polynomial(w - 2.5, _CENTRE)
    far = _polynomial(w.sqrt() - 3.0, _TAIL)
    return (w < 5.0).where(near, far) * x


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
    *(-0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
    *(0.00943887047, 1.00167406, 2.83297682),
)
