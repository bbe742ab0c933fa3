"""The functions that the corpus uses, with the names that most libraries share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any
Padding = Sequence[tuple[int, int]]


def method(name: str) -> Callable[..., Any]:
    """The library's method of this name, as a function."""

    def call(self: Library, x: Any, *arguments: Any, **options: Any) -> Any:
        return getattr(x, name)(*arguments, **options)

    return call


class Library:
    """Operations on a library's tensors; those with operators (+, @, <, slices) are used directly.

    Reductions take `axis` and `keepdims`; `reshape`, `permute` and `expand` take numbers one by one. Integers are
    int32. Nothing here fuses: a function that a library has under its own name is that function.
    """

    name = ""
    #: libraries that keep float64 where the inputs are float32 would measure twice the bytes
    dtype = "float32"

    exp, log, sqrt, rsqrt = method("exp"), method("log"), method("sqrt"), method("rsqrt")
    sin, cos, tanh, sigmoid = method("sin"), method("cos"), method("tanh"), method("sigmoid")
    relu, abs, square, silu, erf = method("relu"), method("abs"), method("square"), method("silu"), method("erf")
    maximum, minimum = method("maximum"), method("minimum")
    sum, mean, max, min = method("sum"), method("mean"), method("max"), method("min")
    argmax, cumsum, softmax, log_softmax = method("argmax"), method("cumsum"), method("softmax"), method("log_softmax")
    reshape, permute, expand, flip = method("reshape"), method("permute"), method("expand"), method("flip")

    # ---- what the libraries spell in different ways ----

    def tensor(self, array: Any) -> Any:
        """An input, computed and in the library's memory."""
        raise NotImplementedError

    def numpy(self, x: Any) -> Any:
        """The values of a tensor."""
        raise NotImplementedError

    def sum_of(self, x: Any) -> float:
        """The sum of the magnitudes of a tensor's values: equal results have equal sums."""
        return float(np.abs(self.numpy(x).astype("float64")).sum())

    def arange(self, count: int, like: Any) -> Any:
        """0 … count - 1 as int32, where `like` is."""
        raise NotImplementedError

    def value_and_grad(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        """A scalar function's value, and its gradients with respect to all its arguments."""
        raise NotImplementedError

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """x where the condition holds, else y; one of the two may be a number."""
        raise NotImplementedError

    def floats(self, x: Any) -> Any:
        """As float32."""
        raise NotImplementedError

    def gelu(self, x: Any) -> Any:
        """By tanh."""
        raise NotImplementedError

    def pad(self, x: Any, pairs: Padding) -> Any:
        """Zeros before and after, a pair for each axis."""
        raise NotImplementedError

    def cat(self, tensors: Sequence[Any], axis: int) -> Any:
        raise NotImplementedError

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        raise NotImplementedError

    def take(self, x: Any, places: Any) -> Any:
        """Rows of x: `x[places]`."""
        raise NotImplementedError

    def gather(self, x: Any, axis: int, places: Any) -> Any:
        """`torch.gather`."""
        raise NotImplementedError

    def scatter_add(self, x: Any, axis: int, places: Any, values: Any) -> Any:
        """`torch.scatter_add`."""
        raise NotImplementedError

    def conv2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        raise NotImplementedError

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        raise NotImplementedError

    def avg_pool2d(self, x: Any, kernel: int) -> Any:
        raise NotImplementedError

    def assign(self, x: Any, value: Any) -> Any:
        """x, which holds `value` from now on, in the memory that it had."""
        raise NotImplementedError

    # ---- what follows from them ----

    def transpose(self, x: Any) -> Any:
        """The last two axes exchanged."""
        order = list(range(len(x.shape)))
        return self.permute(x, *order[:-2], order[-1], order[-2])

    def variance(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        """The mean squared distance to the mean."""
        centred = x - self.mean(x, axis=axis, keepdims=True)
        return self.mean(centred * centred, axis=axis, keepdims=keepdims)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        """Over the last axis."""
        centred = x - self.mean(x, axis=-1, keepdims=True)
        variance = self.mean(centred * centred, axis=-1, keepdims=True)
        return centred * self.rsqrt(variance + 1e-5) * weight + bias

    def rms_norm(self, x: Any, weight: Any) -> Any:
        """Over the last axis."""
        return x * self.rsqrt(self.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight

    def cross_entropy(self, x: Any, labels: Any) -> Any:
        """The mean over rows of -log(softmax(x)) at the labels."""
        places = self.reshape(labels, labels.shape[0], 1)
        return -self.mean(self.gather(self.log_softmax(x, -1), 1, places))

    def one_hot(self, labels: Any, classes: int) -> Any:
        """Rows of float32 that are 1 at the label."""
        return self.floats(self.reshape(labels, *labels.shape, 1) == self.arange(classes, labels))
