"""The corpus in tinygrad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes

from .library import Library, Padding


class Tinygrad(Library):
    name = "tinygrad"

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.sum(axis, keepdim=keepdims)

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.mean(axis, keepdim=keepdims)

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.max(axis, keepdim=keepdims)

    def min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.min(axis, keepdim=keepdims)

    def tensor(self, array: Any) -> Any:
        # a copy: tinygrad's CPU device would read the array's own memory
        return (Tensor(array) + 0).contiguous().realize()

    def numpy(self, x: Any) -> Any:
        return x.numpy()

    def arange(self, count: int, like: Any) -> Any:
        return Tensor.arange(count, dtype=dtypes.int32)

    def value_and_grad(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        value = function(*tensors)
        return value, list(value.gradient(*tensors))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return condition.where(x, y)

    def floats(self, x: Any) -> Any:
        return x.float()

    def gelu(self, x: Any) -> Any:
        return x.gelu()

    def pad(self, x: Any, pairs: Padding) -> Any:
        return x.pad(tuple(pairs))

    def cat(self, tensors: Sequence[Any], axis: int) -> Any:
        return Tensor.cat(*tensors, dim=axis)

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        return Tensor.stack(*tensors, dim=axis)

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def gather(self, x: Any, axis: int, places: Any) -> Any:
        return x.gather(axis, places)

    def scatter_add(self, x: Any, axis: int, places: Any, values: Any) -> Any:
        return x.scatter_reduce(axis, places, values, reduce="sum")

    def conv2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return x.conv2d(weight, bias, groups=groups, stride=stride, padding=padding)

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        return x.max_pool2d((kernel, kernel))

    def avg_pool2d(self, x: Any, kernel: int) -> Any:
        return x.avg_pool2d((kernel, kernel))

    def assign(self, x: Any, value: Any) -> Any:
        return x.assign(value)
