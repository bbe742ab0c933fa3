"""Index expressions, simplified: how large they stay beside tinygrad's, one by one, and how long that takes.

The time is the best of five runs, tinygrad's that of one.

python bench/symbolic.py [--json] [--quick] [--show N]
"""

from __future__ import annotations

from typing import Any

from common import Row, arguments, best_of, note, report
from engine import same
from expressions import movement_expressions, tape_expressions, unstructured_expressions
from libraries import Library, all_libraries
from program import Program


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=0, help="print so many of those that are larger than tinygrad's")
    options = parser.parse_args()
    count = 50 if options.quick else 1000
    sets = {
        f"{count} movement chains": movement_expressions(count),
        f"{count} unstructured": unstructured_expressions(count),
        f"{2 * count} tapes": tape_expressions(2 * count),
    }
    libraries = all_libraries()
    repeats = 2 if options.quick else 5
    report(
        [
            row
            for title, programs in sets.items()
            for row in compared(libraries, title, programs, repeats, options.show)
        ],
        options,
    )


def compared(libraries: list[Library], title: str, programs: list[Program], repeats: int, show: int) -> list[Row]:
    """Time, nodes left, and how many results are larger than another library's."""
    milliseconds, nodes = Row(f"{title}: time", "ms"), Row(f"{title}: nodes", "nodes")
    larger = Row(f"{title}: larger than the other's", "results")
    results, sizes = {}, {}
    for lib in libraries:
        seconds, results[lib.name] = simplified(lib, programs, repeats if lib.name == "rulegrad" else 1)
        sizes[lib.name] = [len(lib.nodes(root)) for root in results[lib.name]]
        wrong = sum(not same(lib, *pair) for pair in zip(programs, results[lib.name]))
        if wrong:
            raise SystemExit(f"{lib.name} changed the value of {wrong} of {title}")
        milliseconds.put(lib.name, seconds * 1000)
        nodes.put(lib.name, sum(sizes[lib.name]))
    for lib in libraries:
        others = [sizes[other.name] for other in libraries if other is not lib]
        worse = [k for k, size in enumerate(sizes[lib.name]) if any(size > other[k] for other in others)]
        larger.put(lib.name, len(worse))
        for k in sorted(worse, key=sizes[lib.name].__getitem__)[: show if lib.name == "rulegrad" else 0]:
            size, other = sizes[lib.name][k], sizes["tinygrad"][k]
            note(f"{title}, number {k}: {size} nodes, not {other}: {text(results[lib.name][k])}")
    return [milliseconds, nodes, larger]


def simplified(lib: Library, programs: list[Program], repeats: int) -> tuple[float, list[Any]]:
    """Seconds, the best of some times, and the results."""

    def prepare() -> list[Any]:
        lib.forget()
        return [lib.convert(program) for program in programs]

    def work(roots: list[Any]) -> list[Any]:
        return [lib.simplify(root) for root in roots]

    return best_of(repeats, work, prepare), work(prepare())


SPELLED = {"ADD": "+", "MUL": "*", "FLOORDIV": "//", "FLOORMOD": "%", "CMPLT": "<", "CMPLE": "<=", "AND": "&"}


def text(node: Any) -> str:
    """An expression of ours as people write it; the range 3 of extent 8 is r3:8."""
    if node.op == "CONST":
        return str(node.attrs["value"])
    if node.op == "RANGE":
        return f"r{node.attrs['id']}:{text(node.src[0])}"
    parts = [text(source) for source in node.src]
    return f"({parts[0]} {SPELLED[node.op]} {parts[1]})" if node.op in SPELLED else f"{node.op}({', '.join(parts)})"


if __name__ == "__main__":
    main()
