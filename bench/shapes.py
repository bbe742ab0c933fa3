"""Reductions and moves of data over tensors of many shapes and axes, beside torch: shapes that are slow for no reason.

    python bench/shapes.py [--json] [--quick] [--threads N] [WORD ...]

Each function is captured (`rulegrad.jit`) and computed for one shape after the other, without plans for all sizes, in a
process without PyTorch, whose threads spin after a call. A figure is the processor time of a call of one thread, the
least of many; with --threads the wall time of a call with so many. Results are computed, so a view is a copy in memory
here. WORD: only those whose names have it. --quick: fewer repeats. The last line is the geometric mean of all ratios.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from common import Row, arguments, find, in_child, note, report

#: A shape and the axes along which it is reduced.
SHAPES: list[tuple[tuple[int, ...], list[Any]]] = [
    ((100_000, 100), [0, 1]),
    ((1000, 1000), [0, 1]),
    ((10, 1_000_000), [0, 1]),
    ((1_000_000, 10), [0, 1]),
    ((4096, 1024), [0, 1]),
    ((32, 512, 768), [0, 1, 2]),
    ((8, 64, 56, 56), [1, (2, 3), (0, 2, 3)]),
    ((128, 10), [0, 1]),
    ((4096, 3), [0, 1]),
    ((64, 64, 64), [0, 1, 2]),
    ((3, 700, 900), [0, 1, 2]),
]


class Case(NamedTuple):
    """A function of a library `t`, its `F` and tensors, the shapes of these, and whether indices are among them."""

    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    below: int = 0  # the last tensor is integers below it


def reductions() -> Iterator[tuple[str, Case]]:
    """Every reduction, and what is computed of its results, along every axis."""
    functions: dict[str, Callable[..., Any]] = {
        "sum": lambda t, f, x, a: x.sum(a),
        "amax": lambda t, f, x, a: t.amax(x, a),
        "var": lambda t, f, x, a: t.var(x, a),
        "norm": lambda t, f, x, a: t.linalg.vector_norm(x, dim=a),
        "count": lambda t, f, x, a: (x > 0).sum(a),
        "logsumexp": lambda t, f, x, a: t.logsumexp(x, a),
        "centred": lambda t, f, x, a: x - x.mean(a, keepdim=True),
        "flip": lambda t, f, x, a: t.flip(x, (a,) if isinstance(a, int) else a),
    }
    of_one_axis: dict[str, Callable[..., Any]] = {
        "argmax": lambda t, f, x, a: x.argmax(a),
        "softmax": lambda t, f, x, a: t.softmax(x, a),
        "cumsum": lambda t, f, x, a: t.cumsum(x, a),
        "prod": lambda t, f, x, a: t.prod(x, a),
        "median": lambda t, f, x, a: x.median(dim=a)[0],
        "roll": lambda t, f, x, a: t.roll(x, 3, a),
        "diff": lambda t, f, x, a: t.diff(x, dim=a),
    }
    for shape, axes in SHAPES:
        for axis in axes:
            for name, function in (functions | (of_one_axis if isinstance(axis, int) else {})).items():
                text = f"{name} {'x'.join(map(str, shape))} {axis}"
                yield text, Case(lambda t, f, x, g=function, a=axis: g(t, f, x, a), (shape,))


def moves() -> Iterator[tuple[str, Case]]:
    """Joining, padding, transposing, indexing, and products with a vector."""
    large, square, image = (1_000_000, 10), (1500, 1500), (8, 64, 56, 56)
    for axis in (0, 1):
        yield f"cat large {axis}", Case(lambda t, f, x, y, a=axis: t.cat([x, y], a), (large, large))
        yield f"cat square {axis}", Case(lambda t, f, x, y, a=axis: t.cat([x, y], a), (square, square))
        yield (
            f"index_select square {axis}",
            Case(lambda t, f, x, i, a=axis: x.index_select(a, i), (square, (900,)), 1500),
        )
        yield f"gather square {axis}", Case(lambda t, f, x, i, a=axis: t.gather(x, a, i), (square, square), 1500)
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield f"pad {mode}", Case(lambda t, f, x, m=mode: f.pad(x, (3, 2, 1, 2), mode=m), (image,))
    yield "pad rows", Case(lambda t, f, x: f.pad(x, (0, 0, 300_000, 0)), (large,))
    yield "rot90", Case(lambda t, f, x: t.rot90(x), (square,))
    yield "transposed", Case(lambda t, f, x: x.mT.contiguous(), (square,))
    yield "transposed tall", Case(lambda t, f, x: x.mT.contiguous(), (large,))
    yield "channels last", Case(lambda t, f, x: x.permute(0, 2, 3, 1).contiguous(), (image,))
    yield "repeat_interleave", Case(lambda t, f, x: t.repeat_interleave(x, 3, 1), ((2000, 300),))
    yield "triu", Case(lambda t, f, x: t.triu(x, 1), (square,))
    yield "topk 200", Case(lambda t, f, x: t.topk(x, 200)[0], (square,))
    yield "vector @ matrix", Case(lambda t, f, x, y: x @ y, ((3000,), (3000, 3000)))
    yield "vector @ tall", Case(lambda t, f, x, y: x @ y, ((20_000,), (20_000, 512)))
    yield "matrix @ vector", Case(lambda t, f, x, y: x @ y, ((3000, 3000), (3000,)))
    yield "tall.mT @ tall", Case(lambda t, f, x, y: x.mT @ y, ((100_000, 10), (100_000, 10)))
    yield "bmm of 8 x 8", Case(lambda t, f, x, y: t.bmm(x, y), ((2000, 8, 8), (2000, 8, 8)))


def all_cases(words: list[str]) -> dict[str, Case]:
    """The cases whose names have one of the words."""
    found = dict([*reductions(), *moves()])
    return {name: case for name, case in found.items() if not words or any(word in name for word in words)}


def inputs_of(case: Case) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    arrays: list[Any] = [generator.standard_normal(shape).astype(np.float32) for shape in case.shapes]
    if case.below:
        arrays[-1] = generator.integers(0, case.below, case.shapes[-1])
    return arrays


def least(call: Callable[[], object], clock: Callable[[], float], seconds: float) -> float:
    """The least time of a call, of those for which there is time, after two that do not count; at least five."""
    call()
    call()
    best, calls, begin = math.inf, 0, time.perf_counter()
    while calls < 5 or time.perf_counter() - begin < seconds:
        start = clock()
        call()
        best, calls = min(best, clock() - start), calls + 1
    return best


def child(library: str, threads: int, seconds: float, words: list[str]) -> dict[str, float]:
    """The seconds of a call of each function."""
    t = importlib.import_module(library)
    functional = importlib.import_module(f"{library}.nn.functional")
    if library == "torch":
        t.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    found = {}
    for name, case in all_cases(words).items():
        if library == "torch":
            given = [t.from_numpy(array) for array in inputs_of(case)]
            call = lambda: case.call(t, functional, *given)  # noqa: B023, E731
        else:
            given = [t.Tensor(array).realize() for array in inputs_of(case)]
            step = t.jit(lambda *x: case.call(t, functional, *x))  # noqa: B023
            call = lambda: step(*given).realize()  # noqa: B023, E731
        found[name] = least(call, clock, seconds)
    return found


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only the functions whose names have it")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    libraries = ["rulegrad"] + (["torch"] if find("torch") else [])
    os.environ.update(RULEGRAD_THREADS=str(options.threads), GENERAL_PLANS="0")
    times = {}
    for library in libraries:
        seconds = 0.02 if options.quick else 0.15
        times[library] = in_child(__file__, [library, options.threads, seconds, *options.words], 3000.0)
        if "error" in times[library]:
            note(f"{library}: {times[library]['error']}")
    rows = []
    for name in all_cases(options.words):
        row = Row(name, "ms")
        for library in libraries:
            value = times[library].get(name)
            row.put(library, None if value is None else value * 1e3)
        rows.append(row)
    rows.sort(key=lambda row: row.ratio or 0.0)
    report(rows, options)
    ratios = [row.ratio for row in rows if row.ratio]
    if ratios and not options.json:
        print(f"geometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3g}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:])))
    else:
        main()
