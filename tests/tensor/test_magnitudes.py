"""Values and gradients over all magnitudes of a dtype, against formulas in float64 that lose no digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from rulegrad import Tensor, config, grad
from rulegrad.nn import functional as f

Array = Any
EXPONENTS = {"float16": (-8, 4), "bfloat16": (-38, 38), "float32": (-38, 38), "float64": (-300, 300)}
#: The distance from 1 to the next number, and the least normal one.
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
LEAST = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3e38, "float32": 3.4e38, "float64": 1.7e308}
#: Units in the last place, for values and for gradients; of small floats they are the rounding of few steps.
VALUE, GRADIENT = 8, 64

erfc = np.vectorize(math.erfc)


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def bell(x: Array) -> Array:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def elu_slope(x: Array) -> Array:
    return np.exp(np.minimum(x, 0))


class Function(NamedTuple):
    """A function of a tensor, what it is in float64, and its derivative; where it is tried."""

    call: Callable[[Any], Any]
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    inside: Callable[[Array], Array] = lambda x: np.isfinite(x)
    #: How much more than x itself the result may be off: by how many of its steps a step of x moves it.
    sensitivity: Callable[[Array], Array] = lambda x: np.ones_like(x)


def two(x: Any) -> Any:
    """Rows of x and 0."""
    return x.unsqueeze(1).cat((x * 0).unsqueeze(1), axis=1)


def target(x: Any, value: float) -> Any:
    return x.detach() * 0 + value


def positive(x: Array) -> Array:
    return x > 0


def share(x: Array) -> Array:
    return (x > 1e-9) & (x < 1)


def tail(x: Array) -> Array:
    return 1 + x * x


BCE = {"reduction": "none"}
FUNCTIONS = {
    "softplus": Function(f.softplus, softplus, sigmoid),
    "logsigmoid": Function(f.logsigmoid, lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "sigmoid": Function(lambda x: x.sigmoid(), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "silu": Function(f.silu, lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x)), lambda x: (np.abs(x + 1.28) > 0.1) & (x > -80)),
    "mish": Function(
        f.mish,
        lambda x: x * np.tanh(softplus(x)),
        lambda x: np.tanh(softplus(x)) + x / np.cosh(np.minimum(softplus(x), 400)) ** 2 * sigmoid(x),
        lambda x: (np.abs(x + 1.2) > 0.1) & (x > -80),
    ),
    "gelu": Function(
        f.gelu,
        lambda x: x * 0.5 * erfc(-x * math.sqrt(0.5)),
        lambda x: 0.5 * erfc(-x * math.sqrt(0.5)) + x * bell(x),
        lambda x: np.abs(x + 0.75) > 0.1,
        tail,
    ),
    "elu": Function(f.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), elu_slope),
    "celu": Function(
        lambda x: f.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)), lambda x: elu_slope(x / 2)
    ),
    "softsign": Function(f.softsign, lambda x: x / (1 + np.abs(x)), lambda x: (1 + np.abs(x)) ** -2.0),
    "expm1": Function(lambda x: x.expm1(), np.expm1, np.exp, lambda x: x < 80),
    "log1p": Function(lambda x: x.log1p(), np.log1p, lambda x: 1 / (1 + x), lambda x: x > -0.9),
    "log2": Function(lambda x: x.log2(), np.log2, lambda x: 1 / x / math.log(2), positive),
    "log10": Function(lambda x: x.log10(), np.log10, lambda x: 1 / x / math.log(10), positive),
    "erfc": Function(lambda x: x.erfc(), erfc, lambda x: -2 / math.sqrt(math.pi) * np.exp(-x * x), sensitivity=tail),
    "asinh": Function(lambda x: x.asinh(), np.arcsinh, lambda x: 1 / np.hypot(x, 1)),
    "acosh": Function(lambda x: x.acosh(), np.arccosh, lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), lambda x: x > 1),
    "hypot": Function(lambda x: x.hypot(1.0), lambda x: np.hypot(x, 1), lambda x: x / np.hypot(x, 1)),
    "logit": Function(lambda x: x.logit(), lambda x: np.log(x) - np.log1p(-x), lambda x: 1 / (x * (1 - x)), lambda x: share(x) & (np.abs(x - 0.5) > 0.1)),
    "sinc": Function(lambda x: x.sinc(), np.sinc, lambda x: -(math.pi**2) / 3 * x * (1 - (math.pi * x) ** 2 / 10), lambda x: np.abs(x) < 1e-4),
    "tanhshrink": Function(f.tanhshrink, lambda x: x**3 / 3 * (1 - x * x * 0.4), lambda x: np.tanh(x) ** 2, lambda x: np.abs(x) < 1e-4),
    "logaddexp": Function(
        lambda x: x.logaddexp(-x),
        lambda x: np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))),
        np.tanh,
        lambda x: np.abs(x) > 0.5,
    ),
    "logsumexp": Function(lambda x: two(x).logsumexp(1), softplus, sigmoid, lambda x: x > -1),
    "log_softmax": Function(
        lambda x: two(x).log_softmax(1)[:, 0], lambda x: -softplus(-x), lambda x: sigmoid(-x), lambda x: x < 1
    ),
    "cross_entropy": Function(
        lambda x: f.cross_entropy(two(x), Tensor(np.zeros(x.shape[0], np.int64)), **BCE),
        lambda x: softplus(-x), lambda x: -sigmoid(-x), lambda x: x < 1,
    ),
    "soft_margin_loss": Function(
        lambda x: f.soft_margin_loss(x, target(x, 1.0), **BCE), lambda x: softplus(-x), lambda x: -sigmoid(-x)
    ),
    "cross entropy with logits of 1": Function(
        lambda x: f.binary_cross_entropy_with_logits(x, target(x, 1.0), **BCE), lambda x: softplus(-x), lambda x: -sigmoid(-x)
    ),
    "cross entropy with logits of 0": Function(
        lambda x: f.binary_cross_entropy_with_logits(x, target(x, 0.0), **BCE), softplus, sigmoid
    ),
    "weighted cross entropy with logits of 0": Function(
        lambda x: f.binary_cross_entropy_with_logits(x, target(x, 0.0), **BCE, pos_weight=target(x, 3.0)), softplus, sigmoid
    ),
    "binary cross entropy of 0": Function(
        lambda x: f.binary_cross_entropy(x, target(x, 0.0), **BCE), lambda x: -np.log1p(-x), lambda x: 1 / (1 - x), share
    ),
    "binary cross entropy of 1": Function(
        lambda x: f.binary_cross_entropy(x, target(x, 1.0), **BCE), lambda x: -np.log(x), lambda x: -1 / x, share
    ),
    "xlogy": Function(lambda x: x.xlogy(x), lambda x: x * np.log(x), lambda x: np.log(x) + 1, lambda x: positive(x) & (np.abs(x - 0.37) > 0.05)),
}  # fmt: skip


def numbers(dtype: str) -> Array:
    """Numbers of the dtype of all magnitudes, and of every day."""
    powers = 10.0 ** np.linspace(*EXPONENTS[dtype], 41)
    line = np.concatenate([powers, np.linspace(0.05, 20.0, 41), np.linspace(20.0, 120.0, 11)])
    rounded = Tensor(np.concatenate([-line, line])).cast(dtype).cast("float64").numpy()
    return np.unique(rounded[np.isfinite(rounded)])


def check(name: str, what: str, dtype: str, x: Array, found: Array, wanted: Array, most: float, scale: Array) -> None:
    size = np.maximum(np.abs(wanted), LEAST[dtype]) * STEPS[dtype]
    units = most if STEPS[dtype] < 1e-4 else 2 if what == "value" else 8
    near = np.abs(found - wanted) <= units * scale * size
    over = (np.abs(wanted) > LARGEST[dtype]) & (np.abs(found) >= LARGEST[dtype] * 0.9)
    wrong = ~(near | over | (found == wanted))
    shown = [(float(a), float(b), float(c)) for a, b, c in zip(x[wrong], found[wrong], wanted[wrong])]
    assert not wrong.any(), f"{name} of {dtype}: {what} (x, found, wanted): {shown[:4]}"


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("numpy", "float16"), ("numpy", "bfloat16"), ("numpy", "float32"), ("numpy", "float64"), ("c", "float32")],
)
def test_no_digits_are_lost(device: str, dtype: str) -> None:
    with config(device="numpy"):
        everything = numbers(dtype)
    found = []
    with config(device=device), np.errstate(all="ignore"):
        for function in FUNCTIONS.values():
            x = everything[function.inside(everything)]
            tensor = Tensor(x).cast(dtype).contiguous()
            value = function.call(tensor)
            slope = grad(lambda t, function=function: function.call(t).sum())(tensor)
            found.append((function, x, value, slope))
        first, *others = [part for row in found for part in row[2:]]
        first.realize(*others)
        for name, (function, x, value, slope) in zip(FUNCTIONS, found):
            scale = function.sensitivity(x)
            assert value.dtype == slope.dtype == dtype
            check(name, "value", dtype, x, value.cast("float64").numpy(), function.value(x), VALUE, scale)
            check(name, "gradient", dtype, x, slope.cast("float64").numpy(), function.slope(x), GRADIENT, scale)
