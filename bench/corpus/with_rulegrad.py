"""The corpus in rulegrad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rulegrad import Tensor, value_and_grad

from .library import Library, Padding


class Rulegrad(Library):
    name = "rulegrad"

    def __init__(self, device: str | None = None) -> None:
        self.device = device

    def tensor(self, array: Any) -> Any:
        return Tensor(array, device=self.device).realize()

    def numpy(self, x: Any) -> Any:
        return x.numpy()

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis).cast("int32")

    def arange(self, count: int, like: Any) -> Any:
        return Tensor.arange(count, dtype="int32", device=like.device)

    def value_and_grad(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        value, gradients = value_and_grad(function, argnums=range(len(tensors)))(*tensors)
        return value, list(gradients)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return condition.where(x, y)

    def floats(self, x: Any) -> Any:
        return x.cast("float32")

    def gelu(self, x: Any) -> Any:
        return x.gelu(approximate="tanh")

    def pad(self, x: Any, pairs: Padding) -> Any:
        return x.pad(tuple(pairs))

    def cat(self, tensors: Sequence[Any], axis: int) -> Any:
        return Tensor.cat(*tensors, axis=axis)

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        return Tensor.stack(*tensors, axis=axis)

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def gather(self, x: Any, axis: int, places: Any) -> Any:
        return x.gather(axis, places)

    def scatter_add(self, x: Any, axis: int, places: Any, values: Any) -> Any:
        return x.scatter_add(axis, places, values)

    def conv2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return x.conv2d(weight, bias, stride=stride, padding=padding, groups=groups)

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        return x.max_pool2d(kernel)

    def avg_pool2d(self, x: Any, kernel: int) -> Any:
        return x.avg_pool2d(kernel)

    def assign(self, x: Any, value: Any) -> Any:
        return x.assign(value)
