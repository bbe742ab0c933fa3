"""Normalisation over channels, groups and layers, as functions of PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.tensor import updates
from rulegrad.tensor.axes import integers, one_axis, whole_number
from rulegrad.tensor.convolution import windows_along_axis
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.custom_gradient import with_gradients
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_tensor
from rulegrad.tensor.reduce import accumulation_dtype
from rulegrad.tensor.transcendental import as_floating, in_float32

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


@built_once
def layer_norm(
    self: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last axes, of the given shape, brought to mean 0 and variance 1, then scaled and shifted.

    Computed in float32 for smaller floats. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 3.0]]).layer_norm(2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    axes = _last_axes(self, normalized_shape, "layer_norm")
    return _scaled(_standardized(self, axes, eps), weight, bias, len(axes), "layer_norm")


@built_once
def rms_norm(
    self: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Operand | None = None,
    eps: float | None = None,
) -> Tensor:
    """The last axes, of the given shape, divided by the root of their mean square, then scaled.

    eps: added to the mean square; the distance from 1 to the next number of the dtype by default. From Zhang and
    Sennrich 2019, "Root Mean Square Layer Normalization". Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[3.0, -3.0]]).rms_norm(2, eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    axes = _last_axes(self, normalized_shape, "rms_norm")
    result = as_floating(self)
    wide = result.cast(accumulation_dtype(result.dtype))
    added = 2.0**-wide.dtype.mantissa if eps is None else eps
    scaled = wide * (wide.square().mean(axes, keepdims=True) + added).rsqrt()
    return _scaled(scaled.cast(result.dtype), weight, None, len(axes), "rms_norm")


@built_once
def group_norm(
    self: Tensor,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The channels (axis 1) in groups, each of which is brought to mean 0 and variance 1; then scaled and shifted.

    weight, bias: one number for each channel. From Wu and He 2018, "Group Normalization". Raises ShapeError.

    >>> Tensor([[1.0, 3.0, 5.0, 7.0]]).group_norm(2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    num_groups = whole_number(num_groups, "group_norm")
    if self.ndim < 2 or num_groups < 1 or self.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: {num_groups} groups for the shape {self.shape}; "
            "it needs (batch, channels, …), and the groups must divide the channels"
        )
    parts = self.reshape(self.shape[0], num_groups, math.prod(self.shape[1:]) // num_groups)
    return _per_channel(_standardized(parts, (2,), eps).reshape(self.shape), weight, bias, "group_norm")


def batch_norm(
    self: Tensor,
    running_mean: Operand | None,
    running_var: Operand | None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel (axis 1) brought to mean 0 and variance 1 over all other axes; then scaled and shifted.

    When `training`, the statistics are those of this batch, and the running ones move towards them by `momentum`
    (the variance with the correction 1); otherwise they are the running ones. The new running statistics are
    computed along with the next step of an optimiser, or when they are read. From Ioffe and Szegedy 2015, "Batch
    Normalization". Raises ShapeError, and ConfigError where there are no statistics to use.

    >>> from rulegrad import Tensor
    >>> mean, var = Tensor.zeros(1), Tensor.ones(1)
    >>> Tensor([[1.0], [3.0]]).batch_norm(mean, var, training=True, momentum=0.5, eps=0.0).tolist(), mean.tolist()
    ([[-1.0], [1.0]], [1.0])
    """
    if self.shape == (0,):
        return as_floating(self)
    if self.ndim < 2:
        raise ShapeError(f"batch_norm: the shape {self.shape} has no channels; it needs (batch, channels, …)")
    if not training:
        if running_mean is None or running_var is None:
            raise ConfigError("batch_norm: no running statistics; give running_mean and running_var, or training=True")
        return _normalized_by(self, running_mean, running_var, weight, bias, eps)
    axes = (0, *range(2, self.ndim))
    if running_mean is not None and running_var is not None:
        _note_statistics(self, axes, running_mean, running_var, momentum, "batch_norm")
    if weight is None or accumulation_dtype(as_floating(self).dtype) != self.dtype:
        return _per_channel(_standardized(self, axes, eps), weight, bias, "batch_norm")
    return _per_channel(_scaled_batch(self, axes, weight, eps), None, bias, "batch_norm")


@built_once
def _normalized_by(
    self: Tensor, mean: Operand, var: Operand, weight: Operand | None, bias: Operand | None, eps: float
) -> Tensor:
    return _per_channel(_standardized_by(self, mean, var, eps, "batch_norm"), weight, bias, "batch_norm")


@built_once
def instance_norm(
    self: Tensor,
    running_mean: Operand | None = None,
    running_var: Operand | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each image brought to mean 0 and variance 1 over its extents; then scaled and shifted.

    Running statistics move when `use_input_stats`, and are used when not. Raises ShapeError and ConfigError.

    >>> Tensor([[[1.0, 3.0], [5.0, 7.0]]]).instance_norm(eps=0.0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    if self.ndim < 3:
        raise ShapeError(f"instance_norm: the shape {self.shape} has no extents; it needs (batch, channels, …)")
    if not use_input_stats:
        return self.batch_norm(running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, self.ndim))
    if running_mean is not None and running_var is not None:
        _note_statistics(self, axes, running_mean, running_var, momentum, "instance_norm")
    return _per_channel(_standardized(self, axes, eps), weight, bias, "instance_norm")


@built_once
@in_float32
def local_response_norm(self: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divided by `(k + alpha * mean) ** beta`, for the mean of squares over `size` channels (axis 1) around.

    From Krizhevsky, Sutskever and Hinton 2012, "ImageNet Classification with Deep Convolutional Neural Networks".
    Raises ShapeError.

    >>> Tensor([[[2.0], [4.0]]]).local_response_norm(2, alpha=1.0, beta=1.0).tolist()
    [[[0.6666666865348816], [0.3636363744735718]]]
    """
    if self.ndim < 3 or size < 1:
        raise ShapeError(
            f"local_response_norm: size={size} for the shape {self.shape}; it needs (batch, channels, …) with at "
            "least three axes, and a size of 1 or more"
        )
    if not self.size:
        return self
    x: Any = as_floating(self)
    around = [(size // 2, (size - 1) // 2) if axis == 1 else (0, 0) for axis in range(self.ndim)]
    means = windows_along_axis(x.square().pad(around), 1, size, 1, 1, "local_response_norm").mean(2)
    result: Tensor = x / (means * alpha + k) ** beta
    return result


# ---- helpers ----


def _last_axes(self: Tensor, normalized_shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    shape = integers((normalized_shape,), name)
    if not shape or self.shape[-len(shape) :] != shape:
        raise ShapeError(f"{name}: the shape {self.shape} does not end in {shape}")
    return tuple(range(-len(shape), 0))


def _standardized(self: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    result = as_floating(self)
    wide = result.cast(accumulation_dtype(result.dtype))
    return _standardized_and_inverse(wide, axes, eps)[0].cast(result.dtype)


def _scaled_batch(self: Tensor, axes: tuple[int, ...], weight: Operand, eps: float) -> Tensor:
    """Standardized over `axes`, times the weight of each channel. The gradient is that of the paper, solved for the
    sums of a channel: those that the gradients of weight and bias are. That of each step would have four others."""
    factor = _of_channels(self, weight, "weight", "batch_norm")
    shape = (-1, *(1,) * (self.ndim - 2))

    def by_x(d: Tensor, x: Tensor, w: Tensor) -> Tensor:
        standardized, inverse = _standardized_and_inverse(x, axes, eps)
        slope = d - d.mean(axes, keepdims=True) - standardized * (d * standardized).mean(axes, keepdims=True)
        return slope * (inverse * w.reshape(shape))

    def by_weight(d: Tensor, x: Tensor, _: Tensor) -> Tensor:
        return (d * _standardized_and_inverse(x, axes, eps)[0]).sum(axes)

    value = _standardized_and_inverse(self, axes, eps)[0] * factor.reshape(shape)
    return with_gradients(value, self, factor, by_x, by_weight, ("batch_norm", axes, eps))


def _standardized_and_inverse(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """And what it was multiplied by, one over the standard deviation."""
    centred = x - x.mean(axes, keepdims=True)
    inverse = (centred.square().mean(axes, keepdims=True) + eps).rsqrt()
    return centred * inverse, inverse


def _standardized_by(self: Tensor, running_mean: Operand, running_var: Operand, eps: float, name: str) -> Tensor:
    result = as_floating(self)
    mean = _of_channels(self, running_mean, "running_mean", name)
    var = _of_channels(self, running_var, "running_var", name)
    shape = (-1, *(1,) * (self.ndim - 2))
    wide = result.cast(accumulation_dtype(result.dtype))
    return ((wide - mean.reshape(shape)) * (var.reshape(shape) + eps).rsqrt()).cast(result.dtype)


def _affine(self: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    result = self if weight is None else self * weight
    return result if bias is None else result + bias


def _scaled(self: Tensor, weight: Operand | None, bias: Operand | None, count: int, name: str) -> Tensor:
    """Scaled and shifted by tensors of the shape of the last `count` axes."""
    shape = self.shape[self.ndim - count :]
    return _affine(
        self,
        *(
            None if tensor is None else _of_shape(self, tensor, shape, role, name)
            for role, tensor in (("weight", weight), ("bias", bias))
        ),
    )


def _per_channel(self: Tensor, weight: Operand | None, bias: Operand | None, name: str) -> Tensor:
    shape = (-1, *(1,) * (self.ndim - 2))
    return _affine(
        self,
        *(
            None if tensor is None else _of_channels(self, tensor, role, name).reshape(shape)
            for role, tensor in (("weight", weight), ("bias", bias))
        ),
    )


def _of_shape(self: Tensor, tensor: Operand, shape: tuple[int, ...], role: str, name: str) -> Tensor:
    found = as_tensor(self, tensor, name)
    if found.shape != shape:
        raise ShapeError(f"{name}: {role} has the shape {found.shape}; it needs that of the last axes, {shape}")
    return found


def _of_channels(self: Tensor, tensor: Operand, role: str, name: str) -> Tensor:
    found = as_tensor(self, tensor, name)
    if found.shape != (self.shape[1],):
        raise ShapeError(
            f"{name}: {role} has the shape {found.shape} and the images {self.shape}; "
            f"it needs one number for each channel, {(self.shape[1],)}"
        )
    return found


@no_grad()
def _note_statistics(self: Tensor, axes: tuple[int, ...], mean: Any, var: Any, momentum: Any, name: str) -> None:
    """Move the running statistics towards those of this batch."""
    if not isinstance(mean, TensorCore) or not isinstance(var, TensorCore):
        raise ConfigError(f"{name}: running statistics that are to be updated must be tensors")
    _of_channels(self, mean, "running_mean", name)
    _of_channels(self, var, "running_var", name)
    count = math.prod(self.shape[k] for k in axes)
    if count < 2:
        raise ShapeError(f"{name}: one value for each channel in the shape {self.shape}; training needs more")
    values = self.detach()
    found = [values.mean(axes), values.var(axes, correction=1)]
    for running, new in zip((mean, var), found):
        if new.ndim > 1:
            # Of each image by itself: the mean over the images.
            new = new.mean(0)
        updates.settle(running)
        running._replace((running * (1.0 - momentum) + new * momentum).cast(running.dtype))
        updates.add(running)


def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim` with a p-norm above `maxnorm` scaled down to it; the others as they are.

    >>> [[round(v, 3) for v in row] for row in Tensor([[3.0, 4.0], [0.0, 1.0]]).renorm(2, 0, 2.5).tolist()]
    [[1.5, 2.0], [0.0, 1.0]]
    """
    k = one_axis(dim, self.ndim, "renorm")
    if not self.dtype.is_inexact:
        raise DtypeError(f"renorm: the dtype is {self.dtype}; cast it to a float dtype")
    size = self.norm(p, tuple(j for j in range(self.ndim) if j != k), True)
    # PyTorch's 1e-7 keeps the product below the limit.
    return self * (size > maxnorm).where(maxnorm / (size + 1e-7), 1.0).cast(self.dtype)
