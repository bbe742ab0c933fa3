"""Normalisation over channels, groups and layers, as functions of PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor import updates
from rulegrad.tensor.activations import Activations
from rulegrad.tensor.axes import integers
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from typing_extensions import Self


class Normalization(Activations):
    """batch_norm, layer_norm, group_norm, instance_norm, rms_norm."""

    __slots__ = ()

    def layer_norm(
        self,
        normalized_shape: int | Sequence[int],
        weight: Self | None = None,
        bias: Self | None = None,
        eps: float = 1e-5,
    ) -> Self:
        """The last axes, of the given shape, brought to mean 0 and variance 1, then scaled and shifted.

        Computed in float32 for smaller floats. Raises ShapeError.

        >>> from rulegrad import Tensor
        >>> Tensor([[1.0, 3.0]]).layer_norm(2, eps=0.0).tolist()
        [[-1.0, 1.0]]
        """
        axes = self._last_axes(normalized_shape, "layer_norm")
        return self._standardized(axes, eps)._affine(weight, bias)

    def rms_norm(
        self,
        normalized_shape: int | Sequence[int],
        weight: Self | None = None,
        eps: float | None = None,
    ) -> Self:
        """The last axes, of the given shape, divided by the root of their mean square, then scaled.

        eps: added to the mean square; the distance from 1 to the next number of the dtype by default. From Zhang and
        Sennrich 2019, "Root Mean Square Layer Normalization". Raises ShapeError.

        >>> from rulegrad import Tensor
        >>> Tensor([[3.0, -3.0]]).rms_norm(2, eps=0.0).tolist()
        [[1.0, -1.0]]
        """
        axes = self._last_axes(normalized_shape, "rms_norm")
        result = self._floating()
        wide = result.cast(accumulation_dtype(result.dtype))
        added = 2.0**-wide.dtype.mantissa if eps is None else eps
        scaled = wide * (wide.square().mean(axes, keepdims=True) + added).rsqrt()
        return scaled.cast(result.dtype)._affine(weight, None)

    def group_norm(
        self,
        num_groups: int,
        weight: Self | None = None,
        bias: Self | None = None,
        eps: float = 1e-5,
    ) -> Self:
        """The channels (axis 1) in groups, each of which is brought to mean 0 and variance 1; then scaled and shifted.

        weight, bias: one number for each channel. From Wu and He 2018, "Group Normalization". Raises ShapeError.
        """
        if self.ndim < 2 or num_groups < 1 or self.shape[1] % num_groups:
            raise ShapeError(
                f"group_norm: {num_groups} groups for the shape {self.shape}; "
                "it needs (batch, channels, …), and the groups must divide the channels"
            )
        parts = self.reshape(self.shape[0], num_groups, -1)
        return parts._standardized((2,), eps).reshape(self.shape)._per_channel(weight, bias, "group_norm")

    def batch_norm(
        self,
        running_mean: Self | None,
        running_var: Self | None,
        weight: Self | None = None,
        bias: Self | None = None,
        training: bool = False,
        momentum: float | Self = 0.1,
        eps: float = 1e-5,
    ) -> Self:
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
        if self.ndim < 2:
            raise ShapeError(f"batch_norm: the shape {self.shape} has no channels; it needs (batch, channels, …)")
        if not training:
            if running_mean is None or running_var is None:
                raise ConfigError(
                    "batch_norm: no running statistics; give running_mean and running_var, or training=True"
                )
            return self._standardized_by(running_mean, running_var, eps)._per_channel(weight, bias, "batch_norm")
        axes = (0, *range(2, self.ndim))
        if running_mean is not None and running_var is not None:
            self._note_statistics(axes, running_mean, running_var, momentum)
        return self._standardized(axes, eps)._per_channel(weight, bias, "batch_norm")

    def instance_norm(
        self,
        running_mean: Self | None = None,
        running_var: Self | None = None,
        weight: Self | None = None,
        bias: Self | None = None,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Self:
        """Each channel of each image brought to mean 0 and variance 1 over its extents; then scaled and shifted.

        Running statistics move when `use_input_stats`, and are used when not. Raises ShapeError and ConfigError.
        """
        if self.ndim < 3:
            raise ShapeError(f"instance_norm: the shape {self.shape} has no extents; it needs (batch, channels, …)")
        if not use_input_stats:
            return self.batch_norm(running_mean, running_var, weight, bias, False, momentum, eps)
        axes = tuple(range(2, self.ndim))
        if running_mean is not None and running_var is not None:
            self._note_statistics(axes, running_mean, running_var, momentum)
        return self._standardized(axes, eps)._per_channel(weight, bias, "instance_norm")

    # ---- helpers ----

    def _last_axes(self, normalized_shape: int | Sequence[int], name: str) -> tuple[int, ...]:
        shape = integers((normalized_shape,), name)
        if not shape or self.shape[-len(shape) :] != shape:
            raise ShapeError(f"{name}: the shape {self.shape} does not end in {shape}")
        return tuple(range(-len(shape), 0))

    def _standardized(self, axes: tuple[int, ...], eps: float) -> Self:
        result = self._floating()
        wide = result.cast(accumulation_dtype(result.dtype))
        centred = wide - wide.mean(axes, keepdims=True)
        return (centred * (centred.square().mean(axes, keepdims=True) + eps).rsqrt()).cast(result.dtype)

    def _standardized_by(self, mean: Self, var: Self, eps: float) -> Self:
        result = self._floating()
        self._need_channels(mean, "running_mean", "batch_norm")
        self._need_channels(var, "running_var", "batch_norm")
        shape = (-1, *(1,) * (self.ndim - 2))
        wide = result.cast(accumulation_dtype(result.dtype))
        return ((wide - mean.reshape(shape)) * (var.reshape(shape) + eps).rsqrt()).cast(result.dtype)

    def _affine(self, weight: Self | None, bias: Self | None) -> Self:
        result = self if weight is None else self * weight
        return result if bias is None else result + bias

    def _per_channel(self, weight: Self | None, bias: Self | None, name: str) -> Self:
        shape = (-1, *(1,) * (self.ndim - 2))
        if weight is not None:
            self._need_channels(weight, "weight", name)
            weight = weight.reshape(shape)
        if bias is not None:
            self._need_channels(bias, "bias", name)
            bias = bias.reshape(shape)
        return self._affine(weight, bias)

    def _need_channels(self, tensor: Self, role: str, name: str) -> None:
        if tensor.shape != (self.shape[1],):
            raise ShapeError(
                f"{name}: {role} has the shape {tensor.shape} and the images {self.shape}; "
                f"it needs one number for each channel, {(self.shape[1],)}"
            )

    @no_grad()
    def _note_statistics(self, axes: tuple[int, ...], mean: Self, var: Self, momentum: float | Self) -> None:
        """Move the running statistics towards those of this batch."""
        self._need_channels(mean, "running_mean", "batch_norm")
        self._need_channels(var, "running_var", "batch_norm")
        count = math.prod(self.shape[k] for k in axes)
        if count < 2:
            raise ShapeError(f"batch_norm: one value for each channel in the shape {self.shape}; training needs more")
        values = self.detach()
        found = [values.mean(axes), values.var(axes, correction=1)]
        for running, new in zip((mean, var), found):
            if new.ndim > 1:
                # Of each image by itself: the mean over the images.
                new = new.mean(0)
            updates.settle(running)
            running._replace((running * (1.0 - momentum) + new * momentum).cast(running.dtype))
            updates.add(running)
