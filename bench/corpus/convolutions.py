"""Convolutions with what follows, pools, and small networks of them."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("convolutions")
graph = FAMILY.graph

IMAGE = {"batch": (2, 4), "channels": (3, 16), "size": (6, 32), "filters": (4, 16)}


def normalised(o: Library, x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> Any:
    """Batch normalisation with known statistics."""
    mean, variance, weight, bias = (o.reshape(v, 1, -1, 1, 1) for v in (mean, variance, weight, bias))
    return (x - mean) * (o.rsqrt(variance + 1e-5) * weight) + bias


@graph("batch channels size size", "filters channels 3 3", "filters", kernels=1, **IMAGE)
def convolution(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    return o.conv2d(x, weight, bias, padding=1)


@graph("batch channels size size", "filters channels 3 3", "filters", "filters >0", "filters", "filters",
       kernels=1, **IMAGE)  # fmt: skip
def convolution_batch_norm_relu(o: Library, x: Any, weight: Any, *statistics: Any) -> Any:
    return o.relu(normalised(o, o.conv2d(x, weight, padding=1), *statistics))


@graph("batch channels size size", "filters channels 3 3", kernels=1, batch=(2, 4), channels=(3, 16), size=(7, 33),
       filters=(4, 24))  # fmt: skip
def convolution_with_stride(o: Library, x: Any, weight: Any) -> Any:
    return o.relu(o.conv2d(x, weight, stride=2))


@graph("batch channels size size", "channels 1 3 3", "filters channels 1 1", **IMAGE)
def depthwise_and_pointwise(o: Library, x: Any, depth: Any, point: Any) -> Any:
    hidden = o.relu(o.conv2d(x, depth, padding=1, groups=x.shape[1]))
    return o.relu(o.conv2d(hidden, point))


@graph("batch channels size size", "channels 1 3 3", kernels=1, batch=(2, 8), channels=(3, 64), size=(6, 64))
def depthwise_convolution(o: Library, x: Any, weight: Any) -> Any:
    return o.conv2d(x, weight, padding=1, groups=x.shape[1])


@graph("batch channels size size", "channels channels 3 3", "channels channels 3 3", *["channels"] * 2,
       batch=(2, 4), channels=(3, 16), size=(5, 32))  # fmt: skip
def residual_block(o: Library, x: Any, first: Any, second: Any, bias1: Any, bias2: Any) -> Any:
    hidden = o.relu(o.conv2d(x, first, bias1, padding=1))
    return o.relu(o.conv2d(hidden, second, bias2, padding=1) + x)


@graph("batch channels size size", kernels=1, batch=(2, 8), channels=(3, 32), size=(6, 64))
def max_pool(o: Library, x: Any) -> Any:
    return o.max_pool2d(o.relu(x), 2)


@graph("batch channels size size", kernels=1, batch=(2, 8), channels=(3, 32), size=(6, 64))
def average_pool(o: Library, x: Any) -> Any:
    return o.avg_pool2d(o.exp(x), 2)


@graph("batch channels size size", "filters channels 3 3", "filters", **IMAGE)
def convolution_relu_and_max_pool(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    return o.max_pool2d(o.relu(o.conv2d(x, weight, bias, padding=1)), 2)


@graph("batch channels size size", "channels classes", "classes",
       batch=(3, 16), channels=(5, 64), size=(3, 32), classes=(4, 10))  # fmt: skip
def mean_of_the_image_and_linear(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    return o.mean(x, axis=(2, 3)) @ weight + bias


@graph("batch channels size size", "channels few", "few channels",
       batch=(2, 8), channels=(6, 64), few=(2, 8), size=(4, 32))  # fmt: skip
def squeeze_and_excite(o: Library, x: Any, down: Any, up: Any) -> Any:
    share = o.sigmoid(o.relu(o.mean(x, axis=(2, 3)) @ down) @ up)
    return x * o.reshape(share, *share.shape, 1, 1)


def small_network(o: Library, x: Any, first: Any, bias1: Any, second: Any, bias2: Any, weight: Any, bias: Any) -> Any:
    """Two convolutions with pools, and a linear layer: the logits."""
    x = o.max_pool2d(o.relu(o.conv2d(x, first, bias1, padding=1)), 2)
    x = o.max_pool2d(o.relu(o.conv2d(x, second, bias2, padding=1)), 2)
    return o.reshape(x, x.shape[0], -1) @ weight + bias


NETWORK = ("batch 1 size size", "few 1 3 3", "few", "many few 3 3", "many", "flat classes", "classes")
NETWORK_SIZES = {
    "batch": (3, 16), "size": (4, 28), "few": (2, 8), "many": (3, 16), "flat": (3, 784), "classes": (4, 10)
}  # fmt: skip


@graph(*NETWORK, **NETWORK_SIZES)
def small_convolutional_network(o: Library, x: Any, *weights: Any) -> Any:
    return small_network(o, x, *weights)
