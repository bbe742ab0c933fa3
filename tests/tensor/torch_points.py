"""Functions at points where their gradients are a choice, or where formulas as they stand give nan: kinks, ties, zeros, poles.

Written once for tensors and for PyTorch: `f` is its nn.functional or ours. docs/tensors.md has a table of where they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch_functions import Case

INF, NAN = float("inf"), float("nan")
LINE = np.array([-INF, -3.0, -1.0, -0.5, -1e-30, -0.0, 0.0, 1e-30, 0.25, 0.5, 1.0, 1.5, 3.0, 6.0, INF])
FINITE = LINE[1:-1]
INSIDE = np.array([-0.75, -0.0, 0.0, 0.25, 0.5])
FIRST, SECOND = (
    grid.ravel() for grid in np.meshgrid([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0], [-2.0, -1.0, 0.0, 0.5, 1.0])
)
SHARES, WISHES = (grid.ravel() for grid in np.meshgrid([0.02, 0.1, 0.25, 0.75], [0.0, 0.5, 1.0]))
VECTORS = {
    "plain": np.array([1.0, -2.0, 3.0, 0.5]),
    "ties": np.array([2.0, 2.0, -1.0, 2.0]),
    "zeros": np.array([0.0, -0.0, 0.0]),
    "a zero": np.array([1.0, 0.0, 3.0, 2.0]),
    "two zeros": np.array([0.5, 0.0, 3.0, 0.0]),
    "one": np.array([2.0]),
    "infinities": np.array([INF, 1.0, 2.0, INF]),
    "nothing": np.array([]),
}


def _methods(names: str, points: np.ndarray) -> dict[str, Case]:
    return {name: Case(lambda f, *x, name=name: getattr(x[0], name)(*x[1:]), (points,)) for name in names.split()}


def _activations(names: str, points: np.ndarray) -> dict[str, Case]:
    return {name: Case(lambda f, x, name=name: getattr(f, name)(x), (points,)) for name in names.split()}


def _pairs(names: str) -> dict[str, Case]:
    return {f"{name} of two": Case(case.call, (FIRST, SECOND)) for name, case in _methods(names, FIRST).items()}


def _reductions(name: str, call: Callable[..., Any], without: str = "nothing") -> dict[str, Case]:
    left_out = without.split(", ")
    return {f"{name}, {kind}": Case(call, (x,)) for kind, x in VECTORS.items() if kind not in left_out}


ONE = {
    **_methods("abs frac reciprocal relu round sqrt square trunc floor ceil rsqrt log log1p exp expm1 sigmoid tanh", FINITE),
    **_methods("acos asin atanh sin cos tan asinh atan erf erfc exp2 log2 log10 sinh cosh", INSIDE),
    **{f"{name} far out": case for name, case in _methods("abs relu tanh sigmoid atan erf", LINE[[0, -1]]).items()},
    **_activations("relu relu6 gelu silu mish softplus logsigmoid hardtanh hardshrink softshrink", FINITE),
    **_activations("softsign tanhshrink leaky_relu hardswish", FINITE),
    **_activations("elu selu celu", FINITE[FINITE != 0]),
    **{f"x ** {n}": Case(lambda f, x, n=n: x**n, (LINE,)) for n in (0, 1, 2, 3, 4, 5, -1, -2, -3)},
    **{f"x ** {n}": Case(lambda f, x, n=n: x**n, (np.abs(LINE),)) for n in (0.5, 1.5, -1.5, 2.5)},
    **{f"{b} ** x": Case(lambda f, x, b=b: b**x, (FINITE,)) for b in (0.5, 1.0, 3.0, -2.0)},
    "sinc": Case(lambda f, x: x.sinc(), (np.array([-1.0, -0.5, 0.1, 0.25, 1.0]),)),
    "clamp": Case(lambda f, x: x.clamp(-1.0, 1.0), (LINE,)),
    "clamp from below": Case(lambda f, x: x.clamp(min=-1.0), (LINE,)),
    "clamp from above": Case(lambda f, x: x.clamp(max=1.0), (LINE,)),
    "logit": Case(lambda f, x: x.logit(), (np.array([1e-30, 0.25, 0.5, 0.75]),)),
    "logit between": Case(lambda f, x: x.logit(0.25), (np.array([0.1, 0.25, 0.5, 0.75, 0.9]),)),
    "gelu by tanh": Case(lambda f, x: f.gelu(x, approximate="tanh"), (FINITE,)),
    "threshold": Case(lambda f, x: f.threshold(x, 0.5, -1.0), (LINE,)),
    "softplus": Case(lambda f, x: f.softplus(x, 2.0, 20.0), (np.array([-300.0, -20.0, -1.0, 0.0, 3.0, INF]),)),
}  # fmt: skip

TWO = {
    **_pairs("add sub mul maximum minimum fmax fmin logaddexp clamp_min"),
    "clamp between tensors": Case(lambda f, x, y: x.clamp(y - 1, y), (FIRST, SECOND)),
    "x ** y": Case(lambda f, x, y: x**y, (FIRST[(FIRST > 0) & (SECOND != 0)], SECOND[(FIRST > 0) & (SECOND != 0)])),
    "base": Case(lambda f, x: x ** x.detach().round().abs(), (FINITE[FINITE != 0],)),
    "0 ** y": Case(lambda f, x, y: x ** y.detach(), (np.zeros(2), np.array([3.0, -1.0]))),
    "copysign": Case(lambda f, x, y: x.copysign(y.detach()), (FIRST[FIRST != 0], SECOND[FIRST != 0])),
    "xlogy": Case(lambda f, x, y: x.xlogy(y), (FIRST[SECOND > 0], SECOND[SECOND > 0])),
    "fmod": Case(lambda f, x, y: x.fmod(y), (FIRST[SECOND != 0], SECOND[SECOND != 0])),
    "remainder": Case(lambda f, x, y: x.remainder(y), (FIRST[SECOND != 0], SECOND[SECOND != 0])),
    "atan2": Case(lambda f, x, y: x.atan2(y), (FIRST[FIRST != 0], SECOND[FIRST != 0])),
    "hypot": Case(lambda f, x, y: x.hypot(y), (FIRST[FIRST != 0], SECOND[FIRST != 0])),
    "binary_cross_entropy": Case(
        lambda f, x, y: f.binary_cross_entropy(x, y.detach(), reduction="none"), (SHARES, WISHES)
    ),
    "binary_cross_entropy_with_logits": Case(
        lambda f, x, y: f.binary_cross_entropy_with_logits(x, y, reduction="none"), (FIRST * 30, (SECOND + 2) / 3)
    ),
    "kl_div": Case(lambda f, x, y: f.kl_div(x, y.detach(), reduction="none"), (FIRST, SECOND)),
    "smooth_l1_loss": Case(lambda f, x, y: f.smooth_l1_loss(x, y, reduction="none"), (FIRST, SECOND)),
    "huber_loss, far": Case(lambda f, x: f.huber_loss(x, x * 0.0, reduction="none"), (np.array([-1e300, 1e300]),)),
    "gaussian_nll_loss": Case(
        lambda f, x, y: f.gaussian_nll_loss(x, x * 0.0, y, reduction="none"), (FIRST, np.abs(SECOND) + 0.5)
    ),
}  # fmt: skip

MANY = {
    **_reductions("sum", lambda f, x: x.sum(), ""),
    **_reductions("mean", lambda f, x: x.mean()),
    **_reductions("prod", lambda f, x: x.prod(), ""),
    **_reductions("amax", lambda f, x: x.amax(0)),
    **_reductions("min", lambda f, x: x.min()),
    **_reductions("std", lambda f, x: x.std(correction=0), "nothing, infinities"),
    **_reductions("norm", lambda f, x: x.norm(), "zeros"),
    **_reductions("norm 1", lambda f, x: x.norm(1), ""),
    **_reductions("norm 3", lambda f, x: x.norm(3), "infinities"),
    **_reductions("largest size", lambda f, x: x.norm(INF)),
    **_reductions("logsumexp", lambda f, x: x.logsumexp(0), ""),
    **_reductions("log_softmax", lambda f, x: x.log_softmax(0), ""),
    **_reductions("cumsum", lambda f, x: x.cumsum(0), ""),
    **_reductions("cumprod", lambda f, x: x.cumprod(0), "infinities"),
    **_reductions("logcumsumexp", lambda f, x: x.logcumsumexp(0), "infinities"),
    **_reductions("quantile", lambda f, x: x.quantile(0.3), "nothing, infinities"),
    **_reductions("normalize", lambda f, x: f.normalize(x, dim=0), "zeros, infinities"),
    **_reductions("normalize 0", lambda f, x: f.normalize(x, 0, dim=0), "infinities"),
    **_reductions("normalize inf", lambda f, x: f.normalize(x, INF, dim=0), "nothing, infinities"),
    **_reductions("distance 0", lambda f, x: f.pairwise_distance(x, x.flip(0), 0.0), "nothing, infinities"),
    **_reductions("cosine_similarity", lambda f, x: f.cosine_similarity(x, x.flip(0), dim=0), "zeros, infinities"),
    **_reductions("layer_norm", lambda f, x: f.layer_norm(x, (len(x),)), "nothing, infinities"),
    "max beside nan": Case(lambda f, x: x.max(), (np.array([1.0, NAN, 2.0, NAN]),)),
    "mode": Case(lambda f, x: x.mode().values, (np.array([2.0, 1.0, 2.0]),)),
    "slice of nothing": Case(lambda f, x: x[:0].sum(), (np.ones(3),)),
    "product of nothing": Case(lambda f, x: x.T @ x, (np.zeros((0, 2)),)),
}  # fmt: skip

POINTS = {**ONE, **TWO, **MANY}
