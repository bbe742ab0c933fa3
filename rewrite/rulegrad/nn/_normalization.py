"""Normalisation layers. Those with running statistics use the batch's own in training mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._module import Layer
from rulegrad.tensor import updates
from rulegrad.tensor.axes import integers
from rulegrad.tensor.tensor import Tensor


class LayerNorm(Layer):
    """The last axes, of the given shape, brought to mean 0 and variance 1, then scaled and shifted.

    >>> from rulegrad import Tensor, nn
    >>> nn.LayerNorm(2, eps=0.0)(Tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = integers((normalized_shape,), "LayerNorm")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = init.filled(self.normalized_shape, 1.0, device, dtype) if elementwise_affine else None
        self.bias = init.filled(self.normalized_shape, 0.0, device, dtype) if elementwise_affine and bias else None
        init.settle(self, LayerNorm)

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, as at first."""
        init.refill(self)

    def forward(self, x: Tensor) -> Tensor:
        return x.layer_norm(self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Layer):
    """The last axes, of the given shape, divided by the root of their mean square, then scaled.

    >>> from rulegrad import Tensor, nn
    >>> nn.RMSNorm(2, eps=0.0)(Tensor([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = integers((normalized_shape,), "RMSNorm")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = init.filled(self.normalized_shape, 1.0, device, dtype) if elementwise_affine else None
        init.settle(self, RMSNorm)

    def reset_parameters(self) -> None:
        """Set the weight to 1, as at first."""
        init.refill(self)

    def forward(self, x: Tensor) -> Tensor:
        return x.rms_norm(self.normalized_shape, self.weight, self.eps)


class GroupNorm(Layer):
    """The channels (axis 1) in groups, each brought to mean 0 and variance 1; then scaled and shifted by channel.

    >>> from rulegrad import nn
    >>> nn.GroupNorm(2, 2, eps=0.0)(Tensor([[[1.0, 3.0], [2.0, 6.0]]])).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes("GroupNorm", 1, num_groups=num_groups)
        require_sizes("GroupNorm", num_channels=num_channels)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = init.filled((num_channels,), 1.0, device, dtype) if affine else None
        self.bias = init.filled((num_channels,), 0.0, device, dtype) if affine else None
        init.settle(self, GroupNorm)

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, as at first."""
        init.refill(self)

    def forward(self, x: Tensor) -> Tensor:
        return x.group_norm(self.num_groups, self.weight, self.bias, self.eps)


class LocalResponseNorm(Layer):
    """`Tensor.local_response_norm`

    >>> from rulegrad import nn
    >>> nn.LocalResponseNorm(2, alpha=1.0, beta=1.0)(Tensor([[[1.0], [1.0]]])).round(decimals=3).tolist()
    [[[0.6669999957084656], [0.5]]]
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Tensor) -> Tensor:
        return x.local_response_norm(self.size, self.alpha, self.beta, self.k)


class _Running(Layer):
    """Base of batch and instance normalization: the running statistics, and weights for each channel."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: str | None,
        dtype: Any,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = init.filled((num_features,), 1.0, device, dtype) if affine else None
        self.bias = init.filled((num_features,), 0.0, device, dtype) if affine else None
        kept = track_running_stats
        how: dict[str, Any] = {"dtype": dtype, "device": device}
        self.register_buffer("running_mean", Tensor.zeros(num_features, **how) if kept else None)
        self.register_buffer("running_var", Tensor.ones(num_features, **how) if kept else None)
        self.register_buffer("num_batches_tracked", Tensor.zeros((), dtype="int64", device=device) if kept else None)
        init.settle(self, _Running)

    def reset_running_stats(self) -> None:
        """Set the running statistics to those of no batch: mean 0, variance 1.

        >>> from rulegrad import Tensor, nn
        >>> norm = nn.BatchNorm1d(1); _ = norm(Tensor([[1.0], [3.0]])); norm.reset_running_stats()
        >>> norm.running_mean.tolist(), norm.running_var.tolist(), norm.num_batches_tracked.item()
        ([0.0], [1.0], 0)
        """
        for tensor, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if tensor is not None:
                updates.settle(tensor)
                tensor.assign(tensor.full_like(value))

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and the running statistics to those of no batch, as at first."""
        self.reset_running_stats()
        init.refill(self)

    def _share(self) -> float | Tensor:
        """Count this batch; the share that it has in the running statistics (without a momentum, that of a mean)."""
        count = self.num_batches_tracked
        if count is None:
            return 0.0
        updates.settle(count)
        count.assign(count + 1)
        updates.add(count)
        return self.momentum if self.momentum is not None else count.cast("float32").reciprocal()

    def _check(self, x: Tensor, ranks: tuple[int, ...]) -> None:
        if x.ndim not in ranks:
            raise ShapeError(f"{type(self).__name__}: the shape {x.shape} has {x.ndim} axes; it needs {ranks}")


class _BatchNorm(_Running):
    """Base of BatchNorm1d, BatchNorm2d and BatchNorm3d."""

    _ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x, self._ranks)
        own = self.training or self.running_mean is None
        share = self._share() if self.training else 0.0
        statistics = (self.running_mean, self.running_var)
        return x.batch_norm(*statistics, self.weight, self.bias, own, share, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (batch, channels) or (batch, channels, length).

    >>> from rulegrad import nn
    >>> nn.BatchNorm1d(2, eps=0.0)(Tensor([[1.0, 2.0], [3.0, 6.0]])).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images (batch, channels, height, width); `Tensor.batch_norm` says more.

    In training mode the statistics are the batch's, and running_mean and running_var move towards them by `momentum`
    (None: they are the mean of all batches so far); after `eval()` they are used. num_batches_tracked counts.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.BatchNorm2d(3)
    >>> y = layer(Tensor.ones(2, 3, 4, 4))
    >>> layer.num_batches_tracked.item()
    1
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (batch, channels, depth, height, width).

    >>> from rulegrad import nn
    >>> nn.BatchNorm3d(3)(Tensor.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of any number of axes. On a mesh every one counts the batches of all devices, as this does.

    >>> from rulegrad import nn
    >>> nn.SyncBatchNorm(1, eps=0.0)(Tensor([[[1.0]], [[3.0]]])).tolist()
    [[[-1.0]], [[1.0]]]
    """

    _ranks = (2, 3, 4, 5)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module as it is: its batch normalization counts the batches of all devices already.

        >>> from rulegrad import nn
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3)).num_features
        3
        """
        return module


class _InstanceNorm(_Running):
    """Base of InstanceNorm1d, InstanceNorm2d and InstanceNorm3d."""

    _extents: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x, (self._extents + 1, self._extents + 2))
        if x.ndim == self._extents + 1:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        own = self.training or self.running_mean is None
        share = 0.1 if self.momentum is None else self.momentum
        statistics = (self.running_mean, self.running_var)
        return x.instance_norm(*statistics, self.weight, self.bias, own, share, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (batch, channels, length).

    >>> from rulegrad import nn
    >>> nn.InstanceNorm1d(2, eps=0.0)(Tensor([[[1.0, 3.0], [2.0, 6.0]]])).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """

    _extents = 1


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each image brought to mean 0 and variance 1; `Tensor.instance_norm` says more.

    >>> from rulegrad import nn
    >>> nn.InstanceNorm2d(1, eps=0.0)(Tensor([[[[1.0], [3.0]]]])).tolist()
    [[[[-1.0], [1.0]]]]
    """

    _extents = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (batch, channels, depth, height, width).

    >>> from rulegrad import nn
    >>> nn.InstanceNorm3d(3)(Tensor.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    _extents = 3
