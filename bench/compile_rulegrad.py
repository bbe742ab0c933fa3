"""The workloads of bench/compile.py in rulegrad, for its OpenCL target; no device compiles or runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

Build = Callable[[], Sequence[Any]]
RATE, DECAY, DECAY_SQUARE, TINY = 1e-3, 0.9, 0.999, 1e-8


def buffer(*shape: int, dtype: str = "float32", requires_grad: bool = False) -> Any:
    from rulegrad import Tensor

    return Tensor(numpy.zeros(shape, dtype), device="numpy", requires_grad=requires_grad)


def prepare(workload: str) -> Build:
    """Make the inputs of a workload, and return what builds its tensors from them."""
    if workload == "softmax":
        x = buffer(4096, 1024)
        return lambda: [x.softmax(-1)]
    if workload == "layer_norm":
        x, scale, shift = buffer(4096, 1024), buffer(1024), buffer(1024)
        return lambda: [layer_norm(x, scale, shift)]
    if workload == "matmul":
        a, b = buffer(512, 512), buffer(512, 512)
        return lambda: [a @ b]
    if workload == "conv2d":
        image, weight = buffer(1, 64, 56, 56), buffer(64, 64, 3, 3)
        return lambda: [image.conv2d(weight, padding=1)]
    return prepare_training_step()


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * (variance + 1e-5).rsqrt() * scale + shift


def prepare_training_step() -> Build:
    """One step of examples/digits.py: a 64-128-10 network, cross entropy, backward, Adam, 64 images."""
    shapes = ((128, 64), (128,), (10, 128), (10,))
    parameters = [buffer(*shape, requires_grad=True) for shape in shapes]
    means, squares = ([buffer(*shape) for shape in shapes] for _ in range(2))
    steps, images, labels = buffer(1), buffer(64, 64), buffer(64, dtype="int32")

    def build() -> Sequence[Any]:
        weight, bias, last_weight, last_bias = parameters
        loss = images.linear(weight, bias).relu().linear(last_weight, last_bias).cross_entropy(labels)
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        count = steps + 1
        results = [loss, count]
        for parameter, mean, square in zip(parameters, means, squares):
            results += adam(parameter.detach(), parameter.grad, mean, square, count)
        return results

    return build


def adam(parameter: Any, gradient: Any, mean: Any, square: Any, count: Any) -> list[Any]:
    """The new parameter and the new running means, as graphs."""
    mean = mean * DECAY + gradient * (1 - DECAY)
    square = square * DECAY_SQUARE + gradient * gradient * (1 - DECAY_SQUARE)
    corrected = mean / (1 - DECAY**count)
    scale = (square / (1 - DECAY_SQUARE**count)).sqrt() + TINY
    return [parameter - corrected / scale * RATE, mean, square]


def compile_tensors(tensors: Sequence[Any]) -> list[str]:
    """From tensor graph to the source of each kernel; nothing runs."""
    from rulegrad.compile import compile_graph

    return [kernel.source for kernel in compile_graph([tensor.uop for tensor in tensors], target="opencl")]


def forget() -> None:
    """Empty the tables that keep finished work; loaded rules, which every later compile uses, stay."""
    from rulegrad.compile import forget_kernels

    forget_kernels()


def statistics() -> dict[str, dict[str, dict[str, float]]]:
    """The engine's work since the last call: {"passes" or "rules": {name: {"seconds", "count"}}}."""
    from rulegrad.engine import statistics as engine_statistics

    answer: dict[str, dict[str, dict[str, float]]] = engine_statistics()
    return answer
