"""Ranks that are processes: collectives, and what is said when a rank fails. Few ranks, started by the launcher."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rulegrad.communication.current import started_ranks
from rulegrad.communication.mpi import INSTALL
from rulegrad.workbench.rank import gpus_of, local_rank, share
from rulegrad.workbench.tools import launch

PROGRAM = Path(__file__).with_name("rank_program.py")

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="a process is told of its parent's end on Linux only")
needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)


def launched(
    *arguments: str, ranks: int = 3, starter: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A run of the program that has ended, by the launcher or by a command of its own."""
    line = starter or (sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks))
    own = {**os.environ, "RULEGRAD_DEVICE": "numpy", **(environment or {})}
    return subprocess.run([*line, *arguments], env=own, capture_output=True, text=True, timeout=120, check=False)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3, *(pytest.param(ranks, marks=pytest.mark.long_run) for ranks in (4, 8))])
def test_every_collective_in_every_dtype(ranks: int) -> None:
    done = launched(str(PROGRAM), "every", ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert sorted(int(line.split()[1]) for line in done.stdout.splitlines()) == list(range(ranks))


@needs_mpi
@pytest.mark.parametrize("what", ["groups", "large"])
def test_groups_and_large_arrays(what: str) -> None:
    done = launched(str(PROGRAM), what, ranks=4)
    assert done.returncode == 0, done.stderr


@needs_mpi
def test_arguments_a_prefix_and_one_rank() -> None:
    done = launched("--prefix", str(PROGRAM), "fine", "--more", "-n", ranks=2)
    assert done.returncode == 0, done.stderr
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert sorted(done.stdout.split("\n")[:2]) == [f"[{rank}] fine {rank} {threads} --more -n" for rank in (0, 1)]
    assert launched(str(PROGRAM), "one", ranks=1).returncode == 0


#: What rank 1 of 3 does, the exit status, and what is said once.
FAILURES = {
    "raise": (1, "rank 1 of 3 failed; all ranks are ended:\nTraceback", "ValueError: no data\n"),
    "kill": (137, "rank 1 (process ", "was killed by signal 9 (SIGKILL), as the system does where memory runs out"),
    "crash": (139, "rank 1 (process ", "was killed by signal 11 (SIGSEGV)"),
    "leave": (7, "rank 1 (process ", "ended with status 7 without telling the others"),
    "leave well": (1, "rank 1 (process ", "ended with status 0 without telling the others"),
    "exit": (3, "rank 1 of 3 failed; all ranks are ended:\nit ended by sys.exit(3)\n", ""),
    "end": (1, "CommunicationError: all_reduce (sum) of 1000 float32", "rank 1 ended before it"),
    "count": (1, "ranks do not do the same", "count=12"),
    "dtype": (1, "ranks do not do the same", "dtype='int32'"),
    "late": (1, "it has not ended within 1 s", "rank 1 waits for no other rank, at rank_program.py:"),
    "expected": (1, "ranks do not do the same", "rank 1 (2, 3)"),
    "same": (1, "ranks do not do the same", "check_same of shape"),
}


@needs_mpi
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long_run if what in ("crash", "dtype") else ()) for what in FAILURES]
)
def test_a_rank_that_fails_ends_all(what: str) -> None:
    status, *texts = FAILURES[what]
    done = launched(str(PROGRAM), what)
    assert done.returncode == status, done.stderr
    assert done.stderr.count("rulegrad: ") == 1, done.stderr
    assert all(text in done.stderr for text in texts), done.stderr
    assert "BAD TERMINATION" not in done.stdout and "Abort(" not in done.stderr


class Waiting:
    """A program under the launcher whose ranks wait: `ranks` has their processes."""

    def __init__(self, folder: Path, ranks: int, *options: str) -> None:
        program = folder / "waits.py"
        program.write_text("import os, time\nprint(os.environ['PMI_RANK'], os.getpid(), flush=True)\ntime.sleep(60)\n")
        line = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), *options, str(program)]
        self.launcher = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.launcher.stdout is not None
        self.ranks = dict(map(int, self.launcher.stdout.readline().split()[-2:]) for _ in range(ranks))

    def ended(self) -> tuple[int, str]:
        """The launcher's exit status and what it said."""
        _, said = self.launcher.communicate(timeout=30)
        return self.launcher.returncode, said

    def require_end(self) -> None:
        """All ranks end within seconds."""
        until = time.monotonic() + 10
        while left := [process for process in self.ranks.values() if Path(f"/proc/{process}").exists()]:
            assert time.monotonic() < until, left
            time.sleep(0.05)


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_ended_ends_the_ranks(number: signal.Signals, tmp_path: Path) -> None:
    started = Waiting(tmp_path, 2)
    started.launcher.send_signal(number)
    status, said = started.ended()
    assert status == 128 + number and "rulegrad: " not in said
    started.require_end()


@needs_mpi
@needs_linux
def test_the_ranks_end_with_a_launcher_or_an_mpiexec_that_is_killed(tmp_path: Path) -> None:
    started = Waiting(tmp_path, 2)
    started.launcher.kill()
    started.require_end()
    started.ended()
    started = Waiting(tmp_path, 2)
    (mpiexec,) = Path(f"/proc/{started.launcher.pid}/task/{started.launcher.pid}/children").read_text().split()
    os.kill(int(mpiexec), signal.SIGKILL)
    started.require_end()
    assert started.ended()[0] == 137


@needs_mpi
@needs_linux
@pytest.mark.parametrize("rank", [0, 2])
def test_the_rank_that_was_killed_is_named(rank: int, tmp_path: Path) -> None:
    started = Waiting(tmp_path, 3, *(["--prefix"] if rank else []))
    process = started.ranks[rank]
    os.kill(process, signal.SIGKILL)
    status, said = started.ended()
    assert status == 137
    assert said.startswith(f"rulegrad: rank {rank} (process {process} on ") and said.count("\n") == 1, said
    started.require_end()


@needs_linux
def test_ranks_that_are_killed_at_the_same_time() -> None:
    killed = [launch._Killed(rank, "7", "here", 9) for rank in "201"]
    text = launch._message([one.rank for one in killed], killed[0])
    assert text.startswith("rulegrad: rank 2 (process 7 on here) was killed by signal 9 (SIGKILL)")
    assert "(ranks 0, 1 too)" in text
    assert "mpiexec names the process 7 on here, which may be one" in launch._message([], killed[0])


@needs_mpi
@pytest.mark.parametrize(
    ("what", "status", "text"),
    [("raise", 1, "Traceback"), ("leave", 7, "it ended by os._exit(7)"), ("leave well", 1, "it ended by os._exit(0)")],
)
def test_without_the_launcher_too(what: str, status: int, text: str) -> None:
    done = launched("-n", "2", sys.executable, str(PROGRAM), what, starter=(launch.mpiexec(),))
    assert done.returncode == status
    assert done.stderr.count(f"rulegrad: rank 1 of 2 failed; all ranks are ended:\n{text}") == 1, done.stderr


@needs_mpi
@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("rules", "setting rules_off=()", "setting rules_off=('algebra.zero',)"),
        ("device", "device c", "device numpy"),
        (
            "settings",
            "setting default_dtype='float32', setting longest_graph=8",
            "setting default_dtype='float64', setting longest_graph=7",
        ),
    ],
)
def test_ranks_that_run_something_else_are_refused(what: str, first: str, second: str) -> None:
    done = launched(str(PROGRAM), what)
    assert done.returncode == 1
    said = f"what runs must be the same on all ranks, but there are:\n    ranks 0, 2: {first}\n    rank 1: {second}\n"
    assert said in done.stderr, done.stderr


COUNTED = """\
#!/bin/sh
echo "$@" >> "$COMPILED"
exec gcc "$@"
"""
COMPILING = """\
from rulegrad import Tensor, communication
communication.world()
print(((Tensor([[1.0, 2.0], [3.0, 4.0]]) @ Tensor([[1.0], [2.0]])).exp() + 1).sum().item())
"""


@needs_mpi
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")
def test_ranks_compile_each_kernel_once(tmp_path: Path) -> None:
    """On one machine, from an empty cache: as many runs of the compiler as with one rank, that of its trials too."""
    (tmp_path / "cc").write_text(COUNTED)
    (tmp_path / "cc").chmod(0o700)
    (tmp_path / "program.py").write_text(COMPILING)
    runs = {}
    for ranks in (1, 3):
        own = {"CC": str(tmp_path / "cc"), "COMPILED": str(tmp_path / f"{ranks}"), "RULEGRAD_DEVICE": "c"}
        own["RULEGRAD_CACHE"] = str(tmp_path / f"cache{ranks}")
        done = launched(str(tmp_path / "program.py"), ranks=ranks, environment=own)
        assert done.returncode == 0, done.stderr
        runs[ranks] = (tmp_path / f"{ranks}").read_text().count("\n")
    assert runs[1] == runs[3] > 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-n", "0", str(PROGRAM)), "at least 1, not 0"),
        (("nowhere.py",), "there is no script 'nowhere.py'"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], text: str) -> None:
    done = launched(*arguments, starter=(sys.executable, "-m", "rulegrad", "launch"))
    assert done.returncode == 1
    assert done.stderr == f"rulegrad: launch: {done.stderr.partition('launch: ')[2]}" and text in done.stderr


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from rulegrad.errors import CommunicationError

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CommunicationError, match=r"mpi4py is missing; pip install"):
        launch.main([str(PROGRAM)])
    monkeypatch.undo()
    monkeypatch.setattr(launch.shutil, "which", lambda name, path=None: None)
    with pytest.raises(CommunicationError, match=r"no mpiexec; pip install"):
        launch.mpiexec()


def test_who_started_a_process() -> None:
    assert started_ranks({"OMPI_COMM_WORLD_SIZE": "3"}) == 3
    assert started_ranks({"SLURM_NTASKS": "3", "SLURM_STEP_ID": "0"}) == 3
    assert started_ranks({"SLURM_NTASKS": "3"}) == 1
    assert local_rank({"SLURM_LOCALID": "2", "SLURM_NTASKS_PER_NODE": "4"}) == (2, 4)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_cores_are_divided(ranks: int) -> None:
    shares = [share(range(10, 15), rank, ranks) for rank in range(ranks)]
    assert sorted(core for cores in shares for core in cores) == list(range(10, 15))
    assert [gpus_of("a,b,c,d", rank, 2) for rank in (0, 1)] == ["a,b", "c,d"]
