"""Whether every op on every dtype that a kernel may have comes out as source text: one-op kernels go the whole way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.lang import syntax
from rulegrad.lang.analysis.findings import Findings
from rulegrad.lang.analysis.laboratory import Laboratory
from rulegrad.lang.optable import Op, OpTable

_SHOWN = 6  # ops with one problem that are named
_BEFORE_KERNELS = ("isolate", "number")  # steps that split graphs: a one-op kernel is split already


def check_lowering(findings: Findings, laboratory: Laboratory) -> None:
    """Lowers one kernel for each op and dtype by the pipelines `kernel` and `program`, and prints it."""
    target = laboratory.target
    if target is None or not target.render:
        return
    declarations = [d for f in laboratory.files for d in f.declarations]
    pipelines = {d.name: d.steps for d in declarations if isinstance(d, syntax.Pipeline)}
    order = next((d.name for d in declarations if isinstance(d, syntax.Pass) and d.kind == "order"), "")
    if "kernel" not in pipelines or "program" not in pipelines or not order:
        return
    steps = lowering_steps(pipelines["kernel"], pipelines["program"])
    missing: dict[str, dict[str, list[str]]] = {}  # by what is wrong: ops, and their dtypes
    for one in values(laboratory.table, target):
        problem = _problem(laboratory, target, steps, order, one.build)
        if problem:
            missing.setdefault(problem, {}).setdefault(one.op, []).append(one.dtypes)
    for problem, ops in missing.items():
        shown = [f"{name} on {', '.join(dtypes)}" for name, dtypes in list(ops.items())[:_SHOWN]]
        more = f"; and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
        message = f"target {target.name} cannot have {'; '.join(shown)}{more}"
        hint = "add a rule that lowers it, or say that the target has the op and how it is spelled"
        findings.report("no-lowering", message, target.span, hint, (problem,), problem)


class Value(NamedTuple):
    """One op on certain dtypes, as a tensor graph over PARAM nodes of the slots 1, 2, …"""

    op: str  # "REDUCE by ADD" for a reduction
    dtypes: str  # "float32", "int8 to float32"
    build: Callable[[], UOp]


def values(table: OpTable, target: syntax.Target, size: int = 4) -> Iterator[Value]:
    """All that a tensor graph may ask of a target, on tensors of `size` elements: every op on every dtype."""
    stored = [d for d in table.dtypes if d in target.dtypes or d in target.types]
    stored = [d for d in stored if d not in ("index", "void")]
    for op in table.ops.values():
        if op.explicit and op.elementwise and len(op.parameters) == 1:
            for before in _admitted(table, op, stored) if op.declaration.where else stored:
                for after in stored:
                    if op.name != "BITCAST" or _bits(table, before) == _bits(table, after):
                        yield Value(op.name, f"{before} to {after}", _conversion(op.name, before, after, size))
        elif op.elementwise and not op.explicit and (not op.declaration.stages or "tensor" in op.declaration.stages):
            for dtype in _admitted(table, op, stored):
                yield Value(op.name, dtype, _elementwise(op, dtype, size))
        if op.declaration.identity is not None and "REDUCE" in table.ops:
            for dtype in _admitted(table, op, stored):
                yield Value(f"REDUCE by {op.name}", dtype, _reduction(op.name, dtype, size))


def _admitted(table: OpTable, op: Op, stored: list[str]) -> list[str]:
    """The dtypes that the variable of an op may be, out of those that can be kept in memory."""
    variables = list(op.declaration.where.values())
    if not variables:
        return stored[:1]
    admitted = table.resolve_dtypes(variables[0]) or frozenset()
    return [d for d in stored if d in admitted]


def _bits(table: OpTable, dtype: str) -> int | str:
    return table.dtypes[dtype].properties.get("bits", 0)


def buffer(slot: int, dtype: DType | str, shape: tuple[int, ...]) -> UOp:
    """The buffer that a kernel is given at a slot."""
    return UOp("PARAM", (), dtype, slot=slot, shape=shape)


def _conversion(op: str, before: str, after: str, size: int) -> Callable[[], UOp]:
    return lambda: UOp(op, (buffer(1, before, (size,)),), after)


def _elementwise(op: Op, dtype: str, size: int) -> Callable[[], UOp]:
    kinds = [dtype if p.type in op.declaration.where else p.type or dtype for p in op.parameters]
    return lambda: UOp(op.name, tuple(buffer(1 + k, kind, (size,)) for k, kind in enumerate(kinds)))


def _reduction(op: str, dtype: str, size: int) -> Callable[[], UOp]:
    return lambda: UOp("REDUCE", (buffer(1, dtype, (size, 3)),), op=op, axes=(1,))


def kernel_of(value: UOp) -> UOp:
    """The kernel that stores a tensor into slot 0."""
    return UOp("SINK", (UOp("STORE", (buffer(0, value.dtype, value.shape), value)),))


def lowering_steps(kernel: Sequence[str], program: Sequence[str]) -> list[str]:
    """The passes that a kernel of one op goes through, of these pipelines."""
    return [step for step in (*kernel, *program) if step not in _BEFORE_KERNELS]


def _problem(
    laboratory: Laboratory, target: syntax.Target, steps: list[str], order: str, value: Callable[[], UOp]
) -> str:
    """Empty, or why no text comes out, or what is left in it that the target does not have."""
    try:
        result = value()
        if any(node.dtype not in target.types for node in result.toposort()):
            return ""
        graph = kernel_of(result)
        for step in steps:
            graph = laboratory.program.rewrite(step, graph)[0]
        left = left_over(laboratory.table, target, result.op, graph)
        if not left:
            laboratory.program.source(order, target.render, graph)
        return left
    except RulegradError as error:
        return error.problem


def left_over(table: OpTable, target: syntax.Target, asked: str, program: UOp) -> str:
    """What is in a lowered program that the target does not have; empty when there is nothing."""
    for node in program.toposort():
        if table.ops[node.op].elementwise:
            op = "it" if node.op == asked else node.op
            if node.op not in target.ops:
                return f"{op} is left in the program, and the target does not have it"
            # Ops other than CAST that are told their result's dtype only put bits together.
            computes = node.op == "CAST" or not table.ops[node.op].explicit
            if computes and node.dtype not in target.dtypes:
                return f"{op} on {node.dtype} is left in the program, and the target does not compute with that dtype"
    return ""
