"""Pooling layers: `Tensor.max_pool2d` and its relatives with their arguments given once. Names are PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.nn.module import Described, Layer
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
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
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
        self._how = (kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool1d(*self._how)


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
        self._how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool2d(*self._how)


class AvgPool3d(AvgPool2d):
    """The mean of each window of the last three axes.

    >>> from rulegrad import nn
    >>> nn.AvgPool3d(2)(Tensor.ones(1, 3, 4, 4, 2)).shape
    (1, 3, 2, 2, 1)
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool3d(*self._how)


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


class AdaptiveMaxPool1d(_Adaptive):
    """The largest elements of windows such that the last axis gets the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool1d(2)(Tensor([[[1, 4, 3, 2]]])).tolist()
    [[[4, 3]]]
    """

    _name = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_Adaptive):
    """The largest elements of windows such that the last two axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool2d(1)(Tensor([[[[1, 4], [3, 2]]]])).tolist()
    [[[[4]]]]
    """

    _name = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_Adaptive):
    """The largest elements of windows such that the last three axes get the size `output_size`.

    >>> from rulegrad import nn
    >>> nn.AdaptiveMaxPool3d(1)(Tensor.arange(8).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[7]]]]]
    """

    _name = "adaptive_max_pool3d"
