"""Passes on kernels: all at once in parallel, or one by one where somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rulegrad import engine
from rulegrad.compile.checking import checks
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.ir import UOp

#: The first passes of the pipeline `kernel`: a kernel is isolated and numbered when it is cut out of the schedule, and
#: is given parts of buffers before equal kernels are found.
BEFORE_LOWERING: Final = ("isolate_kernels", "number_buffers", "begin_at_parts")


def lower(graphs: Sequence[UOp], before: Sequence[UOp], steps: Sequence[str], target: str, level: str) -> list[UOp]:
    """Runs passes on kernels in parallel; one by one where each is looked at, as the settings say."""
    if not steps:
        return list(before)
    if not engine.is_looked_at():
        return engine.run_all(before, steps, target)
    results = []
    for graph, root in zip(graphs, before, strict=True):
        run = _runner(graph, target)
        with watching.part(level, graph):
            for name in steps:
                root = run(root, name, level)
        results.append(root)
    return results


def _runner(graph: UOp, target: str) -> Callable[[UOp, str, str], UOp]:
    """How passes are run on this kernel: plainly, or checked as the setting `check` says."""
    if config.check == 0:
        return lambda before, name, level: engine.rewrite(before, name, target)
    checker = checks().Checker(graph, target)
    return lambda before, name, level: checker.run(before, name, level)[0]
