"""Losses, gradients, optimizers, and whole steps of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .convolutions import NETWORK, NETWORK_SIZES, small_network
from .graph import Family
from .library import Library
from .products import BLOCK, BLOCK_SIZES, attention, block

FAMILY = Family("training")
graph = FAMILY.graph

CLASSES = {"rows": (34, 1024), "classes": (5, 512)}
MLP = ("batch inputs", "inputs hidden", "hidden", "hidden classes", "classes", "batch <classes")
MLP_SIZES = {"batch": (6, 128), "inputs": (5, 784), "hidden": (7, 128), "classes": (3, 10)}
RATE = 0.01


@graph("rows classes", "rows <classes", **CLASSES)
def cross_entropy(o: Library, x: Any, labels: Any) -> Any:
    return o.cross_entropy(x, labels)


@graph("rows classes", "rows <classes", kernels=1, **CLASSES)
def cross_entropy_of_each_row(o: Library, x: Any, labels: Any) -> Any:
    return -o.gather(o.log_softmax(x, -1), 1, o.reshape(labels, -1, 1))


@graph("rows classes", "rows <classes", **CLASSES)
def cross_entropy_with_gradient(o: Library, x: Any, labels: Any) -> Any:
    value, gradients = o.value_and_grad(lambda x: o.cross_entropy(x, labels), [x])
    return value, *gradients


@graph("rows columns", "rows columns", rows=(3, 1024), columns=(5, 512))
def squared_error_with_gradient(o: Library, x: Any, target: Any) -> Any:
    value, gradients = o.value_and_grad(lambda x: o.mean(o.square(x - target)), [x])
    return value, *gradients


@graph("rows columns", "rows columns", rows=(3, 1024), columns=(5, 512))
def binary_cross_entropy(o: Library, x: Any, target: Any) -> Any:
    shares = o.sigmoid(target)
    return o.mean(o.relu(x) - x * shares + o.log(o.exp(-o.abs(x)) + 1))


@graph("rows columns", "rows columns", rows=(33, 1024), columns=(5, 512))
def divergence_of_two_softmaxes(o: Library, x: Any, y: Any) -> Any:
    p, q = o.log_softmax(x, -1), o.log_softmax(y, -1)
    return o.sum(o.exp(p) * (p - q), axis=-1)


@graph("rows columns", "rows columns", rows=(33, 1024), columns=(5, 512))
def gradient_of_softmax(o: Library, x: Any, given: Any) -> Any:
    return o.value_and_grad(lambda x: o.sum(o.softmax(x, -1) * given), [x])[1]


@graph("rows columns", "columns", "columns", "rows columns", rows=(33, 1024), columns=(5, 512))
def gradients_of_layer_norm(o: Library, x: Any, weight: Any, bias: Any, given: Any) -> Any:
    return o.value_and_grad(lambda *a: o.sum(o.layer_norm(*a) * given), [x, weight, bias])[1]


@graph("words width", "length <words", "length width", words=(6, 512), width=(3, 32), length=(9, 1024))
def gradient_of_an_embedding(o: Library, table: Any, places: Any, given: Any) -> Any:
    return o.value_and_grad(lambda table: o.sum(o.take(table, places) * given), [table])[1]


@graph(*["length width"] * 4, length=(5, 256), width=(3, 64))
def gradients_of_attention(o: Library, q: Any, k: Any, v: Any, given: Any) -> Any:
    return o.value_and_grad(lambda *a: o.sum(attention(o, *a) * given), [q, k, v])[1]


def adam(o: Library, weight: Any, gradient: Any, first: Any, second: Any) -> list[Any]:
    """The weight and its two moments after the tenth step."""
    first = first * 0.9 + gradient * 0.1
    second = second * 0.999 + gradient * gradient * 0.001
    step = (first * (1 / (1 - 0.9**10))) / (o.sqrt(second * (1 / (1 - 0.999**10))) + 1e-8)
    return [weight - step * RATE, first, second]


ADAM = ("rows columns", "rows columns", "rows columns", "rows columns >0")


@graph(*ADAM, kernels=1, rows=(3, 1024), columns=(5, 512))
def adam_of_one_parameter(o: Library, *tensors: Any) -> Any:
    return adam(o, *tensors)


@graph(*ADAM * 8, kernels=1, rows=(3, 256), columns=(5, 256))
def adam_of_eight_equal_parameters(o: Library, *tensors: Any) -> Any:
    return [result for k in range(0, 32, 4) for result in adam(o, *tensors[k : k + 4])]


@graph(*ADAM, "columns", "columns", "columns", "columns >0", kernels=1, rows=(3, 512), columns=(5, 512))
def adam_of_a_matrix_and_a_bias(o: Library, *tensors: Any) -> Any:
    return adam(o, *tensors[:4]) + adam(o, *tensors[4:])


@graph(*["rows columns"] * 12, rows=(3, 256), columns=(5, 256))
def momentum_of_four_parameters(o: Library, *tensors: Any) -> Any:
    results = []
    for k in range(0, 12, 3):
        weight, gradient, speed = tensors[k : k + 3]
        speed = speed * 0.9 + gradient
        results += [weight - speed * RATE, speed]
    return results


@graph(*["rows columns"] * 4, rows=(3, 512), columns=(5, 512))
def clipping_by_the_global_norm(o: Library, *gradients: Any) -> Any:
    norm = o.sqrt(sum((o.sum(o.square(g)) for g in gradients[1:]), o.sum(o.square(gradients[0]))))
    scale = o.minimum(1.0 / (norm + 1e-6), 1.0)
    return [g * scale for g in gradients]


def mlp(o: Library, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """The logits of two layers."""
    return o.relu(x @ w1 + b1) @ w2 + b2


def descent(o: Library, loss: Callable[..., Any], weights: list[Any]) -> list[Any]:
    """The loss, and the weights after a step of gradient descent."""
    value, gradients = o.value_and_grad(loss, weights)
    return [value, *(weight - gradient * RATE for weight, gradient in zip(weights, gradients, strict=True))]


@graph(*MLP[:-1], kernels=2, **MLP_SIZES)
def two_layers(o: Library, x: Any, *weights: Any) -> Any:
    return mlp(o, x, *weights)


@graph(*MLP, kernels=6, **MLP_SIZES)
def training_step_of_two_layers(o: Library, x: Any, *rest: Any) -> Any:
    *weights, labels = rest
    return descent(o, lambda *w: o.cross_entropy(mlp(o, x, *w), labels), weights)


@graph("rows inputs", "inputs classes", "classes", "rows <classes", rows=(6, 256), inputs=(5, 512), classes=(3, 10))
def training_step_of_logistic_regression(o: Library, x: Any, weight: Any, bias: Any, labels: Any) -> Any:
    return descent(o, lambda w, b: o.cross_entropy(x @ w + b, labels), [weight, bias])


@graph(*NETWORK, "batch <classes", **NETWORK_SIZES)
def training_step_of_a_convolutional_network(o: Library, x: Any, *rest: Any) -> Any:
    *weights, labels = rest
    return descent(o, lambda *w: o.cross_entropy(small_network(o, x, *w), labels), weights)


# 7 for the loss, 12 backward.
@graph(*BLOCK, "batch length width", kernels=18, **BLOCK_SIZES)
def gradients_of_a_transformer_block(o: Library, *tensors: Any) -> Any:
    *arguments, given = tensors
    return o.value_and_grad(lambda *a: o.sum(block(o, *a) * given), arguments)[1]
