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
from rulegrad.runtime.buffer import Buffer, Layout, Parts
from rulegrad.tensor.core import in_same_parts
from rulegrad.tensor.history import GradientPoint, Pullback
from rulegrad.tensor.realize import realize_all


class Product(NamedTuple):
    """The plan of a vector-Jacobian product."""

    plan: Plan
    graphs: tuple[UOp, ...]
    inputs: tuple[int | Buffer, ...]
    """Of the plan: inputs of the function's plan, -1 for the gradient of the result, or buffers of its own."""
    targets: tuple[int, ...]  # the inputs of the function's plan that the results are the gradients of
    gradient: UOp  # a BUFFER like that of the gradient of the result


def make_product(graph: UOp, parts: Parts | None, inputs: Sequence[UOp], targets: Sequence[int]) -> Product:
    """The product of a graph that reads these BUFFER nodes, by some of them; nobody needs to hold their buffers.

    parts: how the result lies on a mesh, and its gradient with it.
    """
    names = [Buffer.like(_layout(node, node.attrs["device"], Parts.of(node))) for node in inputs]
    gradient = Buffer.like(_layout(graph, inputs[0].attrs["device"], parts))
    root = substituted(graph, {node: name.uop for node, name in zip(inputs, names, strict=True)})
    slopes = rulegrad.compile.backward([root], [gradient.uop], [names[place].uop for place in targets])
    found = [(place, slope) for place, slope in zip(targets, slopes, strict=True) if slope is not None]
    graphs = [in_same_parts(names[place].uop, slope) for place, slope in found]
    plan, buffers = find_plan(graphs, gradient.device)
    places: dict[int, int] = {name.id: place for place, name in enumerate(names)} | {gradient.id: -1}
    order = tuple(places.get(buffer.id, buffer) for buffer in buffers)
    return Product(plan, tuple(graphs), order, tuple(place for place, _ in found), gradient.uop)


def pullback(product: Callable[[], Product], buffers: Sequence[Buffer], operands: dict[int, Any]) -> Pullback:
    """How gradients go on from a result: to the operands, tensors by the place of their buffer among the inputs."""

    def pulled(value: Any, gradient: Any) -> list[tuple[Any, Any]]:
        own = product()
        if not own.graphs:
            return []
        given = _placed(gradient, Parts.of(own.gradient))
        read = [one if isinstance(one, Buffer) else given if one < 0 else buffers[one] for one in own.inputs]
        found = own.plan.launch(read, own.graphs)
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


def _layout(node: UOp, device: str, parts: Parts | None) -> Layout:
    return Layout.of(node.shape, str(node.dtype), device, parts)


def _placed(gradient: Any, parts: Parts | None) -> Buffer:
    """The values of a tensor, on a mesh as `parts` says (None: on each device all of them)."""
    start = gradient._new(gradient.uop, gradient._past(), gradient._device)
    realize_all([start])
    found = Buffer.of(start._uop)
    known = found.parts
    if known == parts:
        return found
    wanted = parts or Parts(found.shape, known.mesh, (-1,) * len(known.mesh)) if known else parts
    assert wanted is not None  # one of them is in parts
    node = UOp("REDISTRIBUTE", (found.uop,), mesh=wanted.mesh, placement=wanted.placement)
    again = start._new(node, found, start._device)
    realize_all([again])
    return Buffer.of(again._uop)
