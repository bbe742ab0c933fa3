"""`CHECK=1`: every pass leaves a valid graph. `CHECK=2`: and one that means the same, by the interpreter.

Meaning is compared on the kernel's graph, up to the passes that only a compiling device needs: those lower loops to
statements, which the interpreter does not run.
"""

from __future__ import annotations

import numpy as np

from rulegrad import _core
from rulegrad.diagnosis.bisecting import smallest
from rulegrad.errors import RewriteError, RulegradError
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
    require_valid(after, name, stage, fired)
    if level >= 2 and stage == "kernel" and after != before:
        wanted = meaning(before, arrays)
        if not agree(wanted, meaning(after, arrays)):
            blamed = _wrong_firing(before, name, target, arrays, wanted)
            raise RewriteError(
                f"pass {name} changes what the kernel computes: {blamed or f'rules that fired: {fired}'}"
            )
    return after


def require_valid(after: UOp, name: str, stage: str, fired: str) -> None:
    """Raises RewriteError, with the pass and the rules that fired, for a graph that may not stand at a stage."""
    problem = _core.verify(after, stage)
    if problem:
        raise RewriteError(f"pass {name} leaves a graph that is not valid: {problem}; rules that fired: {fired}")


def agree(wanted: Array, found: Array) -> bool:
    """Whether two results are the same, up to what another order of float operations may change."""
    a, b = wanted.astype("float64"), found.astype("float64")
    return a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def _wrong_firing(before: UOp, name: str, target: str, arrays: list[Array], wanted: Array) -> str:
    """The firing that is to blame, with its rule's place; empty when it is not found.

    It is the rule without which the result is right, and the first of its firings that makes it wrong.
    """
    program = engine.program(target)
    _, info = program.rewrite(name, before, trace=True)

    def right(rule: str, limit: int) -> bool:
        try:
            after, _ = program.rewrite(name, before, limit=limit, limited=rule)
            return agree(wanted, meaning(after, arrays))
        except (RulegradError, KeyError, ValueError):
            return False  # without an essential rule there is no meaning

    for rule in dict.fromkeys(firing[0] for firing in info["firings"]):
        if right(rule, 0):
            fired = sum(firing[0] == rule for firing in info["firings"])
            number = smallest(0, fired, lambda limit, rule=rule: not right(rule, limit))  # type: ignore[misc]
            _, limited = program.rewrite(name, before, trace=True, limit=number, limited=rule)
            _, place, old, new = [firing for firing in limited["firings"] if firing[0] == rule][-1]
            return f"rule {rule} ({place}) is wrong on\n{old}\nfor which it gives\n{new}"
    return ""


def sample_arrays(graph: UOp) -> list[Array]:
    """Contents for each slot of a graph: small numbers, the same in every run; nothing for a slot that it lacks."""
    shapes = {n.attrs["slot"]: (n.shape, as_dtype(n.dtype)) for n in graph.toposort() if n.op == "PARAM"}
    generator = np.random.default_rng(0)
    found = [np.zeros(0)] * (1 + max(shapes, default=-1))
    for slot, (shape, dtype) in sorted(shapes.items()):
        found[slot] = generator.integers(0, 5, shape).astype(dtype.numpy)
    return found


def meaning(graph: UOp, arrays: list[Array]) -> Array:
    """What a kernel writes to slot 0, before or after it is indexed; or the value of a graph without a store."""
    if graph.op != "SINK":
        return evaluate(graph, {n: arrays[n.attrs["slot"]] for n in graph.toposort() if n.op == "PARAM"})
    (store,) = graph.src
    if store.op == "STORE" and store.src[0].op == "PARAM":
        values = {n: arrays[n.attrs["slot"]] for n in graph.toposort() if n.op == "PARAM"}
        return evaluate(store.src[1], values)
    copies: list[Array] = [array.copy() for array in arrays]
    run_kernel(graph, copies)
    return copies[0]
