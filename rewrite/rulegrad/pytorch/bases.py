"""Bases of classes in PyTorch's modules, and names of its annotations."""

from __future__ import annotations

from typing import Any

from rulegrad.nn._module import Module
from rulegrad.nn._normalization import _BatchNorm, _InstanceNorm, _Running
from rulegrad.nn.state import IncompatibleKeys

_IncompatibleKeys = IncompatibleKeys

__all__ = ["_BatchNorm", "_InstanceNorm", "_Loss", "_NormBase", "_WeightedLoss"]

_NormBase = _Running
_params_t = params_t = ParamsT = Any
#: What stands in `defaults` for an option that has to be given.
required = object()
Device = _device = _size = _size_2_t = _int = _dtype = Number = Any


class _Loss(Module):
    """The base of losses that a program writes."""

    reduction: str

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """The base of losses with weights of classes."""

    def __init__(
        self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
