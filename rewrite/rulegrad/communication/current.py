"""The world of this process, by the variables of who started it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Final, NoReturn

from rulegrad import __version__, engine
from rulegrad.communication.in_process import InProcess
from rulegrad.communication.worlds import World
from rulegrad.config import config
from rulegrad.errors import CommunicationError
from rulegrad.runtime import devices
from rulegrad.support import forks

#: Variables with the number of ranks, or of a rank in more than one process: of MPICH and Intel's MPI, Open MPI, SLURM.
STARTED: Final = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")

#: Settings that decide what is computed, or which steps ranks take together; the others may differ.
COMPARED: Final = (
    "default_dtype", "rules_off", "rules_order", "rules_strict", "rules_limit", "check", "check_indices", "detect_nan",
    "general_plans", "longest_graph",
)  # fmt: skip

_lock = forks.lock()
_world: World | None = None
_same = False  # whether the ranks have been compared


def world() -> World:
    """The ranks of this program: those that `mpiexec`, `python -m rulegrad launch` or `srun` started, else one.

    The first call on a rank is one that all ranks make: they compare what they run. Raises CommunicationError where
    they have other rules, settings that decide what is computed, versions of rulegrad or Python, or kinds of devices,
    or where mpi4py is missing.

    >>> world().size
    1
    """
    global _same
    found = connected()
    with _lock:
        if not _same:
            found.check_same("what runs", identity()) if found.size > 1 else None
            _same = True
    return found


def connected() -> World:
    """The same, before the ranks have compared what they run."""
    global _world
    with _lock:
        if _world is None:
            _world = _from_mpi() if started_ranks(os.environ) > 1 else InProcess(1)
        return _world


def shared_seed() -> int | None:
    """A number that nobody knows before, the same on all ranks of this program; None where there is one rank.

    None too before the ranks have been connected, which the launcher does before the program starts.

    >>> shared_seed() is None
    True
    """
    return getattr(_world, "seed", None)


def started_ranks(environment: Mapping[str, str]) -> int:
    """How many ranks a program was started with, at least two where only that there are ranks is known.

    >>> started_ranks({"PMI_SIZE": "4"}), started_ranks({"SLURM_NTASKS": "8"}), started_ranks({})
    (4, 1, 1)
    """
    for name in STARTED:
        if name == "SLURM_NTASKS" and "SLURM_STEP_ID" not in environment:
            continue  # a batch script, which is itself no step of srun
        if environment.get(name):
            return 2 if name == "PMIX_RANK" else int(environment[name])
    return 1


def identity() -> str:
    """The text that must be the same on all ranks, a line each: rulegrad, Python, rules, device, settings."""
    return "\n".join(
        (
            f"rulegrad {__version__}",
            f"Python {platform.python_version()} ({sys.byteorder} endian)",
            f"rules {engine.loaded().sources.text_key}",
            f"device {devices.default().partition(':')[0]}",
            *(f"setting {name}={getattr(config, name)!r}" for name in COMPARED),
        )
    )


def _from_mpi() -> World:
    from rulegrad.communication import endings  # late: it takes MPI, which few programs need
    from rulegrad.communication.mpi import MpiWorld  # late: it takes MPI, which few programs need

    found = MpiWorld()
    if found.size == 1:
        refuse(1, started_ranks(os.environ))
    endings.watch(found)
    return found


def refuse(connected: int, started: int) -> NoReturn:
    """Raises CommunicationError, for MPI does not connect the processes that were started."""
    raise CommunicationError(
        f"{started} processes were started, but MPI connects {connected} of them: mpi4py uses another MPI than the "
        "one that started them; use the mpiexec of that MPI, `srun --mpi=pmi2`, or `python -m rulegrad launch`"
    )
