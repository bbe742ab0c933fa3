"""Trials in processes of their own: one that does not end, or takes its process with it, is a trial's result."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from rulegrad import engine
from rulegrad.errors import RuleError, RulegradError
from rulegrad.lang import syntax
from rulegrad.workbench.mutation.mutants import subjects
from rulegrad.workbench.mutation.trials import verdicts
from rulegrad.workbench.mutation.verdicts import Bench, Verdict

PATIENCE = 60.0  # seconds without a verdict after which a trial is taken for one that does not end
_PROVING = 600.0  # the same where z3 is asked
_ENDLESS = Verdict("test", "it does not end, or ends the process")
#: The number of a rule, as `subjects` has them, and some of its mutants: the number of each, and its place among them.
Unit = tuple[int, dict[int, int]]


@dataclass(slots=True)
class _Worker:
    """A process, and what it is at."""

    process: Any
    link: Any
    unit: Unit | None = None
    waiting: set[int] = field(default_factory=set)  # mutants without a verdict
    since: float = 0.0

    def give(self, unit: Unit) -> None:
        self.unit, self.waiting, self.since = unit, set(unit[1]), time.monotonic()
        self.link.send(unit)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.link.close()


def tried(
    files: Sequence[syntax.File], units: Sequence[Unit], jobs: int = 1, proves: bool = False
) -> Iterator[tuple[int, Verdict]]:
    """The verdict on each mutant, with its number, as they come; proves: survivors are given to `prove`."""
    waiting = deque(units)
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.unit for worker in workers):
            while waiting and len(workers) < jobs:
                workers.append(_started(files, proves))
            for worker in workers:
                if worker.unit is None and waiting:
                    worker.give(waiting.popleft())
            links = {worker.link: worker for worker in workers if worker.unit}
            for link in connection.wait(list(links), timeout=1.0):
                yield from _received(links[link])
            for worker in [w for w in workers if w.unit and _is_lost(w, _PROVING if proves else PATIENCE)]:
                workers.remove(worker)
                yield from _lost(worker, waiting)
    finally:
        for worker in workers:
            worker.end()


def _started(files: Sequence[syntax.File], proves: bool) -> _Worker:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_work, args=(files, theirs, proves), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _work(files: Sequence[syntax.File], link: Any, proves: bool) -> None:
    """A process: gets a unit, answers a verdict for each mutant, then None."""
    engine.install_op_table()
    bench = Bench(files)
    problem = None
    if proves:
        from rulegrad.workbench.mutation.proofs import Proofs  # late: it needs z3, which is optional

        problem = Proofs(bench).problem
    everything = subjects(files)
    while True:
        subject, places = link.recv()
        mutants = bench.mutator.mutants(everything[subject])
        numbers, chosen = list(places), [mutants[place] for place in places.values()]
        try:
            for k, verdict in verdicts(bench, everything[subject], chosen):
                if problem and verdict.kind == "survives" and (why := problem(everything[subject], chosen[k].rule)):
                    verdict = Verdict("proof", why)
                link.send((numbers[k], verdict))
            link.send(None)
        except RulegradError as error:
            link.send((everything[subject].name, error.problem))


def _received(worker: _Worker) -> Iterator[tuple[int, Verdict]]:
    """The verdicts that have come from a process."""
    try:
        while worker.link.poll():
            said = worker.link.recv()
            worker.since = time.monotonic()
            if said is None:
                worker.unit = None
                return
            if isinstance(said[0], str):
                raise RuleError(f"the mutants of {said[0]} cannot be tried: {said[1]}")
            worker.waiting.discard(said[0])
            yield said
    except (EOFError, ConnectionError):
        worker.process.join()


def _is_lost(worker: _Worker, patience: float) -> bool:
    return not worker.process.is_alive() or time.monotonic() - worker.since > patience


def _lost(worker: _Worker, waiting: deque[Unit]) -> Iterator[tuple[int, Verdict]]:
    """A process has ended, or hangs: what it had left is tried again, each mutant on its own."""
    worker.end()
    assert worker.unit is not None
    subject, places = worker.unit
    left = {number: place for number, place in places.items() if number in worker.waiting}
    if len(left) == 1:
        yield from ((number, _ENDLESS) for number in left)
    else:
        waiting.extend((subject, {number: place}) for number, place in left.items())
