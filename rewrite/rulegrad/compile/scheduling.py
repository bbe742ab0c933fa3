"""The choice of a kernel's schedule: one found by search, else the cost model's first, else its next that applies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rulegrad import engine
from rulegrad.compile.checking import stopping_guard
from rulegrad.compile.passes import lower
from rulegrad.compile.tuning.entries import tuned_file
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.engine.schedules import CHOOSES, Candidate, candidates, described, schedule_text
from rulegrad.engine.sources import is_of_user
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp

if TYPE_CHECKING:
    from rulegrad.compile.tuning.search import Subject
    from rulegrad.runtime.kernel import Kernel

#: Of each `least` line, when the first choice does not apply.
_KEPT: Final = 8


_collected: list[tuple[Subject, str, str]] | None = None


def are_searched() -> bool:
    """Whether schedules depend on the device: some were found by search, or a search is asked for."""
    return config.search > 0 or _collected is not None or tuned_file().has_entries


@contextlib.contextmanager
def collecting() -> Iterator[list[tuple[Subject, str, str]]]:
    """Collects the kernels that are compiled inside: subjects of a search, their targets and devices."""
    global _collected
    before, _collected = _collected, []
    try:
        yield _collected
    finally:
        _collected = before


def scheduled_programs(
    graphs: Sequence[UOp],
    indexed: Sequence[UOp],
    names: Sequence[str],
    target: str,
    device: str,
    made: Callable[[int, UOp, UOp], Kernel],
) -> list[tuple[UOp, UOp]]:
    """Kernels with their schedules, and as programs, by the pipeline `program`.

    device: "" where no schedules that were found count. made: the kernel of a place, from these two. Raises
    RewriteError for a schedule of the user's that does not apply.
    """
    steps = engine.pipeline("program")
    cut = steps.index(CHOOSES) if CHOOSES in steps else len(steps)
    ready = lower(graphs, indexed, steps[:cut], target, "program")
    if cut == len(steps):
        return [(graph, _without_steps(graph, name)) for graph, name in zip(ready, names, strict=True)]
    work = [
        _Work(place, name, graph, target, steps[cut + 1 :], node, made)
        for place, (name, graph, node) in enumerate(zip(names, graphs, ready, strict=True))
    ]
    found = _found(work, device) if device else [None] * len(work)
    # those who look on are told of the rules' choice too
    rest = [one for one, known in zip(work, found, strict=True) if known is None or watching.watchers]
    chosen = lower([one.graph for one in rest], [one.named for one in rest], [CHOOSES], target, "program")
    by_rules = dict(zip((one.place for one in rest), chosen, strict=True))
    scheduled = [by_rules[place] if known is None else known for place, known in enumerate(found)]
    programs = lower(graphs, scheduled, steps[cut + 1 :], target, "program")
    return [
        (before, program) if left_step(program) is None else one.next_choice(before, program, known is not None)
        for one, before, program, known in zip(work, scheduled, programs, found, strict=True)
    ]


def scheduled_kernels(graphs: Sequence[UOp], indexed: Sequence[UOp], target: str) -> list[UOp]:
    """Kernels with the schedules that the rules choose, if they choose any."""
    steps = engine.pipeline("program")
    cut = steps.index(CHOOSES) + 1 if CHOOSES in steps else 0
    return lower(graphs, indexed, steps[:cut], target, "program")


class _Work(NamedTuple):
    """A kernel whose loops have names, and how it becomes a program once it has a schedule."""

    place: int
    name: str
    graph: UOp  # as it was cut out
    target: str
    after: Sequence[str]  # the passes that follow the choice
    named: UOp
    made: Callable[[int, UOp, UOp], Kernel]

    def program(self, scheduled: UOp) -> UOp:
        return lower([self.graph], [scheduled], self.after, self.target, "program")[0]

    def kernel(self, scheduled: UOp) -> Kernel:
        """The kernel with this schedule. Raises RewriteError where a step does not apply."""
        return self.made(self.place, scheduled, _without_steps(self.program(scheduled), self.name))

    def next_choice(self, scheduled: UOp, program: UOp, was_found: bool) -> tuple[UOp, UOp]:
        """The next best schedule that applies, in the place of one that does not; one of the user's is an error."""
        proposed = candidates(self.named, self.target, _KEPT)
        if not was_found and not _is_choosable(scheduled, proposed):
            raise RewriteError(_problem(program, self.name, self.target))
        said = f"rulegrad: the step `{_step_text(program)}` of `{described(scheduled)}` does not apply to {self.name}"
        if was_found:
            print(f"{said}, which {tuned_file().path} says; the rules choose", file=sys.stderr)
        elif config.debug >= 1:
            print(f"{said}; the next candidate is taken", file=sys.stderr)
        for candidate in proposed:
            if candidate.scheduled != scheduled and left_step(after := self.program(candidate.scheduled)) is None:
                return candidate.scheduled, after
        raise RewriteError(_problem(program, self.name, self.target))


def _is_choosable(scheduled: UOp, proposed: Sequence[Candidate]) -> bool:
    """Whether another candidate may stand in for this one: where the model chose it, and not the user."""
    rules = [one.location for one in proposed if one.scheduled == scheduled]
    return bool(rules) and not any(map(is_of_user, rules))


def _found(work: Sequence[_Work], device: str) -> list[UOp | None]:
    """The schedules that were found for these kernels, by a search now where one is asked for."""
    # late: few programs have schedules that were found
    from rulegrad.compile.tuning.search import Subject, search
    from rulegrad.compile.tuning.using import Place, found_schedule

    if not work:
        return []
    place = Place.of(work[0].target, device)
    subjects = [Subject(one.name, one.named, one.kernel) for one in work]
    if _collected is not None:
        _collected.extend((subject, place.target, device) for subject in subjects)
    elif config.search > 0:
        search(subjects, place, config.search)
    return [found_schedule(one.named, place) for one in work]


def left_step(program: UOp) -> UOp | None:
    """The SCHEDULED of a program with a step that no rule took."""
    return next(iter(program.toposort("SCHEDULED")), None)


def _step_text(program: UOp) -> str:
    left = left_step(program)
    return schedule_text(left.src[1:2]) if left is not None else ""


def _without_steps(program: UOp, name: str) -> UOp:
    """The program. Raises RewriteError for a step of a schedule that no rule took: it is not legal for this kernel."""
    if left_step(program) is not None:
        raise RewriteError(_problem(program, name, ""))
    return program


def _problem(program: UOp, name: str, target: str) -> str:
    left = left_step(program)
    assert left is not None
    paths = sorted({".".join(n.attrs["path"]) for n in program.toposort() if n.op == "RANGE"} - {""})
    guard = stopping_guard(left, target) if target else ""
    return (
        f"the step `{_step_text(program)}` does not apply to the kernel {name}, "
        f"which has the loops {', '.join(paths) or 'none'}"
        + (f"\n{guard}" if guard else "")
        + "\n    look further: python -m rulegrad why steps SCRIPT says which guard of its rule stopped it"
    )
