"""`torch.ao.quantization`: parts of models that PyTorch can quantize; they compute in floats, as they do there before.

A model keeps such parts where its numbers become integers and floats again, and in the place of sums and products.
PyTorch's steps that observe and convert a model are not there: `rulegrad.nn.quantize` stores weights in 4 or 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn import Identity, Module
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "DeQuantStub", "FloatFunctional", "QConfig", "QuantStub", "QuantWrapper", "convert", "fuse_modules",
    "fuse_modules_qat", "get_default_qat_qconfig", "get_default_qconfig", "prepare", "prepare_qat", "quantize",
    "quantize_dynamic",
]  # fmt: skip


class QuantStub(Module):
    """Where PyTorch makes integers of a tensor once the model is converted: the tensor as it is.

    >>> QuantStub()(Tensor([0.5])).tolist()
    [0.5]
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """The tensor."""
        return x


class DeQuantStub(QuantStub):
    """Where PyTorch makes floats of integers again: the tensor as it is."""


class QuantWrapper(Module):
    """A model between the two stubs."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant = QuantStub()
        self.dequant = DeQuantStub()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        """The result of the model for a tensor."""
        return self.dequant(self.module(self.quant(x)))


class FloatFunctional(Module):
    """Operations of two tensors as methods, which PyTorch can observe; shapes broadcast as in `+`.

    >>> FloatFunctional().add_relu(Tensor([1.0, -2.0]), Tensor([1.0, 1.0])).tolist()
    [2.0, 0.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Raises ConfigError, as in PyTorch: a method says which operation is meant."""
        raise ConfigError("FloatFunctional: call one of its operations, such as .add(x, y)")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return self._observed(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y of a number."""
        return self._observed(x + y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y."""
        return self._observed(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y of a number."""
        return self._observed(x * y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """The tensors one behind the other."""
        return self._observed(Tensor.cat(list(x), dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """max(x + y, 0)."""
        return self._observed((x + y).relu())

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self._observed(x @ y)

    def _observed(self, x: Tensor) -> Tensor:
        result: Tensor = self.activation_post_process(x)
        return result


class QConfig:
    """How activations and weights would be observed; nothing looks at it."""

    def __init__(self, activation: Any = None, weight: Any = None) -> None:
        self.activation = activation
        self.weight = weight


def _absent(name: str) -> Any:
    def step(*args: Any, **kwargs: Any) -> Any:
        raise ConfigError(
            f"torch.ao.quantization: {name} is a step of PyTorch's own quantized kernels, which are not there; "
            "nn.quantize(model) stores weights in 4 or 8 bits"
        )

    step.__name__ = name
    step.__doc__ = "Not supported: a ConfigError that says what to do."
    return step


convert = _absent("convert")
fuse_modules = _absent("fuse_modules")
fuse_modules_qat = _absent("fuse_modules_qat")
get_default_qat_qconfig = _absent("get_default_qat_qconfig")
get_default_qconfig = _absent("get_default_qconfig")
prepare = _absent("prepare")
prepare_qat = _absent("prepare_qat")
quantize = _absent("quantize")
quantize_dynamic = _absent("quantize_dynamic")
