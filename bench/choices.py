"""The cost of a choice: `least` over a closed formula, by a function, and as a candidate of a choose pass.

    python bench/choices.py [--json] [--quick]

A tactic has three numbers to choose, 1 to 16 each. The formula has 25 operations on the numbers and on sizes of the
kernel. Figures are of the fastest run, the start of the pass in them.
"""

from __future__ import annotations

import functools
from typing import Any

from common import Row, arguments, repeated, report

FORMULA = """
def estimate_of(rows, high, wide, deep) =
    let registers = high * wide + high + wide
    let work = rows * rows * rows / 16.0
    let reads = work / (high * 2) + work / (wide * 3) + work / deep
    work * 2 + reads * 0.25 + max(0, registers - 32) * 100.0 + abs(deep - 5) * 3
function by_function(n, rows, high, wide, deep):
    all: by_function(_, rows, high, wide, deep) -> {estimate_of(rows, high, wide, deep)}
function cost(n):
    scheduled: cost(SINK(_, BUFFER[id=k]())) -> {estimate_of(512, k // 10000, k // 100 % 100, k % 100)}
    plain:     cost(_) -> {inf}
"""
CHOICES = """
        if not is_op(x, BUFFER)
        for high in iota({most} + 1)[1:]
        for wide in iota({most} + 1)[1:]
        for deep in iota({most} + 1)[1:]
"""
STEP = "SINK(n, x) -> SINK(n, BUFFER[id={high * 10000 + wide * 100 + deep}, shape=(), dtype=int32]())"
PASSES = {
    "least": ("rewrite walk", "        least estimate_of(512, high, wide, deep)\n"),
    "least, four of them": ("rewrite walk", "        least 4 of estimate_of(512, high, wide, deep)\n"),
    "least, by a function on nodes": ("rewrite walk", "        least by_function(n, 512, high, wide, deep)\n"),
    "choose best": ("choose best", ""),
}


def program(kind: str, least: str, most: int) -> Any:
    """The program of one pass `p`, which puts a step with chosen numbers beside a kernel."""
    # late: a checkout's own build is found once common is imported
    from rulegrad import _core, engine
    from rulegrad.lang.compiler import compile_program
    from rulegrad.lang.parser import parse_file
    from rulegrad.support.paths import data_folder

    engine.program("c")  # installs the op table
    cost = "    cost cost\n" if kind.startswith("choose") else ""
    text = f"{FORMULA}pass p {kind}:\n{cost}    step: {STEP}{CHOICES.replace('{most}', str(most))}{least}"
    path = data_folder("rules") / "ops" / "ops.rules"
    table = parse_file(path.read_text(encoding="utf-8"), "ops.rules")
    return _core.Program(compile_program([table, parse_file(text, "choices.rules")]))


def kernel() -> Any:
    """A graph of about eighty nodes."""
    from rulegrad.ir import UOp

    value = UOp("BUFFER", (), "int32", id=0, shape=())
    for k in range(1, 20):
        value = (value + k) * (value - k)
    return UOp("SINK", (value, UOp.const(3, "int32")))


def main() -> None:
    options = arguments(__doc__).parse_args()
    most = 8 if options.quick else 16
    seconds = 0.3 if options.quick else 2.0
    rows: list[Row] = []
    chosen = set()
    for name, (kind, least) in PASSES.items():
        rules = program(kind, least, most)
        graph = kernel()
        taken = repeated(seconds, functools.partial(rules.rewrite, "p"), lambda graph=graph: graph)
        chosen.add(rules.rewrite("p", graph)[0])
        rows.append(Row(f"{name}, {most**3:,} choices: each", "µs", taken / most**3 * 1e6))
    assert len(chosen) == 1, "the ways to choose differ"
    report(rows, options)


if __name__ == "__main__":
    main()
