"""Running a user's script, and writing down every graph that goes through a pass meanwhile."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType

from rulegrad.compile import forget_kernels
from rulegrad.engine import watching
from rulegrad.engine.pass_run import PassRun
from rulegrad.engine.watching import CompiledKernel
from rulegrad.errors import ConfigError
from rulegrad.ir import UOp
from rulegrad.workbench.explaining.runs import Subject


class Recording:
    """The graphs, passes and targets of what runs inside a `with` block, each once."""

    def __init__(self) -> None:
        self._subjects: dict[Subject, None] = {}
        self._begun: UOp | None = None  # the graph of a pass that has not ended
        self._target: str | None = None

    @property
    def subjects(self) -> list[Subject]:
        """In order. The graph of a pass that could not be run is the last, and without the pass's name."""
        begun = [] if self._begun is None else [Subject(self._begun, "", self._target)]
        return [*self._subjects, *begun]

    def __enter__(self) -> Recording:
        forget_kernels()
        watching.watchers.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        watching.watchers.remove(self)

    def follows(self, graph: UOp) -> Sequence[UOp]:
        self._begun = graph
        return ()

    def ran(self, run: PassRun) -> None:
        self._begun, self._target = None, run.target
        # one that failed too: the question may be about it
        self._subjects.setdefault(Subject(run.before, run.name, run.target))

    def failed(self, name: str, target: str | None, graph: UOp, problem: str) -> None:
        pass

    def compiled(self, graph: UOp, kernel: CompiledKernel, target: str) -> None:
        pass


def run_script(path: str, arguments: Sequence[str]) -> str:
    """Runs a program as `python PATH ARGUMENTS` does; what went wrong, in one line, or "".

    Raises ConfigError for a file that cannot be read.
    """
    if not os.path.isfile(path):
        raise ConfigError(f"the script {path} cannot be read: there is no such file")
    before, folders = sys.argv, sys.path
    sys.argv, sys.path = [path, *arguments], [os.path.dirname(os.path.abspath(path)), *folders]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        return "" if end.code in (None, 0) else f"{path} ended with the status {end.code}"
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        number = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
        line = f":{number}" if number else ""
        if isinstance(error, SyntaxError):
            return f"{path}{line}: SyntaxError: {error.msg}"
        return f"{path}{line}: {type(error).__name__}: {error}"
    finally:
        sys.argv, sys.path = before, folders
    return ""
