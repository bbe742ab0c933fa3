"""`torch.multiprocessing`: Python's own module, and `spawn`. Tensors that go to another process are copied."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import DataError

__all__ = [
    "ProcessContext", "get_all_sharing_strategies", "get_context", "get_sharing_strategy", "get_start_method",
    "set_sharing_strategy", "set_start_method", "spawn", "start_processes",
]  # fmt: skip

get_context, get_start_method = multiprocessing.get_context, multiprocessing.get_start_method
set_start_method = multiprocessing.set_start_method


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(multiprocessing, name)  # Queue, Process, Manager and what else Python's has


def get_all_sharing_strategies() -> set[str]:
    """One: tensors are copied."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """How tensors go to other processes.

    >>> get_sharing_strategy()
    'file_system'
    """
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: tensors are copied, whatever the name is."""


class ProcessContext:
    """Processes that `spawn` has started."""

    def __init__(self, processes: Sequence[Any], answers: Any) -> None:
        self.processes, self._answers = list(processes), answers

    def pids(self) -> list[int]:
        """The numbers that the system has given them."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits for one to end, and says whether all have. Raises DataError, with its text, where one has failed."""
        waiting = [process for process in self.processes if process.is_alive()]
        multiprocessing.connection.wait([process.sentinel for process in waiting], timeout)
        failed = [process for process in self.processes if process.exitcode not in (None, 0)]
        if not failed:
            return all(process.exitcode == 0 for process in self.processes)
        for process in self.processes:
            process.terminate()
        number = self.processes.index(failed[0])
        text = self._answers.get() if not self._answers.empty() else f"it ended with {failed[0].exitcode}"
        raise DataError(f"process {number} of spawn has failed:\n{text}")


def _run(function: Callable[..., Any], number: int, arguments: tuple[Any, ...], answers: Any) -> None:
    try:
        function(number, *arguments)
    except KeyboardInterrupt:
        raise
    except Exception:
        answers.put(traceback.format_exc())
        raise SystemExit(1) from None


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs `fn(number, *args)` in so many processes, and waits for them, or returns what waits for them."""
    context: Any = multiprocessing.get_context(start_method)
    answers = context.SimpleQueue()
    processes = [
        context.Process(target=_run, args=(fn, number, args, answers), daemon=daemon) for number in range(nprocs)
    ]
    for process in processes:
        process.start()
    started = ProcessContext(processes, answers)
    if not join:
        return started
    while not started.join():
        pass
    return None


spawn = start_processes
