"""A rank and the small process that watches it: only that one knows surely who was killed first.

Whoever starts ranks ends all of them by SIGKILL once one has died, and cannot tell the first from the others. So each
rank is the child of a process of its own, which waits for it, and says by which signal it was killed, or that it ended
without telling the others. The rank ends when that process does. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import time
from types import FrameType
from typing import Final

#: How a watcher's line on stderr begins, after which come rank, process, machine and signal; or the status.
KILLED: Final = "rulegrad: killed: "
LEFT: Final = "rulegrad: left: "
_RANKS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_PR_SET_PDEATHSIG: Final = 1
_BY_OTHERS_SECONDS: Final = 0.1  # in which whoever ends all ranks has ended the watchers too
_PASSED_SECONDS: Final = 0.1  # in which a line on stderr has come to who reads it
_JOINED, _PARTED = b"j", b"p"  # what a rank tells its watcher

_to_watcher: int | None = None  # the end of a pipe


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """This process gets a signal when the one that started it ends. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def in_a_watched_process() -> None:
    """Goes on in a child of this process, which watches it, and ends as the child does. No thread may run yet."""
    global _to_watcher
    watcher = os.getpid()
    told, _to_watcher = os.pipe()
    child = os.fork()
    if child:
        os.close(_to_watcher)
        _watch(child, told)
    os.close(told)
    end_with_parent()
    if os.getppid() != watcher:  # it ended before the child could say so
        os._exit(1)


def is_watched() -> bool:
    """Whether a process of its own watches this one."""
    return _to_watcher is not None


def join() -> None:
    """From here on others wait for this process: it may not end before `part`, or its watcher says so."""
    _tell(_JOINED)


def part() -> None:
    """This process has told the others how it ends."""
    _tell(_PARTED)


def _tell(what: bytes) -> None:
    if _to_watcher is not None:
        os.write(_to_watcher, what)


def _watch(child: int, told: int) -> None:
    """Waits for the child, and ends as it has ended."""

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for one in _PASSED_ON:
        signal.signal(one, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the child too
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        number = os.WEXITSTATUS(status)
        if _has_left(told):
            _say(LEFT, child, number)
            number = number or 1  # or whoever started the ranks takes it for the end of the program
        os._exit(number)
    number = os.WTERMSIG(status)
    time.sleep(_BY_OTHERS_SECONDS)
    _say(KILLED, child, number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left its memory, if any is wanted
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _has_left(told: int) -> bool:
    """Whether a process has joined others and not parted from them; a child of its own may have the pipe open."""
    os.set_blocking(told, False)
    try:
        return os.read(told, 2) == _JOINED
    except BlockingIOError:
        return False


def _say(what: str, child: int, number: int) -> None:
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
    os.write(2, f"{what}{rank} {child} {socket.gethostname()} {number}\n".encode())
    time.sleep(_PASSED_SECONDS)
