"""Placements of a program's tensors on a mesh: each is judged by the plan that it leads to, the best are looked for.

A candidate is not judged by formulas of its own: the step is traced with the tensors in these parts, the rules of
sharding (`rules/sharding`) find what each device computes and what is sent, and that is counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from rulegrad.capture import JitFunction
from rulegrad.errors import ConfigError, RulegradError
from rulegrad.runtime import devices
from rulegrad.workbench.scale.groups import check_divides, groups_of
from rulegrad.workbench.scale.local_schedule import Estimates, events_of
from rulegrad.workbench.scale.machine import Machine
from rulegrad.workbench.scale.schedule import Memory, Schedule
from rulegrad.workbench.scale.scripts import Training
from rulegrad.workbench.scale.simulation import Assumptions, Step, simulate
from rulegrad.workbench.scale.traced_step import Placement, TracedStep, traced_step

#: The placement of each group.
Choice: TypeAlias = tuple[Placement, ...]

#: Candidates that are developed further.
_BEAM: Final = 3
#: New values may lie elsewhere than the old ones: so often is the step traced again with them where they lie.
_MOST_SETTLING: Final = 3


class Sent(NamedTuple):
    """The traffic of one device in the collectives of one kind, as `rulegrad.communication.counters` counts it."""

    calls: int
    bytes: int


@dataclass(frozen=True)
class Candidate:
    """Placements of all groups, and what one step takes with them."""

    choice: Choice
    schedule: Schedule
    step: Step
    sent: Mapping[str, Sent]  #: by kind of collective
    fits: bool  #: whether a device has the memory

    @property
    def bytes_sent(self) -> int:
        """Bytes that one device sends in a step."""
        return sum(count.bytes for count in self.sent.values())

    @property
    def memory(self) -> dict[str, float]:
        """Bytes of one device: parameters, gradients, state, inputs and activations."""
        return self.schedule.memory_of_rank()

    def order(self, machine: Machine) -> tuple[float, float, float, float]:
        """By which candidates are sorted, the best first: bytes that do not fit, time, memory, bytes sent."""
        return max(0.0, self.step.memory - machine.memory), self.step.seconds, self.step.memory, self.bytes_sent


@dataclass
class Judge:
    """Finds out what a step takes with placements of its tensors; each choice is looked at once."""

    training: Training
    mesh: Mapping[str, int]
    machine: Machine
    assumptions: Assumptions = field(default_factory=Assumptions)

    def __post_init__(self) -> None:
        try:
            self.training.step()  # state is made at the first step
        except RulegradError:
            raise
        except Exception as error:
            raise ConfigError(f"the step of the script failed: {type(error).__name__}: {error}") from error
        self.sizes = tuple(self.mesh.values())
        self._estimates = Estimates(devices.target_of(self.training.optimizer.device))
        alone = traced_step(self.training.step, self.sizes, {})
        self._check_trains(alone)
        self.groups = groups_of(self.training, [tensor for tensor in alone.read if tensor is not None])
        self.known: dict[Choice, Candidate] = {}
        self._roles = self._roles_of()
        check_divides(self.groups, self.mesh)

    @property
    def size(self) -> int:
        """How many devices the mesh has."""
        return math.prod(self.sizes)

    def _check_trains(self, traced: TracedStep) -> None:
        wanted = {id(tensor) for tensor in self.training.parameters().values()}
        if not wanted & {id(tensor) for tensor, _ in traced.written}:
            raise ConfigError("the step computes no new values of the parameters; call optimizer.step() in it")

    def _roles_of(self) -> dict[int, str]:
        """By the id of a tensor, as what its memory is counted."""
        found = {id(tensor): "parameters" for tensor in self.training.parameters().values()}
        return found | {id(tensor): "optimizer state" for _, tensor in self.training.state()}

    def candidate(self, choice: Choice) -> Candidate:
        """The candidate with these placements of the groups, or with those that they have after some steps."""
        if choice not in self.known:
            traced, settled = self._settled(choice)
            if settled != choice:
                self.known[choice] = self.candidate(settled)
                return self.known[choice]
            schedule, sent = self._schedule(traced)
            step = simulate(schedule, self.machine, self.assumptions)
            self.known[choice] = Candidate(choice, schedule, step, sent, step.memory <= self.machine.memory)
        return self.known[choice]

    def placements(self, choice: Choice) -> dict[int, Placement]:
        """By the id of a tensor its placement; the optimizer's state lies as its parameters do."""
        found = {
            id(tensor): group.placement(tensor.shape, placement)
            for group, placement in zip(self.groups, choice, strict=True)
            for tensor in group.tensors.values()
        }
        for parameter, state in self.training.state():
            if state.shape == parameter.shape and id(parameter) in found:
                found[id(state)] = found[id(parameter)]
        return found

    def _settled(self, choice: Choice) -> tuple[TracedStep, Choice]:
        """The step once the new values of all that it changes lie as the old ones do, and the placements then.

        A parameter that is not split is from the first step on where its gradient is split.
        """
        replicated = (-1,) * len(self.sizes)
        placed = self.placements(choice)
        for _ in range(_MOST_SETTLING):
            traced = traced_step(self.training.step, self.sizes, placed)
            moved = {id(t): place for t, place in traced.written if placed.get(id(t), replicated) != place}
            if not moved:
                break
            placed = placed | moved
        found = []
        for group, placement in zip(self.groups, choice, strict=True):
            now = {placed[id(one)] for one in group.tensors.values() if one.shape == group.leading}
            found.append(now.pop() if len(now) == 1 and now <= set(group.choices(self.sizes)) else placement)
        return traced, tuple(found)

    def _schedule(self, traced: TracedStep) -> tuple[Schedule, dict[str, Sent]]:
        collectives = traced.collectives()
        sent: dict[str, Sent] = {}
        for one in collectives:
            if one is not None:
                calls, total = sent.get(one.kind, (0, 0))
                sent[one.kind] = Sent(calls + 1, total + one.bytes_sent)
        events = events_of(traced.plan, collectives, tuple(self.mesh), self._estimates)
        memory = tuple(Memory(name, size) for name, size in self._memory(traced).items())
        return Schedule("a step", events, dict(self.mesh), memory), sent

    def _memory(self, traced: TracedStep) -> dict[str, float]:
        """Bytes of one device, by what they are of; activations at their peak, by the memory plan."""
        plan = traced.plan
        found = dict.fromkeys(("parameters", "gradients", "optimizer state", "inputs"), 0.0)
        for place, tensor in enumerate(traced.read):
            found[self._roles.get(id(tensor), "inputs")] += plan.sizes[place]
        new = sum(plan.sizes[k] for k in traced.gradients if k >= plan.schedule.inputs)
        found["activations"] = max(0.0, traced.memory().nbytes - new)
        # a captured step has the gradients of the step before until it ends
        found["gradients"] = 2 * new if isinstance(self.training.step, JitFunction) else new
        return found


def best_placements(judge: Judge, tries: int, fixed: Mapping[int, Placement] | None = None) -> list[Candidate]:
    """The candidates that were looked at, the best first; at most `tries`, the same for the same program.

    A beam search: for each axis of the mesh the groups are gone through by their size, those of inputs first. Of the
    three best choices so far all those that differ in the placement of this group along this axis are judged; and those
    where this group is split along its axis 0 and the next one along its axis 1, as what one layer gives the next
    takes. This is repeated until nothing gets better. fixed: the placements of groups, by their numbers, that are
    not to be changed.
    """
    fixed = dict(fixed or {})
    replicated = (-1,) * len(judge.sizes)
    start = tuple(fixed.get(number, replicated) for number in range(len(judge.groups)))
    beam = _starts(judge, start, fixed)[:tries]
    order = sorted(range(len(judge.groups)), key=lambda k: (not judge.groups[k].is_input, -judge.groups[k].nbytes, k))

    def ranked(choices: Sequence[Choice]) -> list[Choice]:
        room = tries - len(judge.known)
        for choice in dict.fromkeys(choices):
            if choice in judge.known or room > 0:
                room -= choice not in judge.known
                judge.candidate(choice)
        seen = [choice for choice in dict.fromkeys(choices) if choice in judge.known]
        return sorted(seen, key=lambda one: judge.known[one].order(judge.machine))[:_BEAM]

    beam = ranked(beam)
    better = True
    while better and len(judge.known) < tries:
        before = judge.known[beam[0]].order(judge.machine)
        for axis, number in itertools.product(range(len(judge.sizes)), order):
            if number not in fixed:
                near = [one for choice in beam for one in _neighbours(judge, choice, axis, number, fixed)]
                beam = ranked([*beam, *near])
        better = judge.known[beam[0]].order(judge.machine) < before
    found = {one.choice: one for one in judge.known.values()}  # some choices become others in a step
    return sorted(found.values(), key=lambda one: (one.order(judge.machine), one.choice))


def _starts(judge: Judge, start: Choice, fixed: Mapping[int, Placement]) -> list[Choice]:
    """Nothing split; inputs split by each axis of the mesh; parameters too, by the same axis."""
    found = [start]
    for axis in range(len(judge.sizes)):
        inputs = _along(judge, start, axis, [k for k, group in enumerate(judge.groups) if group.is_input], fixed)
        found += [inputs, _along(judge, inputs, axis, range(len(judge.groups)), fixed)]
    return list(dict.fromkeys(found))


def _along(judge: Judge, choice: Choice, axis: int, numbers: Sequence[int], fixed: Mapping[int, Placement]) -> Choice:
    """The choice with some groups split along an axis of the mesh: their axis 0 if it can be, else their axis 1."""
    found = list(choice)
    for number in numbers:
        if number not in fixed:
            ways = [_with(choice[number], axis, k) for k in (0, 1)]
            allowed = judge.groups[number].choices(judge.sizes)
            found[number] = next((way for way in ways if way in allowed), choice[number])
    return tuple(found)


def _with(placement: Placement, axis: int, place: int) -> Placement:
    return (*placement[:axis], place, *placement[axis + 1 :])


def _neighbours(
    judge: Judge, choice: Choice, axis: int, number: int, fixed: Mapping[int, Placement]
) -> Iterator[Choice]:
    """The choices that differ along an axis of the mesh in one group; or in two layers, one after the other."""
    groups, after = judge.groups, number + 1
    allowed = groups[number].choices(judge.sizes)
    for placement in (_with(choice[number], axis, place) for place in (-1, 0, 1)):
        if placement in allowed and placement != choice[number]:
            yield (*choice[:number], placement, *choice[after:])
    if groups[number].is_input or after >= len(groups) or after in fixed:
        return
    pair = _with(choice[number], axis, 0), _with(choice[after], axis, 1)
    if pair[0] in allowed and pair[1] in groups[after].choices(judge.sizes):
        yield (*choice[:number], *pair, *choice[after + 1 :])
