"""`torch.distributions`: distributions, with samples, densities and entropies as tensors.

Values are not compared with what a distribution can have, since nobody waits for them; parameters are where
`validate_args=True` asks for it.
"""

from rulegrad.pytorch.distributions import _kl_moments as _kl_moments  # which registers its formulas
from rulegrad.pytorch.distributions import constraints, transforms
from rulegrad.pytorch.distributions._base import Distribution, ExponentialFamily
from rulegrad.pytorch.distributions._circle import VonMises
from rulegrad.pytorch.distributions._counts import Multinomial, NegativeBinomial
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
from rulegrad.pytorch.distributions._matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from rulegrad.pytorch.distributions._mixtures import LogisticNormal, MixtureSameFamily
from rulegrad.pytorch.distributions._multivariate import Independent, MultivariateNormal
from rulegrad.pytorch.distributions._relaxed import (
    ContinuousBernoulli,
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from rulegrad.pytorch.distributions._tails import (
    FisherSnedecor,
    GeneralizedPareto,
    HalfCauchy,
    InverseGamma,
    Kumaraswamy,
    Pareto,
    Weibull,
)
from rulegrad.pytorch.distributions._transformed import LogNormal, TransformedDistribution
from rulegrad.pytorch.distributions.constraint_registry import biject_to, transform_to
from rulegrad.pytorch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpRelaxedCategorical",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LogitRelaxedBernoulli",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]
