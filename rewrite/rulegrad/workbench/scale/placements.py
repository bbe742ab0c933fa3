"""Candidates for the placements of a program's tensors along an axis of devices, by their estimated times."""

from __future__ import annotations

from typing import Final, NamedTuple

from rulegrad.workbench.scale.machine import Machine
from rulegrad.workbench.scale.schedule import Schedule
from rulegrad.workbench.scale.simulation import Assumptions, Step, simulate
from rulegrad.workbench.scale.strategies import BUCKET, STRATEGIES

#: By strategy, what is divided.
ABOUT: Final = {
    "data": "all replicated",
    "state-sharded": "state divided",
    "fully-sharded": "parameters and state divided",
}


class Candidate(NamedTuple):
    """A placement, and what a step takes with it."""

    name: str  #: of the strategy
    about: str
    step: Step
    fits: bool  #: whether a device has the memory


def candidates(
    schedule: Schedule,
    machine: Machine,
    ranks: int,
    bucket: float = BUCKET,
    assumptions: Assumptions = Assumptions(),  # noqa: B008
) -> list[Candidate]:
    """All placements of the schedule of one device along an axis `data`, the best first.

    Those that fit the memory of a device come first, by time; of equal times, the one that takes less memory. Raises
    ConfigError where the schedule says nothing of gradients, or the machine is smaller.

    >>> from rulegrad.workbench.scale.machine import load_machine
    >>> from rulegrad.workbench.scale.schedule import Event, Memory
    >>> layer = Event("layer", operations=1e14, parameters=2e10, gradients=2e10, phase="backward")
    >>> large = Schedule("s", (layer,) * 3, memory=(Memory("parameters", 6e10), Memory("state", 12e10)))
    >>> [(one.name, one.fits) for one in candidates(large, load_machine("h100-infiniband"), 8)]
    [('fully-sharded', True), ('state-sharded', True), ('data', False)]
    """
    found = []
    for name, spread in STRATEGIES.items():
        step = simulate(spread(schedule, ranks, bucket), machine, assumptions)
        found.append(Candidate(name, ABOUT[name], step, step.memory <= machine.memory))
    return sorted(found, key=lambda one: (not one.fits, one.step.seconds, one.step.memory))
