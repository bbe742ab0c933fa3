"""The tensor library at its smallest: import, the first operation, and a thousand small operations one after the other.

    python bench/tensor.py [--json] [--quick]

Import and first operation are measured in fresh processes, with warm caches: bytecode, compiled rules and kernels are
there, as on a user's second day. `eager` asks for each result before the next operation, `lazy` for the last one only;
torch computes at once, so that its two figures are the same work. tinygrad needs clang, or clang-19, for the CPU.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from common import Row, arguments, find, fresh_process, note, report

REPEATS = 7
OPERATIONS = 1000

IMPORT = {
    "rulegrad": "from rulegrad import Tensor",
    "tinygrad": "from tinygrad import Tensor",
    "torch": "import torch; from torch import Tensor",
}
#: values -> a tensor; a tensor -> computed; both of each library
MAKE = {
    "rulegrad": "make = lambda values: Tensor(values)\ncompute = lambda x: x.realize()",
    "tinygrad": "make = lambda values: Tensor(values)\ncompute = lambda x: x.realize()",
    "torch": "torch.set_num_threads(1)\nmake = torch.tensor\ncompute = lambda x: x",
}

FIRST = """
start = clock(); {imports}; imported = clock() - start
{make}
start = clock(); found = (make([1.0, 2.0, 3.0]) * 2 + 1).tolist(); first = clock() - start
assert found == [3.0, 5.0, 7.0], found
print(json.dumps({{"import": imported, "first": first, "both": imported + first}}))
"""

SMALL = """
{imports}
{make}
x, y = make([[0.5] * 8] * 8), make([[0.25] * 8] * 8)

def eager():
    z = x
    for k in range({count} // 4):
        z = compute(z + y)
        z = compute(z * 0.5)
        z = compute(z.sum(0) + y)
        z = compute(z - x)
    return z.tolist()

def lazy():
    z = x
    for k in range({count} // 4):
        z = compute(((z + y) * 0.5).sum(0) + y - x)
    return z.tolist()

compute(x), compute(y)
answers = {{}}
for name, work in (("eager", eager), ("lazy", lazy)):
    work()
    best = float("inf")
    for _ in range({repeats}):
        start = clock(); found = work(); best = min(best, clock() - start)
    answers[name] = best
answers["sum"] = sum(map(sum, found))
print(json.dumps(answers))
"""


def main() -> None:
    options = arguments(__doc__).parse_args()
    repeats = 2 if options.quick else REPEATS
    names = [name for name in IMPORT if find(name) is not None]
    with tempfile.TemporaryDirectory() as folder:
        rows = [*starting(names, repeats, Path(folder)), *small(names, repeats, Path(folder))]
    report(rows, options)


def starting(names: list[str], repeats: int, cache: Path) -> list[Row]:
    """Milliseconds of the import and of the first operation, each in a fresh process."""
    titles = {"import": "import", "first": "first operation", "both": "import and first operation"}
    rows = {key: Row(title, "ms") for key, title in titles.items()}
    for name in names:
        script = FIRST.format(imports=IMPORT[name], make=MAKE[name])
        run(script, cache)
        found = [run(script, cache) for _ in range(repeats)]
        for key, row in rows.items():
            row.put(name, 1000 * min(answer[key] for answer in found))
    return list(rows.values())


def small(names: list[str], repeats: int, cache: Path) -> list[Row]:
    """Microseconds of an operation on an 8 × 8 tensor. The libraries' results are compared."""
    eager, lazy = Row("a small operation, each result asked for", "µs"), Row("a small operation, every fourth", "µs")
    sums = {}
    for name in names:
        script = SMALL.format(imports=IMPORT[name], make=MAKE[name], count=OPERATIONS, repeats=repeats)
        found = run(script, cache)
        eager.put(name, 1e6 * found["eager"] / OPERATIONS)
        lazy.put(name, 1e6 * found["lazy"] / OPERATIONS)
        sums[name] = found["sum"]
    if sums and max(sums.values()) - min(sums.values()) > 1e-3 * abs(max(sums.values())):
        note(f"the libraries disagree: {sums}")
        raise SystemExit(1)
    return [eager, lazy]


def run(script: str, cache: Path) -> dict[str, float]:
    """The output of a fresh process, with its caches in a folder."""
    (cache / "pocl").mkdir(exist_ok=True)
    return fresh_process(
        script,
        RULEGRAD_CACHE=str(cache / "rules"),
        POCL_CACHE_DIR=str(cache / "pocl"),
        CACHEDB=str(cache / "tinygrad.db"),
        DEV="CPU",
        CC=next((found for name in ("clang", "clang-19") if (found := shutil.which(name))), "clang"),
    )


if __name__ == "__main__":
    main()
