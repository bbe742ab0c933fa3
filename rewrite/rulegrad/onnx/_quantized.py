"""Quantised ops: 8-bit integers with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.onnx import _table as table
from rulegrad.onnx._convolution import convolved
from rulegrad.onnx._elementwise import cast_to, dtype_of
from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import Value, known, op
from rulegrad.tensor.tensor import Tensor

_RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _limits(dtype: Any) -> tuple[int, int]:
    name = np.dtype(dtype).name
    if name in _RANGES:
        return _RANGES[name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _spread(part: Any, shape: tuple[int, ...], axis: int, block: int) -> Any:
    """A scale or zero point in a shape that broadcasts with the tensor's."""
    if part is None or part.ndim == 0 or (part.ndim == 1 and part.shape[0] == 1 and not block):
        return part if part is None else part.reshape(())
    axis %= len(shape)
    if not block:
        return part.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    sizes = list(part.shape)
    if isinstance(part, np.ndarray):
        return np.repeat(part, block, axis)[(slice(None),) * axis + (slice(0, shape[axis]),)]
    wide = part.unsqueeze(axis + 1).expand(*sizes[: axis + 1], block, *sizes[axis + 1 :])
    wide = wide.reshape(*sizes[:axis], sizes[axis] * block, *sizes[axis + 1 :])
    return wide[(slice(None),) * axis + (slice(0, shape[axis]),)]


@op("QuantizeLinear", raw=True)
def quantize(
    call: Call, x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    if zero is not None:
        dtype = np.dtype(zero.dtype.numpy if isinstance(zero, Tensor) else zero.dtype)
    else:
        dtype = dtype_of(output_dtype) if output_dtype else np.dtype(np.uint8)
    if isinstance(zero, np.ndarray) and not table.has_tensors(zero.dtype):
        zero = zero.astype(np.float32)
    x, scale, zero = call.tensor(x), call.tensor(scale), call.tensor(zero)
    wide = "float64" if x.dtype == "float64" else "float32"
    scaled = x.cast(wide) / _spread(scale, x.shape, axis, block_size).cast(wide)
    if dtype.name.startswith("float"):
        return cast_to(call, scaled, dtype, bool(saturate))
    scaled = scaled.round()
    if zero is not None:
        scaled = scaled + _spread(zero, x.shape, axis, block_size).cast(wide)
    low, high = _limits(dtype)
    return cast_to(call, scaled.clip(low, high), dtype, False)


@op("DequantizeLinear", raw=True)
def dequantize(
    call: Call, x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Value:
    x, scale, zero = (_wide(call, one) for one in (x, scale, zero))
    values = x if zero is None else x - _spread(zero, x.shape, axis, block_size)
    found = values.cast("float32") * _spread(scale, x.shape, axis, block_size).cast("float32")
    return found.cast(dtype_of(output_dtype).name if output_dtype else scale.dtype)


def _wide(call: Call, value: Value) -> Value:
    """Small integers as int32; numbers that tensors lack as float32; others as they are."""
    if value is None:
        return None
    dtype = np.dtype(value.dtype.numpy if isinstance(value, Tensor) else value.dtype)
    if not table.has_tensors(dtype):
        return Tensor(value.astype(np.int32 if "int" in dtype.name else np.float32), device=call.device)
    tensor: Tensor = call.tensor(value)
    if dtype.kind in "iu":
        return tensor.cast("int32")
    return tensor.cast("float32") if dtype.name.startswith("float8") else tensor


@op("DynamicQuantizeLinear")
def dynamic_quantize(call: Call, x: Tensor) -> Any:
    low, high = x.min().clip(None, 0), x.max().clip(0, None)
    scale = (high - low) / 255
    scale = (scale == 0).where(scale.ones_like(), scale)
    zero = (0 - low / scale).clip(0, 255).round()
    found = ((x / scale).round() + zero).clip(0, 255).cast("uint8")
    return found, scale, zero.cast("uint8")


def _shifted(x: Tensor, zero: Any, axis: int) -> Tensor:
    """int32 without the zero point; one of an axis is for the rows or columns of a matrix."""
    wide = x.cast("int32")
    if zero is None:
        return wide
    zero = zero.cast("int32")
    if zero.ndim == 1 and zero.shape[0] > 1:
        zero = zero.reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])
    elif zero.ndim <= 1:
        zero = zero.reshape(())
    shifted: Tensor = wide - zero
    return shifted


@op("MatMulInteger")
def matmul_integer(
    call: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    product: Tensor = _shifted(a, a_zero, -2 if a.ndim > 1 else -1) @ _shifted(b, b_zero, -1)
    return product


def _requantized(total: Tensor, factor: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    low, high = _limits(zero.dtype.numpy)
    found = (total.cast("float32") * factor.cast("float32") / scale.cast("float32")).round() + zero.cast("float32")
    return found.clip(low, high).cast(zero.dtype)


@op("QLinearMatMul")
def qlinear_matmul(
    call: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    scale: Tensor, zero: Tensor,
) -> Tensor:  # fmt: skip
    total = _shifted(a, a_zero, -2) @ _shifted(b, b_zero, -1)
    rows = a_scale.reshape(-1, 1) if a_scale.ndim == 1 and a_scale.shape[0] > 1 else a_scale
    return _requantized(total, rows * b_scale, scale, zero)


@op("ConvInteger")
def conv_integer(
    call: Call, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *, auto_pad: str,
    dilations: Any = None, group: int, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    options: Any = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    return convolved(_shifted(x, x_zero, 0), _shifted(w, w_zero, 0), None, **options)


@op("QLinearConv")
def qlinear_conv(
    call: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    scale: Tensor, zero: Tensor, b: Tensor | None = None, *, auto_pad: str, dilations: Any = None, group: int,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    options: Any = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    total = convolved(_shifted(x, x_zero, 0), _shifted(w, w_zero, 0), b, **options)
    channels = (-1, *[1] * (x.ndim - 2)) if w_scale.ndim else ()
    return _requantized(total, x_scale * (w_scale.reshape(channels) if channels else w_scale), scale, zero)


@known("DequantizeLinear")
def known_dequantize(
    call: Call, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Value:
    return dequantize(call, x, scale, zero, axis=axis, block_size=block_size, output_dtype=output_dtype)
