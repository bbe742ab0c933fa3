"""Padding layers: `nn.functional.pad` of the last axes, with its arguments given once."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.errors import ShapeError
from rulegrad.nn._module import Layer
from rulegrad.nn.functional import pad
from rulegrad.tensor.axes import integers
from rulegrad.tensor.tensor import Tensor

Widths = int | Sequence[int]


class _Pad(Layer):
    """A number for all sides, or PyTorch's order: (before, after) of the last axis, then of the one before it, …"""

    _rank: int
    _mode = "constant"

    def __init__(self, padding: Widths) -> None:
        numbers = integers((padding,), type(self).__name__)
        self.padding = numbers * (2 * self._rank) if len(numbers) == 1 else numbers
        if len(self.padding) != 2 * self._rank:
            raise ShapeError(
                f"{type(self).__name__}: padding={padding!r}; give one number, or a pair for each of the last "
                f"{self._rank} axes"
            )
        self.value: float = 0

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, self.padding, self._mode, self.value)


class _ConstantPad(_Pad):
    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad):
    """`value` around the last axis.

    >>> from rulegrad import nn
    >>> nn.ConstantPad1d(1, 7)(Tensor([[1, 2]])).tolist()
    [[7, 1, 2, 7]]
    """

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """`value` around the last two axes.

    >>> from rulegrad import nn
    >>> nn.ConstantPad2d(1, 7.0)(Tensor.ones(1, 1, 3, 3)).shape
    (1, 1, 5, 5)
    """

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """`value` around the last three axes.

    >>> from rulegrad import nn
    >>> nn.ConstantPad3d(1, 7.0)(Tensor.ones(1, 1, 3, 3, 3)).shape
    (1, 1, 5, 5, 5)
    """

    _rank = 3


class ZeroPad1d(_Pad):
    """Zeros around the last axis.

    >>> from rulegrad import nn
    >>> nn.ZeroPad1d((2, 0))(Tensor([[1, 2]])).tolist()
    [[0, 0, 1, 2]]
    """

    _rank = 1


class ZeroPad2d(_Pad):
    """Zeros around the last two axes.

    >>> from rulegrad import nn
    >>> nn.ZeroPad2d(1)(Tensor.ones(1, 1, 3, 3)).shape
    (1, 1, 5, 5)
    """

    _rank = 2


class ZeroPad3d(_Pad):
    """Zeros around the last three axes.

    >>> from rulegrad import nn
    >>> nn.ZeroPad3d(1)(Tensor.ones(1, 1, 3, 3, 3)).shape
    (1, 1, 5, 5, 5)
    """

    _rank = 3


class ReflectionPad1d(_Pad):
    """The last axis mirrored at its outermost elements.

    >>> from rulegrad import nn
    >>> nn.ReflectionPad1d(2)(Tensor([[1, 2, 3]])).tolist()
    [[3, 2, 1, 2, 3, 2, 1]]
    """

    _rank = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """The last two axes mirrored at their outermost elements.

    >>> from rulegrad import nn
    >>> nn.ReflectionPad2d(1)(Tensor.ones(1, 1, 3, 3)).shape
    (1, 1, 5, 5)
    """

    _rank = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """The last three axes mirrored at their outermost elements.

    >>> from rulegrad import nn
    >>> nn.ReflectionPad3d(1)(Tensor.ones(1, 1, 3, 3, 3)).shape
    (1, 1, 5, 5, 5)
    """

    _rank = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """The outermost elements of the last axis repeated.

    >>> from rulegrad import nn
    >>> nn.ReplicationPad1d((2, 0))(Tensor([[1, 2]])).tolist()
    [[1, 1, 1, 2]]
    """

    _rank = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """The outermost elements of the last two axes repeated.

    >>> from rulegrad import nn
    >>> nn.ReplicationPad2d(1)(Tensor.ones(1, 1, 3, 3)).shape
    (1, 1, 5, 5)
    """

    _rank = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """The outermost elements of the last three axes repeated.

    >>> from rulegrad import nn
    >>> nn.ReplicationPad3d(1)(Tensor.ones(1, 1, 3, 3, 3)).shape
    (1, 1, 5, 5, 5)
    """

    _rank = 3
    _mode = "replicate"


class CircularPad1d(_Pad):
    """The last axis going on from the other end.

    >>> from rulegrad import nn
    >>> nn.CircularPad1d((0, 2))(Tensor([[1, 2, 3]])).tolist()
    [[1, 2, 3, 1, 2]]
    """

    _rank = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    """The last two axes going on from the other end.

    >>> from rulegrad import nn
    >>> nn.CircularPad2d(1)(Tensor.ones(1, 1, 3, 3)).shape
    (1, 1, 5, 5)
    """

    _rank = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    """The last three axes going on from the other end.

    >>> from rulegrad import nn
    >>> nn.CircularPad3d(1)(Tensor.ones(1, 1, 3, 3, 3)).shape
    (1, 1, 5, 5, 5)
    """

    _rank = 3
    _mode = "circular"
