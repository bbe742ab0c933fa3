"""Pooling layers: `Tensor.max_pool2d` and its relatives with their arguments given once. Names are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn._module import Described, Layer
from rulegrad.nn._pooling_functions import fractional_max_pool2d, fractional_max_pool3d, lp_pool1d, lp_pool2d, lp_pool3d
from rulegrad.tensor.tensor import Tensor

Extents = int | Sequence[int]
Sizes = int | Sequence[int | None]


class _MaxPool(Described):
    _rank: int

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        how = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        result: Tensor | tuple[Tensor, Tensor]
        result = getattr(x, f"max_pool{self._rank}d")(*how, return_indices=self.return_indices)
        return result


class MaxPool1d(_MaxPool):
    """The largest element of each window of the last axis.

    >>> from rulegrad import nn
    >>> nn.MaxPool1d(2)(Tensor([[[1, 4, 3, 2]]])).tolist()
    [[[4, 3]]]
    """

    _rank = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of the last two axes; `Tensor.max_pool2d` says more.

    >>> from rulegrad import nn
    >>> nn.MaxPool2d(2)(Tensor([[[[1, 4], [3, 2]]]])).tolist()
    [[[[4]]]]
    """

    _rank = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of the last three axes.

    >>> from rulegrad import nn
    >>> nn.MaxPool3d(2)(Tensor.arange(8).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[7]]]]]
    """

    _rank = 3


class _MaxUnpool(Described):
    _rank: int
    __call__: Callable[..., Tensor]

    def __init__(self, kernel_size: Extents, stride: Extents | None = None, padding: Extents = 0) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        how = (indices, self.kernel_size, self.stride, self.padding, output_size)
        result: Tensor = getattr(x, f"max_unpool{self._rank}d")(*how)
        return result


class MaxUnpool1d(_MaxUnpool):
    """`MaxUnpool2d` of the last axis.

    >>> from rulegrad import nn
    >>> nn.MaxUnpool1d(2)(Tensor([[[4, 3]]]), Tensor([[[1, 2]]])).tolist()
    [[[0, 4, 3, 0]]]
    """

    _rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Zeros, with each element put where `MaxPool2d(return_indices=True)` found it; `Tensor.max_unpool2d` says more.

    >>> from rulegrad import nn
    >>> nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(Tensor([[[[1, 4], [3, 2]]]]))).tolist()
    [[[[0, 4], [0, 0]]]]
    """

    _rank = 2


class MaxUnpool3d(_MaxUnpool):
    """`MaxUnpool2d` of the last three axes.

    >>> from rulegrad import nn
    >>> x = Tensor.arange(8).reshape(1, 1, 2, 2, 2)
    >>> nn.MaxUnpool3d(2)(*nn.MaxPool3d(2, return_indices=True)(x)).tolist()
    [[[[[0, 0], [0, 0]], [[0, 0], [0, 7]]]]]
    """

    _rank = 3


class _FractionalMaxPool(Described):
    _function: Callable[..., Any]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Extents,
        output_size: Extents | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        if (output_size is None) == (output_ratio is None):
            raise ConfigError(
                f"{type(self).__name__}: output_size={output_size}, output_ratio={output_ratio}; give one of the two"
            )
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, x: Tensor) -> Any:
        how = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return type(self)._function(x, *how)


class FractionalMaxPool2d(_FractionalMaxPool):
    """`nn.functional.fractional_max_pool2d`

    >>> from rulegrad import nn
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(Tensor.ones(1, 1, 10, 10)).shape
    (1, 1, 7, 7)
    """

    _function = staticmethod(fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """`nn.functional.fractional_max_pool3d`

    >>> from rulegrad import nn
    >>> nn.FractionalMaxPool3d(2, 3)(Tensor.ones(1, 1, 5, 6, 7)).shape
    (1, 1, 3, 3, 3)
    """

    _function = staticmethod(fractional_max_pool3d)


class _LPPool(Layer):
    _function: Callable[..., Tensor]

    def __init__(
        self, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return type(self)._function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """`nn.functional.lp_pool1d`

    >>> from rulegrad import nn
    >>> nn.LPPool1d(2, 2)(Tensor([[[3.0, 4.0]]])).tolist()
    [[[5.0]]]
    """

    _function = staticmethod(lp_pool1d)


class LPPool2d(_LPPool):
    """`nn.functional.lp_pool2d`

    >>> from rulegrad import nn
    >>> nn.LPPool2d(1, 2)(Tensor.ones(1, 1, 2, 2)).tolist()
    [[[[4.0]]]]
    """

    _function = staticmethod(lp_pool2d)


class LPPool3d(_LPPool):
    """`nn.functional.lp_pool3d`

    >>> from rulegrad import nn
    >>> nn.LPPool3d(1, 2)(Tensor.ones(1, 1, 2, 2, 2)).tolist()
    [[[[[8.0]]]]]
    """

    _function = staticmethod(lp_pool3d)


class AvgPool1d(Layer):
    """The mean of each window of the last axis.

    >>> from rulegrad import nn
    >>> nn.AvgPool1d(2)(Tensor([[[1.0, 4.0, 3.0, 2.0]]])).tolist()
    [[[2.5, 2.5]]]
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool1d(self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(Layer):
    """The mean of each window of the last two axes; `Tensor.avg_pool2d` says more.

    >>> from rulegrad import nn
    >>> nn.AvgPool2d(2)(Tensor([[[[1.0, 4.0], [3.0, 2.0]]]])).tolist()
    [[[[2.5]]]]
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool2d(*self._how())

    def _how(self) -> tuple[Any, ...]:
        windows = (self.kernel_size, self.stride, self.padding)
        return (*windows, self.ceil_mode, self.count_include_pad, self.divisor_override)


class AvgPool3d(AvgPool2d):
    """The mean of each window of the last three axes.

    >>> from rulegrad import nn
    >>> nn.AvgPool3d(2)(Tensor.ones(1, 3, 4, 4, 2)).shape
    (1, 3, 2, 2, 1)
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool3d(*self._how())


class _Adaptive(Layer):
    _name: str

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = getattr(x, self._name)(self.output_size)
        return result


class AdaptiveAvgPool1d(_Adaptive):
    """Means over windows such that the last axis gets the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveAvgPool1d(2)(Tensor([[[1.0, 4.0, 3.0, 2.0]]])).tolist()
    [[[2.5, 2.5]]]
    """

    _name = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """Means over windows such that the last two axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveAvgPool2d(1)(Tensor([[[[1.0, 4.0], [3.0, 2.0]]]])).tolist()
    [[[[2.5]]]]
    """

    _name = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """Means over windows such that the last three axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveAvgPool3d((2, None, 1))(Tensor.ones(1, 3, 4, 4, 4)).shape
    (1, 3, 2, 4, 1)
    """

    _name = "adaptive_avg_pool3d"


class _AdaptiveMax(Described):
    _name: str

    def __init__(self, output_size: Sizes, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, x: Tensor) -> Any:
        return getattr(x, self._name)(self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest elements of windows such that the last axis gets the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool1d(2)(Tensor([[[1, 4, 3, 2]]])).tolist()
    [[[4, 3]]]
    """

    _name = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest elements of windows such that the last two axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool2d(1)(Tensor([[[[1, 4], [3, 2]]]])).tolist()
    [[[[4]]]]
    """

    _name = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """The largest elements of windows such that the last three axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool3d(1)(Tensor.arange(8).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[7]]]]]
    """

    _name = "adaptive_max_pool3d"
