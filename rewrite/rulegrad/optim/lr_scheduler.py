"""Schedules of learning rates, by closed formulas of the epoch. `step` sets the rates of the next steps.

Names and arguments are PyTorch's. A schedule reads the rates that the optimizer has when it is made, and sets them from
there: what is changed by hand in between does not last.
"""

from rulegrad.optim._curves import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rulegrad.optim._cycles import CyclicLR, OneCycleLR
from rulegrad.optim._plateau import ReduceLROnPlateau
from rulegrad.optim._schedule import ChainedScheduler, LambdaLR, LRScheduler, MultiplicativeLR, SequentialLR

#: PyTorch's older name of the base.
_LRScheduler = LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def __dir__() -> list[str]:
    return __all__
