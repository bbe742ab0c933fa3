"""A rank and the small process that watches it: only that one knows surely who was killed first.

Whoever starts ranks ends all of them by SIGKILL once one has died, and cannot tell the first from the others. So each
rank is the child of a process of its own, which waits for it, and says by which signal it was killed. The rank ends
when that process does. Linux only.
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

#: How a watcher's line on stderr begins, after which come rank, process, machine and signal.
KILLED: Final = "rulegrad: killed: "
_RANKS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_PR_SET_PDEATHSIG: Final = 1
_BY_OTHERS_SECONDS: Final = 0.1  # in which whoever ends all ranks has ended the watchers too
_PASSED_SECONDS: Final = 0.1  # in which a line on stderr has come to who reads it


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """This process gets a signal when the one that started it ends. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def in_a_watched_process() -> None:
    """Goes on in a child of this process, which watches it, and ends as the child does. No thread may run yet."""
    watcher = os.getpid()
    child = os.fork()
    if child:
        _watch(child)
    end_with_parent()
    if os.getppid() != watcher:  # it ended before the child could say so
        os._exit(1)


def _watch(child: int) -> None:
    """Waits for the child, and ends as it has ended."""

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for one in _PASSED_ON:
        signal.signal(one, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the child too
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    time.sleep(_BY_OTHERS_SECONDS)
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
    os.write(2, f"{KILLED}{rank} {child} {socket.gethostname()} {number}\n".encode())
    time.sleep(_PASSED_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left its memory, if any is wanted
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
