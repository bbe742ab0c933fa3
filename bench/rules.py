"""Rules from text to force: parsing, checking and compiling all rule files cold, and loading them from the cache.

    python bench/rules.py [--json] [--quick]

Each figure is the best of some fresh processes. tinygrad's rules are Python: cold is an import without bytecode
files, warm one with them; both libraries import what they need to compile a kernel, and no device is opened.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from common import Row, arguments, find, fresh_process, report

REPEATS = 5

IN_FORCE = {
    "rulegrad": "import rulegrad; from rulegrad import engine; work = lambda: engine.program('opencl')",
    # what its compile path imports, and with it every pattern matcher
    "tinygrad": "work = lambda: __import__('tinygrad.codegen') and __import__('tinygrad.engine.realize')",
}

PARTS = """
import rulegrad
from rulegrad import engine
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import compile_program
from rulegrad.lang.merging import merge
from rulegrad.lang.parser import parse_file
texts = engine.loaded().sources.texts
start = clock(); files = [parse_file(text, path) for path, text in texts]; parsed = clock() - start
merged = merge(files, frozenset())
start = clock(); check(merged); checked = clock() - start
target = next(d for f in merged for d in f.declarations if type(d).__name__ == "Target" and d.name == "opencl")
start = clock(); compile_program(merged, target); compiled = clock() - start
print(json.dumps({"parse": parsed, "check": checked, "compile": compiled}))
"""

TIMED = """
{prepare}
start = clock(); work(); print(json.dumps({{"seconds": clock() - start}}))
"""


def main() -> None:
    options = arguments(__doc__).parse_args()
    repeats = 2 if options.quick else REPEATS
    rows = [*in_force(repeats), *parts(repeats)]
    report(rows, options)


def in_force(repeats: int) -> list[Row]:
    """Milliseconds until every rule that a kernel needs can be applied."""
    cold, warm = Row("all rules in force, caches empty", "ms"), Row("all rules in force, caches warm", "ms")
    for name, prepare in IN_FORCE.items():
        if find(name) is None:
            continue
        script = TIMED.format(prepare=prepare)
        with tempfile.TemporaryDirectory() as folder:
            caches = [Path(folder, str(k)) for k in range(repeats)]
            cold.put(name, 1000 * min(run(script, cache)["seconds"] for cache in caches))
            warm.put(name, 1000 * min(run(script, caches[0])["seconds"] for _ in range(repeats)))
    return [cold, warm]


def parts(repeats: int) -> list[Row]:
    """The parts of the cold start; no peer has rules as text."""
    with tempfile.TemporaryDirectory() as folder:
        run(PARTS, Path(folder))
        found = [run(PARTS, Path(folder)) for _ in range(repeats)]
    titles = {"parse": "parse all rule files", "check": "check them", "compile": "compile them for one target"}
    return [Row(title, "ms", 1000 * min(answer[key] for answer in found)) for key, title in titles.items()]


def run(script: str, cache: Path) -> dict[str, float]:
    """The output of a fresh process, with its caches (ours, and Python's bytecode) in a folder."""
    return fresh_process(script, RULEGRAD_CACHE=str(cache / "rules"), PYTHONPYCACHEPREFIX=str(cache / "python"))


if __name__ == "__main__":
    main()
