"""Lazy layers: the first input decides how many inputs they have, and they are the plain layers from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from rulegrad.errors import CaptureError, ShapeError
from rulegrad.nn._convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Extents,
    PaddingMode,
)
from rulegrad.nn._linear import Linear
from rulegrad.nn._module import Described
from rulegrad.nn._normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from rulegrad.nn._uninitialized import UninitializedBuffer, UninitializedParameter
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.tensor import Tensor

#: The tensors whose shapes wait for the first input.
_TENSORS = ("weight", "bias", "running_mean", "running_var")


def _shaped_by_state(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    """Before a state is loaded: its tensors say how many inputs there are."""
    if isinstance(module, _Lazy):
        given = [state_dict.get(f"{prefix}{name}") for name in module._shaped_by]
        shapes = [one.shape for one in given if one is not None and not isinstance(one, UninitializedParameter)]
        if shapes:
            module._become(shapes[0][module._input_axis])


class _Lazy(Described):
    """A layer before its first input. The arguments of the plain layer without the number of inputs are kept."""

    cls_to_become: ClassVar[type[Any]]
    _count: ClassVar[str]  # the attribute that says how many inputs there are
    _shaped_by: ClassVar[tuple[str, ...]] = ("weight",)  # the tensors of a state that do, and along which axis
    _input_axis: ClassVar[int] = 0
    _ranks: tuple[int, ...] = ()  # of inputs; the shortest has no batch where `_may_lack_batch`
    _may_lack_batch: ClassVar[bool] = False
    _load_hooks = (_shaped_by_state,)

    def _wait(self, **arguments: Any) -> None:
        self.cls_to_become.__init__(self, 0, **arguments)
        self._arguments = arguments
        for name in _TENSORS:
            tensor = getattr(self, name, None)
            if tensor is not None:
                kind = UninitializedParameter if tensor.requires_grad else UninitializedBuffer
                setattr(self, name, kind(device=arguments["device"], dtype=tensor.dtype))

    def _inputs(self, x: Tensor) -> int:
        """How many inputs an input has."""
        if x.ndim not in self._ranks:
            raise ShapeError(f"{type(self).__name__}: the shape {x.shape} has {x.ndim} axes; it needs {self._ranks}")
        return x.shape[0 if self._may_lack_batch and x.ndim == min(self._ranks) else 1]

    def _become(self, inputs: int) -> None:
        """Be the plain layer with so many inputs. What was changed meanwhile stays so."""
        if is_tracing():
            raise CaptureError(
                f"{type(self).__name__}: its first input is inside a captured function, which cannot make parameters; "
                "call the model once on an input before"
            )
        empty = {name: value for name, value in vars(self).items() if isinstance(value, UninitializedParameter)}
        apart = {"_arguments", "_kinds", self._count, *empty}
        kept = {name: value for name, value in vars(self).items() if name not in apart}
        how, one = self.__dict__.pop("_arguments"), next(iter(empty.values()), None)
        if one is not None:
            how = {**how, "device": one.device, "dtype": one.dtype}
        plain = self.cls_to_become
        self.__class__ = plain
        plain.__init__(self, inputs, **how)
        for name, value in kept.items():
            if value is not getattr(self, name, None) and not (isinstance(value, Tensor) and name not in _TENSORS):
                setattr(self, name, value)
        for name, value in empty.items():
            if not isinstance(value, UninitializedBuffer):
                getattr(self, name).requires_grad = value.requires_grad

    def _first_call(self, *arguments: Any, **more: Any) -> Any:
        self._become(self._inputs(arguments[0] if arguments else next(iter(more.values()))))
        return self(*arguments, **more)

    __call__: Callable[..., Any] = _first_call


class _LazyChannels(_Lazy):
    """A lazy convolution: the channels of its input are axis 1, or axis 0 without a batch."""

    _count = "in_channels"
    _may_lack_batch = True


class _LazyConv(_LazyChannels):
    """The arguments of convolutions."""

    _input_axis = 1

    def __init__(
        self,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how: dict[str, Any] = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
            "bias": bias,
        }
        how |= {"padding_mode": padding_mode, "device": device, "dtype": dtype}
        self._wait(out_channels=out_channels, kernel_size=kernel_size, **how)


class _LazyConvTranspose(_LazyChannels):
    """The arguments of transposed convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: Literal["zeros"] = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how: dict[str, Any] = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups}
        how |= {"bias": bias, "dilation": dilation, "padding_mode": padding_mode, "device": device, "dtype": dtype}
        self._wait(out_channels=out_channels, kernel_size=kernel_size, **how)


class _LazyNorm(_Lazy):
    """The channels are those of the weights, or of the running statistics where there are no weights."""

    _count, _shaped_by = "num_features", ("weight", "running_mean")

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how = {"eps": eps, "momentum": momentum, "affine": affine, "track_running_stats": track_running_stats}
        self._wait(**how, device=device, dtype=dtype)


class _LazyInstanceNorm(_LazyNorm):
    """Norms of each image: with parameters and running statistics unless told otherwise, as in PyTorch."""

    _may_lack_batch = True


class LazyLinear(_Lazy, Linear):
    """`Linear` whose in_features are those of the first input; from then on it is a `Linear`.

    A state that is loaded decides them too. Optimizers are made afterwards: the parameters are not there before.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.LazyLinear(2)
    >>> layer(Tensor.ones(5, 3)).shape, layer.weight.shape, type(layer).__name__
    ((5, 2), (2, 3), 'Linear')
    """

    cls_to_become = Linear
    _count, _input_axis = "in_features", 1

    def __init__(self, out_features: int, bias: bool = True, device: str | None = None, dtype: Any = None) -> None:
        self._wait(out_features=out_features, bias=bias, device=device, dtype=dtype)

    def _inputs(self, x: Tensor) -> int:
        if not x.ndim:
            raise ShapeError("LazyLinear: the input has no axes; its last one says how many inputs there are")
        return x.shape[-1]


class LazyConv1d(_LazyConv, Conv1d):
    """`Conv1d` whose in_channels are those of the first input; from then on it is a `Conv1d`.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConv1d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 5)).shape, layer.in_channels
    ((1, 8, 5), 3)
    """

    cls_to_become = Conv1d
    _ranks = (2, 3)


class LazyConv2d(_LazyConv, Conv2d):
    """`Conv2d` whose in_channels are those of the first input; from then on it is a `Conv2d`.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConv2d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 5, 5)).shape, layer.in_channels
    ((1, 8, 5, 5), 3)
    """

    cls_to_become = Conv2d
    _ranks = (3, 4)


class LazyConv3d(_LazyConv, Conv3d):
    """`Conv3d` whose in_channels are those of the first input; from then on it is a `Conv3d`.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConv3d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 4, 4, 4)).shape, layer.in_channels
    ((1, 8, 4, 4, 4), 3)
    """

    cls_to_become = Conv3d
    _ranks = (4, 5)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` whose in_channels are those of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConvTranspose1d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 5)).shape, layer.in_channels
    ((1, 8, 5), 3)
    """

    cls_to_become = ConvTranspose1d
    _ranks = (2, 3)


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` whose in_channels are those of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConvTranspose2d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 5, 5)).shape, layer.in_channels
    ((1, 8, 5, 5), 3)
    """

    cls_to_become = ConvTranspose2d
    _ranks = (3, 4)


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` whose in_channels are those of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyConvTranspose3d(8, 3, padding=1)
    >>> layer(Tensor.ones(1, 3, 4, 4, 4)).shape, layer.in_channels
    ((1, 8, 4, 4, 4), 3)
    """

    cls_to_become = ConvTranspose3d
    _ranks = (4, 5)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` whose num_features are the channels of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyBatchNorm1d()
    >>> layer(Tensor.ones(2, 3, 5)).shape, layer.num_features
    ((2, 3, 5), 3)
    """

    cls_to_become = BatchNorm1d
    _ranks = (2, 3)


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` whose num_features are the channels of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyBatchNorm2d()
    >>> layer(Tensor.ones(2, 3, 5, 5)).shape, layer.num_features
    ((2, 3, 5, 5), 3)
    """

    cls_to_become = BatchNorm2d
    _ranks = (4,)


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` whose num_features are the channels of the first input; from then on it is one.

    >>> from rulegrad import nn
    >>> layer = nn.LazyBatchNorm3d()
    >>> layer(Tensor.ones(2, 3, 4, 4, 4)).shape, layer.num_features
    ((2, 3, 4, 4, 4), 3)
    """

    cls_to_become = BatchNorm3d
    _ranks = (5,)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """`InstanceNorm1d` whose num_features are the channels of the first input; from then on it is one.

    With parameters and running statistics unless told otherwise, as in PyTorch.

    >>> from rulegrad import nn
    >>> layer = nn.LazyInstanceNorm1d()
    >>> layer(Tensor.ones(2, 3, 5)).shape, layer.num_features
    ((2, 3, 5), 3)
    """

    cls_to_become = InstanceNorm1d
    _ranks = (2, 3)


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """`InstanceNorm2d` whose num_features are the channels of the first input; from then on it is one.

    With parameters and running statistics unless told otherwise, as in PyTorch.

    >>> from rulegrad import nn
    >>> layer = nn.LazyInstanceNorm2d()
    >>> layer(Tensor.ones(2, 3, 5, 5)).shape, layer.num_features
    ((2, 3, 5, 5), 3)
    """

    cls_to_become = InstanceNorm2d
    _ranks = (3, 4)


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """`InstanceNorm3d` whose num_features are the channels of the first input; from then on it is one.

    With parameters and running statistics unless told otherwise, as in PyTorch.

    >>> from rulegrad import nn
    >>> layer = nn.LazyInstanceNorm3d()
    >>> layer(Tensor.ones(2, 3, 4, 4, 4)).shape, layer.num_features
    ((2, 3, 4, 4, 4), 3)
    """

    cls_to_become = InstanceNorm3d
    _ranks = (4, 5)
