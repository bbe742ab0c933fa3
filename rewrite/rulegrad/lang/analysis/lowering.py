"""Whether every op on every dtype that a kernel may have comes out as source text: one-op kernels go the whole way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.analysis.findings import Findings
from rulegrad.lang.analysis.laboratory import Laboratory
from rulegrad.lang.optable import Op, OpTable

_SHAPE = (4,)
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
    steps = [s for s in (*pipelines["kernel"], *pipelines["program"]) if s not in _BEFORE_KERNELS]
    missing: dict[str, dict[str, list[str]]] = {}  # by what is wrong: ops, and their dtypes
    for name, dtypes, value in _values(laboratory.table, target):
        problem = _problem(laboratory, target, steps, order, value)
        if problem:
            missing.setdefault(problem, {}).setdefault(name, []).append(dtypes)
    for problem, ops in missing.items():
        shown = [f"{name} on {', '.join(dtypes)}" for name, dtypes in list(ops.items())[:_SHOWN]]
        more = f"; and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
        message = f"target {target.name} cannot have {'; '.join(shown)}{more}"
        hint = "add a rule that lowers it, or say that the target has the op and how it is spelled"
        findings.report("no-lowering", message, target.span, hint, (problem,), problem)


def _values(table: OpTable, target: syntax.Target) -> Iterator[tuple[str, str, Callable[[], UOp]]]:
    """(op, dtypes, a tensor that it computes) of all that a tensor graph may ask for."""
    stored = [d for d in table.dtypes if d in target.dtypes or d in target.types]
    stored = [d for d in stored if d not in ("index", "void")]
    for op in table.ops.values():
        if op.explicit and op.elementwise and len(op.parameters) == 1:
            for before in _admitted(table, op, stored) if op.declaration.where else stored:
                for after in stored:
                    if op.name != "BITCAST" or _bits(table, before) == _bits(table, after):
                        yield op.name, f"{before} to {after}", _conversion(op.name, before, after)
        elif op.elementwise and not op.explicit and (not op.declaration.stages or "tensor" in op.declaration.stages):
            for dtype in _admitted(table, op, stored):
                yield op.name, dtype, _elementwise(op, dtype)
        if op.declaration.identity is not None and "REDUCE" in table.ops:
            for dtype in _admitted(table, op, stored):
                yield f"REDUCE by {op.name}", dtype, _reduction(op.name, dtype)


def _admitted(table: OpTable, op: Op, stored: list[str]) -> list[str]:
    """The dtypes that the variable of an op may be, out of those that can be kept in memory."""
    variables = list(op.declaration.where.values())
    if not variables:
        return stored[:1]
    admitted = table.resolve_dtypes(variables[0]) or frozenset()
    return [d for d in stored if d in admitted]


def _bits(table: OpTable, dtype: str) -> int | str:
    return table.dtypes[dtype].properties.get("bits", 0)


def _buffer(slot: int, dtype: str, shape: tuple[int, ...] = _SHAPE) -> UOp:
    return UOp("PARAM", (), dtype, slot=slot, shape=shape)


def _conversion(op: str, before: str, after: str) -> Callable[[], UOp]:
    return lambda: UOp(op, (_buffer(1, before),), after)


def _elementwise(op: Op, dtype: str) -> Callable[[], UOp]:
    kinds = [dtype if p.type in op.declaration.where else p.type or dtype for p in op.parameters]
    return lambda: UOp(op.name, tuple(_buffer(1 + k, kind) for k, kind in enumerate(kinds)))


def _reduction(op: str, dtype: str) -> Callable[[], UOp]:
    return lambda: UOp("REDUCE", (_buffer(1, dtype, (4, 3)),), op=op, axes=(1,))


def _problem(
    laboratory: Laboratory, target: syntax.Target, steps: list[str], order: str, value: Callable[[], UOp]
) -> str:
    """Empty, or why no text comes out, or what is left in it that the target does not have."""
    try:
        result = value()
        if any(node.dtype not in target.types for node in result.toposort()):
            return ""
        graph = UOp("SINK", (UOp("STORE", (_buffer(0, result.dtype, result.shape), result)),))
        for step in steps:
            graph = laboratory.program.rewrite(step, graph)[0]
        left = _left(laboratory.table, target, result.op, graph)
        if not left:
            laboratory.program.source(order, target.render, graph)
        return left
    except RulegradError as error:
        return error.problem


def _left(table: OpTable, target: syntax.Target, asked: str, program: UOp) -> str:
    """What is in a lowered program that the target does not have."""
    for node in program.toposort():
        if table.ops[node.op].elementwise:
            op = "it" if node.op == asked else node.op
            if node.op not in target.ops:
                return f"{op} is left in the program, and the target does not have it"
            if node.op != "BITCAST" and node.dtype not in target.dtypes:
                return f"{op} on {node.dtype} is left in the program, and the target does not compute with that dtype"
    return ""
