"""The Kullback-Leibler divergence, by the kinds of two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from rulegrad import linalg
from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions._discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from rulegrad.pytorch.distributions._gamma import Beta, Dirichlet, Gamma
from rulegrad.pytorch.distributions._locations import Exponential, Laplace, Normal, Uniform
from rulegrad.pytorch.distributions._multivariate import (
    Independent,
    MultivariateNormal,
    squared_distance,
    sum_of_last,
)
from rulegrad.pytorch.distributions._transformed import LogNormal

__all__ = ["kl_divergence", "register_kl"]

_Formula = Callable[[Any, Any], Any]
_formulas: Final[dict[tuple[type, type], _Formula]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Formula], _Formula]:
    """A decorator of the formula for two kinds of distributions, and for kinds that derive from them.

    >>> class Certain:
    ...     pass
    >>> @register_kl(Certain, Certain)
    ... def nothing(p, q):
    ...     return 0.0
    >>> kl_divergence(Certain(), Certain())
    0.0
    """

    def decorate(formula: _Formula) -> _Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return decorate


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of two distributions. Raises ConfigError where no formula is known.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
    0.5
    """
    for of_p in type(p).__mro__:
        for of_q in type(q).__mro__:
            if (of_p, of_q) in _formulas:
                return _formulas[of_p, of_q](p, q)
    raise ConfigError(f"kl_divergence: of {type(p).__name__} and {type(q).__name__} is not known; write its formula")


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    return (p.probs * (p.logits - q.logits)).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    return p.probs * (p.logits - q.logits) + q.logits.softplus() - p.logits.softplus()


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return ((q.low > p.low) | (q.high < p.high)).where(math.inf, found)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return ratio * (-distance / p.scale).exp() + distance / q.scale - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    gammas = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return gammas + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    shape = (p.loc - q.loc).shape
    of_p, of_q = (one.scale_tril.expand(*shape, shape[-1]) for one in (p, q))
    spread = (linalg.solve_triangular(of_q, of_p, upper=False) ** 2).sum((-2, -1))
    return q._log_scale() - p._log_scale() + 0.5 * (spread + squared_distance(of_q, q.loc - p.loc) - shape[-1])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ConfigError("kl_divergence: the two Independent have different numbers of axes that are events")
    return sum_of_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
