"""Running tensor graphs: finding the plan of a graph, or making it, and launching it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rulegrad import engine
from rulegrad._core import signature
from rulegrad.compile import kernels, sharding
from rulegrad.compile.kernels import compile_kernels
from rulegrad.compile.memory_plan import MemoryPlan
from rulegrad.compile.partition import is_long, partition, realize_subgraphs
from rulegrad.compile.plans import Plan, executables_of, in_engine, is_for_engine, make_plan
from rulegrad.compile.schedule import make_schedule, number_buffers, numbered_lines
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.runtime import devices, profile
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager, follow_settings
from rulegrad.runtime.kernel import Kernel

if TYPE_CHECKING:
    from rulegrad.compile.varying import SizedPlan


class Holders(Protocol):
    """Those who hold the buffers that a graph reads only for the sake of that graph."""

    def let_go(self) -> None:
        """From now on the buffers are held by others, or by nobody."""
        ...

    def take_back(self, buffers: Sequence[Buffer]) -> None:
        """The graph was not computed, and needs these buffers."""
        ...


class Found(NamedTuple):
    """The plan of graphs, and the buffers that it is launched on."""

    plan: Plan
    buffers: list[Buffer]


@dataclass(slots=True)
class _Way:
    """The way from a graph to its plan: for each of the plan's inputs the place of the buffer in the signature."""

    plan: Plan
    inputs: tuple[int | Buffer, ...]  # or a buffer of the plan's own
    known: set[tuple[int, ...]] = field(default_factory=set)  # to the engine: inputs whose memory it may take by itself
    runs: int = -1  # of the engine, after which it asks again; negative: it never does


#: Bytes: where a computation uses up more, as a step of a large model does with its parameters, it is one plan.
MOST_USED_UP: Final = 1 << 25

_plans: dict[tuple[UOp, str], tuple[Plan, tuple[int | Buffer, ...]]] = {}  # and the numbers of its inputs, or these
_ways: dict[tuple[bytes, str], _Way] = {}  # by signature: to a plan, and no pass is run


def _forget() -> None:
    _plans.clear()
    _ways.clear()
    eager.forget()


kernels._also_forget.append(_forget)


def realize(uops: Sequence[UOp], holders: Holders | None = None, device: str | None = None) -> list[Buffer]:
    """Computes tensor graphs: buffers of their shapes and dtypes, on the device of the buffers that they read.

    holders: let go of the buffers where their memory can be used; what nobody else holds then is overwritten or reused.
    device: where graphs without a buffer are computed, by default on the default device. Raises DeviceError when the
    buffers are on several devices, or a device fails.
    """
    if not uops:
        return []
    key, ids = signature(uops)
    if is_long(key) and not (holders and _uses_up(holders, ids) > MOST_USED_UP):
        values, subgraphs = partition(uops, key)
        if subgraphs:
            return realize_subgraphs(subgraphs, values, lambda graphs: realize(graphs, None, device))
    way, buffers = _look_up(uops, key, ids, device, config.general_plans > 0)
    plan = way.plan
    if holders is None or not plan.takeable or plan.is_little:
        results = plan.launch(buffers, uops)
        _tell_engine(key, way, ())
        return results
    holders.let_go()
    try:
        taken = tuple([number for number in plan.takeable if is_free(buffers, number)])
        results = plan.launch(buffers, uops, taken)
    except BaseException:
        holders.take_back([buffer for buffer in buffers if buffer.is_allocated or not buffer.nbytes])
        raise
    _tell_engine(key, way, taken)
    return results


def _uses_up(holders: Holders, ids: Sequence[int]) -> int:
    """The bytes of buffers that nobody else holds: the results of one plan may take their memory."""
    buffers = [Buffer.numbered(number) for number in ids]
    holders.let_go()
    try:
        return sum(buffers[number].nbytes for number in range(len(buffers)) if is_free(buffers, number))
    finally:
        holders.take_back(buffers)


def find_plan(uops: Sequence[UOp], device: str | None = None) -> Found:
    """The plan of tensor graphs, made at the first time, and the buffers that they read, in the plan's order.

    Raises DeviceError when the buffers are on several devices.

    >>> from rulegrad import Tensor
    >>> x, y = Tensor([1.0, 2.0], device="numpy"), Tensor([3.0, 4.0], device="numpy")
    >>> plan, buffers = find_plan([(x * y).uop])
    >>> (result,) = plan.launch(buffers, [(x * y).uop])
    >>> result.numpy()
    array([3., 8.], dtype=float32)
    """
    way, buffers = _look_up(uops, *signature(uops), device)
    return Found(way.plan, buffers)


def find_sized_plan(uops: Sequence[UOp], device: str | None = None) -> tuple[Found, SizedPlan] | None:
    """The plan of tensor graphs that is one for all sizes, which reads buffers of its own too; None where none is.

    There is none either where graphs have a plan of their own. Whoever keeps it counts its uses.
    """
    key, ids = signature(uops)
    buffers = [Buffer.numbered(number) for number in ids]
    place = _device_of(buffers) or device or devices.default()
    sized = _sized_plan(key, uops, ids, place) if (key, place) not in _ways else None
    if sized is None:
        return None
    return Found(sized.plan, [buffers[one] if isinstance(one, int) else one for one in sized.inputs]), sized


def plan_of(uops: Sequence[UOp], device: str) -> tuple[Plan, tuple[int, ...]]:
    """The plan of tensor graphs on a device, and the ids of the buffers that it reads, in its order.

    Nobody needs to hold these buffers.
    """
    key, ids = signature(uops)
    way = _ways.get((key, device))
    if way is None:
        way = _ways[key, device] = _find(list(uops), ids, device)
    return way.plan, tuple([ids[place] for place in way.inputs if isinstance(place, int)])


def _look_up(
    uops: Sequence[UOp], key: bytes, ids: Sequence[int], device: str | None, general: bool = False
) -> tuple[_Way, list[Buffer]]:
    """The way from graphs with this signature to their plan, and the plan's inputs.

    general: the plan may be one for all sizes of such graphs, which reads buffers of its own too.
    """
    buffers = [Buffer.numbered(number) for number in ids]
    device = _device_of(buffers) or device or devices.default()
    way = None if watching.watchers else _ways.get((key, device))
    if way is None and general:
        way = _find_general(key, uops, ids, device)
    if way is None:
        way = _ways[key, device] = _find(list(uops), list(ids), device)
    return way, [buffers[place] if isinstance(place, int) else place for place in way.inputs]


def _find_general(key: bytes, uops: Sequence[UOp], ids: Sequence[int], device: str) -> _Way | None:
    """The way to the plan of graphs like these at all sizes, at their sizes."""
    found = _sized_plan(key, uops, ids, device)
    return None if found is None else _Way(found.plan, found.inputs, runs=found.let_go())


def _sized_plan(key: bytes, uops: Sequence[UOp], ids: Sequence[int], device: str) -> SizedPlan | None:
    if config.check or watching.watchers or config.general_plans <= 0:
        return None
    from rulegrad.compile import varying  # late: few programs have a use for it

    return varying.find(key, uops, ids, device)


def _tell_engine(key: bytes, way: _Way, taken: tuple[int, ...]) -> None:
    """Let the engine compute graphs of this signature by itself, where nobody else needs the inputs `taken`."""
    if taken in way.known:
        return
    way.known.add(taken)
    plan = way.plan
    prepared = in_engine(plan, plan.prepared(taken), taken) if is_for_engine(plan, taken) else None
    if prepared is not None:
        takeable = list(plan.takeable) if plan.takeable and not plan.is_little else []
        outputs, default = len(plan.schedule.outputs), devices.default()
        eager.keep(key, plan.device, list(way.inputs), takeable, prepared, outputs, default, way.runs)


def is_free(buffers: list[Buffer], number: int) -> bool:
    """Whether nobody but the list has the buffer, and the memory is its own."""
    # The second reference is the argument's.
    return sys.getrefcount(buffers[number]) == 2 and buffers[number].owns_memory


def _find(uops: list[UOp], ids: list[int], device: str) -> _Way:
    """The plan of a graph with parameters in the place of its buffers: equal work on other buffers has the same."""
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    places = tuple(ids.index(uop.attrs["id"]) for uop in inputs)
    found = _plans.get((graph, device))
    if found is None:
        found = _plans[graph, device] = _make(graph, len(inputs), device, uops)
    plan, numbers = found
    return _Way(plan, tuple([places[number] if isinstance(number, int) else number for number in numbers]))


def _device_of(buffers: Sequence[Buffer]) -> str:
    """The device of all buffers, "" for none. Raises DeviceError for several."""
    names = {buffer.device for buffer in buffers}
    if len(names) > 1:
        listed = " and ".join(sorted(names))
        raise DeviceError(f"the tensors of one computation are on {listed}; copy them to one device with .to()")
    return names.pop() if names else ""


def _make(graph: UOp, inputs: int, device: str, uops: list[UOp]) -> tuple[Plan, tuple[int | Buffer, ...]]:
    follow_settings()  # before the first plan nobody has looked at them
    target = devices.target_of(device)
    with profile.span("schedule", "compile"):
        lines = numbered_lines(uops)
        if not sharding.is_sharded(graph):
            return make_plan(make_schedule(graph, inputs, target, lines), graph, device, target), tuple(range(inputs))
        local = sharding.localize(graph, device, target)
        schedule = make_schedule(local.graph, len(local.inputs), target, lines, local.parts)
        return make_plan(sharding.communicating_early(schedule), local.graph, device, target), local.inputs


def compile_graph(uops: Sequence[UOp], target: str = "opencl") -> list[Kernel]:
    """The kernels of tensor graphs for a target, with their sources if it renders any; nothing is built or run."""
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    schedule = make_schedule(graph, len(inputs), target, {})
    source = bool(engine.target(target).render)
    return compile_kernels([step.graph for step in schedule.steps], target, source)


def prepare(computations: Sequence[Sequence[UOp]], device: str) -> None:
    """Compiles tensor graphs for a device ahead, each computation on its own, and runs none.

    All their kernels are built in one program: for hundreds of kernels that is thirty times as fast as one program for
    each computation. Raises DeviceError when the device cannot build one.
    """
    target = devices.target_of(device)
    wanted = [kernel for uops in computations for kernel in compile_graph(uops, target)]
    executables_of(wanted, devices.canonical(device))


def plan_memory_of(uops: Sequence[UOp], target: str = "opencl", taken: bool = False) -> MemoryPlan:
    """How the buffers that tensor graphs make would share memory on a target; nothing is compiled or run.

    taken: as if nobody held the buffers that the graphs read.

    >>> from rulegrad import Tensor
    >>> plan = plan_memory_of([Tensor.ones(64, 64).uop])
    >>> plan.nbytes, plan.bound
    (16384, 16384)
    """
    with watching.part("schedule"):
        graph, inputs = number_buffers(UOp("SINK", tuple(uops)))
    plan = make_plan(make_schedule(graph, len(inputs), target, {}), graph, "", target)
    return plan.memory(plan.takeable if taken else ())
