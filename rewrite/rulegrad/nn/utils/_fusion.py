"""A layer and the batch normalization behind it as one layer, for inference."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ModuleError
from rulegrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from rulegrad.nn._module import Module
    from rulegrad.tensor.tensor import Tensor


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that computes what it and then the batch normalization compute after `eval()`.

    transpose: it is a transposed convolution. Raises ModuleError in training mode, and where nothing is normalized.

    >>> from rulegrad import Tensor, nn
    >>> conv, norm, x = nn.Conv1d(1, 2, 3).eval(), nn.BatchNorm1d(2).eval(), Tensor([[[1.0, 2.0, 4.0, 8.0]]])
    >>> bool((nn.utils.fuse_conv_bn_eval(conv, norm)(x) - norm(conv(x))).abs().max() < 1e-5)
    True
    """
    return _fused("fuse_conv_bn_eval", conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """`fuse_conv_bn_eval` of a linear layer.

    >>> from rulegrad import Tensor, nn
    >>> linear, norm, x = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval(), Tensor([[1.0, 2.0]])
    >>> bool((nn.utils.fuse_linear_bn_eval(linear, norm)(x) - norm(linear(x))).abs().max() < 1e-5)
    True
    """
    return _fused("fuse_linear_bn_eval", linear, bn, 0)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """The weight and the bias of `fuse_conv_bn_eval`, as parameters.

    >>> from rulegrad import Tensor
    >>> one = Tensor([1.0])
    >>> [part.tolist() for part in fuse_conv_bn_weights(Tensor([[[2.0]]]), None, one, one * 4, 0.0, one, one)]
    [[[[1.0]]], [0.5]]
    """
    axis = 1 if transpose else 0
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = [-1 if k == axis else 1 for k in range(conv_w.ndim)]
    bias = ((0.0 if conv_b is None else conv_b) - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    return Parameter(conv_w.detach() * scale.detach().reshape(shape)), Parameter(bias.detach())


def _fused(name: str, layer: Module, norm: Any, axis: int) -> Any:
    if layer.training or norm.training:
        raise ModuleError(f"{name}: the layers are in training mode; call eval() on both first")
    if norm.running_mean is None or norm.running_var is None:
        raise ModuleError(f"{name}: {type(norm).__name__} has no running statistics, so it is not a fixed scale")
    fused: Any = copy.deepcopy(layer)
    statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose=axis == 1)
    return fused


fuse_linear_bn_weights = fuse_conv_bn_weights
