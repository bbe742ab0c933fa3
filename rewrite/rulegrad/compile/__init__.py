"""Drivers: they run the passes that rules/pipeline.rules names, and nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from rulegrad import engine
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.ir import UOp

if TYPE_CHECKING:
    from rulegrad.compile.kernels import forget_kernels
    from rulegrad.compile.realize import compile_graph, plan_memory_of, prepare

#: What is Python and not rules: file, what it does, why it is not a rule; docs/architecture.md has the same table.
HOST_STEPS: Final[dict[str, tuple[str, str]]] = {
    "realize": ("finds or makes the plan of a graph, launches it", "bookkeeping; decides nothing"),
    "plans": ("prepares a plan's kernels and memory, allocates, launches", "it calls devices"),
    "partition": (
        "computes a graph of tens of thousands of nodes in subgraphs, cut between steps that recur",
        "it compares nodes by op, dtype and number of axes, and knows no op's meaning but whether the op table calls "
        "it a movement, the same value or elementwise; the order of subgraphs is not a rewrite of any node",
    ),
    "recurrence": (
        "makes the schedule of a graph in which a step recurs very often from those of its subgraphs",
        "bookkeeping: equal subgraphs share a schedule, which the passes made",
    ),
    "keeping": (
        "asks the pass `materialize_live` which values that tensors stand for are results too",
        "bookkeeping; decides nothing",
    ),
    "schedule": (
        "runs the schedule's passes; lists the stores in order, numbers buffers",
        "bookkeeping between graphs and buffers; decides nothing",
    ),
    "kernels": (
        "runs the kernel's passes; joins signature and body, reads the grid's sizes",
        "bookkeeping; the texts are the target's",
    ),
    "on_disk": (
        "keeps kernels and general plans on disk, for other processes",
        "bookkeeping; they are what the rules made",
    ),
    "sharding": (
        "runs the passes `shard` and `local_results` on graphs with tensors on a mesh; gives devices their own "
        "numbers; puts steps in an order in which communication starts early",
        "placements and collectives are the rules' (`rules/sharding`); the order is a topological sort by how many "
        "collectives come before",
    ),
    "collectives": (
        "starts collectives of a plan, and waits for them before what they touch is used; makes kernels and small "
        "collectives one program of the engine",
        "it calls the ranks' world; it sees steps and memory, no op but the collective's name",
    ),
    "passes": ("runs passes on kernels, all at once or one by one where they are looked at", "decides nothing"),
    "scheduling": (
        "takes the schedule found for a kernel, else that of the pass `choose_schedule`, or its next candidate",
        "bookkeeping; candidates and their order are the rules', and a found schedule is measured (`compile/tuning`)",
    ),
    "fused": ("says what each kernel of a schedule is made of (`DEBUG=2`)", "reports, does not change a graph"),
    "ordering": (
        "puts steps in an order in which memory is freed early, and copies after all others that read the same; "
        "topological sorts",
        "a search over a whole schedule; it sees sizes and steps, no op but STORE and PARAM",
    ),
    "memory_plan": (
        "places buffers in blocks of memory by their lifetimes",
        "a packing of intervals over a whole schedule; it sees sizes and steps, no op",
    ),
    "overwriting": (
        "lists what steps read and write, puts two buffers of a step in one place",
        "bookkeeping; `rules/schedule/memory.rules` says which kernels may",
    ),
    "estimate": ("counts operations and bytes of a kernel for the profile", "reports, does not change a graph"),
    "checking": (
        "loads what compares graphs before and after passes (`CHECK`), and what names the guard of a wrong step",
        "it is the workbench's",
    ),
}


def backward(roots: Sequence[UOp], gradients: Sequence[UOp], targets: Sequence[UOp]) -> list[UOp | None]:
    """The gradients of tensor graphs with respect to `targets`, as graphs (None: no root depends on it).

    gradients: those of the roots, of their shapes and dtypes. The gradient of a complex number x + i y is that by x
    plus i times that by y. The rules are in rules/tensor/gradient.rules. Raises RewriteError at an op that has no
    gradient.
    """
    with watching.part("gradients"):
        if not config.detect_nan:
            return engine.reverse("gradients", roots, gradients, targets)
        from rulegrad.runtime import source_lines  # late: few programs have a use for it

        firings: list[engine.GradientFiring] = []
        found = engine.reverse("gradients", roots, gradients, targets, firings)
        source_lines.note_gradients(firings, roots)
        return found


def batched(root: UOp) -> UOp:
    """The graph with BATCHED nodes moved outwards as far as the rules in rules/tensor/batching.rules can."""
    with watching.part("batching"):
        return engine.rewrite(root, "batch")


def put_back(view: UOp, base: UOp, value: UOp) -> UOp:
    """The graph `base` with `value` where `view`, movements of it, shows it (rules/tensor/view_updates.rules)."""
    with watching.part("views"):
        found: UOp = engine.program().call("put_back", view, base, value)
    return found


# Loaded when they are first used: tensors are made, and looked at, without what compiles them.
_PLACES: Final = {
    "compile_graph": "realize",
    "forget_kernels": "kernels",
    "plan_memory_of": "realize",
    "prepare": "realize",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'rulegrad.compile' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"rulegrad.compile.{_PLACES[name]}"), name)
    return found


class _Callable(ModuleType):
    """The package, which is also a function, as sources for PyTorch call `torch.compile`."""

    def __call__(self, model: Any = None, **options: Any) -> Any:
        """The function or module as it is; without one, a decorator: operations are compiled when values are asked for.

        `rulegrad.jit` captures a function's Python too.

        >>> import rulegrad
        >>> rulegrad.compile(len, mode="max-autotune") is rulegrad.compile()(len) is len
        True
        """
        return (lambda function: function) if model is None else model


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "HOST_STEPS",
    "backward",
    "batched",
    "compile_graph",
    "forget_kernels",
    "plan_memory_of",
    "prepare",
    "put_back",
]
