"""The schedule of a plan that is not for running: its kernels by their operations and bytes, and its collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rulegrad import engine
from rulegrad.communication import Collective
from rulegrad.compile.collectives import BUCKET
from rulegrad.compile.estimate import estimate
from rulegrad.compile.passes import BEFORE_LOWERING
from rulegrad.compile.plans import Plan
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.workbench.scale.schedule import Event
from rulegrad.workbench.scale.strategies import bucketed


class Work(NamedTuple):
    """The work of one launch of a kernel."""

    operations: int
    bytes: int
    dtype: str  #: that it computes in


class Estimates:
    """The work of kernels for a target; equal kernels are looked at once."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._known: dict[UOp, Work] = {}

    def of(self, kernels: Sequence[UOp]) -> list[Work]:
        """The work of each kernel, a graph as the plan's schedule has it.

        As `rulegrad.compile.estimate` has it: arithmetic on values counts once for each combination of loops, and a
        buffer counts once.
        """
        new = [kernel for kernel in dict.fromkeys(kernels) if kernel not in self._known]
        steps = [name for name in engine.pipeline("kernel") if name not in BEFORE_LOWERING]
        for kernel, indexed in zip(new, engine.run_all(new, steps, self._target), strict=True):
            self._known[kernel] = Work(*estimate(indexed), _dtype_of(kernel))
        return [self._known[kernel] for kernel in kernels]


def _dtype_of(kernel: UOp) -> str:
    """The dtype that a kernel computes in, as far as its buffers tell: a float, or float32."""
    kinds = [node.dtype for node in kernel.toposort("PARAM")]
    return next((str(kind) for kind in kinds if as_dtype(kind).is_float), "float32")


def collective_event(collective: Collective, axes: Sequence[str], after: Sequence[int]) -> Event:
    """A collective as an event; axes: the names of the mesh's.

    >>> one = Collective("all_gather", (2, 4), (1,), "", 8, "float32")
    >>> collective_event(one, ("data", "model"), ()).bytes
    128
    """
    whole = max(collective.count, collective.result_count) * as_dtype(collective.dtype).itemsize
    along = tuple(axes[axis] for axis in collective.axes)
    kind = "part" if collective.kind == "shift" and not collective.by % collective.members else collective.kind
    return Event(
        f"{collective.kind} along {', '.join(along)}", kind, bytes=whole, dtype=collective.dtype, axes=along,
        after=tuple(after), follows_batch=False,
    )  # fmt: skip


def events_of(
    plan: Plan,
    collectives: Sequence[Collective | None],
    axes: Sequence[str],
    estimates: Estimates,
    seconds: Sequence[float] | None = None,
) -> tuple[Event, ...]:
    """The steps of a plan as events, in order, with small all-reduces sent as one as they are when it runs.

    collectives: for each step what it sends, None for a kernel. axes: the names of the mesh's axes. seconds: of each
    step, where they were measured.
    """
    steps = plan.schedule.steps
    kernels = [step.graph for step, sent in zip(steps, collectives, strict=True) if sent is None]
    works = iter(estimates.of(kernels))
    events: list[Event] = []
    written: dict[int, int] = {}  # by the plan's buffer, the event that wrote it last
    for number, (sent, use) in enumerate(zip(collectives, plan.uses, strict=True)):
        after = sorted({written[buffer] for buffer in (*use.reads, *use.writes) if buffer in written})
        written.update(dict.fromkeys(use.writes, number))
        if sent is not None:
            events.append(collective_event(sent, axes, after))
            continue
        work = next(works)
        events.append(
            Event(
                f"kernel {number}", seconds=None if seconds is None else seconds[number], operations=work.operations,
                bytes=work.bytes, dtype=work.dtype, after=tuple(after),
            )
        )  # fmt: skip
    return tuple(bucketed(events, BUCKET, ("all_reduce",)))
