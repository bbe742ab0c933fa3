"""The cost of checking indices in tensors: the time in kernels with the setting check_indices on and off.

    python bench/index_checks.py [--json] [--quick] [--device NAME]

Both are measured in one process, in alternation, so that what else the machine does falls on both: on one thread where
the device is c, as between more of them the times vary by more than the difference. The times are those of the fastest
call; the last column is the median of what the two calls of a pair took in relation to each other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable
from typing import Any

from common import arguments

REPEATS, QUICK_REPEATS = 400, 40


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="c", help="where to measure")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    os.environ["RULEGRAD_THREADS"] = "1"
    found = [
        (name, *times(run, QUICK_REPEATS if options.quick else REPEATS))
        for name, run in cases(options.device, 10 if options.quick else 1).items()
        if options.only in name
    ]
    tell(found, options)


def cases(device: str, smaller: int) -> dict[str, Callable[[], Any]]:
    """The operations, as functions that give a tensor to compute."""
    import numpy as np

    from rulegrad import Tensor

    random = np.random.default_rng(0)

    def values(*shape: int) -> Any:
        return Tensor(random.standard_normal(shape).astype(np.float32), device=device).realize()

    def places(extent: int, *shape: int, dtype: Any = np.int64) -> Any:
        return Tensor(random.integers(0, extent, shape, dtype), device=device).realize()

    table, words = values(50_000 // smaller, 256), places(50_000 // smaller, 4096)
    line, at = values(1_000_000 // smaller), places(1_000_000 // smaller, 1_000_000 // smaller)
    narrow = places(line.size, line.size, dtype=np.int32)
    few, often = values(1000), places(1000, 1_000_000 // smaller)
    matrix, updates = values(1000 // smaller, 1000), values(1000 // smaller, 1000)
    rows, columns = places(1000 // smaller, 1000 // smaller, 1000), places(1000, 1000 // smaller, 1000)
    scores, labels = values(512, 10_000 // smaller), places(10_000 // smaller, 512)
    return {
        "embedding, 4096 of 50,000 x 256": lambda: table.embedding(words),
        "x[i], 1e6 of 1e6": lambda: line[at],
        "x[i], 1e6 of 1e6, int32": lambda: line[narrow],
        "x[i], 1e6 of 1000": lambda: few[often],
        "x[i].sum(), 1e6 of 1e6": lambda: line[at].sum(),
        "gather, axis 0, 1000 x 1000": lambda: matrix.gather(0, rows),
        "gather, axis 1, 1000 x 1000": lambda: matrix.gather(1, columns),
        "scatter_add, axis 0, 1000 x 1000": lambda: matrix.scatter_add(0, rows, updates),
        "scatter_add, axis 1, 1000 x 1000": lambda: matrix.scatter_add(1, columns, updates),
        "cross_entropy, 512 x 10,000": lambda: scores.cross_entropy(labels),
    }


def times(run: Callable[[], Any], repeats: int) -> tuple[float, float, float]:
    """Microseconds in kernels without and with checks, of the fastest calls; and the median ratio of pairs."""
    from rulegrad.config import config
    from rulegrad.runtime.profile import profile

    taken: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(repeats + 2):
        for checks in (turn % 2, 1 - turn % 2):
            with config(check_indices=checks), profile() as measured:
                run().realize()
            if turn >= 2:
                taken[checks].append(measured.seconds)
    off, on = (min(taken[checks]) * 1e6 for checks in (0, 1))
    return off, on, statistics.median(b / a for a, b in zip(taken[0], taken[1], strict=True))


def tell(found: list[tuple[str, float, float, float]], options: argparse.Namespace) -> None:
    if options.json:
        print(
            json.dumps(
                [{"name": name, "off": off, "on": on, "ratio": ratio} for name, off, on, ratio in found], indent=1
            )
        )
        return
    print("| operation | off, µs | on, µs | on / off | pairs |\n|---|---|---|---|---|")
    for name, off, on, ratio in found:
        print(f"| {name} | {off:.0f} | {on:.0f} | {on / off:.3f} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
