"""The engine beside tinygrad's: making nodes, rewriting, deep graphs, and memory that is given back.

python bench/engine.py [--json] [--quick]
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy

from common import Row, arguments, best_of, in_child, note, report, resident_bytes
from expressions import SEED, evaluate, movement_expressions, random_points, unstructured_expressions
from libraries import Library, all_libraries, library
from program import Program

MICROSECONDS = 1e6


def main() -> None:
    options = arguments(__doc__).parse_args()
    libraries = all_libraries()
    rows = [
        *node_building(libraries, side=60 if options.quick else 320, repeats=3 if options.quick else 10),
        *simplification(libraries, count=60 if options.quick else 1000, repeats=2 if options.quick else 4),
        *deep_chains(libraries, length=20_000 if options.quick else 1_000_000),
        *memory(libraries, nodes=1 << 16 if options.quick else 1 << 20),
    ]
    report(rows, options)


# ---- making nodes ----


def node_building(libraries: list[Library], side: int, repeats: int) -> list[Row]:
    rows = [
        Row("make a new node, constructor", "µs"),
        Row("make a new node, a * b", "µs"),
        Row("make a node that exists", "µs"),
    ]
    for lib in libraries:
        for row, work in zip(rows, (pairs_by_constructor, pairs_by_operator, pairs_again)):
            seconds = best_of(repeats, work, lambda lib=lib: pair_subject(lib, side))
            row.put(lib.name, seconds / side**2 * MICROSECONDS)
    return rows


def pair_subject(lib: Library, side: int) -> tuple[Any, Any, list[Any], list[Any], list[Any]]:
    """Two lists of leaves; every pair of them is a node still to be made, and ADD(a, b) exists."""
    left = [lib.range(k, 7 + k) for k in range(side)]
    right = [lib.range(side + k, 7 + k) for k in range(side)]
    add = lib.operation("ADD")
    return lib.new, lib.operation("MUL"), left, right, [lib.new(add, (a, b)) for a in left for b in right]


def pairs_by_constructor(subject: Any) -> Any:
    new, multiply, left, right, _ = subject
    return [new(multiply, (a, b)) for a in left for b in right]


def pairs_by_operator(subject: Any) -> Any:
    _, _, left, right, _ = subject
    return [a * b for a in left for b in right]


def pairs_again(subject: Any) -> Any:
    new, _, left, right, existing = subject
    add = existing[0].op
    return [new(add, (a, b)) for a in left for b in right]


# ---- simplification ----


def simplification(libraries: list[Library], count: int, repeats: int) -> list[Row]:
    sets = {"movement": movement_expressions(count), "unstructured": unstructured_expressions(count)}
    rows = [row for name, programs in sets.items() for row in simplify_set(libraries, name, programs, repeats)]
    programs = [program for chosen in sets.values() for program in chosen]
    graphs = {
        "index expressions": lambda lib: lib.sink([lib.simplify(lib.convert(program)) for program in programs]),
        "elementwise work": lambda lib: elementwise_graph(lib, 20 * count),
    }
    return [*rows, *(normal_form(libraries, name, make, repeats) for name, make in graphs.items())]


def simplify_set(libraries: list[Library], name: str, programs: list[Program], repeats: int) -> list[Row]:
    title = f"{len(programs)} {name} expressions"
    milliseconds = Row(f"simplify {title}", "ms")
    nodes, divisions = Row(f"nodes left of {title}", "nodes"), Row(f"div/mod left of {title}", "nodes")
    for lib in libraries:

        def prepare(lib: Library = lib) -> list[Any]:
            lib.forget()
            return [lib.convert(program) for program in programs]

        def work(roots: list[Any], lib: Library = lib) -> list[Any]:
            return [lib.simplify(root) for root in roots]

        seconds = best_of(repeats, work, prepare)
        given = prepare()
        results = work(given)
        left = sum(len(lib.nodes(root)) for root in results)
        left_divisions = sum(lib.divisions(root) for root in results)
        milliseconds.put(lib.name, seconds * 1000)
        nodes.put(lib.name, left)
        divisions.put(lib.name, left_divisions)
        before = sum(len(lib.nodes(root)) for root in given)
        before_divisions = sum(lib.divisions(root) for root in given)
        wrong = sum(not same(lib, *pair) for pair in zip(programs, results))
        note(
            f"{lib.name}, {title}: nodes {before:,} -> {left:,}, div/mod {before_divisions:,} -> "
            f"{left_divisions:,}, wrong results {wrong}"
        )
        if wrong:
            raise SystemExit(f"{lib.name} changed the value of {wrong} expressions")
    return [milliseconds, nodes, divisions]


def same(lib: Library, program: Program, result: Any) -> bool:
    """Whether the simplified expression has the program's values at random points and at the corners."""
    points = random_points(program, 20)
    wanted, got = evaluate(program, points), lib.evaluate(result, points)
    wanted, got = numpy.broadcast_arrays(wanted, got)
    return bool(numpy.array_equal(wanted, got))


def normal_form(libraries: list[Library], title: str, make: Callable[[Library], Any], repeats: int) -> Row:
    """A pass over one graph that it has already simplified: nothing is left to do."""
    row = Row(f"a symbolic pass over {title} in normal form, per node", "µs")
    for lib in libraries:
        root = make(lib)
        for _ in range(8):
            before, root = root, lib.simplify(root)
            if root == before:
                break
        else:
            raise SystemExit(f"{lib.name} has no normal form after eight passes")
        size = len(lib.nodes(root))
        seconds = best_of(2 * repeats, lib.simplify, lambda root=root: root)
        row.put(lib.name, seconds / size * MICROSECONDS)
    return row


def elementwise_graph(lib: Library, size: int) -> Any:
    """Float arithmetic as kernels have it: each node takes one or two of the last hundred."""
    random = Random(SEED)
    nodes = [lib.as_float(lib.range(k, 100 + k)) for k in range(16)]
    operations = {name: lib.operation(name) for name in ("ADD", "MUL", "MAX", "EXP2", "SIN")}
    while len(nodes) < size:
        name = random.choice(list(operations))
        sources = (random.choice(nodes[-100:]),)
        if name in ("ADD", "MUL", "MAX"):
            # A different leaf each time, so that no two terms or factors are alike.
            sources += (lib.as_float(lib.range(len(nodes), 100)),)
        nodes.append(lib.new(operations[name], sources))
    return lib.sink(nodes)


# ---- deep chains ----


def deep_chains(libraries: list[Library], length: int) -> list[Row]:
    rows = []
    for kind in ("real", "index"):
        title = f"chain of {length:,} {kind} nodes"
        steps = {what: Row(f"{title}: {what}", "µs/node") for what in ("build", "rewrite", "free")}
        for lib in libraries:
            figures = longest_chain(lib, kind, length)
            for what, row in steps.items():
                row.put(lib.name, figures.get(what))
        rows += steps.values()
    return rows


def longest_chain(lib: Library, kind: str, length: int) -> dict[str, float]:
    """The figures of a chain of this length, or of the longest that the library can do."""
    while length >= 100:
        answer = in_child(__file__, ("chain", lib.name, kind, length), timeout=150)
        if "error" not in answer:
            return answer
        note(f"{lib.name} cannot do a chain of {length:,} {kind} nodes: {answer['error']}")
        length //= 10
    return {}


def measure_chain(name: str, kind: str, length: int) -> dict[str, float]:
    lib = library(name)
    assert lib is not None
    lib.simplify(build_chain(lib, kind, 20))
    gc.collect()
    start = time.perf_counter()
    chain = build_chain(lib, kind, length)
    built = time.perf_counter()
    result = lib.simplify(chain)
    rewritten = time.perf_counter()
    size, left = len(lib.nodes(chain)), len(lib.nodes(result))
    if left >= size:
        raise SystemExit(f"a chain of {size} nodes was not simplified")
    before_free = time.perf_counter()
    del chain, result
    gc.collect()
    freed = time.perf_counter()
    times = {"build": built - start, "rewrite": rewritten - built, "free": freed - before_free}
    return {what: seconds / length * MICROSECONDS for what, seconds in times.items()}


def build_chain(lib: Library, kind: str, length: int) -> Any:
    """A chain in which every second node is a multiplication by one: sin(x * 1.0), or max(x * 1, leaf)."""
    new, multiply = lib.new, lib.operation("MUL")
    if kind == "real":
        sine, one, x = lib.operation("SIN"), lib.real(1.0), lib.as_float(lib.range(0, 100))
        for _ in range(length // 2):
            x = new(sine, (new(multiply, (x, one)),))
        return x
    most, one, x = lib.operation("MAX"), lib.integer(1), lib.range(0, 100)
    leaves = [lib.range(k, 100 + k) for k in range(1, 65)]
    for k in range(length // 2):
        x = new(most, (new(multiply, (x, one)), leaves[k % 64]))
    return x


# ---- memory ----


def memory(libraries: list[Library], nodes: int) -> list[Row]:
    held = Row(f"memory of a graph of {nodes:,} nodes, per node", "bytes")
    kept = Row("memory still held when they were dropped three times, per node", "bytes")
    for lib in libraries:
        answer = in_child(__file__, ("memory", lib.name, nodes), timeout=300)
        if "error" in answer:
            note(f"{lib.name} has no memory figures: {answer['error']}")
        held.put(lib.name, answer.get("held"))
        kept.put(lib.name, answer.get("kept"))
    return [held, kept]


def measure_memory(name: str, nodes: int) -> dict[str, float]:
    lib = library(name)
    assert lib is not None
    lib.simplify(build_tree(lib, 64))
    gc.collect()
    before = resident_bytes()
    held = 0
    for _ in range(3):
        root = build_tree(lib, nodes)
        gc.collect()
        held = max(held, resident_bytes() - before)
        del root
        gc.collect()
    return {"held": held / nodes, "kept": (resident_bytes() - before) / nodes}


def build_tree(lib: Library, nodes: int) -> Any:
    """A balanced tree of about so many different nodes; only its root is held."""
    new, add, multiply = lib.new, lib.operation("ADD"), lib.operation("MUL")
    side = int((nodes // 2) ** 0.5)
    leaves = [lib.range(k, 7 + k) for k in range(2 * side)]
    level = [new(multiply, (a, b)) for a in leaves[:side] for b in leaves[side:]]
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]
        level = [new(add, (a, b)) for a, b in zip(level[::2], level[1::2])] + odd
    return level[0]


if __name__ == "__main__":
    if sys.argv[1:3] == ["child", "chain"]:
        print(json.dumps(measure_chain(sys.argv[3], sys.argv[4], int(sys.argv[5]))))
    elif sys.argv[1:3] == ["child", "memory"]:
        print(json.dumps(measure_memory(sys.argv[3], int(sys.argv[4]))))
    else:
        main()
