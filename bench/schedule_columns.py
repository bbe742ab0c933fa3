"""The columns of bench/schedule.py: a library each, in a process that prepares rows and runs turns when it is asked to.

A request and its answer are one line of JSON each. A process that fails, or takes too long, is started again for the
next row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import note

SCRIPT = Path(__file__).resolve().parent / "schedule.py"
START_SECONDS = 300
#: the settings of a number of threads: of PyTorch, of the device c, of PoCL and of Intel's OpenCL
THREADS = ("OMP_NUM_THREADS", "RULEGRAD_THREADS", "POCL_MAX_PTHREAD_COUNT", "DPCPP_CPU_NUM_CUS")


class ColumnError(Exception):
    """A request was not answered, or with an error: why."""


@dataclass
class Column:
    """A library with its settings: `options` are those of `serve`, `environment` is added to the process's own."""

    name: str
    options: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 600.0  # that preparing a row may take
    description: str = ""
    _process: subprocess.Popen[str] | None = None

    @property
    def is_ours(self) -> bool:
        return bool(self.options["library"] == "rulegrad")

    def start(self) -> None:
        """Starts the process. Raises ColumnError where the library is not there."""
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "child", json.dumps(self.options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **self.environment}, start_new_session=True,  # an interrupt is not for it
        )  # fmt: skip
        self.description = self._read(START_SECONDS)["description"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request. Raises ColumnError."""
        if self._process is None:
            self.start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # reading says why
        return self._read(self.seconds)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _read(self, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdout is not None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        line = process.stdout.readline()
        in_time = timer.is_alive()
        timer.cancel()
        if not line:
            self.end()
            why = f"ended with status {process.returncode}" if in_time else f"not finished after {seconds:.0f} s"
            raise ColumnError(why)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ColumnError(answer["error"])
        return answer


def columns_of(devices: list[str], folder: Path | None, compiled: bool, threads: int, search: str = "") -> list[Column]:
    """The columns that work here, started; PyTorch is the first to run, for its results are those compared with.

    search: for so long each kernel's schedules are searched, in further columns; the others have the model's choice.
    """
    pool = dict.fromkeys(THREADS, str(threads))
    wanted = [Column("torch", {"library": "torch", "compiled": False, "threads": threads}, pool)]
    for name in devices:
        is_compiler = name in ("clang", "gcc")
        command = {"CC": compiler_named(name)} if is_compiler else {}
        options = {"library": "rulegrad", "device": "c" if is_compiler else name, "threads": threads}
        own = {**pool, **command, "SEARCH": "", "RULEGRAD_TUNED": str(Path(tempfile.gettempdir()) / "none" / "found")}
        wanted.append(Column(name, options, own))
        if search:
            found = Path(tempfile.mkdtemp(prefix="rulegrad-")) / "found.jsonl"
            searched = {**own, "SEARCH": search, "RULEGRAD_TUNED": str(found)}
            wanted.append(Column(f"{name}, searched", options, searched, seconds=3600.0))
    if compiled:
        wanted.append(Column("torch.compile", {"library": "torch", "compiled": True, "threads": threads}, pool))
    if folder is not None:
        for name in ("clang", "gcc"):
            recipes = {"library": "recipes", "folder": str(folder), "compiler": compiler_named(name)}
            wanted.append(Column(f"recipe, {name}", {**recipes, "threads": threads}, pool))
    return [column for column in wanted if _starts(column)]


def compiler_named(name: str) -> str:
    """The newest compiler of that name among those that the device c looks for; the name itself where there is none."""
    import shutil

    from rulegrad.runtime.backends import backend

    known = backend("c").module.compilers.candidates()
    return next((command for command in known if command.startswith(name) and shutil.which(command)), name)


def _starts(column: Column) -> bool:
    try:
        column.start()
    except ColumnError as failure:
        note(f"{column.name} is left out: {failure}")
        return False
    return True


def serve(options: dict[str, Any]) -> None:
    """Answers requests until the input ends. What a library prints goes nowhere near the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        from schedule_cases import cases

        library, description = _library_of(options)
        known = {case.name: case for case in cases()}
    except Exception as error:
        answer(error=_shown(error))
        return
    answer(description=description)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                answer(**_prepare(library, known[request["row"]], request))
            else:
                if request["warm"]:
                    library.turn()
                answer(seconds=_seconds(library, options["threads"]))
        except Exception as error:
            answer(error=_shown(error))


def _seconds(library: Any, threads: int) -> float:
    """Of one turn. With one thread the processor's time bounds it too, which leaves out what other programs take."""
    start = time.process_time()
    elapsed: float = library.turn()
    return min(elapsed, time.process_time() - start) if threads == 1 else elapsed


def _library_of(options: dict[str, Any]) -> tuple[Any, str]:
    from schedule_libraries import Recipes, Rulegrad, Torch

    kind = options["library"]
    if kind == "recipes":
        folder, compiler = Path(options["folder"]), options["compiler"]
        return Recipes(folder, compiler, options["threads"]), f"kernels written by hand, by {compiler}"
    if kind == "torch":
        library = Torch(options["threads"], options["compiled"])
        return library, f"PyTorch {library.version}"
    found = Rulegrad(options["device"])
    return found, found.description


def _prepare(library: Any, case: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Runs a row for the first time. Its results are compared with those in a file, which the first to run writes."""
    import numpy as np

    from schedule_libraries import difference

    found = library.prepare(case, request["plan"])
    path = Path(request["results"])
    if found.results and not path.exists():
        np.savez(path, *found.results)
    elif found.results:
        with np.load(path) as kept:
            error = difference([np.asarray(a, np.float64) for a in found.results], [kept[name] for name in kept.files])
        if error > case.tolerance:
            return {"error": f"wrong: differs by {error:.1e}"}
    return {"seconds": found.seconds, "kernels": found.kernels, "estimate": found.estimate}


def _shown(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]
