"""The corpus in PyTorch; the bodies are written so that torch.compile takes each as one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from .library import Library, Padding


class Torch(Library):
    name = "torch"

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.amax() if axis is None else x.amax(axis, keepdim=keepdims)

    def min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.amin() if axis is None else x.amin(axis, keepdim=keepdims)

    def flip(self, x: Any, axis: int) -> Any:
        return x.flip((axis,))

    def silu(self, x: Any) -> Any:
        return F.silu(x)

    def maximum(self, x: Any, y: Any) -> Any:
        return torch.clamp(x, min=y) if isinstance(y, int | float) else torch.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return torch.clamp(x, max=y) if isinstance(y, int | float) else torch.minimum(x, y)

    def tensor(self, array: Any) -> Any:
        return torch.tensor(array)

    def numpy(self, x: Any) -> Any:
        return x.detach().numpy()

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis).int()

    def arange(self, count: int, like: Any) -> Any:
        return torch.arange(count, dtype=torch.int32)

    def value_and_grad(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        positions = tuple(range(len(tensors)))
        gradients, value = torch.func.grad_and_value(function, argnums=positions)(*tensors)
        return value, list(gradients)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return torch.where(condition, x, y)

    def floats(self, x: Any) -> Any:
        return x.float()

    def gelu(self, x: Any) -> Any:
        return F.gelu(x, approximate="tanh")

    def pad(self, x: Any, pairs: Padding) -> Any:
        return F.pad(x, [width for pair in reversed(pairs) for width in pair])

    def cat(self, tensors: Sequence[Any], axis: int) -> Any:
        return torch.cat(list(tensors), axis)

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        return torch.stack(list(tensors), axis)

    def take(self, x: Any, places: Any) -> Any:
        return x[places.long()]

    def gather(self, x: Any, axis: int, places: Any) -> Any:
        return x.gather(axis, places.long())

    def scatter_add(self, x: Any, axis: int, places: Any, values: Any) -> Any:
        return x.scatter_add(axis, places.long(), values)

    def conv2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return F.conv2d(x, weight, bias, stride, padding, groups=groups)

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        return F.max_pool2d(x, kernel)

    def avg_pool2d(self, x: Any, kernel: int) -> Any:
        return F.avg_pool2d(x, kernel)

    def assign(self, x: Any, value: Any) -> Any:
        return x.copy_(value)
