"""Whether every op on every dtype that a kernel may have comes out as source text: one-op kernels go the whole way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rulegrad._core import Program
from rulegrad.compile.passes import BEFORE_LOWERING
from rulegrad.errors import GraphError, RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.optable import Op, OpTable
from rulegrad.workbench.analysis.asked import Asked
from rulegrad.workbench.analysis.findings import Findings

_SHOWN = 6  # ops with one problem that are named
#: Values of attributes that have no default, by type, for an op that is tried.
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "int": (1, 0, 2),
    "float": (0.5, 1.0),
    "bool": (True,),
    "str": ("", "x"),
    "dtype": ("float32", "int32"),
    "op": ("ADD", "MAX"),
    "ints": ((0,), (), (1,), (4,)),
    "scalar": (1, 0.5),
    "tuple": ((), (0,), (1,)),
}


def check_lowering(
    findings: Findings, files: Sequence[syntax.File], target: syntax.Target, program: Program, asked: Asked
) -> None:
    """Lowers one kernel for each op and dtype by the pipelines `kernel` and `program`, and prints it.

    Passes of the files that are asked about come first where they stand in the pipeline `schedule`. Of a target that is
    not asked about, only the ops that are.
    """
    declarations = [d for f in files for d in f.declarations]
    steps, order = _way(declarations, asked)
    if not steps or not order:
        return
    missing: dict[tuple[syntax.Span, str], dict[str, list[str]]] = {}  # by what is wrong: ops, and their dtypes
    table = OpTable.from_declarations(declarations)
    whole = not asked.files or target.name.split("+")[0] in asked.targets
    for one in values(table, target):
        if not whole and one.name not in asked.ops:
            continue
        problem = _problem(table, program, target, steps, order, one.build)
        if problem:
            place = target.span if whole else table.ops[one.name].declaration.span
            missing.setdefault((place, problem), {}).setdefault(one.op, []).append(one.dtypes)
    for (span, problem), ops in missing.items():
        shown = [f"{name} on {', '.join(dtypes)}" for name, dtypes in list(ops.items())[:_SHOWN]]
        more = f"; and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
        message = f"target {target.name} cannot have {'; '.join(shown)}{more}"
        hint = "add a rule that lowers it, or say that the target has the op and how it is spelled"
        findings.report("no-lowering", message, span, hint, (problem,), problem if whole else "")


def program_to_lower(files: Sequence[syntax.File], target: syntax.Target, asked: Asked) -> Program:
    """The program of all rules that `check_lowering` needs for a target."""
    compiler = ProgramCompiler(files, target, False)
    compiler.compile(way_of(files, target, asked))
    return Program(compiler.serialize())


def way_of(files: Sequence[syntax.File], target: syntax.Target, asked: Asked) -> frozenset[str]:
    """The passes that `check_lowering` runs for a target; none where there is nothing for it to lower."""
    if asked.files and not (asked.ops or target.name.split("+")[0] in asked.targets):
        return frozenset()
    steps, order = _way([d for f in files for d in f.declarations], asked)
    return frozenset((*steps, order, target.render))


def _way(declarations: Sequence[syntax.Declaration], asked: Asked) -> tuple[list[str], str]:
    """The passes that a kernel of one op goes through, and the one that orders its nodes; empty: there are none."""
    pipelines = {d.name: d.steps for d in declarations if isinstance(d, syntax.Pipeline)}
    order = next((d.name for d in declarations if isinstance(d, syntax.Pass) and d.kind == "order"), "")
    if "kernel" not in pipelines or "program" not in pipelines:
        return [], order
    own = [d.name for d in declarations if isinstance(d, syntax.Pass) and asked.files and d in asked]
    early = [step for step in pipelines.get("schedule", ()) if step in own]  # they may lower what tensors ask for
    return [*early, *lowering_steps(pipelines["kernel"], pipelines["program"])], order


class Value(NamedTuple):
    """One op on certain dtypes, as a tensor graph over PARAM nodes of the slots 1, 2, …"""

    name: str
    op: str  # the name, or "REDUCE by ADD" for a reduction by ADD
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
                        yield Value(op.name, op.name, f"{before} to {after}", _conversion(op.name, before, after, size))
        elif op.elementwise and not op.explicit and (not op.declaration.levels or "tensor" in op.declaration.levels):
            for dtype in _admitted(table, op, stored):
                if _can_be_made(build := _elementwise(op, dtype, size)):  # else which attributes it takes is not known
                    yield Value(op.name, op.name, dtype, build)
        if op.declaration.identity is not None and "REDUCE" in table.ops:
            for dtype in _admitted(table, op, stored):
                yield Value(op.name, f"REDUCE by {op.name}", dtype, _reduction(op.name, dtype, size))


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
    return lambda: _with_attributes(op, tuple(buffer(1 + k, kind, (size,)) for k, kind in enumerate(kinds)))


def _can_be_made(build: Callable[[], UOp]) -> bool:
    try:
        build()
    except GraphError:
        return False
    return True


def _with_attributes(op: Op, sources: tuple[UOp, ...]) -> UOp:
    """A node of an op, whose attributes without a default have the first values that it takes. Raises GraphError."""
    needed = [a for a in op.attributes.values() if a.default is None]
    problem = GraphError(f"{op.name} takes none of the attributes that were tried")
    for chosen in itertools.product(*(_ATTRIBUTES.get(a.type, ()) for a in needed)):
        try:
            return UOp(op.name, sources, **{a.name: value for a, value in zip(needed, chosen, strict=True)})
        except GraphError as error:
            problem = error
    raise problem


def _reduction(op: str, dtype: str, size: int) -> Callable[[], UOp]:
    return lambda: UOp("REDUCE", (buffer(1, dtype, (size, 3)),), op=op, axes=(1,))


def kernel_of(value: UOp) -> UOp:
    """The kernel that stores a tensor into slot 0."""
    return UOp("SINK", (UOp("STORE", (buffer(0, value.dtype, value.shape), value)),))


def lowering_steps(kernel: Sequence[str], program: Sequence[str]) -> list[str]:
    """The passes that a kernel of one op goes through, of these pipelines."""
    return [step for step in (*kernel, *program) if step not in BEFORE_LOWERING]


def _problem(
    table: OpTable, program: Program, target: syntax.Target, steps: list[str], order: str, value: Callable[[], UOp]
) -> str:
    """Empty, or why no text comes out, or what is left in it that the target does not have."""
    try:
        result = value()
        if any(node.dtype not in target.types for node in result.toposort()):
            return ""
        graph = kernel_of(result)
        for step in steps:
            graph = program.rewrite(step, graph)[0]
        left = left_over(table, target, result.op, graph)
        if not left:
            program.source(order, target.render, graph)
        return left
    except RulegradError as error:
        return error.problem


def left_over(table: OpTable, target: syntax.Target, asked: str, program: UOp) -> str:
    """Ops of a lowered program that the target lacks; empty when there is nothing."""
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
