"""Bases of classes in PyTorch's modules, and names of its annotations."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn._convolution import _ConvNd, _Transposed
from rulegrad.nn._dropout import Dropout
from rulegrad.nn._module import Module
from rulegrad.nn._normalization import _BatchNorm, _InstanceNorm, _Running
from rulegrad.nn._padding import _ConstantPad
from rulegrad.nn._pooling import _MaxPool
from rulegrad.nn.state import IncompatibleKeys

_IncompatibleKeys = IncompatibleKeys

__all__ = ["CrossMapLRN2d", "_BatchNorm", "_ConvNd", "_InstanceNorm", "_Loss", "_NormBase", "_WeightedLoss"]

_NormBase, _ConvTransposeNd, _MaxPoolNd, _ConstantPadNd, _DropoutNd = (
    _Running,
    _Transposed,
    _MaxPool,
    _ConstantPad,
    Dropout,
)
_params_t = params_t = ParamsT = Any
#: What stands in `defaults` for an option that has to be given.
required = object()
#: Numbers for each axis, of `torch.nn.common_types`.
_size_any_t = _size_1_t = _size_2_t = _size_3_t = _size_4_t = _size_5_t = _size_6_t = Any
_size_any_opt_t = _size_2_opt_t = _size_3_opt_t = _ratio_any_t = _ratio_2_t = _ratio_3_t = Any
_scalar_or_tuple_any_t = _scalar_or_tuple_1_t = _scalar_or_tuple_2_t = _scalar_or_tuple_3_t = Any
_scalar_or_tuple_4_t = _scalar_or_tuple_5_t = _scalar_or_tuple_6_t = _tensor_list_t = _maybe_indices_t = Any
Device = _device = _size = _int = _dtype = Number = Any


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


class CrossMapLRN2d(Module):
    """PyTorch's older `LocalResponseNorm`, whose sums leave channel 0 out never: nothing is one. Raises ConfigError."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        raise ConfigError("CrossMapLRN2d: its sums never leave channel 0 out; use LocalResponseNorm")
