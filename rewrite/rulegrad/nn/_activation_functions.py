"""Activations, softmax and dropout as functions: with `inplace` the tensor has the values of the result from now on."""

from __future__ import annotations

from typing import Any

from rulegrad.nn._dropout import alpha_dropped, channels_of, dropped_channels
from rulegrad.nn._inplace import in_its_place
from rulegrad.tensor.tensor import Tensor


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.relu`

    >>> import rulegrad.nn.functional as F
    >>> F.relu(Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return in_its_place(input.relu(), input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.relu6`

    >>> import rulegrad.nn.functional as F
    >>> F.relu6(Tensor([-1.0, 2.0, 8.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return in_its_place(input.relu6(), input, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.elu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.elu(Tensor([-1.0, 2.0])).tolist()]
    [-0.632, 2.0]
    """
    return in_its_place(input.elu(alpha), input, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.celu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.celu(Tensor([-1.0, 2.0]), alpha=2.0).tolist()]
    [-0.787, 2.0]
    """
    return in_its_place(input.celu(alpha), input, inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.selu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.selu(Tensor([-1.0, 2.0])).tolist()]
    [-1.111, 2.101]
    """
    return in_its_place(input.selu(), input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.silu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.silu(Tensor([-1.0, 2.0])).tolist()]
    [-0.269, 1.762]
    """
    return in_its_place(input.silu(), input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.mish`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.mish(Tensor([-1.0, 2.0])).tolist()]
    [-0.303, 1.944]
    """
    return in_its_place(input.mish(), input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.hardsigmoid`

    >>> import rulegrad.nn.functional as F
    >>> F.hardsigmoid(Tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return in_its_place(input.hardsigmoid(), input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.hardswish`

    >>> import rulegrad.nn.functional as F
    >>> F.hardswish(Tensor([0.0, 3.0, 4.0])).tolist()
    [0.0, 3.0, 4.0]
    """
    return in_its_place(input.hardswish(), input, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.hardtanh`

    >>> import rulegrad.nn.functional as F
    >>> F.hardtanh(Tensor([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return in_its_place(input.hardtanh(min_val, max_val), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`Tensor.leaky_relu`

    >>> import rulegrad.nn.functional as F
    >>> F.leaky_relu(Tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return in_its_place(input.leaky_relu(negative_slope), input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`Tensor.threshold`

    >>> import rulegrad.nn.functional as F
    >>> F.threshold(Tensor([0.5, 2.0]), 1.0, 9.0).tolist()
    [9.0, 2.0]
    """
    return in_its_place(input.threshold(threshold, value), input, inplace)


def softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.softmax` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> F.softmax(Tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    return input.softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.log_softmax` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.log_softmax(Tensor([1.0, 1.0])).tolist()]
    [-0.693, -0.693]
    """
    return input.log_softmax(dim, dtype)


def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.softmin` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.softmin(Tensor([0.0, 1.0])).tolist()]
    [0.731, 0.269]
    """
    return input.softmin(dim, dtype)


# ---- dropout ----


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element is zero with the probability `p`, and the others are scaled up; unless `training` is False.

    >>> import rulegrad.nn.functional as F
    >>> sorted(set(F.dropout(Tensor.ones(100)).tolist()))
    [0.0, 2.0]
    """
    return in_its_place(input.dropout(p, training), input, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, length).

    >>> import rulegrad.nn.functional as F
    >>> y = F.dropout1d(Tensor.ones(1, 8, 3)); (y == y[:, :, :1]).all().item()
    True
    """
    return in_its_place(dropped_channels(input, p, training, 1, "dropout1d"), input, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, height, width).

    >>> import rulegrad.nn.functional as F
    >>> y = F.dropout2d(Tensor.ones(1, 8, 2, 2)); (y == y[:, :, :1, :1]).all().item()
    True
    """
    return in_its_place(dropped_channels(input, p, training, 2, "dropout2d"), input, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, depth, height, width).

    >>> import rulegrad.nn.functional as F
    >>> F.dropout3d(Tensor.ones(1, 1, 1, 1, 2), training=False).tolist()
    [[[[[1.0, 1.0]]]]]
    """
    return in_its_place(dropped_channels(input, p, training, 3, "dropout3d"), input, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`nn.AlphaDropout` as a function; PyTorch's default is not to drop.

    >>> import rulegrad.nn.functional as F
    >>> F.alpha_dropout(Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return in_its_place(alpha_dropped(input, p, training, input.shape), input, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`nn.FeatureAlphaDropout` as a function; PyTorch's default is not to drop.

    >>> import rulegrad.nn.functional as F
    >>> y = F.feature_alpha_dropout(Tensor.ones(1, 8, 3), training=True); (y == y[:, :, :1]).all().item()
    True
    """
    shape = channels_of(input, "feature_alpha_dropout") if training and p else ()
    return in_its_place(alpha_dropped(input, p, training, shape), input, inplace)
