"""Random index expressions, the same for every library: made here, simplified by each, compared by evaluation.

Run by itself, it prints how large they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy

from movement import Shape, flatten, random_chain
from program import Builder, Program

SEED = 2026
Points = Mapping[int, Any]


def movement_expressions(count: int, seed: int = SEED) -> list[Program]:
    """Addresses that chains of reshape, permute, expand, shrink, pad, flip and convolution windows make."""
    random = Random(seed)
    made: list[Program] = []
    while len(made) < count:
        program = movement_expression(random)
        # A chain whose address is a range or a constant has nothing to simplify.
        if len(program.steps) >= 5:
            made.append(program)
    return made


def movement_expression(random: Random) -> Program:
    buffer, chain = random_chain(random)
    b = Builder()
    shape: Shape = chain[-1].shape if chain else buffer
    index = [b.range(axis, extent) for axis, extent in enumerate(shape)]
    for movement in reversed(chain):
        index = movement.pull_back(b, index)
    return b.finish(flatten(b, index, buffer))


def unstructured_expressions(count: int, seed: int = SEED) -> list[Program]:
    """Random sums, products, quotients and remainders of ranges, one in four compared with a constant."""
    random = Random(seed + 1)
    made = []
    for _ in range(count):
        b = Builder()
        extents = [random.randint(2, 64) for _ in range(random.randint(1, 4))]
        value = grow(random, b, extents, depth=random.randint(4, 7))
        if random.random() < 0.25:
            value = b.node("less", value, b.const(random.randint(-8, 64)))
        made.append(b.finish(value))
    return made


def grow(random: Random, b: Builder, extents: Sequence[int], depth: int) -> int:
    if depth == 0 or random.random() < 0.05:
        number = random.randrange(len(extents))
        return b.range(number, extents[number])
    kind = random.choice(("add",) * 4 + ("mul", "mul", "floordiv", "floordiv", "floormod", "floormod", "shift"))
    source = grow(random, b, extents, depth - 1)
    if kind == "add":
        return b.node("add", source, grow(random, b, extents, depth - 1))
    if kind == "shift":
        return b.node("add", source, b.const(random.randint(-8, 16)))
    if kind == "mul":
        return b.node("mul", source, b.const(random.choice((-3, -2, -1, 2, 3, 4, 5, 6, 8, 12))))
    return b.node(kind, source, b.const(random.choice((2, 3, 4, 5, 6, 7, 8, 12, 16, 24))))


def tape_expressions(count: int, seed: int = SEED) -> list[Program]:
    """One operation after the other on a value: a range is added, a constant is added, multiplied, divided by.

    As tinygrad's own fuzz test of symbolic arithmetic makes them: three ranges, two to thirty operations with small
    constants, one in ten compared with a constant.
    """
    random = Random(seed + 2)
    made = []
    for _ in range(count):
        b = Builder()
        extents = [1 + random.choice((*range(1, 10), 16, 32, 64, 128, 256)) for _ in range(3)]
        ranges = [b.range(number, extent) for number, extent in enumerate(extents)]
        value = random.choice(ranges)
        for _ in range(random.randint(2, 30)):
            kind = random.choice(("range", "range", "shift", "mul", "floordiv", "floormod"))
            if kind == "range":
                value = b.node("add", value, random.choice(ranges))
            elif kind == "shift":
                value = b.node("add", value, b.const(random.randint(-4, 4)))
            elif kind == "mul":
                value = b.node("mul", value, b.const(random.randint(-4, 4)))
            else:
                value = b.node(kind, value, b.const(random.randint(1, 9)))
        if random.random() < 0.1:
            value = b.node("less", value, b.const(random.randint(-4, 4)))
        made.append(b.finish(value))
    return made


def random_points(program: Program, count: int, seed: int = SEED) -> dict[int, Any]:
    """Values for each range: random ones, and both ends."""
    generator = numpy.random.default_rng(seed)
    return {
        number: numpy.concatenate(([0, extent - 1], generator.integers(0, extent, count, dtype=numpy.int64)))
        for number, extent in program.extents.items()
    }


# ---- evaluation ----

# Both libraries name their operations so; the neutral programs' names are beside them.
EVALUATE: dict[str, Callable[..., Any]] = {
    "ADD": operator.add,
    "SUB": operator.sub,
    "MUL": operator.mul,
    "NEG": operator.neg,
    "FLOORDIV": operator.floordiv,
    "FLOORMOD": operator.mod,
    "MAX": numpy.maximum,
    "MIN": numpy.minimum,
    "CMPLT": operator.lt,
    "CMPLE": operator.le,
    "CMPEQ": operator.eq,
    "CMPNE": operator.ne,
    "AND": operator.and_,
    "OR": operator.or_,
    "XOR": operator.xor,
    "NOT": numpy.invert,
    "SHL": operator.lshift,
    "SHR": operator.rshift,
    "WHERE": numpy.where,
}
NEUTRAL = {
    "add": "ADD",
    "mul": "MUL",
    "floordiv": "FLOORDIV",
    "floormod": "FLOORMOD",
    "less": "CMPLT",
    "both": "AND",
    "where": "WHERE",
}


def evaluate(program: Program, points: Points) -> Any:
    """The values of a program at some points (arrays, one value a point)."""
    values: list[Any] = []
    for operation, *rest in program.steps:
        if operation == "const":
            values.append(numpy.int64(rest[0]))
        elif operation == "range":
            values.append(points[rest[0]])
        elif operation == "at_least":
            values.append(values[rest[0]] >= values[rest[1]])
        else:
            values.append(EVALUATE[NEUTRAL[operation]](*(values[k] for k in rest)))
    return values[-1]


# ---- tinygrad ----


def to_tinygrad(program: Program) -> Any:
    from tinygrad.uop.ops import Ops, UOp

    nodes: list[UOp] = []
    for operation, *rest in program.steps:
        sources = () if operation in ("const", "range") else tuple(nodes[k] for k in rest)
        if operation == "const":
            node = UOp.const(rest[0])
        elif operation == "range":
            node = UOp.range(rest[1], rest[0])
        elif operation == "at_least":
            # It has no "at least" operation: not less.
            node = UOp(Ops.CMPNE, src=(UOp(Ops.CMPLT, src=sources), UOp.const(True)))
        else:
            node = UOp(Ops[NEUTRAL[operation]], src=sources)
        nodes.append(node)
    return nodes[-1]


def evaluate_tinygrad(root: Any, points: Points) -> Any:
    values: dict[Any, Any] = {}
    for node in root.toposort():
        name = node.op.name
        if name == "CONST":
            values[node] = node.arg if isinstance(node.arg, bool) else numpy.int64(node.arg)
        elif name == "RANGE":
            values[node] = points[node.arg[0]]
        elif name == "CAST":
            values[node] = numpy.asarray(values[node.src[0]]).astype(bool if node.dtype.name == "bool" else numpy.int64)
        else:
            values[node] = EVALUATE[name](*(values[source] for source in node.src))
    return values[root]


# ---- rulegrad ----


def to_rulegrad(program: Program) -> Any:
    from rulegrad import UOp

    nodes: list[Any] = []
    for operation, *rest in program.steps:
        sources = () if operation in ("const", "range") else tuple(nodes[k] for k in rest)
        if operation == "const":
            node = UOp.const(rest[0], "index")
        elif operation == "range":
            node = UOp("RANGE", (UOp.const(rest[1], "index"),), id=rest[0], kind="test")
        elif operation == "at_least":
            node = UOp("CMPLE", sources[::-1])
        else:
            node = UOp(NEUTRAL[operation], sources)
        nodes.append(node)
    return nodes[-1]


def evaluate_rulegrad(root: Any, points: Points) -> Any:
    values: dict[Any, Any] = {}
    for node in root.toposort():
        if node.op == "CONST":
            value = node.attrs["value"]
            values[node] = value if isinstance(value, bool) else numpy.int64(value)
        elif node.op == "RANGE":
            values[node] = points[node.attrs["id"]]
        elif node.op == "CAST":
            values[node] = numpy.asarray(values[node.src[0]]).astype(bool if node.dtype == "bool" else numpy.int64)
        else:
            values[node] = EVALUATE[node.op](*(values[source] for source in node.src))
    return values[root]


def main() -> None:
    for name, programs in (
        ("movement chains", movement_expressions(1000)),
        ("unstructured", unstructured_expressions(1000)),
        ("tapes", tape_expressions(2000)),
    ):
        nodes = sum(len(program.steps) for program in programs)
        divisions = sum(program.count("floordiv", "floormod") for program in programs)
        print(f"{name}: {len(programs)} expressions, {nodes:,} nodes, {divisions:,} divisions and remainders")


if __name__ == "__main__":
    main()
