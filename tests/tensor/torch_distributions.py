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
_PARTS = [[0.2, 0.9], [0.6, 0.1]]

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
    "Beta": Case(lambda d, a, b: d.Beta(a, b), ([0.6, 3], [0.7, 2]), _PARTS, ([1.1, 2], [1.5, 1])),
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
        _PARTS,
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
    "HalfCauchy": Case(lambda d, a: d.HalfCauchy(a), ([0.7, 2],), _POSITIVE),
    "Weibull": Case(lambda d, a, b: d.Weibull(a, b), ([0.7, 2], [1.3, 2.5]), _POSITIVE),
    "Pareto": Case(lambda d, a, b: d.Pareto(a, b), ([0.2, 0.5], [1.3, 2.5]), _POSITIVE, ([0.1, 0.3], [0.7, 3])),
    "Pareto of larger numbers": Case(lambda d, a: d.Pareto(a, 1.5), ([0.2, 0.5],), _POSITIVE, ([0.3, 0.3],)),
    "Kumaraswamy": Case(lambda d, a, b: d.Kumaraswamy(a, b), ([0.6, 0.3], [1.7, 2]), _PARTS),
    "InverseGamma": Case(lambda d, a, b: d.InverseGamma(a, b), ([0.6, 3], [0.7, 2]), _POSITIVE),
    "FisherSnedecor": Case(lambda d, a, b: d.FisherSnedecor(a, b), ([2.6, 3], [5, 3]), _POSITIVE),
    "VonMises": Case(lambda d, a, b: d.VonMises(a, b), ([0.3, -1], [0.7, 2]), _PLACES),
    "ContinuousBernoulli": Case(lambda d, a: d.ContinuousBernoulli(a), ([0.7, 0.5],), _PARTS, ([0.4, 0.6],)),
    "LogitRelaxedBernoulli": Case(
        lambda d, a, b: d.relaxed_bernoulli.LogitRelaxedBernoulli(a, logits=b), (0.7, [0.7, -1]), _PLACES
    ),
    "RelaxedBernoulli": Case(lambda d, a, b: d.RelaxedBernoulli(a, b), (0.7, [0.7, 0.2]), _PARTS),
    "RelaxedOneHotCategorical": Case(
        lambda d, a, b: d.RelaxedOneHotCategorical(a, logits=b), (0.7, _LOGITS), [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
    ),
    "NegativeBinomial": Case(lambda d, a, b: d.NegativeBinomial(a, b), ([2.5, 7], [0.7, 0.2]), _COUNTS),
    "Multinomial": Case(lambda d, a: d.Multinomial(4, logits=a), (_LOGITS,), [[1.0, 2, 1], [0, 0, 4]]),
    "LowRankMultivariateNormal": Case(
        lambda d, a, b, c: d.LowRankMultivariateNormal(a, b, c),
        ([0.3, -1], [[1.2], [0.4]], [0.7, 2]), _PLACES, ([0, 1], [[1], [-0.3]], [0.5, 1]),
    ),
    "LKJCholesky": Case(
        lambda d, a: d.LKJCholesky(3, a), ([0.7, 2],), [[1, 0, 0], [0.6, 0.8, 0], [0.48, 0.64, 0.6]]
    ),
    "Wishart": Case(lambda d, a, b: d.Wishart(a, scale_tril=b.tril()), ([2.5, 7], _LOWER), [[2, 0.4], [0.4, 1]]),
    "MixtureSameFamily": Case(
        lambda d, a, b: d.MixtureSameFamily(d.Categorical(logits=a), d.Normal(b, 0.7)),
        (_LOGITS, [[0.3, -1, 2], [1, 0, 4]]), _PLACES,
    ),
    "MixtureSameFamily of vectors": Case(
        lambda d, a, b: d.MixtureSameFamily(d.Categorical(logits=a), d.Independent(d.Normal(b, 0.7), 1)),
        ([0.5, -1, 0.2], [[0.3, -1], [1, 0], [2, 4]]), _PLACES,
    ),
    "LogisticNormal": Case(
        lambda d, a, b: d.LogisticNormal(a, b), ([0.3, -1], [0.7, 2]), [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
    ),
    "sticks of a batch, expanded": Case(
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.ExpTransform(), d.StickBreakingTransform()])
        .expand([2]),
        ([0.3, -1], [0.7, 2]), [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]],
    ),
    "factors of correlations": Case(
        lambda d, a: d.TransformedDistribution(d.Normal(a, 1.0), d.CorrCholeskyTransform()),
        ([0.3, -1, 0.5],), [[1, 0, 0], [0.6, 0.8, 0], [0.48, 0.64, 0.6]],
    ),
    "a vector in another shape": Case(
        lambda d, a: d.TransformedDistribution(
            d.Normal(a, 1.0), [d.ReshapeTransform((4,), (2, 2)), d.IndependentTransform(d.ExpTransform(), 1)]
        ),
        ([0.3, -1, 0.5, 2],), _POSITIVE, ([0.3, 1, 0.5, 1],),
    ),
    "parts with transforms of their own": Case(
        lambda d, a: d.TransformedDistribution(
            d.Normal(a, 1.0), d.CatTransform([d.ExpTransform(), d.StackTransform([d.TanhTransform()], 0)], 0, [1, 1])
        ),
        ([0.3, -1],), [1.5, 0.2],
    ),
    "a distribution's own numbers": Case(
        lambda d, a: d.TransformedDistribution(d.Uniform(0.0 * a, 1.0), d.CumulativeDistributionTransform(d.Normal(a, 1.0)).inv),
        ([0.3, -1],), _PLACES,
    ),
}  # fmt: skip

#: Kinds of distributions that have divergences from each other, by parameters.
KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Bernoulli": lambda d, a, b: d.Bernoulli(a / 3),
    "Beta": lambda d, a, b: d.Beta(a, b),
    "Binomial": lambda d, a, b: d.Binomial(3, a / 3),
    "Cauchy": lambda d, a, b: d.Cauchy(a, b),
    "ContinuousBernoulli": lambda d, a, b: d.ContinuousBernoulli(a / 3),
    "Exponential": lambda d, a, b: d.Exponential(a),
    "Gamma": lambda d, a, b: d.Gamma(a, b),
    "Gumbel": lambda d, a, b: d.Gumbel(a, b),
    "HalfNormal": lambda d, a, b: d.HalfNormal(b),
    "Laplace": lambda d, a, b: d.Laplace(a, b),
    "LogNormal": lambda d, a, b: d.LogNormal(a, b),
    "Normal": lambda d, a, b: d.Normal(a, b),
    "Pareto": lambda d, a, b: d.Pareto(a / 8, 1.5 + b),
    "Poisson": lambda d, a, b: d.Poisson(a),
    "Uniform": lambda d, a, b: d.Uniform(a / 8, a / 8 + b / 4),
}


def results(distributions: Any, name: str, tensor: Callable[..., Any]) -> tuple[dict[str, Any], list[Any]]:
    """The properties of a distribution, by name, and its parameters, whose gradients are asked for.

    tensor: makes a parameter (an array, True) or values (an array, False).
    """
    case = DISTRIBUTIONS[name]
    parameters = [tensor(_array(one), True) for one in case.parameters]
    made, values = case.make(distributions, *parameters), tensor(_array(case.values), False)
    asked = {
        "log_prob": lambda: made.log_prob(values),
        "cdf": lambda: made.cdf(values),
        "icdf": lambda: made.icdf(tensor(_array([0.3, 0.6]), False)),
        "mean": lambda: made.mean,
        "mode": lambda: made.mode,
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


def divergences(distributions: Any, tensor: Callable[[Any, bool], Any]) -> tuple[dict[str, Any], list[Any]]:
    """The divergences of all pairs of kinds that have a formula, by the two names, and the parameters of both."""
    parameters = [tensor(_array(one), True) for one in ([0.6, 2.5], [0.7, 2], [1.1, 2], [1.5, 1])]
    found = {}
    for first, of_first in KINDS.items():
        for second, of_second in KINDS.items():
            try:
                made = of_first(distributions, *parameters[:2]), of_second(distributions, *parameters[2:])
                found[f"{first}, {second}"] = distributions.kl_divergence(*made)
            except (NotImplementedError, ConfigError):
                continue
    return found, parameters
