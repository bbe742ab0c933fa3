"""The replay of a capture in the engine: for captures of one part with nothing unusual, which most are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rulegrad._core import CapturedCall
from rulegrad.capture.gradients import end_gradients
from rulegrad.compile import kernels
from rulegrad.runtime.eager import follow_settings

if TYPE_CHECKING:
    from rulegrad.capture.captured import Captured
    from rulegrad.capture.sources import Source

_KINDS: Final = ("tensor", "gradient", "call", "constant")  # in the order of the engine's numbers for them


def native_of(captured: Captured) -> CapturedCall | None:
    """None for a capture that the engine does not replay.

    That is one on several devices, one with results through which gradients go on or without elements, with results
    that are inputs, or views.
    """
    outputs = captured.outputs
    if len(captured.parts) != 1:
        return None
    part = captured.parts[0]
    tracked = {number for number, output in enumerate(outputs) if output.requires_grad and not output.is_leaf}
    if not tracked <= set(captured.new) or not all(captured.ends_gradients(part, number) for number in tracked):
        return None
    if any(outputs[number].is_leaf for number in captured.new):
        return None
    if part.shared or len(part.outputs) != len(outputs) or any(one.steps is not None for one in captured.recipes):
        return None
    follow_settings()
    return CapturedCall({
        "arguments": captured.arguments,
        "outside": captured.outside,
        "inputs": [_numbered(source) for source in part.sources],
        "nodes": part.inputs,
        "takeable": [place for place in part.plan.takeable if place in part.own],
        "outputs": part.outputs,
        "new": captured.new,
        "tracked": sorted(tracked),
        "recipes": [(recipe.kind == "made", recipe.which) for recipe in captured.recipes],
        "writes": captured.writes,
        "gradient_writes": captured.gradients,
        "flags": captured.guards.flags,
        "gradients": captured.guards.gradients,
        "values": captured.guards.values,
        "same": captured.same,
        "paths": captured.guards.paths.guard(),
        "module": vars(kernels),
        "generation": captured.guards.generation,
        "rebuild": captured.rebuild,
        "write_leaf": captured.write,
        "end_gradients": end_gradients,
    })  # fmt: skip


def _numbered(source: Source) -> tuple[Any, ...]:
    kind, which = _KINDS.index(source.kind), source.which
    if source.kind == "constant":
        return kind, which
    return (kind, *which) if source.kind == "call" else (kind, which, 0)
