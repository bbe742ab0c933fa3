"""`CHECK=1`: every pass leaves a valid graph. `CHECK=2`: and one that means the same, by the interpreter.

Meaning is compared on the kernel's graph, up to the passes that only a compiling device needs: those lower loops to
statements, which the interpreter does not run.
"""

from __future__ import annotations

import numpy as np

from rulegrad import _core
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import engine
from rulegrad.runtime.interpreter import evaluate, run_kernel
from rulegrad.runtime.numerics import Array

#: Relative difference that reordering a kernel's float operations may make.
TOLERANCE = 1e-3


def checked(before: UOp, name: str, target: str, stage: str, level: int, arrays: list[Array]) -> UOp:
    """Runs a pass on a kernel, and checks what it leaves.

    Raises RewriteError that names the pass and the rules that fired.
    """
    after, info = engine.run(before, name, target, trace=level >= 1)
    fired = ", ".join(dict.fromkeys(rule for rule, *_ in info["firings"])) or "none"
    problem = _core.verify(after, stage)
    if problem:
        raise RewriteError(f"pass {name} leaves a graph that is not valid: {problem}; rules that fired: {fired}")
    if level >= 2 and stage == "kernel" and after != before:
        wanted, found = meaning(before, arrays), meaning(after, arrays)
        if not np.allclose(
            wanted.astype("float64"), found.astype("float64"), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True
        ):
            raise RewriteError(f"pass {name} changes what the kernel computes; rules that fired: {fired}")
    return after


def sample_arrays(graph: UOp) -> list[Array]:
    """Contents for each slot of a kernel: small numbers, the same in every run."""
    shapes = {n.attrs["slot"]: (n.shape, as_dtype(n.dtype)) for n in graph.toposort() if n.op == "PARAM"}
    generator = np.random.default_rng(0)
    return [generator.integers(0, 5, shapes[k][0]).astype(shapes[k][1].numpy) for k in range(len(shapes))]


def meaning(graph: UOp, arrays: list[Array]) -> Array:
    """What a kernel writes to slot 0, before or after it is indexed."""
    (store,) = graph.src
    if store.op == "STORE" and store.src[0].op == "PARAM":
        values = {n: arrays[n.attrs["slot"]] for n in graph.toposort() if n.op == "PARAM"}
        return evaluate(store.src[1], values)
    copies: list[Array] = [array.copy() for array in arrays]
    run_kernel(graph, copies)
    return copies[0]
