"""Ranks that are all in this process, each with a device of its own: what they send is copied in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from rulegrad.communication.collective import BLOCKS, Collective
from rulegrad.communication.counting import tally_of
from rulegrad.communication.reductions import reduce_into
from rulegrad.communication.worlds import Done, Work, check_arrays
from rulegrad.errors import CommunicationError

_AT_ONCE = 1 << 15  # bytes that are copied sooner than another thread has woken up


class InProcess:
    """A world of `size` ranks in one process. Collectives run in a thread, one after the other.

    >>> world = InProcess(2)
    >>> sources, results = np.arange(4.0).reshape(2, 2), np.zeros((2, 2))
    >>> step = Collective("all_reduce", (2,), (0,), "sum", 2, "float64")
    >>> world.start(step, list(sources), list(results)).wait()
    >>> results.tolist()
    [[2.0, 4.0], [2.0, 4.0]]
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise CommunicationError(f"a world has at least one rank, not {size}")
        self.size = size
        self.local = tuple(range(size))
        self._thread: ThreadPoolExecutor | None = None
        self._thread_of = 0  # the process that made the thread, which a child made by fork does not have
        self._last: Future[None] | None = None

    def start(self, collective: Collective, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> Work:
        """Starts a collective, with the arrays of each rank (see `World`)."""
        check_arrays(collective, self.size, self.size, sources, results)
        tally_of(collective).start()
        sources, results = list(sources), list(results)
        forked = self._thread_of != os.getpid()
        if (forked or self._last is None or self._last.done()) and sum(a.nbytes for a in sources) <= _AT_ONCE:
            run(collective, sources, results)
            return Done()
        if self._thread is None or forked:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rulegrad-collectives")
            self._thread_of = os.getpid()
        self._last = self._thread.submit(run, collective, sources, results)
        return _InThread(self._last)

    def check_same(self, label: str, value: str) -> None:
        """Nothing to compare: one process has one value."""

    def expect_same(self, what: str) -> None:
        """Nothing to compare, likewise."""


class _InThread:
    """A collective that a thread runs."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def wait(self) -> None:
        """Returns when the thread has run it."""
        self._future.result()


def run(collective: Collective, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """Runs a collective of all ranks at once.

    >>> results = [np.zeros(1), np.zeros(1)]
    >>> run(Collective("shift", (2,), (0,), "", 1, "float64", by=1), [np.ones(1), np.zeros(1)], results)
    >>> results
    [array([0.]), array([1.])]
    """
    for group in collective.groups():
        _run_group(collective, [sources[rank] for rank in group], [results[rank] for rank in group])


def _run_group(of: Collective, sources: list[np.ndarray], results: list[np.ndarray]) -> None:
    members = len(sources)
    blocks = [source.reshape(members, -1) for source in sources if of.kind in BLOCKS]
    if of.kind == "all_reduce":
        total = np.empty_like(sources[0])
        reduce_into(total, sources, of.operation, of.dtype)
        values = [total] * members
    elif of.kind == "all_gather":
        values = [np.concatenate(sources)] * members
    elif of.kind == "reduce_scatter":
        for member, result in enumerate(results):
            reduce_into(result, [block[member] for block in blocks], of.operation, of.dtype)
        return
    elif of.kind == "all_to_all":
        values = [np.concatenate([block[member] for block in blocks]) for member in range(members)]
    elif of.kind == "part":
        values = [block[member] for member, block in enumerate(blocks)]
    else:  # a copy, for a result may be the source
        values = [sources[(member - of.by) % members].copy() for member in range(members)]
    for result, value in zip(results, values, strict=True):
        result[:] = value
