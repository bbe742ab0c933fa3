"""The corpus in NumPy and float64: what the other libraries' results are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .library import Library, Padding

_STEP = 1e-5  # of a central difference in float64, whose error is about its square

_erf = np.vectorize(math.erf, otypes=["float64"])


class Numpy(Library):
    name = "numpy"
    dtype = "float64"

    def exp(self, x: Any) -> Any:
        return np.exp(x)

    def log(self, x: Any) -> Any:
        return np.log(x)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def rsqrt(self, x: Any) -> Any:
        return 1 / np.sqrt(x)

    def sin(self, x: Any) -> Any:
        return np.sin(x)

    def cos(self, x: Any) -> Any:
        return np.cos(x)

    def tanh(self, x: Any) -> Any:
        return np.tanh(x)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def abs(self, x: Any) -> Any:
        return np.abs(x)

    def square(self, x: Any) -> Any:
        return x * x

    def silu(self, x: Any) -> Any:
        return x / (1 + np.exp(-x))

    def erf(self, x: Any) -> Any:
        return _erf(x)

    def maximum(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return np.minimum(x, y)

    def argmax(self, x: Any, axis: int) -> Any:
        return np.argmax(x, axis=axis).astype("int32")

    def softmax(self, x: Any, axis: int) -> Any:
        shares = np.exp(x - x.max(axis=axis, keepdims=True))
        return shares / shares.sum(axis=axis, keepdims=True)

    def log_softmax(self, x: Any, axis: int) -> Any:
        return np.log(self.softmax(x, axis))

    def permute(self, x: Any, *order: int) -> Any:
        return np.transpose(x, order)

    def expand(self, x: Any, *shape: int) -> Any:
        return np.broadcast_to(x, shape)

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def tensor(self, array: Any) -> Any:
        return array.astype("float64") if array.dtype.kind == "f" else array.copy()

    def numpy(self, x: Any) -> Any:
        return np.asarray(x)

    def arange(self, count: int, like: Any) -> Any:
        return np.arange(count, dtype="int32")

    def value_and_grad(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        """By central differences."""
        gradients = []
        for place, tensor in enumerate(tensors):
            gradient = np.empty_like(tensor)
            for index in np.ndindex(tensor.shape):
                ends = []
                for step in (_STEP, -_STEP):
                    moved = tensor.copy()
                    moved[index] += step
                    ends.append(function(*tensors[:place], moved, *tensors[place + 1 :]))
                gradient[index] = (ends[0] - ends[1]) / (2 * _STEP)
            gradients.append(gradient)
        return function(*tensors), gradients

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def floats(self, x: Any) -> Any:
        return x.astype("float64")

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def pad(self, x: Any, pairs: Padding) -> Any:
        return np.pad(x, pairs)

    def cat(self, tensors: Sequence[Any], axis: int) -> Any:
        return np.concatenate(tensors, axis)

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        return np.stack(tensors, axis)

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def gather(self, x: Any, axis: int, places: Any) -> Any:
        return np.take_along_axis(x, places, axis)

    def scatter_add(self, x: Any, axis: int, places: Any, values: Any) -> Any:
        result, index = x.copy(), list(np.indices(places.shape, sparse=True))
        index[axis] = places
        np.add.at(result, tuple(index), values)
        return result

    def conv2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        batch = x.shape[0]
        outputs, inputs, height, width = weight.shape
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = sliding_window_view(padded, (height, width), axis=(2, 3))[:, :, ::stride, ::stride]
        rows, columns = windows.shape[2:4]
        grouped = windows.reshape(batch, groups, inputs, rows, columns, height, width)
        kernels = weight.reshape(groups, outputs // groups, inputs, height, width)
        result = np.einsum("bgcyxhw,gochw->bgoyx", grouped, kernels).reshape(batch, outputs, rows, columns)
        return result if bias is None else result + bias.reshape(1, -1, 1, 1)

    def _pool(self, x: Any, kernel: int) -> Any:
        return sliding_window_view(x, (kernel, kernel), axis=(2, 3))[:, :, ::kernel, ::kernel]

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        return self._pool(x, kernel).max(axis=(-1, -2))

    def avg_pool2d(self, x: Any, kernel: int) -> Any:
        return self._pool(x, kernel).mean(axis=(-1, -2))

    def assign(self, x: Any, value: Any) -> Any:
        x[...] = value
        return x
