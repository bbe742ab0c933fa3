"""Gradients through a captured function: the vector-Jacobian product of a result is a plan of its own.

It is made at the first `backward` that arrives at the result. It reads what the function read and the gradient of the
result, and computes again what it needs of the function's own values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import rulegrad.compile
from rulegrad.compile.plans import Plan
from rulegrad.compile.realize import find_plan
from rulegrad.errors import GradientError
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.runtime.buffer import Buffer, Layout
from rulegrad.tensor.history import GradientPoint, Pullback
from rulegrad.tensor.realize import realize_all


class Product(NamedTuple):
    """The plan of a vector-Jacobian product."""

    plan: Plan
    graphs: tuple[UOp, ...]
    inputs: tuple[int, ...]  # of the plan: inputs of the function's plan, -1 for the gradient of the result
    targets: tuple[int, ...]  # the inputs of the function's plan that the results are the gradients of


def make_product(graph: UOp, inputs: Sequence[UOp], targets: Sequence[int]) -> Product:
    """The product of a graph that reads these BUFFER nodes, by some of them; nobody needs to hold their buffers."""
    names = [_like(node) for node in inputs]
    gradient = _like(graph, inputs[0].attrs["device"])
    root = substituted(graph, {node: name.uop for node, name in zip(inputs, names, strict=True)})
    parts = rulegrad.compile.backward(root, gradient.uop, [names[place].uop for place in targets])
    found = [(place, part) for place, part in zip(targets, parts, strict=True) if part is not None]
    graphs = [part for _, part in found]
    plan, buffers = find_plan(graphs, gradient.device)
    places = {name.id: place for place, name in enumerate(names)}
    order = tuple(places.get(buffer.id, -1) for buffer in buffers)
    return Product(plan, tuple(graphs), order, tuple(place for place, _ in found))


def pullback(product: Callable[[], Product], buffers: Sequence[Buffer], operands: dict[int, Any]) -> Pullback:
    """How gradients go on from a result: to the operands, tensors by the place of their buffer among the inputs."""

    def pulled(value: Any, gradient: Any) -> list[tuple[Any, Any]]:
        own = product()
        if not own.graphs:
            return []
        start = gradient._new(gradient.uop, gradient._past(), gradient._device)
        realize_all([start])
        given = Buffer.of(start._uop)
        found = own.plan.launch([given if place < 0 else buffers[place] for place in own.inputs], own.graphs)
        parts = []
        for place, buffer in zip(own.targets, found, strict=True):
            own_buffer = buffer.alias() if buffer is given or buffer in buffers else buffer
            part = gradient._new(own_buffer.uop, None, own_buffer.device)
            part._history = GradientPoint(own_buffer.uop, own_buffer, pullback=_no_second_derivative)
            parts.append((operands[place], part))
        return parts

    return pulled


def track(tensor: Any, buffer: Buffer, way: Pullback) -> None:
    """Let gradients of a result go on."""
    tensor._history = GradientPoint(buffer.uop, buffer, pullback=way)
    tensor._requires_grad = True


def end_gradients(tensor: Any, buffer: Buffer) -> None:
    """Let a result require a gradient that does not go on."""
    track(tensor, buffer, no_gradient)


def no_gradient(value: Any, gradient: Any) -> Any:
    """The pullback of a result that no gradient flows back from."""
    raise GradientError(
        "backward: the gradient does not flow back through this captured function, which has called backward on this "
        "result itself, or changes what it was computed from; call backward inside it, or detach() the result"
    )


def _no_second_derivative(value: Any, gradient: Any) -> Any:
    raise GradientError(
        "backward: the second derivative does not flow back through a captured function; take both inside it, or call "
        "the function without jit"
    )


def _like(node: UOp, device: str = "") -> Buffer:
    """A buffer with a number of its own and no memory."""
    return Buffer.like(Layout.of(node.shape, str(node.dtype), device or node.attrs["device"]))
