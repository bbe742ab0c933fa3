"""The usual layers. Weights are float32 and start as PyTorch's do: uniform, within 1 / sqrt(inputs)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import integers
from rulegrad.tensor.tensor import Tensor


def _uniform(shape: tuple[int, ...], inputs: int, device: str | None) -> Tensor:
    bound = 1.0 / math.sqrt(inputs)
    return Tensor.uniform(shape, low=-bound, high=bound, device=device, requires_grad=True)


class Linear:
    """`x @ weight.T + bias`, from (…, inputs) to (…, outputs); weight: (outputs, inputs), bias: (outputs,)."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, device: str | None = None) -> None:
        self.weight = _uniform((outputs, inputs), inputs, device)
        self.bias = _uniform((outputs,), inputs, device) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight, self.bias)


class Conv2d:
    """A convolution of images (batch, inputs, height, width); `Tensor.conv2d` says more."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        device: str | None = None,
    ) -> None:
        size = integers((kernel,), "Conv2d")
        size = size * 2 if len(size) == 1 else size
        if groups < 1 or inputs % groups or outputs % groups or len(size) != 2:
            raise ShapeError(
                f"Conv2d: inputs={inputs}, outputs={outputs}, kernel={kernel}, groups={groups}; "
                "the groups must divide inputs and outputs, and the kernel is one number or two"
            )
        fan = inputs // groups * size[0] * size[1]
        self.weight = _uniform((outputs, inputs // groups, *size), fan, device)
        self.bias = _uniform((outputs,), fan, device) if bias else None
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class LayerNorm:
    """The last axes, of the given shape, brought to mean 0 and variance 1, then scaled and shifted."""

    def __init__(
        self,
        shape: int | Sequence[int],
        epsilon: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
    ) -> None:
        self.shape = integers((shape,), "LayerNorm")
        self.epsilon = epsilon
        self.weight = Tensor.ones(self.shape, device=device, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(self.shape, device=device, requires_grad=True) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.shape) :] != self.shape:
            raise ShapeError(f"LayerNorm: the shape {x.shape} does not end in {self.shape}")
        axes = tuple(range(-len(self.shape), 0))
        centred = x - x.mean(axes, keepdims=True)
        result = centred * (centred.square().mean(axes, keepdims=True) + self.epsilon).rsqrt()
        return result if self.weight is None or self.bias is None else result * self.weight + self.bias


class Dropout:
    """Zeroes elements with the given probability inside `with Tensor.train():`."""

    def __init__(self, probability: float = 0.5) -> None:
        self.probability = probability

    def __call__(self, x: Tensor) -> Tensor:
        return x.dropout(self.probability)


class Sequential:
    """Layers (or functions of a tensor) one after the other."""

    def __init__(self, *layers: Callable[[Tensor], Any]) -> None:
        self.layers = list(layers)

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
