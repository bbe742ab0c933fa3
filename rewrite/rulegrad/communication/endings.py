"""The end of a rank: when all are at the end of their programs, or after an error at once, with one message for all."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
import traceback
from types import TracebackType
from typing import Final, NoReturn

from rulegrad.communication.mpi import MpiWorld
from rulegrad.communication.worlds import named_ranks
from rulegrad.support import watched

_SAME_SECONDS: Final = 0.1  # failures that are known for longer are not of the same time
_HEAR_SECONDS: Final = 0.3  # how long a rank waits for other failures of that time
_KILLED_SECONDS: Final = 10.0  # after which a rank that nobody has ended speaks itself
_POLL_SECONDS: Final = 0.01
_EXIT: Final = os._exit


def watch(world: MpiWorld) -> None:
    """Sees to it that errors and the end of the program on this rank are known to all ranks."""
    before = sys.excepthook
    process = os.getpid()
    watched.join()

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process:  # a child made by fork
            before(kind, error, trace)
        else:
            fail(world, "".join(traceback.format_exception(kind, error, trace)), 1)

    def leave(status: int) -> NoReturn:
        if os.getpid() == process:
            fail(world, f"it ended by os._exit({status})", status or 1)
        _EXIT(status)

    sys.excepthook = failed
    if not watched.is_watched():  # or its watcher sees this, and more
        os._exit = leave
    atexit.register(lambda: _leave(world) if os.getpid() == process else None)


def fail(world: MpiWorld, text: str, status: int) -> NoReturn:
    """Ends all ranks with a status, and this text once: of the lowest of the ranks that failed at the same time."""
    os._exit = _EXIT
    others = _tell_failure(world)
    if others is None or (others and others[0] < world.rank):
        time.sleep(_KILLED_SECONDS)  # another rank speaks, and ends this one
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    also = f" ({named_ranks(others)} failed too)" if others else ""
    message = f"rulegrad: rank {world.rank} of {world.size} failed{also}; all ranks are ended:\n{text.rstrip()}"
    print(message, file=sys.stderr, flush=True)
    watched.part()
    world.abort(status)


def _tell_failure(world: MpiWorld) -> list[int] | None:
    """Tells all ranks of a failure; those that failed at the same time, or None where one was told of before."""
    with world.lock:
        world.control.listen()
        if any(time.monotonic() - heard > _SAME_SECONDS for heard in world.control.failed.values()):
            return None
        world.control.tell("failed")
    until = time.monotonic() + _HEAR_SECONDS
    while time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        with world.lock:
            world.control.listen()
    return sorted(world.control.failed)


def _leave(world: MpiWorld) -> None:
    """Tells the others that this rank has ended, and waits for them: those that wait for it are to say so."""
    with world.lock:
        world.control.tell("ended")
    os._exit = _EXIT
    while len(world.control.ended) < world.size - 1:
        time.sleep(_POLL_SECONDS)
        with world.lock:
            world.control.listen()
    world.stop()
    watched.part()
