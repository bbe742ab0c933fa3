"""Activations as layers. With `inplace` a layer's input has the values of the result from now on, as in PyTorch."""

from __future__ import annotations

from typing import Any, Literal

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_numbers
from rulegrad.nn._inplace import in_its_place
from rulegrad.nn._module import Layer
from rulegrad.tensor.tensor import Tensor


class _Activation(Layer):
    """A method of tensors, with its arguments given once."""

    _name: str
    _arguments: tuple[str, ...] = ()  # the attributes that the method is given
    inplace = False

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = getattr(x, self._name)(*(getattr(self, name) for name in self._arguments))
        return in_its_place(result, x, self.inplace)


class _Inplace(_Activation):
    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class ReLU(_Inplace):
    """`Tensor.relu`

    >>> from rulegrad import Tensor, nn
    >>> nn.ReLU()(Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _name = "relu"


class ReLU6(_Inplace):
    """`Tensor.relu6`

    >>> from rulegrad import nn
    >>> nn.ReLU6()(Tensor([-1.0, 2.0, 8.0])).tolist()
    [0.0, 2.0, 6.0]
    """

    _name = "relu6"
    min_val, max_val = 0.0, 6.0


class SELU(_Inplace):
    """`Tensor.selu`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.SELU()(Tensor([-1.0, 2.0])).tolist()]
    [-1.111, 2.101]
    """

    _name = "selu"


class SiLU(_Inplace):
    """`Tensor.silu`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.SiLU()(Tensor([-1.0, 2.0])).tolist()]
    [-0.269, 1.762]
    """

    _name = "silu"


class Mish(_Inplace):
    """`Tensor.mish`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Mish()(Tensor([-1.0, 2.0])).tolist()]
    [-0.303, 1.944]
    """

    _name = "mish"


class Hardsigmoid(_Inplace):
    """`Tensor.hardsigmoid`

    >>> from rulegrad import nn
    >>> nn.Hardsigmoid()(Tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """

    _name = "hardsigmoid"


class Hardswish(_Inplace):
    """`Tensor.hardswish`

    >>> from rulegrad import nn
    >>> nn.Hardswish()(Tensor([0.0, 3.0, 4.0])).tolist()
    [0.0, 3.0, 4.0]
    """

    _name = "hardswish"


class Sigmoid(_Activation):
    """`Tensor.sigmoid`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Sigmoid()(Tensor([0.0, 1.0])).tolist()]
    [0.5, 0.731]
    """

    _name = "sigmoid"


class Tanh(_Activation):
    """`Tensor.tanh`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Tanh()(Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.762]
    """

    _name = "tanh"


class LogSigmoid(_Activation):
    """`Tensor.logsigmoid`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.LogSigmoid()(Tensor([0.0, 1.0])).tolist()]
    [-0.693, -0.313]
    """

    _name = "logsigmoid"


class Softsign(_Activation):
    """`Tensor.softsign`

    >>> from rulegrad import nn
    >>> nn.Softsign()(Tensor([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """

    _name = "softsign"


class Tanhshrink(_Activation):
    """`Tensor.tanhshrink`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Tanhshrink()(Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.238]
    """

    _name = "tanhshrink"


class LeakyReLU(_Activation):
    """`Tensor.leaky_relu`

    >>> from rulegrad import nn
    >>> nn.LeakyReLU(0.5)(Tensor([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    _name = "leaky_relu"
    _arguments = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope, self.inplace = negative_slope, inplace


class ELU(_Activation):
    """`Tensor.elu`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.ELU()(Tensor([-1.0, 2.0])).tolist()]
    [-0.632, 2.0]
    """

    _name = "elu"
    _arguments = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha, self.inplace = alpha, inplace


class CELU(ELU):
    """`Tensor.celu`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.CELU(2.0)(Tensor([-1.0, 2.0])).tolist()]
    [-0.787, 2.0]
    """

    _name = "celu"


class GELU(_Activation):
    """`Tensor.gelu`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.GELU()(Tensor([-1.0, 2.0])).tolist()]
    [-0.159, 1.954]
    """

    _name = "gelu"
    _arguments = ("approximate",)

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate = approximate


class GLU(_Activation):
    """`Tensor.glu`

    >>> from rulegrad import nn
    >>> nn.GLU()(Tensor([3.0, 0.0])).tolist()
    [1.5]
    """

    _name = "glu"
    _arguments = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim


class Hardtanh(_Activation):
    """`Tensor.hardtanh`

    >>> from rulegrad import nn
    >>> nn.Hardtanh()(Tensor([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """

    _name = "hardtanh"
    _arguments = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        require_numbers("Hardtanh", min_val=min_val, max_val=max_val)
        if not min_val < max_val:
            raise ConfigError(f"Hardtanh: min_val={min_val}, max_val={max_val}; use a larger max_val")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace


class Threshold(_Activation):
    """`Tensor.threshold`

    >>> from rulegrad import nn
    >>> nn.Threshold(1.0, 9.0)(Tensor([0.5, 2.0])).tolist()
    [9.0, 2.0]
    """

    _name = "threshold"
    _arguments = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold, self.value, self.inplace = threshold, value, inplace


class Hardshrink(_Activation):
    """`Tensor.hardshrink`

    >>> from rulegrad import nn
    >>> nn.Hardshrink()(Tensor([0.25, 2.0])).tolist()
    [0.0, 2.0]
    """

    _name = "hardshrink"
    _arguments = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd


class Softshrink(Hardshrink):
    """`Tensor.softshrink`

    >>> from rulegrad import nn
    >>> nn.Softshrink()(Tensor([0.25, 2.0])).tolist()
    [0.0, 1.5]
    """

    _name = "softshrink"


class Softplus(_Activation):
    """`nn.functional.softplus`

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Softplus()(Tensor([0.0, 1.0])).tolist()]
    [0.693, 1.313]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        return softplus(x, self.beta, self.threshold)


class Softmax(_Activation):
    """`Tensor.softmax` along `dim`. Without one it is the channels of images, and the only axis of vectors.

    >>> from rulegrad import nn
    >>> nn.Softmax(dim=0)(Tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    _name = "softmax"

    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        dim = self.dim
        if dim is None:
            dim = 0 if x.ndim in (0, 1, 3) else 1
        result: Tensor = getattr(x, self._name)(dim)
        return result


class Softmax2d(Layer):
    """`Tensor.softmax` over the channels of images (batch, channels, height, width); without a batch too.

    >>> from rulegrad import nn
    >>> nn.Softmax2d()(Tensor([[[1.0]], [[1.0]]])).tolist()
    [[[0.5]], [[0.5]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: the shape {x.shape}; it needs (batch, channels, height, width)")
        return x.softmax(-3)


class LogSoftmax(Softmax):
    """`Tensor.log_softmax` along `dim`.

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.LogSoftmax(dim=0)(Tensor([1.0, 1.0])).tolist()]
    [-0.693, -0.693]
    """

    _name = "log_softmax"


class Softmin(Softmax):
    """`Tensor.softmin` along `dim`.

    >>> from rulegrad import nn
    >>> [round(v, 3) for v in nn.Softmin(dim=0)(Tensor([0.0, 1.0])).tolist()]
    [0.731, 0.269]
    """

    _name = "softmin"


class PReLU(Layer):
    """`Tensor.prelu` with a weight that is learnt: one number, or one for each channel.

    >>> from rulegrad import nn
    >>> nn.PReLU()(Tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = _filled((num_parameters,), init, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x.prelu(self.weight)


class RReLU(Layer):
    """A random slope, uniform from `lower` to `upper`, for each element below 0; after `eval()` their mean.

    From Xu et al. 2015, "Empirical Evaluation of Rectified Activations in Convolution Network".

    >>> from rulegrad import nn
    >>> nn.RReLU(0.25, 0.75).eval()(Tensor([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, x: Tensor) -> Tensor:
        return rrelu(x, self.lower, self.upper, self.training, self.inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta * input)) / beta`, without overflow; the input itself where that is above `threshold`.

    A threshold of 20, PyTorch's, is not needed here and changes nothing.

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.softplus(Tensor([0.0, 1.0])).tolist()]
    [0.693, 1.313]
    """
    return input.softplus(beta, None if threshold == 20.0 else threshold)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """`nn.RReLU` as a function. Raises ConfigError where `lower` is above `upper`.

    >>> import rulegrad.nn.functional as F
    >>> F.rrelu(Tensor([-2.0, 3.0]), 0.5, 0.5, training=True).tolist()
    [-1.0, 3.0]
    """
    if not lower <= upper:
        raise ConfigError(f"rrelu: lower={lower}, upper={upper}; lower must not be above upper")
    if not training:
        return in_its_place(input.leaky_relu((lower + upper) / 2), input, inplace)
    slopes = Tensor.uniform(input.shape, low=lower, high=upper, device=input.device).cast(input.dtype)
    return in_its_place((input <= 0).where(input * slopes, input), input, inplace)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """`softmax` of the scores with noise of Gumbel's distribution, divided by `tau`: draws of a class, with a gradient.

    hard: the class alone, 1 and else 0, with the gradient of the softmax. `eps` is accepted and not needed. From Jang,
    Gu and Poole 2017, "Categorical Reparameterization with Gumbel-Softmax". Raises ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> F.gumbel_softmax(Tensor([0.0, 100.0, 0.0]), hard=True).tolist()
    [0.0, 1.0, 0.0]
    """
    if not tau > 0:
        raise ConfigError(f"gumbel_softmax: tau={tau}; use a number above 0")
    draws = Tensor.rand(logits.shape, device=logits.device)
    # Exponentially distributed; half the smallest step of the draws stands for 0.
    waits = (-((1.0 - draws).log())).maximum(2.0**-25)
    soft = ((logits - waits.log().cast(logits.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    axis = dim % logits.ndim
    first = soft.detach().argmax(axis).one_hot(logits.shape[axis]).moveaxis(-1, axis).cast(soft.dtype)
    return first - soft.detach() + soft


# PReLU has an argument that is called `init`.
_filled = init.filled
