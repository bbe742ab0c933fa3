"""Divergences of two kinds of distributions: less the entropy of one, and the mean of the other's log density.

What these means need of the first kind are a few moments: of x, of its square, of log(x), and of exp(-x / s).
"""

from __future__ import annotations

import math
from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.pytorch.distributions._base import LOG_ROOT_OF_TAU
from rulegrad.pytorch.distributions._discrete import Bernoulli, Binomial, Poisson
from rulegrad.pytorch.distributions._gamma import Beta, Gamma
from rulegrad.pytorch.distributions._kl import kl_divergence, register_kl
from rulegrad.pytorch.distributions._locations import (
    EULER,
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from rulegrad.pytorch.distributions._matrices import LowRankMultivariateNormal
from rulegrad.pytorch.distributions._multivariate import MultivariateNormal
from rulegrad.pytorch.distributions._relaxed import ContinuousBernoulli
from rulegrad.pytorch.distributions._tails import Pareto
from rulegrad.pytorch.distributions._transformed import TransformedDistribution

__all__: list[str] = []

_OF_UNIT: Final = (Beta, ContinuousBernoulli)


def _infinite(p: Any, q: Any) -> Any:
    return (p.entropy() + q.entropy()).full_like(math.inf)


for _first, _others in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
}.items():
    for _other in _others:
        register_kl(_first, _other)(_infinite)


def _is_within(p: Any, low: Any, high: Any, found: Any) -> Any:
    """The divergence of a uniform distribution, infinite where it goes beyond these bounds."""
    return ((p.low < low) | (p.high > high)).where(math.inf, found)


# --- to a normal distribution: by mean and variance

for _kind in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):

    @register_kl(_kind, Normal)
    def _to_normal(p: Any, q: Any) -> Any:
        away = (p.variance + (p.mean - q.loc) ** 2) / (2 * q.scale**2)
        return away + q.scale.log() + LOG_ROOT_OF_TAU - p.entropy()


# --- to an exponential or a gamma distribution: by the means of x and of log(x)


def _to_exponential(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log() - p.entropy()


def _to_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    return q.rate * p.mean - (a - 1) * _mean_of_log(p) + a.lgamma() - a * q.rate.log() - p.entropy()


def _mean_of_log(p: Any) -> Any:
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.alpha.reciprocal() + p.scale.log()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1  # uniform


def _x_log_x(x: Any) -> Any:
    return x.xlogy(x)


for _kind in (*_OF_UNIT, Gamma, Pareto):
    register_kl(_kind, Exponential)(_to_exponential)
for _kind in (Beta, Exponential, Pareto):
    register_kl(_kind, Gamma)(_to_gamma)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return _is_within(p, 0, math.inf, _to_exponential(p, q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    return _is_within(p, 0, math.inf, _to_gamma(p, q))


# --- to Gumbel's distribution: by the means of x and of exp(-x / scale)


def _to_gumbel(p: Any, q: Any, mean_of_exp: Any) -> Any:
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_of_exp - p.entropy()


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    return _to_gumbel(p, q, p.rate / (p.rate + 1 / q.scale))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    return _to_gumbel(p, q, (p.rate / (p.rate + 1 / q.scale)) ** p.concentration)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    return _to_gumbel(p, q, (-p.loc / q.scale + 0.5 * (p.scale / q.scale) ** 2).exp())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ends = (-p.low / q.scale).exp() - (-p.high / q.scale).exp()
    return _to_gumbel(p, q, ends * q.scale / (p.high - p.low))


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Any, q: Any) -> Any:
    return _to_gumbel(p, q, (-p.loc / q.scale + (1 + p.scale / q.scale).lgamma()).exp())


# --- to distributions of parts of 1, of bounded and of large numbers


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Any, q: Any) -> Any:
    found = (q.high - q.low).log() - p.entropy()
    return ((q.low > 0) | (q.high < 1)).where(math.inf, found)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_factor()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    return _is_within(p, 0, 1, _to_continuous_bernoulli(p, q))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    of_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / (p.high - p.low) - 1
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return _is_within(p, 0, 1, log_beta - (a - 1) * _mean_of_log(p) - (b - 1) * of_rest - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    return _is_within(p, q.scale, math.inf, _to_pareto(p, q))


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Any, q: Any) -> Any:
    return (p.scale < q.scale).where(math.inf, _to_pareto(p, q))


def _to_pareto(p: Any, q: Any) -> Any:
    return (q.alpha + 1) * _mean_of_log(p) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()


# --- others


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    size = p.scale * math.sqrt(2 / math.pi) * (-0.5 * (away / p.scale) ** 2).exp()
    size = size + away * (away / (p.scale * math.sqrt(2))).erf()
    return (2 * q.scale).log() + size / q.scale - p.entropy()


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _poisson_of_few(p: Any, q: Any) -> Any:
    return (p.rate + q.probs).full_like(math.inf)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    """Raises ConfigError where the second has more trials."""
    if bool((q.total_count > p.total_count).any()):
        raise ConfigError("kl_divergence: a Binomial to one of more trials has no formula")
    of_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count > q.total_count).where(math.inf, p.total_count * of_trial)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Any:
    first, second = (MultivariateNormal(one.loc, scale_tril=one.scale_tril) for one in (p, q))
    return kl_divergence(first, second)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """Raises ConfigError where the transforms, or the shapes of a value, differ."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise ConfigError("kl_divergence: of other transforms, or other shapes of a value, no formula is known")
    return kl_divergence(p.base_dist, q.base_dist)
