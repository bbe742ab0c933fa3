"""`torch.distributions.transforms`: functions with an inverse, and what they do to densities."""

from rulegrad.pytorch.distributions._transforms_of_numbers import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    _clipped_sigmoid,
    identity_transform,
)
from rulegrad.pytorch.distributions._transforms_of_numbers import _Inverse as _InverseTransform
from rulegrad.pytorch.distributions._transforms_of_vectors import (
    CatTransform,
    CorrCholeskyTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "_InverseTransform",
    "_clipped_sigmoid", "identity_transform",
]  # fmt: skip
