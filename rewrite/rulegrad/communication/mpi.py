"""Ranks that are processes, on one machine or many, which MPI connects."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import numpy as np

from rulegrad.communication.collective import Collective, place_of
from rulegrad.communication.control import Control, place_of_main_thread
from rulegrad.communication.counting import tally_of
from rulegrad.communication.exchanges import About, exchanges_of
from rulegrad.communication.mpi_steps import requests
from rulegrad.communication.worlds import Work, check_arrays, different, named_ranks, not_the_same
from rulegrad.config import config
from rulegrad.errors import CommunicationError
from rulegrad.support import forks

if TYPE_CHECKING:
    from mpi4py import MPI

    from rulegrad._core import Exchange

INSTALL: Final = 'pip install "rulegrad[mpi]"'
_DESCRIPTION: Final = 256  # bytes of what ranks tell their neighbours of a collective
_SPIN_SECONDS: Final = 1e-3  # a wait gives up its core after this
_NAP_SECONDS: Final = 2e-5
_IDLE_SECONDS: Final = 0.02  # between two looks for messages of other ranks, and at small collectives
_SMALL: Final = 1 << 15  # bytes that arrive sooner than the thread that goes on with collectives has woken up
_ENDED_SECONDS: Final = 1.0  # in which the last values of a rank that ended still come
_GRACE_SECONDS: Final = 5.0  # in which a rank that failed ends the others


_Steps: TypeAlias = Callable[[], "Iterator[MPI.Request]"]


class MpiWorld:
    """A rank of a program that `mpiexec`, `python -m rulegrad launch` or `srun` has started.

    Collectives run in the order in which they were started, by calls of MPI that do not block, so that kernels go on:
    a thread looks after them while nobody waits. Before one begins, a rank compares it with its neighbour's; where they
    differ, or one does not come within the setting `communication_timeout`, the error says what each rank waits for.
    `seed` is a number that nobody knows before, the same on all ranks.
    Raises CommunicationError where mpi4py or an MPI is missing.
    """

    def __init__(self) -> None:
        self._everyone, self._checks, messages = _communicators()
        self.size: int = self._everyone.size
        self.rank: int = self._everyone.rank
        self.local: tuple[int, ...] = (self.rank,)
        self.seed: int = self._everyone.bcast(int.from_bytes(os.urandom(8), "little"))
        self.lock = forks.lock()
        self.control = Control(messages, self.state)
        self._groups: dict[tuple[tuple[int, ...], tuple[int, ...]], MPI.Comm] = {}
        self._known: set[tuple[int, ...]] = set()  # groups that have communicated
        self._queue: deque[_Started] = deque()
        self._number = 0
        self._broken: CommunicationError | None = None
        self._waiting = False
        self._guard = forks.ForkGuard("connections of MPI")
        self._wake, self._over = threading.Event(), False
        self._exchanges = exchanges_of(self, self._checks, _DESCRIPTION)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: self._tell_engine(False))
        if self.size > 1:
            threading.Thread(target=self._look_after, name="rulegrad-mpi", daemon=True).start()

    # ---- collectives ----

    def start(self, collective: Collective, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> Work:
        """Starts a collective, with the arrays of this rank (see `World`)."""
        check_arrays(collective, self.size, 1, sources, results)
        tally_of(collective).start()
        group, _ = place_of(collective.mesh, collective.axes, self.rank)
        steps = partial(self._steps, collective, sources[0], results[0])
        return self._begin(_Started(self, str(collective), group, steps, sources[0].nbytes), repr(collective))

    def exchange(
        self, collective: Collective, turn: int, sent: Sequence[tuple[int, int]], received: Sequence[tuple[int, int]]
    ) -> Exchange | None:
        """A collective that a program of the engine starts by itself, on buffers of the program: numbers, and bytes.

        What is in the buffers that are sent lies one after the other, as the results do. turn: how many like it the
        program has before it. It is counted, and compared with the neighbours', as others are. None where this MPI
        does not have it as requests that are made once.
        """
        return None if self._exchanges is None else self._exchanges.make(collective, turn, sent, received)

    def check_same(self, label: str, value: str) -> None:
        """Raises CommunicationError, naming the ranks, where they do not all give the same value; all call it.

        Of a value of several lines the message has those that differ.
        """
        if self.size == 1:
            return
        found: list[str] = []
        text = f"check_same of {label.partition(' (')[0]}"  # without advice, which is for those that differ
        work = _Started(self, text, tuple(range(self.size)), partial(self._compared, value, found), len(value))
        self._begin(work, text).wait()
        if found:
            raise not_the_same(label, found)

    def agree(self, what: str, group: tuple[int, ...]) -> None:
        """Returns when the ranks of a group have come to the same. Raises CommunicationError for another."""
        self._compare(what, group).wait()

    def expect_same(self, what: str) -> None:
        """All ranks call it, and go on: where they do not all give the same, what follows is a CommunicationError."""
        if self.size > 1:
            self._compare(what, tuple(range(self.size)))

    def _compare(self, what: str, group: tuple[int, ...]) -> _Started:
        return self._begin(_Started(self, what, group, lambda: iter(()), 0), what)

    def finish(self) -> None:
        """Waits for all that was started. Raises CommunicationError, and DeviceError in a child made by fork."""
        self._guard.check()
        with self.lock:
            if self._broken is not None:
                raise self._broken
            last = self._queue[-1] if self._queue else None
        if last is not None:
            last.wait()

    def _tell_engine(self, is_clear: bool) -> None:
        """Whether a program may start its exchanges at once."""
        if self._exchanges is not None:
            self._exchanges.carrier.is_clear = is_clear

    def _begin(self, work: _Started, what: str) -> _Started:
        self._guard.check()
        with self.lock:
            if self._broken is not None:
                raise self._broken
            self._tell_engine(False)
            self._number += 1
            work.number = self._number
            work.tell_neighbours(self._checks, what, work.group not in self._known)
            self._known.add(work.group)
            self._queue.append(work)
            self.advance()
            busy = not work.done and sum(waiting.nbytes for waiting in self._queue) > _SMALL
        if busy:
            self._wake.set()
        return work

    def _steps(self, of: Collective, source: np.ndarray, result: np.ndarray) -> Iterator[MPI.Request]:
        return requests(self.group(of.mesh, of.axes), of, source, result)

    def group(self, mesh: tuple[int, ...], axes: tuple[int, ...]) -> MPI.Comm:
        """The communicator of the rank's group. Its members have all come when it is made, so nobody waits."""
        if (mesh, axes) not in self._groups:
            members = place_of(mesh, axes, self.rank)[0]
            everyone = self._everyone.Get_group()
            of_members = everyone.Incl(list(members))
            self._groups[mesh, axes] = self._everyone.Create_group(of_members, 1)
            of_members.Free()
            everyone.Free()
        return self._groups[mesh, axes]

    def _compared(self, value: str, found: list[str]) -> Iterator[MPI.Request]:
        """Gathers the values of all ranks: their lengths and hashes, and themselves where they differ."""
        encoded = value.encode()
        mine = np.frombuffer(len(encoded).to_bytes(8, "little") + hashlib.sha256(encoded).digest(), np.uint8)
        heads = np.empty((self.size, len(mine)), np.uint8)
        yield self._everyone.Iallgather(mine, heads)
        if (heads == mine).all():
            return
        lengths = [int.from_bytes(head[:8].tobytes(), "little") for head in heads]
        texts = np.empty(sum(lengths), np.uint8)
        yield self._everyone.Iallgatherv(np.array(bytearray(encoded), np.uint8), [texts, lengths])
        ends = np.cumsum(lengths)
        found += [texts[end - length : end].tobytes().decode() for end, length in zip(ends, lengths, strict=True)]

    # ---- going on ----

    def advance(self) -> None:
        """Goes on with what has been started, as far as it goes without waiting; whoever calls it holds the lock."""
        while self._queue:
            work = self._queue[0]
            try:
                if not work.advance(self._checks):
                    return
            except Exception as error:  # of MPI too: the ranks do not agree any more
                self._break(error)
                return
            self._queue.popleft()
            self._tell_engine(not self._queue)

    def _break(self, error: Exception) -> None:
        """No collective is possible after an error, for other ranks may be at another one."""
        if isinstance(error, CommunicationError):
            self._broken = error
        else:
            self._broken = CommunicationError(f"{self._queue[0].text} failed in MPI: {error}")
        self._queue.clear()

    def fail(self, error: CommunicationError) -> NoReturn:
        """Raises an error, after which no collective is possible."""
        with self.lock:
            self._broken = error
            self._queue.clear()
            self._tell_engine(False)
        raise error

    def wait_for(self, work: _Started) -> None:
        """Returns when a collective has ended. Raises CommunicationError when it cannot, or takes too long."""
        begin = time.monotonic()
        while not work.done:
            with self.lock:
                self._waiting = True
                self.advance()
                if self._broken is not None and not work.done:
                    raise self._broken
            if work.done:
                break
            elapsed = time.monotonic() - begin
            if elapsed < _SPIN_SECONDS:
                os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)
                continue
            time.sleep(_NAP_SECONDS)
            self.check_others(work, elapsed)
        self._waiting = False

    def check_others(self, work: _Started | About, elapsed: float) -> None:
        """Raises CommunicationError where what is waited for takes too long, or another rank has ended or failed."""
        now = time.monotonic()
        ended = self.control.ended
        gone = [rank for rank in work.group if now - ended.get(rank, now) > _ENDED_SECONDS]
        failed = [rank for rank, heard in self.control.failed.items() if now - heard > _GRACE_SECONDS]
        if elapsed <= config.communication_timeout and not gone and not failed:
            return
        limit = f"{config.communication_timeout:g} s"
        if failed:
            why = f"{named_ranks(sorted(failed))} failed"
        elif gone:
            why = f"{named_ranks(gone)} ended before it"
        else:
            why = f"it has not ended within {limit} (the setting communication_timeout); docs/distributed.md says more"
        states = "".join(f"\n    rank {rank} {state}" for rank, state in self.control.ask(self.lock).items())
        self.fail(CommunicationError(f"{work.text}: {why}{states}"))

    def state(self) -> str:
        """The state of this rank for the others: what it waits for, and where it is."""
        place = place_of_main_thread()
        at = f", at {place}" if place else ""
        if self._exchanges is not None and self._exchanges.waits_for is not None:
            return f"waits for {self._exchanges.waits_for.text}{at}"
        return (
            f"waits for {self._queue[0].text} (number {self._queue[0].number}){at}"
            if self._queue
            else f"waits for no other rank{at}"
        )

    def _look_after(self) -> None:
        """The thread that goes on with collectives while nobody waits for them, and answers other ranks."""
        heard = 0.0
        while not self._over:
            with self.lock:
                if self._over:
                    return
                self.advance()
                if time.monotonic() - heard > _IDLE_SECONDS:
                    self.control.listen()
                    heard = time.monotonic()
                busy = bool(self._queue) and not self._waiting
            if busy:
                time.sleep(5 * _NAP_SECONDS)
            else:
                self._wake.wait(_IDLE_SECONDS)
                self._wake.clear()

    def abort(self, status: int) -> NoReturn:
        """Ends all ranks at once, and this process."""
        self._everyone.Abort(status)
        os._exit(status)  # an MPI need not return

    def stop(self) -> None:
        """Ends the thread, so that MPI can be ended."""
        with self.lock:
            self._over = True
            if self._exchanges is not None:
                self._exchanges.free()


class _Started:
    """A collective in the queue of a world: first the ranks compare what they have started, then it runs."""

    def __init__(self, world: MpiWorld, text: str, group: tuple[int, ...], steps: _Steps, nbytes: int) -> None:
        self.text = text
        self.group = group
        self.nbytes = nbytes
        self.number = 0
        self.done = False
        self._world = world
        self._steps = steps
        self._running: Iterator[MPI.Request] | None = None
        self._request: MPI.Request | None = None
        self._own = np.zeros(_DESCRIPTION, np.uint8)
        self._neighbours: list[tuple[int, np.ndarray]] = []
        self._told: list[MPI.Request] = []

    def tell_neighbours(self, checks: MPI.Comm, what: str, is_first: bool) -> None:
        """Exchanges what was started with the members beside this one; of a group's first, with all members."""
        rank, members = self._world.rank, len(self.group)
        mine = self.group.index(rank)
        after, before = self.group[(mine + 1) % members], self.group[mine - 1]
        others = [other for other in self.group if other != rank]
        to, origins = (others, others) if is_first else ([after], [before])
        if members == 1:
            return
        encoded = what.encode()[:_DESCRIPTION]
        self._own[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        self._neighbours = [(other, np.empty(_DESCRIPTION, np.uint8)) for other in origins]
        self._told = [checks.Irecv(buffer, other) for other, buffer in self._neighbours]
        self._told += [checks.Isend(self._own, other) for other in to]

    def advance(self, checks: MPI.Comm) -> bool:
        """Goes on without waiting; whether it has ended. Raises CommunicationError where a neighbour has another."""
        if self._running is None:
            if self._told and not type(self._told[0]).Testall(self._told):
                return False
            self._told = []
            for other, buffer in self._neighbours:
                if (buffer != self._own).any():
                    theirs = buffer.tobytes().rstrip(b"\0").decode(errors="replace")
                    ours = self._own.tobytes().rstrip(b"\0").decode(errors="replace")
                    raise different(self._world.rank, ours, other, theirs)
            self._neighbours = []
            self._running = self._steps()
        while self._request is None or self._request.Test():
            self._request = next(self._running, None)
            if self._request is None:
                self.done = True
                return True
        return False

    def wait(self) -> None:
        """Returns when the result is there (see `Work`)."""
        if not self.done:
            self._world.wait_for(self)


def _communicators() -> tuple[MPI.Intracomm, MPI.Intracomm, MPI.Intracomm]:
    """Three communicators of all ranks: for collectives, for comparing them, and for messages."""
    try:
        from mpi4py import MPI  # late: an optional library
    except (ImportError, RuntimeError) as error:
        raise CommunicationError(f"MPI cannot be used ({error}); {INSTALL} installs one") from None
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise CommunicationError("MPI was started without MPI_THREAD_MULTIPLE, which the thread of collectives needs")
    return MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Dup()
