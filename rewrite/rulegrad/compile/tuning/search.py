"""The search: the best candidates of each tactic by estimate are measured on the device, and the best is kept.

Without the setting `search`, or `python -m rulegrad tune`, nothing here is ever loaded.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from rulegrad.compile.tuning.entries import Entry, tuned_file
from rulegrad.compile.tuning.trials import BadKernelError, TimeIsUpError, Trials
from rulegrad.compile.tuning.using import Place
from rulegrad.engine.schedules import Candidate, candidates
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime.kernel import Kernel

#: Of each `least` line of a tactic.
KEPT: Final = 64
_BATCH, _FIRST_BATCH = 8, 2  # kernels that are built before they are measured
_SHARE: Final = 0.05  # seconds of launches of one candidate
_FINALISTS, _ROUNDS = 4, 3  # measured again in the end
_BETTER: Final = 0.98  # of the time of the model's choice is less than what noise makes


class Subject(NamedTuple):
    """A kernel that wants a schedule."""

    name: str
    named: UOp  # its graph, whose loops have names
    kernel: Callable[[UOp], Kernel]  # with a schedule; raises RewriteError where that does not apply


@dataclass
class Measured:
    """The measurements of a kernel's candidates so far: seconds, or why they are bad, by the schedule's text."""

    seconds: dict[str, float] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The least seconds."""
        return min(self.seconds.values(), default=math.inf)

    def fastest(self, count: int) -> list[str]:
        """The schedules of the least times."""
        return sorted(self.seconds, key=lambda text: self.seconds[text])[:count]


def search(subjects: Sequence[Subject], place: Place, seconds: float) -> None:
    """Searches schedules for kernels that have a choice, each for so many seconds, and keeps what is found.

    At least one candidate of each is measured. A kernel that was searched as long before is left out. An interrupt
    keeps what is found, and goes on as such. Raises FileError where the file of schedules is broken or cannot be
    written.
    """
    wanted = []
    for subject in subjects:
        known = tuned_file().get(place.key(subject.named))
        if known is None or not (known.is_complete or known.searched >= seconds):
            proposed = candidates(subject.named, place.target, KEPT)
            if has_choice(proposed):
                wanted.append((subject, proposed, known))
    if not wanted:
        return
    with Trials(place.device, _core_count()) as trials:
        for subject, proposed, known in wanted:
            search_one(subject, proposed, known, place, seconds, trials)


def has_choice(proposed: Sequence[Candidate]) -> bool:
    """Whether there is something to find: an estimate of 0 fixes a schedule."""
    return len(proposed) > 1 and proposed[0].cost > 0


def search_one(
    subject: Subject, proposed: Sequence[Candidate], known: Entry | None, place: Place, seconds: float, trials: Trials
) -> Entry | None:
    """Searches for one kernel: what was found is kept and returned; None where not even the plain kernel ran."""
    found = Measured(bad=dict(known.bad) if known is not None else {})
    start = time.perf_counter()
    progress = Progress(subject.name, len(proposed), seconds)
    entry: Entry | None = None
    try:
        try:
            _measure_all(subject, proposed, trials, found, progress)
        except TimeIsUpError:
            pass
        except BadKernelError as problem:
            progress.end(f"not searched: the kernel without a schedule {problem}")
            return None
    finally:
        entry = _entry(subject, proposed, known, place, found, time.perf_counter() - start)
        if entry is not None:
            tuned_file().add([entry])
            progress.end(told(entry))
    return entry


def _measure_all(
    subject: Subject, proposed: Sequence[Candidate], trials: Trials, found: Measured, progress: Progress
) -> None:
    """Measures candidates until the time is up, then the fastest in turns. Raises BadKernelError, TimeIsUpError."""
    prepare(subject, proposed, trials)
    progress.start()
    left = [one for one in in_turns(proposed) if one.text not in found.bad]
    kernels: dict[str, Kernel] = {}
    reserved = min(1.0, progress.left / 4)  # seconds for the finalists
    while left and (progress.left > reserved or not found.seconds):
        count = _BATCH if found.seconds else _FIRST_BATCH
        batch, left = left[:count], left[count:]
        made = {one.text: kernel for one in batch if (kernel := _made(subject, one, found.bad)) is not None}
        problems = trials.build(list(made.values()), progress.left - reserved if found.seconds else math.inf)
        for (text, kernel), problem in zip(made.items(), problems, strict=True):
            if problem:
                found.bad[text] = problem
            if problem != "" or (found.seconds and progress.left <= reserved):
                continue
            kernels[text] = kernel
            _measure(trials, text, kernels, found, progress)
            progress.show(found)
    _decide(trials, proposed[0].text, kernels, found, progress)


def _measure(trials: Trials, text: str, kernels: dict[str, Kernel], found: Measured, progress: Progress) -> None:
    """Measures a candidate, beside the best so far: what counts is by how much it is slower or faster."""
    left = progress.left if found.seconds else math.inf
    best = found.fastest(1)
    try:
        seconds, beside = trials.measure(kernels[text], _SHARE, left, kernels[best[0]] if best else None)
        found.seconds[text] = found.best * seconds / beside if best else seconds
    except BadKernelError as problem:
        found.bad[text] = str(problem)


def _decide(trials: Trials, first: str, kernels: dict[str, Kernel], found: Measured, progress: Progress) -> None:
    """Measures the fastest, and the model's choice, again beside the fastest: the median of their turns counts."""
    finalists = list(dict.fromkeys([*found.fastest(_FINALISTS), *([first] if first in found.seconds else [])]))
    ratios: dict[str, list[float]] = {text: [] for text in finalists[1:]}
    for _ in range(_ROUNDS):
        for text, of_one in ratios.items():
            if progress.left <= 0:
                break
            seconds, beside = trials.measure(kernels[text], _SHARE, progress.left, kernels[finalists[0]])
            of_one.append(seconds / beside)
    for text, of_one in ratios.items():
        if of_one:
            found.seconds[text] = found.seconds[finalists[0]] * median(of_one)


def _made(subject: Subject, candidate: Candidate, bad: dict[str, str]) -> Kernel | None:
    try:
        return subject.kernel(candidate.scheduled)
    except RewriteError as error:
        bad[candidate.text] = error.problem.splitlines()[0]
        return None


def in_turns(proposed: Sequence[Candidate]) -> Iterator[Candidate]:
    """The best of each tactic, then the second of each, and so on: estimates of different tactics may disagree."""
    places: dict[str, int] = defaultdict(int)
    order = []
    for one in proposed:
        order.append((places[one.tactic], one.cost, one))
        places[one.tactic] += 1
    yield from (one for _, _, one in sorted(order, key=lambda item: item[:2]))


def prepare(subject: Subject, proposed: Sequence[Candidate], trials: Trials) -> None:
    """Samples, and results by the kernel whose estimate is the worst: it has no steps. Raises BadKernelError."""
    try:
        plain = subject.kernel(proposed[-1].scheduled)
    except RewriteError as error:
        raise BadKernelError(error.problem) from None
    slots, tolerances, writes_inputs = described_slots(subject.named, plain.slots)
    trials.prepare(plain, slots, tolerances, writes_inputs)


def described_slots(named: UOp, count: int) -> tuple[list[tuple[tuple[int, ...], str]], list[float], bool]:
    """Shapes and dtypes of a kernel's buffers, by how much their numbers may differ, and whether it writes inputs.

    A slot that the graph has not is that of the flags of index checks, of one word for each; or nobody uses it.
    """
    nodes = named.toposort()
    checks = max((node.attrs["slot"] + 1 for node in nodes if node.op == "INSIDE"), default=1)
    slots: list[tuple[tuple[int, ...], str]] = [((max(1, checks),), "int32")] * count
    tolerances = [0.0] * count
    for node in nodes:
        if node.op == "PARAM":
            slots[node.attrs["slot"]] = (tuple(node.shape), str(node.dtype))
            tolerances[node.attrs["slot"]] = _tolerance(nodes, str(node.dtype))
    written, read = (
        {place for node in nodes if node.op == op for place in _slots_of(node.src[0])} for op in ("STORE", "LOAD")
    )
    return slots, tolerances, bool(written & read)


def _slots_of(place: UOp) -> set[int]:
    """The slots of what is read or written at a place."""
    while place.src and place.op != "PARAM":
        place = place.src[0]
    return {place.attrs["slot"]} if place.op == "PARAM" else set()


def _tolerance(nodes: Sequence[UOp], dtype: str) -> float:
    """Of the largest number: the rounding of the dtype, and that of sums in another order; 0 for integers."""
    kind = as_dtype(dtype)
    if not (kind.is_float or kind.is_complex):
        return 0.0
    sums = [node for node in nodes if node.op == "REDUCE" and as_dtype(node.dtype).is_float]
    length = math.prod(loop.src[0].attrs["value"] for loop in {r for node in sums for r in node.src[1:]})
    computed = min((as_dtype(node.dtype).mantissa for node in sums), default=23)
    own = kind.mantissa if kind.is_float else 23
    return float(2.0 * 2.0**-own + 2.0 ** -min(computed, 23) * (16 + 4 * math.sqrt(length)))


def _entry(
    subject: Subject,
    proposed: Sequence[Candidate],
    known: Entry | None,
    place: Place,
    found: Measured,
    searched: float,
) -> Entry | None:
    """The entry to keep: the best, or the model's choice where that is as good; the known one, if it is better."""
    if not found.seconds:
        return None
    first = found.seconds.get(proposed[0].text)
    best = found.fastest(1)[0]
    if first is not None and found.best > _BETTER * first:
        best = proposed[0].text
    if known is not None and known.schedule not in found.seconds and known.seconds < found.best:
        best = known.schedule
    loops = {".".join(n.attrs["path"]): n.src[0].attrs["value"] for n in subject.named.toposort() if n.op == "RANGE"}
    key = place.key(subject.named)
    return Entry(
        *key, subject.name, ", ".join(f"{path} {extent}" for path, extent in sorted(loops.items())), best,
        found.seconds.get(best, known.seconds if known is not None else found.best), first, len(found.seconds),
        len(proposed), round(searched, 1), found.bad,
    )  # fmt: skip


def told(entry: Entry) -> str:
    """The result of a search, in a line.

    >>> told(Entry("", "", "", "", "k", "i0 4", "rows: bind i0 to thread", 0.001, 0.002, 5, 9, 10.0))
    '1.000 ms by rows, 2.00 times as fast as the first choice; 5 of 9 candidates measured'
    """
    ms = f"{entry.seconds * 1e3:.3f} ms by {entry.tactic}"
    if entry.first_seconds is None:
        gain = "the first choice is bad"
    elif entry.seconds < entry.first_seconds:
        gain = f"{entry.first_seconds / entry.seconds:.2f} times as fast as the first choice"
    else:
        gain = "which is the first choice"
    bad = f", {len(entry.bad)} bad" if entry.bad else ""
    return f"{ms}, {gain}; {entry.measured} of {entry.candidates} candidates measured{bad}"


class Progress:
    """How far the search for one kernel is, on stderr: a line that changes on a terminal, else one in the end."""

    def __init__(self, name: str, count: int, seconds: float) -> None:
        self._name = name
        self._count = count
        self._seconds = seconds
        self.start()

    def start(self) -> None:
        """The time begins: when the processes are there, and the right results."""
        self._deadline = time.perf_counter() + self._seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return self._deadline - time.perf_counter()

    def show(self, found: Measured) -> None:
        """Tells how many candidates were tried, and the best time."""
        if sys.stderr.isatty():
            tried = len(found.seconds) + len(found.bad)
            best = f"{found.best * 1e3:.3f} ms" if found.seconds else "none ran"
            self._say(f"{tried} of {self._count} candidates, {best}, {max(0.0, self.left):.0f} s left", "")

    def end(self, text: str) -> None:
        """Tells what came of it."""
        self._say(text, "\n")

    def _say(self, text: str, end: str) -> None:
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}rulegrad: search: {self._name}: {text}", end=end, file=sys.stderr, flush=True)


def _core_count() -> int:
    """Of the cores that this process may run on, as many as build at a time."""
    affinity = getattr(os, "sched_getaffinity", None)
    return min(8, len(affinity(0)) if affinity is not None else os.cpu_count() or 1)
