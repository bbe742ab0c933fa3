"""Workers of a loader: threads, and processes, each behind a thread that sends it tasks and waits for its answers.

A thread for each process keeps the two in step: a worker is sent a task only when it has answered the one before, so
neither waits for the other with a full pipe, and a process that dies ends that thread's waiting.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import threading
import traceback
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from queue import SimpleQueue
from typing import Any, Final

from rulegrad.config import config
from rulegrad.data._collate import to_host
from rulegrad.data._fetching import Setup, Task, WorkerFetcher
from rulegrad.errors import DataError

#: Seconds for a process to end when it is asked to; then it is ended.
_PATIENCE: Final = 5.0


@dataclass(frozen=True)
class _Failure:
    """An error that a process raised: the exception where it can be sent, and its traceback."""

    exception: BaseException | None
    traceback: str


class ThreadWorker:
    """A thread that makes batches."""

    def __init__(self, setup: Setup) -> None:
        self._requests: SimpleQueue[tuple[Task, Future[Any]] | None] = SimpleQueue()
        self._waiting: list[Future[Any]] = []
        self._thread = threading.Thread(target=self._run, name=f"loader-{setup.worker}", daemon=True)
        self._setup = setup

    def start(self) -> None:
        self._fetch = WorkerFetcher(self._setup, own_process=False)
        self._thread.start()

    def submit(self, task: Task) -> Future[Any]:
        """Ask for a batch; tasks are done in order."""
        future: Future[Any] = Future()
        self._waiting = [one for one in self._waiting if not one.done()] + [future]
        self._requests.put((task, future))
        return future

    def stop(self, at_once: bool = False) -> None:
        """End the worker, after the batch that it is making unless `at_once`; what else was asked for is cancelled."""
        for future in self._waiting:
            future.cancel()
        self._requests.put(None)
        if not at_once:
            self._thread.join()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            task, future = request
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._answer(task))
                except BaseException as error:
                    future.set_exception(error)
            del request, task, future  # while it waits it would hold the batch
        self._end()

    def _answer(self, task: Task) -> Any:
        return self._fetch(task)

    def _end(self) -> None:
        """In the thread, when it ends."""


class ProcessWorker(ThreadWorker):
    """A process that makes batches, and the thread that talks to it."""

    def __init__(self, setup: Setup, context: BaseContext) -> None:
        super().__init__(setup)
        self._connection, theirs = context.Pipe()
        # A fork copies our end, too: while somebody has it open, a worker would not see that the program is gone.
        copied = self._connection if context.get_start_method() == "fork" else None
        self._process = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(theirs, copied, setup), name=f"loader-{setup.worker}", daemon=True
        )
        self._process.start()
        theirs.close()

    def start(self) -> None:
        # After all processes are made: a fork copies no thread of ours.
        self._thread.start()

    def stop(self, at_once: bool = False) -> None:
        if at_once:
            self._process.kill()
        super().stop()

    def _answer(self, task: Task) -> Any:
        try:
            self._connection.send(task)
            if self._connection not in wait([self._connection, self._process.sentinel]):
                raise EOFError
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if not isinstance(answer, _Failure):
            return answer
        cause = DataError(f"worker {self._setup.worker} of a loader raised this:\n{answer.traceback}")
        if answer.exception is None:
            raise cause
        raise answer.exception from cause

    def _death(self) -> DataError:
        self._process.join(_PATIENCE)
        code = self._process.exitcode
        how = f"exited with status {code}" if code is None or code >= 0 else f"was killed by {_signal_name(-code)}"
        return DataError(
            f"worker {self._setup.worker} of a loader (process {self._process.pid}) {how}. Where the system ended it "
            "for want of memory, use fewer workers, smaller batches or a smaller prefetch_factor"
        )

    def _end(self) -> None:
        with contextlib.suppress(OSError):  # it may have ended already
            self._connection.send(None)
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(connection: Connection, copied: Connection | None, setup: Setup) -> None:
    """The life of a process: it answers tasks until there are no more, or nobody is there to ask."""
    if copied is not None:
        copied.close()
    # Ctrl-C ends it without a traceback of its own: that of the program says where it was.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Drivers of accelerators do not survive a fork, and the device is for training.
    config.device = "numpy"
    fetch = WorkerFetcher(setup, own_process=True)
    try:
        while (task := connection.recv()) is not None:
            try:
                answer = to_host(fetch(task))
                message = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                message = pickle.dumps(_failure(error), pickle.HIGHEST_PROTOCOL)
            connection.send_bytes(message)
    except (EOFError, OSError):
        return  # the program has ended, perhaps by force


def _failure(error: Exception) -> _Failure:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        return _Failure(None, text)
    return _Failure(error if type(again) is type(error) else None, text)
