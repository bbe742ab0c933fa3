"""Distributions, what they are made of, and values: PyTorch's results are in torch_values.json."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

try:
    from rulegrad.errors import ConfigError
except ImportError:  # where only PyTorch is
    ConfigError = NotImplementedError


@dataclass(frozen=True)
class Case:
    """A distribution by a module of distributions and parameters, other parameters for a divergence, and values."""

    make: Callable[..., Any]
    parameters: tuple[Any, ...]
    values: Any
    others: tuple[Any, ...] = ()


def _array(values: Any) -> np.ndarray:
    return np.asarray(values, np.float64)


_PLACES = [[-1.5, 0.2], [0.5, 2.5]]
_POSITIVE = [[0.3, 1.2], [2.5, 4.0]]
_COUNTS = [[0.0, 3.0], [1.0, 7.0]]
_LOGITS = [[0.5, -1.0, 0.2], [1.5, 0.0, -0.4]]
_LOWER = [[1.2, 0.0], [0.4, 0.7]]

DISTRIBUTIONS: dict[str, Case] = {
    "Normal": Case(lambda d, a, b: d.Normal(a, b), ([0.3, -1], [0.7, 2]), _PLACES, ([0, 0.5], [1.5, 1])),
    "Laplace": Case(lambda d, a, b: d.Laplace(a, b), ([0.3, -1], [0.7, 2]), _PLACES, ([0, 0.5], [1.5, 1])),
    "Gumbel": Case(lambda d, a, b: d.Gumbel(a, b), ([0.3, -1], [0.7, 2]), _PLACES),
    "Cauchy": Case(lambda d, a, b: d.Cauchy(a, b), ([0.3, -1], [0.7, 2]), _PLACES),
    "HalfNormal": Case(lambda d, a: d.HalfNormal(a), ([0.7, 2],), _POSITIVE),
    "Exponential": Case(lambda d, a: d.Exponential(a), ([0.7, 2],), _POSITIVE, ([1.5, 1],)),
    "Uniform": Case(lambda d, a, b: d.Uniform(a, b), ([-2, -1.0], [4, 5]), _PLACES, ([-3, 0], [5, 5])),
    "LogNormal": Case(lambda d, a, b: d.LogNormal(a, b), ([0.3, -1], [0.7, 1.5]), _POSITIVE, ([0, 0.5], [1.5, 1])),
    "Gamma": Case(lambda d, a, b: d.Gamma(a, b), ([0.6, 3], [0.7, 2]), _POSITIVE, ([1.1, 2.5], [1.5, 1])),
    "Chi2": Case(lambda d, a: d.Chi2(a), ([0.6, 3],), _POSITIVE, ([1.1, 2.5],)),
    "Beta": Case(lambda d, a, b: d.Beta(a, b), ([0.6, 3], [0.7, 2]), [[0.2, 0.9], [0.6, 0.1]], ([1.1, 2], [1.5, 1])),
    "Dirichlet": Case(
        lambda d, a: d.Dirichlet(a), ([[0.6, 3, 1.5]],), [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], ([[1.1, 2, 0.4]],)
    ),
    "StudentT": Case(lambda d, a, b, c: d.StudentT(a, b, c), ([2.5, 7], [0.3, -1], [0.7, 2]), _PLACES),
    "Poisson": Case(lambda d, a: d.Poisson(a), ([0.7, 4],), _COUNTS, ([1.5, 1],)),
    "Geometric": Case(lambda d, a: d.Geometric(a), ([0.7, 0.2],), _COUNTS, ([0.4, 0.5],)),
    "Geometric of logits": Case(lambda d, a: d.Geometric(logits=a), ([0.7, -1],), _COUNTS),
    "Bernoulli": Case(lambda d, a: d.Bernoulli(a), ([0.7, 0.2],), [[0.0, 1], [1, 0]], ([0.4, 0.5],)),
    "Binomial": Case(lambda d, a: d.Binomial(7, a), ([0.7, 0.2],), _COUNTS),
    "Categorical": Case(lambda d, a: d.Categorical(logits=a), (_LOGITS,), [2.0, 0.0], ([[0.1, 0.2, 0], [1, -1, 2]],)),
    "OneHotCategorical": Case(
        lambda d, a: d.OneHotCategorical(logits=a), (_LOGITS,), [[0.0, 0, 1], [1, 0, 0]], ([[0.1, 0.2, 0], [1, 0, 2]],)
    ),
    "MultivariateNormal": Case(
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), ([0.3, -1], _LOWER), _PLACES, ([0, 1], [[1, 0], [-0.3, 2]])
    ),
    "MultivariateNormal of covariances": Case(
        lambda d, a, b: d.MultivariateNormal(a, b), ([0.3, -1], [[2, 0.4], [0.4, 1]]), _PLACES
    ),
    "Independent": Case(
        lambda d, a, b: d.Independent(d.Normal(a, b), 1), ([0.3, -1], [0.7, 2]), _PLACES, ([0, 0.5], [1.5, 1])
    ),
    "a chain of transforms": Case(
        lambda d, a, b: d.TransformedDistribution(
            d.Normal(a, b), [d.AffineTransform(0.5, -2.0), d.SigmoidTransform(), d.PowerTransform(a.detach() * 0 + 2.0)]
        ),
        ([0.3, -1], [0.7, 2]),
        [[0.2, 0.9], [0.6, 0.1]],
    ),
    "tanh of vectors": Case(
        lambda d, a, b: d.TransformedDistribution(
            d.Normal(a, b), [d.ComposeTransform([d.TanhTransform(), d.AffineTransform(1.0, 3.0, 1)])]
        ),
        ([0.3, -1], [0.7, 2]),
        [[0.2, 1.9], [0.6, 3.1]],
    ),
    "softplus, expanded": Case(
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b).expand([2, 2]), d.SoftplusTransform()),
        ([0.3, -1], [0.7, 2]),
        _POSITIVE,
    ),
}  # fmt: skip


def results(distributions: Any, name: str, tensor: Callable[..., Any]) -> tuple[dict[str, Any], list[Any]]:
    """What a distribution says of its values, by name, and its parameters, whose gradients are asked for.

    tensor: makes a parameter (an array, True) or values (an array, False).
    """
    case = DISTRIBUTIONS[name]
    parameters = [tensor(_array(one), True) for one in case.parameters]
    made, values = case.make(distributions, *parameters), tensor(_array(case.values), False)
    asked = {
        "log_prob": lambda: made.log_prob(values),
        "cdf": lambda: made.cdf(values),
        "mean": lambda: made.mean,
        "variance": lambda: made.variance,
        "stddev": lambda: made.stddev,
        "entropy": lambda: made.entropy(),
    }
    if case.others:
        others = [tensor(_array(one), True) for one in case.others]
        parameters += others
        asked["kl"] = lambda: distributions.kl_divergence(made, case.make(distributions, *others))
    found = {}
    for key, function in asked.items():
        try:
            found[key] = function()
        except (NotImplementedError, ConfigError):
            continue
    return found, parameters
