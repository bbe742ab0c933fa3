"""The workloads of bench/compile.py in rulegrad, for OpenCL, models for `c`; no device compiles or runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

Build = Callable[[], Sequence[Any]]
RATE, DECAY, DECAY_SQUARE, TINY = 1e-3, 0.9, 0.999, 1e-8
target = "opencl"


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
    if workload in MODELS:
        global target
        target = "c"
        return prepare_model(workload)
    return prepare_training_step()


class Models:
    """The library of bench/schedule_models.py, with zeros for all weights and inputs."""

    def __init__(self) -> None:
        from rulegrad import nn
        from rulegrad.nn import functional

        self.nn, self.functional = nn, functional

    def normal(self, *shape: int) -> Any:
        return buffer(*shape)

    def integers(self, _: int, *shape: int) -> Any:
        return buffer(*shape, dtype="int64")

    def module(self, make: Callable[[Any], Any]) -> Any:
        """A module whose parameters and buffers are in memory."""
        module = make(self.nn)
        values = {name: numpy.zeros(p.shape, "float32") for name, p in module.named_parameters()}
        self.nn.state.load_state_dict(module, values, strict=False)
        for _, tensor in [*module.named_parameters(), *module.named_buffers()]:
            tensor.realize()
        return module


def prepare_model(workload: str) -> Build:
    """A forward, or a training step: loss, gradients, plain descent."""
    import schedule_models
    from rulegrad import config, no_grad

    config.device = "numpy"
    work = MODELS[workload](schedule_models, Models())

    def build() -> Sequence[Any]:
        if not work.trains:
            with no_grad():
                return [work.forward()]
        for parameter in work.wanted:
            parameter.grad = None
        loss = work.forward()
        loss.backward()
        with no_grad():
            return [loss, *(p - RATE * p.grad for p in work.wanted), *work.changed()]

    return build


def gpt2_training(models: Any, library: Models) -> Any:
    length, vocabulary = 128, models.VOCABULARY
    model = models._decoder(library, 12, models.WIDTH, models.HEADS, length, vocabulary)
    return models._training(
        library, model, library.integers(vocabulary, 1, length), library.integers(vocabulary, length)
    )


MODELS: dict[str, Callable[[Any, Models], Any]] = {
    "mlp": lambda models, library: models.perceptron(library),
    "resnet": lambda models, library: models.resnet18(library, 1, False),
    "gpt2": lambda models, library: models.gpt2(library),
    "gpt2_training": gpt2_training,
}


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
    """From tensor graph to the plan of memory and the source of each kernel; nothing runs."""
    from rulegrad.compile.kernels import compile_kernels
    from rulegrad.compile.plans import make_plan
    from rulegrad.compile.schedule import make_schedule, number_buffers
    from rulegrad.ir import UOp

    graph, inputs = number_buffers(UOp("SINK", tuple(tensor.uop for tensor in tensors)))
    schedule = make_schedule(graph, len(inputs), target, {})
    plan = make_plan(schedule, graph, "", target)
    plan.memory(plan.takeable)
    return [kernel.source for kernel in compile_kernels([step.graph for step in schedule.steps], target, source=True)]


def forget() -> None:
    """Empty the tables that keep finished work; loaded rules, which every later compile uses, stay."""
    from rulegrad.compile import forget_kernels

    forget_kernels()


def statistics() -> dict[str, dict[str, dict[str, float]]]:
    """The engine's work since the last call: {"passes" or "rules": {name: {"seconds", "count"}}}."""
    from rulegrad.engine import statistics as engine_statistics

    answer: dict[str, dict[str, dict[str, float]]] = engine_statistics()
    return answer
