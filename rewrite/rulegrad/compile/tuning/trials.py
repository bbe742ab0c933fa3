"""Kernels tried in child processes with time-outs: what crashes, hangs or is wrong is told, and harms nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from rulegrad.compile.tuning.child import described_kernel
from rulegrad.config import config
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.probe import status

_START_SECONDS: Final = 60.0
_BUILD_SECONDS: Final = 30.0


class BadKernelError(Exception):
    """A kernel that crashed, hung (is_late), could not be built or computed something wrong: why."""

    def __init__(self, problem: str, is_late: bool = False) -> None:
        super().__init__(problem)
        self.is_late = is_late


class TimeIsUpError(Exception):
    """There was no time left to know."""


class Child:
    """One process, started when it is first asked, and again after it ended."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._process: subprocess.Popen[str] | None = None
        self._is_over = False
        self._first: list[dict[str, Any]] = []  # requests that a new process gets first

    def prepare(self, seconds: float, **request: Any) -> None:
        """A request that a process which is started again gets too."""
        self._first = []
        self.ask("prepare", seconds, **request)
        self._first = [{"do": "prepare", **request}]

    def ask(self, what: str, seconds: float, **request: Any) -> dict[str, Any]:
        """The answer. Raises BadKernelError, also where the process ended or did not answer in time."""
        self._start()
        return self._asked({"do": what, **request}, seconds)

    def end(self, is_over: bool = False) -> None:
        """Ends the process, whatever it does, with the compiler that it runs. is_over: no other is started."""
        self._is_over |= is_over
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            process.communicate()

    def _start(self) -> None:
        if self._is_over:
            raise BadKernelError("the search was ended")
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rulegrad.compile.tuning.child", self._device], text=True, env=_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt is not for it
        )  # fmt: skip
        self._read(_START_SECONDS)
        for request in self._first:
            self._asked(request, _START_SECONDS)

    def _asked(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({**request, "limit": seconds}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # reading says why
        return self._read(seconds)

    def _read(self, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdout is not None
        late = threading.Timer(seconds, _kill, [process])
        late.start()
        try:
            line = process.stdout.readline()
        finally:
            is_late = not late.is_alive()
            late.cancel()
        if not line.endswith("\n"):
            self.end()
            code = process.returncode
            problem = f"did not end in {seconds:.1f} s" if is_late else f"ended the process: {status(code)}"
            raise BadKernelError(problem, is_late)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BadKernelError(answer["error"].splitlines()[0][:200] if answer["error"] else "failed")
        return answer


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a process and those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
        else:
            process.kill()


def _environment() -> dict[str, str]:
    """The settings in force here, as far as they say how a kernel runs."""
    given = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "RULEGRAD_CACHE": str(config.cache),
        "RULEGRAD_THREADS": str(config.threads),
        "RULEGRAD_BACKENDS": os.pathsep.join(config.backends),
        "RULEGRAD_DEVICE": "",
    }
    others = dict.fromkeys(("CHECK", "DEBUG", "SEARCH", "RULES_LIMIT", "RULES_OFF", "RULES_ORDER"), "")
    return {**os.environ, **others, **given}


class Trials:
    """Children for one device; the first measures, all build. A context manager, whose end ends them."""

    def __init__(self, device: str, count: int, seconds: float = 10.0) -> None:
        """seconds: that launches of a kernel on samples may take."""
        self.seconds = seconds
        self._children = [Child(device) for _ in range(max(1, count))]
        self._folder = tempfile.TemporaryDirectory(prefix="rulegrad-")
        self._number = 0

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.end(is_over=True)
        self._folder.cleanup()

    def prepare(self, kernel: Kernel, slots: Sequence[Any], tolerances: Sequence[float], writes_inputs: bool) -> None:
        """Makes samples for the slots, and results by the kernel that others are compared with.

        slots: shapes and dtypes. tolerances: of each, as a share of its largest number; 0 for equal.
        Raises BadKernelError where that kernel fails.
        """
        self._number += 1
        results = Path(self._folder.name) / f"{self._number}.npz"
        self._children[0].prepare(
            _BUILD_SECONDS + 2 * self.seconds, kernel=described_kernel(kernel), slots=list(slots),
            tolerances=list(tolerances), writes_inputs=writes_inputs, results=str(results),
        )  # fmt: skip

    def build(self, kernels: Sequence[Kernel], left: float) -> list[str | None]:
        """Builds kernels, several at a time; for each why it is bad, or "".

        left: seconds that there are; None for a kernel that would have needed more.
        """
        end = time.perf_counter() + left

        def built(place: int) -> Iterator[tuple[int, str | None]]:
            for number in range(place, len(kernels), len(self._children)):
                seconds = min(_BUILD_SECONDS, end - time.perf_counter())
                try:
                    if seconds > 0:
                        self._children[place].ask("build", seconds, kernel=described_kernel(kernels[number]))
                    yield number, "" if seconds > 0 else None
                except BadKernelError as problem:
                    is_known = seconds == _BUILD_SECONDS or not problem.is_late
                    yield number, f"building it: {problem}" if is_known else None

        with ThreadPoolExecutor(len(self._children)) as pool:
            try:
                parts = list(pool.map(lambda place: list(built(place)), range(len(self._children))))
            except BaseException:  # an interrupt does not wait for compilers
                for child in self._children:
                    child.end(is_over=True)
                raise
        return [problem for _, problem in sorted((pair for part in parts for pair in part), key=lambda pair: pair[0])]

    def measure(self, kernel: Kernel, seconds: float, left: float, beside: Kernel | None = None) -> tuple[float, float]:
        """The least seconds of a launch, of so many seconds of launches, and those of a kernel beside it.

        The two take turns; without one beside it both numbers are its own. left: seconds that there are. Raises
        BadKernelError for a kernel that is wrong, or ended the process, and TimeIsUpError where it did not end before
        the time was up.
        """
        limit = min(self.seconds, max(left, 0.1))
        other = described_kernel(beside) if beside is not None else None
        try:
            answer = self._children[0].ask(
                "measure", limit, kernel=described_kernel(kernel), spend=seconds, beside=other
            )
        except BadKernelError as problem:
            if limit < self.seconds and problem.is_late:
                raise TimeIsUpError from None
            raise
        if "wrong" in answer:
            raise BadKernelError(answer["wrong"])
        return float(answer["seconds"]), float(answer["beside"])
