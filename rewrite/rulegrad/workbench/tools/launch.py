"""Runs a script as several ranks, by the mpiexec of MPI: `launch -n 4 train.py`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple, NoReturn, TextIO

from rulegrad.communication.mpi import INSTALL
from rulegrad.communication.worlds import named_ranks
from rulegrad.errors import CommunicationError, FileMissingError
from rulegrad.support.watched import KILLED, LEFT, end_with_parent

# The lines of mpiexec about a process that was killed; from the first on, none is of the program.
_FIRST: Final = re.compile(rb"={20,}\s*$")
_KILLED: Final = re.compile(rb"EXIT STRING: .* \(signal (\d+)\)")
_PROCESS: Final = re.compile(rb"PID (\d+) RUNNING AT (\S+)")
_ABORT: Final = re.compile(rb"Abort\((\d+)\) on node \d+ \(rank \d+ in comm \d+\): \s*$")
_PREFIX: Final = re.compile(rb"^\[\d+\] ")  # of --prefix, which comes before the line does
_SAID: Final = (KILLED.encode(), LEFT.encode())  # by a rank's watcher
_WATCHED: Final = re.compile(rb"(?:\[\d+\] )?(" + b"|".join(_SAID) + rb")(\S+ \d+ \S+ \d+)\s*$")
_HELD: Final = (b"=" * 20, b"Abort(", *_SAID)  # how such lines begin
_SAYS_NOTHING: Final = {"MPIR_CVAR_SUPPRESS_ABORT_MESSAGE": "1"}  # MPICH's words for what rulegrad has said


def main(arguments: Sequence[str]) -> int:
    """Runs the tool; returns the exit status of the script, or 128 and the signal that killed a rank."""
    given = _parse(arguments)
    if given.ranks < 1:
        raise CommunicationError(f"launch: -n is the number of ranks, at least 1, not {given.ranks}")
    if not given.module and not Path(given.program).is_file():
        raise FileMissingError(f"launch: there is no script {given.program!r}")
    if importlib.util.find_spec("mpi4py") is None:
        raise CommunicationError(f"launch: the package mpi4py is missing; {INSTALL} installs it, and an MPI")
    return _run(command(given, mpiexec()))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rulegrad launch",
        description="Runs a script as several ranks; the cores of a machine are divided among those on it.",
    )
    parser.add_argument("-n", dest="ranks", type=int, default=2, help="the number of ranks (2)")
    parser.add_argument("--hosts", help="machines, with ',' between them; `name:4` takes 4 ranks (this machine)")
    parser.add_argument("--prefix", action="store_true", help="each line of output begins with the rank")
    parser.add_argument("--all-cores", action="store_true", help="each rank may use all cores of its machine")
    parser.add_argument("--gpus-per-rank", type=int, default=0, help="NVIDIA GPUs that each rank sees (all)")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, as in `python -m`")
    parser.add_argument("program", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    return parser.parse_args(arguments)


def mpiexec() -> str:
    """The program that starts ranks: that of the wheel `mpich` beside Python, else the first on the path."""
    beside = shutil.which("mpiexec", path=sysconfig.get_path("scripts"))
    found = beside or shutil.which("mpiexec") or shutil.which("mpirun")
    if found is None:
        raise CommunicationError(f"launch: there is no mpiexec; {INSTALL} installs one")
    return found


def command(given: argparse.Namespace, starter: str) -> list[str]:
    """The command that starts the ranks."""
    options = ["-n", str(given.ranks)]
    options += ["-hosts", given.hosts] if given.hosts else []
    options += ["-prepend-rank"] if given.prefix else []
    rank = ["--ranks", str(given.ranks), "--gpus", str(given.gpus_per_rank)]
    rank += ["--all-cores"] if given.all_cores else []
    rank += ["-m"] if given.module else []
    program = [sys.executable, "-m", "rulegrad.workbench.rank", *rank, given.program, *given.arguments]
    return [starter, *options, *program]


def _run(line: Sequence[str]) -> int:
    environment = {**_SAYS_NOTHING, **os.environ}
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=partial(end_with_parent, signal.SIGTERM),  # mpiexec ends the ranks then
    )  # fmt: skip
    before = signal.signal(signal.SIGTERM, _terminated)
    assert process.stdout is not None and process.stderr is not None  # they are pipes
    passed = [_Passed(process.stdout, sys.stdout), _Passed(process.stderr, sys.stderr)]
    try:
        status = process.wait()
    except (KeyboardInterrupt, _TerminatedError) as ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
        process.terminate()
        process.wait()
        return 128 + (signal.SIGTERM if isinstance(ended, _TerminatedError) else signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
        for one in passed:
            one.join()
    said, watched = passed[0].said + passed[1].said, passed[0].killed + passed[1].killed
    for one in passed:
        if one.aborted is not None:
            return one.aborted  # others may have been killed for it
    if watched:
        first = next((one for one in watched if one.has_left), watched[0])  # others may have been killed for it
        print(_message([one.rank for one in watched], first), file=sys.stderr)
        return (first.signal or 1) if first.has_left else 128 + first.signal
    killed, where = _KILLED.search(said), _PROCESS.search(said)
    if killed is None or where is None:
        return status if status >= 0 else 128 - status
    found = _Killed("", where.group(1).decode(), where.group(2).decode(), int(killed.group(1)))
    print(_message([], found), file=sys.stderr)
    return 128 + found.signal


class _Killed(NamedTuple):
    """A rank that was killed, as the process that watches it says; or a process that mpiexec names, of no rank.

    has_left: it ended by itself, with the status `signal`, and told nobody.
    """

    rank: str
    process: str
    host: str
    signal: int
    has_left: bool = False


class _TerminatedError(Exception):
    """The launcher is to end."""


def _terminated(*_: object) -> NoReturn:
    raise _TerminatedError


class _Passed(threading.Thread):
    """Passes on what the ranks write, at once.

    `killed` are the ranks that were killed, the first first; `said` is what mpiexec says of such, `aborted` the status
    with which a rank has ended all: it has said why.
    """

    def __init__(self, source: IO[bytes], target: TextIO) -> None:
        super().__init__(daemon=True)
        self._source, self._target = source, target
        self._held = b""
        self.said = b""
        self.killed: list[_Killed] = []
        self.aborted: int | None = None
        self.start()

    def run(self) -> None:
        """Reads until the ranks have ended."""
        while text := os.read(self._source.fileno(), 1 << 16):
            *lines, rest = (self._held + text).splitlines(keepends=True) or [b""]
            if rest.endswith(b"\n"):
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._take(line)
            begun = _PREFIX.sub(b"", rest)
            if self.said or any(begun.startswith(held[: len(begun)]) for held in _HELD):
                self._held = rest
            else:
                self._held = b""
                self._write(rest)
        self._take(self._held)

    def _take(self, line: bytes) -> None:
        if found := _WATCHED.search(line):
            rank, process, host, number = found.group(2).decode().split()
            self.killed.append(_Killed(rank, process, host, int(number), found.group(1) == LEFT.encode()))
            self._write(line[: found.start()])
        elif self.said or _FIRST.match(line):
            self.said += line
        elif found := _ABORT.match(line):
            self.aborted = int(found.group(1))
        else:
            self._write(line)

    def _write(self, text: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever read the output has enough
            self._target.buffer.write(text)
            self._target.buffer.flush()


def _message(ranks: Sequence[str], one: _Killed) -> str:
    """ranks: those that were killed at the same time; none where only mpiexec has named one."""
    number = one.signal
    if one.has_left:
        return (
            f"rulegrad: rank {one.rank} (process {one.process} on {one.host}) ended with status {number} without "
            "telling the others, as os._exit and exit in native code do; all ranks are ended"
        )
    name = signal.Signals(number).name if number in set(signal.Signals) else "?"
    why = f"killed by signal {number} ({name})"
    process = f"process {one.process} on {one.host}"
    memory = ", as the system does where memory runs out" if number == signal.SIGKILL else ""
    if ranks:
        also = f" ({named_ranks(list(map(int, ranks[1:])))} too)" if ranks[1:] else ""
        return f"rulegrad: rank {one.rank} ({process}) was {why}{memory}{also}; all ranks are ended"
    if not memory:
        return f"rulegrad: the {process} was {why}; all ranks are ended"
    # the signal by which mpiexec ends the other ranks, and it may name one of these
    return (
        f"rulegrad: a rank was {why}{memory}; all ranks are ended. mpiexec names the {process}, which may be one that "
        "it has ended itself"
    )
