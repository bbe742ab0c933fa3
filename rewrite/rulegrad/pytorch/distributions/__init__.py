"""`torch.distributions`: distributions, with samples, densities and entropies as tensors.

Values are not compared with what a distribution can have, since nobody waits for them: `validate_args` changes nothing.
"""

from rulegrad.pytorch.distributions import transforms
from rulegrad.pytorch.distributions._base import Distribution
from rulegrad.pytorch.distributions._discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from rulegrad.pytorch.distributions._gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from rulegrad.pytorch.distributions._kl import kl_divergence, register_kl
from rulegrad.pytorch.distributions._locations import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from rulegrad.pytorch.distributions._multivariate import Independent, MultivariateNormal
from rulegrad.pytorch.distributions._transformed import LogNormal, TransformedDistribution
from rulegrad.pytorch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transforms",
]
