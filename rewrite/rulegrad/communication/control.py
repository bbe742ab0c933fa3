"""Messages between ranks that are not collectives: what a rank waits for, that it has ended, or failed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulegrad.support.locations import is_ours, shown

if TYPE_CHECKING:
    from mpi4py import MPI

_ANSWER_SECONDS: Final = 2.0  # how long others are waited for when they are asked what they wait for


class Control:
    """Messages between all ranks, on a communicator of their own. Whoever calls a method holds the world's lock."""

    def __init__(self, everyone: MPI.Comm, state: Callable[[], str]) -> None:
        self._comm = everyone
        self._state = state  # what this rank waits for
        self._sent: list[MPI.Request] = []
        self._states: dict[int, str] = {}
        self.ended: dict[int, float] = {}  # ranks, and when this rank heard of it
        self.failed: dict[int, float] = {}  # likewise

    def tell(self, what: str, text: str = "", to: int | None = None) -> None:
        """Sends a message: to one rank, or to all others."""
        others = [rank for rank in range(self._comm.size) if rank != self._comm.rank] if to is None else [to]
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent += [self._comm.isend((what, text), rank) for rank in others]

    def listen(self) -> None:
        """Takes what has come, and answers."""
        from mpi4py import MPI  # late: an optional library

        status = MPI.Status()
        while (message := self._comm.improbe(status=status)) is not None:
            what, text = message.recv()
            rank = status.source
            if what == "what?":
                self.tell("state", self._state(), to=rank)
            elif what == "state":
                self._states[rank] = text
            elif what == "ended":
                self.ended[rank] = time.monotonic()
            else:
                self.failed.setdefault(rank, time.monotonic())

    def ask(self, lock: Any) -> dict[int, str]:
        """The state of each rank, such as what it waits for; asks all others, and waits a while for their answers."""
        with lock:
            self._states = {}
            self.tell("what?")
        until = time.monotonic() + _ANSWER_SECONDS
        missing = set(range(self._comm.size)) - {self._comm.rank}
        while missing and time.monotonic() < until:
            time.sleep(0.005)
            with lock:
                self.listen()
                missing -= {*self._states, *self.ended}
        states = {rank: self._states.get(rank, "does not answer") for rank in range(self._comm.size)}
        states[self._comm.rank] = self._state()
        return {rank: "has ended" if rank in self.ended else text for rank, text in states.items()}


def place_of_main_thread() -> str:
    """The user's line that the main thread is at, as `train.py:31`; "" when there is none."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return shown((frame.f_code.co_filename, frame.f_lineno)) if frame else ""
