"""One rank of a program: `python -m rulegrad launch` starts it on each core's share, and it runs the script.

What it does comes before NumPy and drivers start their threads, which must know the cores that the rank has.
"""

from __future__ import annotations

import argparse
import io
import os
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rulegrad.errors import RulegradError
from rulegrad.support.watched import in_a_watched_process

# Of the rank among those of its machine, and how many these are: MPICH and Intel's MPI, Open MPI, SLURM.
_LOCAL = (
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


def main(arguments: Sequence[str]) -> int:
    """Runs a script, or a module, as a rank. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rulegrad.workbench.rank")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--all-cores", action="store_true")
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if sys.platform == "linux":
        in_a_watched_process()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # lines come at once, and as a whole, so that ranks do not mix them
        sys.stdout.reconfigure(line_buffering=True, write_through=False)
    here, there = local_rank(os.environ)
    if not given.all_cores and hasattr(os, "sched_setaffinity"):
        cores = share(sorted(os.sched_getaffinity(0)), here, there)
        os.sched_setaffinity(0, cores)
        os.environ.setdefault("RULEGRAD_THREADS", str(len(cores)))
    if given.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus_of(os.environ.get("CUDA_VISIBLE_DEVICES", ""), here, given.gpus)
    return _run(given)


def local_rank(environment: Mapping[str, str]) -> tuple[int, int]:
    """Which of the ranks of its machine a process is, and how many these are.

    >>> local_rank({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}), local_rank({})
    ((1, 4), (0, 1))
    """
    for rank, ranks in _LOCAL:
        if environment.get(rank, "").isdecimal() and environment.get(ranks, "").isdecimal():
            return int(environment[rank]), int(environment[ranks])
    return 0, 1


def share(cores: Sequence[int], rank: int, ranks: int) -> list[int]:
    """The cores of one of the ranks of a machine; ranks share cores where there are fewer.

    >>> share([0, 1, 2, 3, 4], 1, 2), share([0, 1], 2, 3)
    ([2, 3, 4], [0])
    """
    if ranks > len(cores):
        return [cores[rank % len(cores)]]
    return list(cores[rank * len(cores) // ranks : (rank + 1) * len(cores) // ranks])


def gpus_of(visible: str, rank: int, count: int) -> str:
    """The GPUs of a rank, as NVIDIA's driver reads them: the next `count` of those that are visible.

    >>> gpus_of("", 1, 2), gpus_of("4,5", 1, 1)
    ('2,3', '5')
    """
    named = visible.split(",") if visible else [str(number) for number in range((rank + 1) * count)]
    return ",".join(named[rank * count : (rank + 1) * count])


def _run(given: argparse.Namespace) -> int:
    from rulegrad.communication import current, endings  # late: NumPy comes with it, whose threads ask for the cores
    from rulegrad.communication.mpi import MpiWorld  # late: NumPy comes with it, too

    try:
        world = current.connected()
        if world.size != given.ranks:
            current.refuse(world.size, given.ranks)
    except RulegradError as error:
        print(f"rulegrad: {error}", file=sys.stderr, flush=True)
        return 1
    try:
        _program(given)
    except SystemExit as stopped:
        status = _status(stopped.code)
        if status and isinstance(world, MpiWorld):
            endings.fail(world, f"it ended by sys.exit({stopped.code!r})", status)
        return status
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, _of_program(error.__traceback__)))
        if isinstance(world, MpiWorld):
            endings.fail(world, text, 1)
        print(text, file=sys.stderr, end="", flush=True)
        return 1
    return 0


def _program(given: argparse.Namespace) -> None:
    sys.argv = [given.program, *given.arguments]
    if given.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(given.program).resolve().parent)
        runpy.run_path(given.program, run_name="__main__")


def _status(code: object) -> int:
    """The exit status of sys.exit(code), as Python has it."""
    if isinstance(code, int) or code is None:
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the program on, without what runs it."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        found = found.tb_next
    return found if found is not None else trace


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
