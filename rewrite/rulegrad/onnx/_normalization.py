"""Normalization."""

from __future__ import annotations

from typing import Any

from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


@op("BatchNormalization", since=7)
def batch_norm_7(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int = 0,
) -> Any:
    shape = (-1, *[1] * (x.ndim - 2))
    if not training_mode:
        factor = scale / (var + epsilon).sqrt()
        shift = bias - mean * factor
        return (x * factor.reshape(shape) + shift.reshape(shape)).cast(x.dtype)
    axes = (0, *range(2, x.ndim))
    now = x.mean(axis=axes)
    spread = (x - now.reshape(shape)).square().mean(axis=axes)
    found = (x - now.reshape(shape)) * (scale / (spread + epsilon).sqrt()).reshape(shape) + bias.reshape(shape)
    return (
        found.cast(x.dtype),
        (mean * momentum + now * (1 - momentum)).cast(mean.dtype),
        (var * momentum + spread * (1 - momentum)).cast(var.dtype),
    )


def _standardized(x: Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(axis=axes, keepdims=True)
    away = x - mean
    inverse = (away.square().mean(axis=axes, keepdims=True) + epsilon).rsqrt()
    return away * inverse, mean, inverse


@op("InstanceNormalization")
def instance_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
    shape = (-1, *[1] * (x.ndim - 2))
    return _standardized(x, tuple(range(2, x.ndim)), epsilon)[0] * scale.reshape(shape) + bias.reshape(shape)


@op("LayerNormalization")
def layer_norm(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int, epsilon: float, stash_type: int
) -> Any:
    wide = x.cast("float32") if stash_type == 1 and x.dtype in ("float16", "bfloat16") else x
    found, mean, inverse = _standardized(wide, tuple(range(axis % x.ndim, x.ndim)), epsilon)
    found = found.cast(x.dtype) * scale
    return found if bias is None else found + bias, mean, inverse


@op("RMSNormalization")
def rms_norm(call: Call, x: Tensor, scale: Tensor, *, axis: int, epsilon: float, stash_type: int) -> Tensor:
    wide = x.cast("float32") if stash_type == 1 and x.dtype in ("float16", "bfloat16") else x
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (wide * (wide.square().mean(axis=axes, keepdims=True) + epsilon).rsqrt()).cast(x.dtype) * scale


@op("GroupNormalization", since=21)
def group_norm(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float, num_groups: int, stash_type: int = 1
) -> Tensor:
    groups = x.reshape(x.shape[0], num_groups, -1)
    shape = (-1, *[1] * (x.ndim - 2))
    return _standardized(groups, (2,), epsilon)[0].reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


@op("LpNormalization")
def lp_norm(call: Call, x: Tensor, *, axis: int, p: int) -> Tensor:
    size = x.abs().sum(axis=axis, keepdims=True) if p == 1 else x.square().sum(axis=axis, keepdims=True).sqrt()
    return (size == 0).where(x.zeros_like(), x / (size == 0).where(size.ones_like(), size))


@op("LRN")
def lrn(call: Call, x: Tensor, *, alpha: float, beta: float, bias: float, size: int) -> Tensor:
    less = (size - 1) // 2
    pads = tuple((less, size - 1 - less) if axis == 1 else (0, 0) for axis in range(x.ndim))
    squares, channels = x.square().pad(pads), x.shape[1]
    total = squares[:, :channels]
    for place in range(1, size):
        total = total + squares[:, place : place + channels]
    return x / (total * (alpha / size) + bias) ** beta
