"""A step of training as each device of a mesh would run it: traced with its tensors in parts, and nothing computed.

The tensors that the step reads get stand-ins while it is traced, buffers without memory that lie on the mesh as the
caller says. From there on all is as in a program on a mesh: gradients and new values lie as their parameters do, and
the pass `shard` finds what is sent. So a mesh of any size can be looked at in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rulegrad.capture.outcome import Outcome
from rulegrad.capture.sources import Source
from rulegrad.capture.tracing import Trace
from rulegrad.communication import Collective
from rulegrad.compile import sharding
from rulegrad.compile.memory_plan import MemoryPlan
from rulegrad.compile.plans import Plan, make_plan
from rulegrad.compile.schedule import make_schedule, number_buffers
from rulegrad.errors import CaptureError, ConfigError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.history import GradientPoint

#: For each axis of the mesh the axis of a tensor that is split along it, or -1.
Placement: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TracedStep:
    """The work of each device in one step: a plan that is not for running, and what its buffers are."""

    mesh: tuple[int, ...]
    plan: Plan
    read: tuple[TensorCore | None, ...]  #: for each input the tensor that it is the value of; None: made by the host
    heirs: tuple[tuple[int, int], ...]  #: results that are the new values of inputs: numbers of both
    gradients: tuple[int, ...]  #: numbers of results that parameters have as gradients afterwards
    written: tuple[tuple[TensorCore, Placement], ...]  #: the tensors that have new values, and where these lie

    def collectives(self) -> list[Collective | None]:
        """For each step of the plan what it sends; None for a kernel."""
        return [sharding.collective_of(step.graph) for step in self.plan.schedule.steps]

    def memory(self) -> MemoryPlan:
        """Where the buffers that a step makes lie; new values take the place of old ones."""
        own = {result: place for result, place in self.heirs if place in self.plan.takeable}
        return self.plan.memory(tuple(sorted(own.values())), tuple(own.items()))


class _PlacedTrace(Trace):
    """A trace in which the tensors from outside lie on a mesh."""

    def __init__(self, mesh: Sequence[int], placements: Mapping[int, Placement]) -> None:
        super().__init__([])
        self._mesh, self._placements = tuple(mesh), placements

    def _name(self, tensor: TensorCore, source: Source) -> None:
        buffer = Buffer.of(tensor._uop)
        if buffer.parts is not None:
            raise ConfigError(
                "the script places tensors on a mesh itself; plan-sharding takes a program for one device"
            )
        owner = source[1] if source[0] == "gradient" and isinstance(source[1], TensorCore) else tensor
        placement = self._placements.get(id(owner), ())
        parts = Parts(buffer.shape, self._mesh, placement) if max(placement, default=-1) >= 0 else None
        stand_in = Buffer(buffer.shape, buffer.dtype, buffer.device, parts)
        self._held.append(stand_in)
        self.named[stand_in.id] = source
        tensor._uop, tensor._history = stand_in.uop, stand_in
        if tensor._requires_grad:
            tensor._history = GradientPoint(stand_in.uop, stand_in, leaf=tensor)
            self.tracked.add(stand_in.id)

    def put_back(self, all_of_them: bool) -> None:
        """Nothing was computed: what was written has its old values again, also after an error."""
        super().put_back(all_of_them=True)


def traced_step(step: Callable[[], Any], mesh: Sequence[int], placements: Mapping[int, Placement]) -> TracedStep:
    """A step on a mesh whose axes have these sizes, with tensors that it reads placed as is said.

    step: a function without arguments that `jit` could capture, or has captured. It is run once for the trace.
    placements: by the `id` of a tensor; others are the same on all devices. Raises ConfigError where it is not one
    computation on one device, or the script has a mesh of its own.

    >>> w = rg.nn.Parameter(Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy"))
    >>> x = Tensor([[1.0, 1.0]] * 4, device="numpy")
    >>> def step():
    ...     w.grad = None
    ...     (x @ w).sum().backward()
    ...     with rg.no_grad():
    ...         w.sub_(w.grad)
    >>> found = traced_step(step, (2,), {id(x): (0,)})
    >>> [one.kind for one in found.collectives() if one]
    ['all_reduce']
    """
    trace = _PlacedTrace(mesh, placements)
    try:
        with trace:
            box = [step()]
        with trace.waiting():
            outcome = Outcome(trace, box, [])
            graphs = outcome.parts()
    except CaptureError as error:
        raise ConfigError(f"the step cannot be captured as one computation: {error.problem}") from error
    finally:
        trace.put_back(all_of_them=True)
    if outcome.problem:
        raise ConfigError(f"the step cannot be captured as one computation: {outcome.problem}")
    if len(graphs) != 1:
        listed = " and ".join(graphs) or "no device"
        raise ConfigError(f"the step computes on {listed}; plan-sharding takes a program for one device")
    ((device, (outputs, roots)),) = graphs.items()
    return _planned(outcome, tuple(mesh), device, outputs, roots)


def _planned(
    outcome: Outcome, mesh: tuple[int, ...], device: str, outputs: Sequence[int], roots: Sequence[UOp]
) -> TracedStep:
    """The plan of what a trace found, as `realize` makes it, without the device."""
    target = devices.target_of(device)
    graph, buffers = number_buffers(UOp("SINK", tuple(roots)))
    local, slots, parts = sharding.local_graph(graph, target)
    schedule = sharding.communicating_early(make_schedule(local, len(slots), target, {}, parts))
    plan = make_plan(schedule, local, "", target)
    read = tuple(_tensor_of(outcome, None if s.op == "COORDINATE" else buffers[s.attrs["slot"]]) for s in slots)
    places = {id(tensor): place for place, tensor in enumerate(read) if tensor is not None}
    number_of = dict(zip(outputs, schedule.outputs, strict=True))
    parts_of = dict(zip(outputs, parts, strict=True))
    written = [(outcome.outside[w.tensor], w.output) for w in outcome.writes if w.output in number_of]
    heirs = tuple((number_of[k], places[id(t)]) for t, k in written if k is not None and id(t) in places)
    replicated = (-1,) * len(mesh)
    return TracedStep(
        mesh=mesh,
        plan=plan,
        read=read,
        heirs=tuple((result, place) for result, place in heirs if result >= schedule.inputs),
        gradients=tuple(dict.fromkeys(number_of[w.output] for w in outcome.gradients if w.output in number_of)),
        written=tuple((t, p.placement if (p := parts_of[k]) else replicated) for t, k in written),
    )


def _tensor_of(outcome: Outcome, node: UOp | None) -> TensorCore | None:
    """The tensor from outside that a buffer of a trace is the value of."""
    source = outcome.trace.named.get(node.attrs["id"]) if node is not None else None
    if source is None or source[0] != "state":
        return None
    found: TensorCore = source[1]
    return found
