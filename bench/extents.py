"""Every kind of kernel at every extent from 1 to 40, on a device, against NumPy.

    python bench/extents.py --device c --most 40

The tiling and unrolling of a kernel depend on its extents: a mistake shows at some of them only. Programs and
their judgement are those of fuzz.py.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from fuzz import judged_at_sizes, report, verdicts
from fuzz_programs import FLOATS, NUMPY_NAMES, Array, Program, Statement

_ATTENTION = "matmul(v0, v1.T); softmax(half(v3), 1); matmul(v4, v2)", "v0 @ v1.T; (v3 * 0.5).softmax(-1); v4 @ v2"
_POOLED = "v0.pad(((0, 0), (0, 1), (0, 0))).unfold(1, 2, 1).max(axis=-1)"
#: Kind: the shapes of what it reads (n: the extent that is tried; i: places on an axis), NumPy's texts, Tensor's; each
#: text is a step, whose result may be rounded.
KINDS: dict[str, tuple[str, str, str]] = {
    "product, rows": ("n,5 5,6", "matmul(v0, v1)", "v0 @ v1"),
    "product, depth": ("3,n n,6", "matmul(v0, v1)", "v0 @ v1"),
    "product, columns": ("3,5 5,n", "matmul(v0, v1)", "v0 @ v1"),
    "product, square": ("n,n n,n", "matmul(v0, v1)", "v0 @ v1"),
    "product, transposed right": ("4,n 6,n", "matmul(v0, v1.T)", "v0 @ v1.T"),
    "product, transposed left": ("n,4 n,6", "matmul(v0.T, v1)", "v0.T @ v1"),
    "product, batches": ("n,3,4 n,4,5", "matmul(v0, v1)", "v0 @ v1"),
    "product, one side in batches": ("2,n,4 4,5", "matmul(v0, v1)", "v0 @ v1"),
    "sum, rows": ("3,n", "v0.sum(1)", "v0.sum(axis=1)"),
    "sum, columns": ("n,3", "v0.sum(0)", "v0.sum(axis=0)"),
    "sum, of n columns": ("3,n", "v0.sum(0)", "v0.sum(axis=0)"),
    "sum, middle": ("2,n,3", "v0.sum(1)", "v0.sum(axis=1)"),
    "sum, all": ("n,n", "v0.sum()", "v0.sum()"),
    "maximum, rows": ("3,n", "v0.max(1)", "v0.max(axis=1)"),
    "minimum, columns": ("n,3", "v0.min(0)", "v0.min(axis=0)"),
    "product of elements": ("3,n", "v0.prod(1)", "v0.prod(axis=1)"),
    "mean": ("n,4", "v0.mean(0)", "v0.mean(axis=0)"),
    "place of the largest": ("3,n", "v0.argmax(1)", "v0.argmax(axis=1)"),
    "running sum": ("3,n", "np.cumsum(v0, 1)", "v0.cumsum(1)"),
    "running maximum": ("n,3", "np.maximum.accumulate(v0, 0)", "v0.cummax(0)[0]"),
    "softmax": ("3,n", "softmax(v0, 1)", "v0.softmax(1)"),
    "softmax, columns": ("n,3", "softmax(v0, 0)", "v0.softmax(0)"),
    "layer norm": (
        "3,n", "(v0 - v0.mean(1, keepdims=True)) / np.sqrt(v0.var(1, keepdims=True) + v0.dtype.type(1))",
        "(v0 - v0.mean(axis=1, keepdims=True)) / (v0.var(axis=1, keepdims=True, correction=0) + 1).sqrt()",
    ),
    "attention, keys": ("3,4 n,4 n,5", *_ATTENTION),
    "attention, queries": ("n,4 5,4 5,3", *_ATTENTION),
    "attention, width": ("3,4 8,4 8,n", *_ATTENTION),
    "attention, all": ("n,n n,n n,n", *_ATTENTION),
    "convolution": (
        "1,2,n 3,2,1", "conv1d(v0, v1)",
        "v0.reshape(1, 2, 1, -1).conv2d(v1.reshape(3, 2, 1, -1)).squeeze(2)",
    ),
    "convolution, window": (
        "2,2,40 2,2,n", "conv1d(v0, v1)",
        "v0.reshape(2, 2, 1, -1).conv2d(v1.reshape(2, 2, 1, -1)).squeeze(2)",
    ),
    "pooling": ("2,n,4", "windows(np.pad(v0, ((0, 0), (0, 1), (0, 0))), 2, 1).max(-1)", _POOLED),
    "transposed": ("n,5", "v0.T + 1", "v0.T + 1"),
    "flipped": ("3,n", "v0[:, ::-1] * 2", "v0.flip(1) * 2"),
    "padded": ("3,n", "np.pad(v0, ((1, 0), (2, 1)))", "v0.pad(((1, 0), (2, 1)))"),
    "joined": ("3,n 3,4", "np.concatenate([v0, v1, v0], 1)", "v0.cat(v1, v0, axis=1)"),
    "gathered": ("3,n i3,4", "np.take_along_axis(v0, v1, 1)", "v0.gather(1, v1)"),
    "gathered, first axis": ("n,n in,n", "np.take_along_axis(v0, v1, 0)", "v0.gather(0, v1)"),
    "gathered, places": ("n in", "v0[v1]", "v0[v1]"),
    "gathered, computed with": ("n in n", "np.exp(v0[v1] * v2)", "(v0[v1] * v2).exp()"),
    "gathered, sums of rows": ("n i3,n", "v0[v1].sum(1)", "v0[v1].sum(axis=1)"),
    "gathered, largest of columns": ("n in,20", "v0[v1].max(0)", "v0[v1].max(axis=0)"),
    "gathered, twice": ("n in in", "v0[v1[v2]]", "v0[v1[v2]]"),
    "scattered, first axis": ("n,3 i7,3 7,3", "added_at(v0, 0, v1, v2)", "v0.scatter_add(0, v1, v2)"),
    "scattered": ("3,n i3,7 3,7", "added_at(v0, 1, v1, v2)", "v0.scatter_add(1, v1, v2)"),
    "sorted": ("2,n", "np.sort(v0, 1)", "v0.sort(1)[0]"),
}  # fmt: skip


def program(kind: str, n: int, dtype: str, seed: int) -> Program:
    """One kind of kernel at one extent."""
    noise = np.random.default_rng(seed)
    shapes, numpy, tensor = KINDS[kind]
    inputs: list[tuple[int, Array]] = []
    for number, text in enumerate(shapes.split()):
        shape = tuple(n if part == "n" else int(part) for part in text.removeprefix("i").split(","))
        given = noise.integers(0, n, shape) if text[0] == "i" else noise.normal(size=shape).astype(dtype)
        inputs.append((number, given))
    steps: list[Statement] = []
    values = dict(inputs)
    for step, texts in enumerate(zip(numpy.split("; "), tensor.split("; "), strict=True), len(inputs)):
        sources = tuple(source for source in range(step) if f"v{source}" in texts[0])
        result = "int64" if "arg" in numpy else dtype
        if dtype not in FLOATS:  # sums of small integers are larger ones, quotients are floats
            values[step] = np.asarray(eval(texts[0], dict(NUMPY_NAMES), {f"v{k}": values[k] for k in sources}))
            result = values[step].dtype.name
        steps.append(Statement(step, sources, *texts, result, rounds=True))
    return Program(seed, inputs, steps, [steps[-1].result])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="c")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=int, default=40, help="the largest extent")
    parser.add_argument("--only", default="", help="kinds whose names contain this")
    parser.add_argument("--general", action="store_true", help="by plans for all extents, which the second one makes")
    given = parser.parse_args()
    begin, wrong, count = time.perf_counter(), 0, 0
    for kind in [kind for kind in KINDS if given.only in kind]:
        extents = [5, 6, *range(1, given.most + 1)] if given.general else range(1, given.most + 1)
        programs = [program(kind, n, given.dtype, n) for n in extents]
        for one, problem in (judged_at_sizes if given.general else verdicts)(programs, given.device):
            count += 1
            if problem:
                wrong += 1
                print(f"{kind}, extent {one.seed}:\n{report(one, given.device, problem)}\n", flush=True)
    print(f"{count} kernels on {given.device}: {wrong} differ; {time.perf_counter() - begin:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
