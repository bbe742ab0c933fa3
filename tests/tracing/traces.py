"""The traced programs of these tests: small, and compiled for a target without a device that runs it."""

from __future__ import annotations

import contextlib

import rulegrad as rg
from rulegrad import Tensor, UOp, no_grad
from rulegrad.compile import compile_graph
from rulegrad.errors import RewriteError
from rulegrad.workbench.tracing import Trace


def index_expression() -> UOp:
    """(i + 0) * 1 of a loop counter i."""
    i = UOp("RANGE", (UOp.const(4, "index"),), id=0, kind="output")
    return (i + 0) * 1


def traced_pass() -> Trace:
    """A pass in which two rules fire."""
    with rg.trace() as trace:
        rg.rewrite(index_expression(), "symbolic")
    return trace


def traced_kernels() -> Trace:
    """Kernels of a product and of a softmax, with the lines of this file."""
    with rg.trace() as trace, no_grad():
        x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy")
        hidden = (x @ x).relu().contiguous()
        result = hidden.softmax(axis=1)
        compile_graph([result.uop], "opencl")
    return trace


def var(number: int, dtype: str = "int32", shape: tuple[int, ...] = ()) -> UOp:
    return UOp("BUFFER", (), dtype, id=number, shape=shape)


def inside_trace() -> Trace:
    """By inside.rules: a part of a template, a search, a circle, and a part that does not end."""
    with rg.trace() as trace:
        rg.rewrite(UOp("ABS", (-var(0),)) + 0, "inside_pull")
        rg.rewrite(-var(9) + var(9), "inside_choose")
        for graph in (var(1) + 0 - var(2), UOp("EXP2", (var(1, "float32") + 0,))):
            with contextlib.suppress(RewriteError):
                rg.rewrite(graph, "inside_pull")
    return trace
