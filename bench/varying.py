"""Kernels with sizes as arguments beside kernels with sizes as constants, on the device c: time on one thread.

    python bench/varying.py [CASE ...]

Each case runs at a size by a plan of its own, and by a general plan that was made from other sizes. Times are the
least of several runs, by the processor time of the thread, in microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import forget_kernels, varying
from rulegrad.nn import functional

Make = Callable[[int], tuple[Tensor, ...]]
noise = np.random.default_rng(0)


def floats(*shape: int) -> Tensor:
    return Tensor(noise.standard_normal(shape).astype(np.float32), device="c").realize()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v


def norm(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True, correction=0) + 1e-5).sqrt()


#: case: the computation, its arguments by the size, and the sizes that are measured
CASES: dict[str, tuple[Callable[..., Tensor], Make, tuple[int, ...]]] = {
    "product t*t*t": (lambda a, b: a @ b, lambda t: (floats(t, t), floats(t, t)), (100, 511, 512)),
    "product rows": (lambda a, b: a @ b, lambda t: (floats(t, 768), floats(768, 768)), (17, 96, 511, 512)),
    "product depth": (lambda a, b: a @ b, lambda t: (floats(256, t), floats(t, 256)), (96, 511, 512)),
    "product columns": (lambda a, b: a @ b, lambda t: (floats(256, 256), floats(256, t)), (96, 511, 512)),
    "product by rows": (lambda a, b: a @ b.T, lambda t: (floats(12, 64), floats(t, 64)), (96, 511)),
    "elementwise (t, 1024)": (lambda x: (x * 2 + 1).relu(), lambda t: (floats(t, 1024),), (100, 512)),
    "elementwise (512, t)": (lambda x: (x * 2 + 1).relu(), lambda t: (floats(512, t),), (37, 1000, 1024)),
    "elementwise (65536, 8)": (lambda x: (x * 2 + 1).relu(), lambda t: (floats(t, 8),), (65536,)),
    "bias (t, 768)": (lambda x, b: x + b, lambda t: (floats(t, 768), floats(768)), (100, 512)),
    "sum of rows (512, t)": (lambda x: x.sum(-1), lambda t: (floats(512, t),), (100, 256, 1000)),
    "sum of columns (t, 512)": (lambda x: x.sum(0), lambda t: (floats(t, 512),), (100, 1000)),
    "softmax (512, t)": (lambda x: x.softmax(-1), lambda t: (floats(512, t),), (32, 96, 100, 1024)),
    "softmax (t, 768)": (lambda x: x.softmax(-1), lambda t: (floats(t, 768),), (100, 512)),
    "layer norm (t, 768)": (norm, lambda t: (floats(t, 768),), (100, 512)),
    "attention, 1 query": (
        attention, lambda t: (floats(12, 1, 64), floats(12, t, 64), floats(12, t, 64)), (17, 100, 256, 1000),
    ),
    "attention, t queries": (
        attention, lambda t: (floats(12, t, 64), floats(12, t, 64), floats(12, t, 64)), (33, 100, 128, 512),
    ),
    "convolution of (t, t)": (
        lambda x, w: x.conv2d(w, padding=1), lambda t: (floats(2, 16, t, t), floats(32, 16, 3, 3)), (28, 56),
    ),
    "convolution 1 x 1 of (t, t)": (
        lambda x, w: x.conv2d(w), lambda t: (floats(2, 16, t, t), floats(32, 16, 1, 1)), (28, 56),
    ),
    "convolution, stride 2": (
        lambda x, w: x.conv2d(w, stride=2), lambda t: (floats(2, 16, t, t), floats(32, 16, 3, 3)), (29, 57),
    ),
    "depthwise convolution": (
        lambda x, w: x.conv2d(w, padding=1, groups=16), lambda t: (floats(2, 16, t, t), floats(16, 1, 3, 3)), (28, 56),
    ),
    "transposed convolution": (
        lambda x, w: x.conv_transpose2d(w, stride=2), lambda t: (floats(2, 16, t, t), floats(16, 8, 2, 2)), (28, 56),
    ),
    "largest of windows": (lambda x: x.max_pool2d(3, 1, 1), lambda t: (floats(2, 16, t, t),), (28, 56)),
    "mean of 2 x 2": (lambda x: x.avg_pool2d(2), lambda t: (floats(2, 16, 2 * t, 2 * t),), (28, 56)),
    "repeated 2 x 2": (
        lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3), lambda t: (floats(2, 16, t, t),), (28, 56),
    ),
    "group norm": (lambda x: functional.group_norm(x, 4), lambda t: (floats(2, 16, t, t),), (28, 56)),
}  # fmt: skip


def least_time(compute: Callable[..., Tensor], arguments: tuple[Tensor, ...], seconds: float = 0.25) -> float:
    """The least time of a call, in microseconds."""
    compute(*arguments).realize()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        compute(*arguments).realize()
        least = min(least, time.perf_counter() - start)
    return least * 1e6


def tactics(compute: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> str:
    """The tactics of the kernels of a call, the slowest first."""
    with rg.profile() as found:
        compute(*arguments).realize()
    kernels = sorted(found.kernels, key=lambda kernel: -kernel.seconds)
    return " ".join(kernel.schedule.partition(":")[0] or "none" for kernel in kernels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="parts of names of cases")
    given = parser.parse_args()
    print(f"{'':26}{'size':>6}{'constants':>12}{'arguments':>12}{'ratio':>8}   tactics")
    for name, (compute, make, sizes) in CASES.items():
        if given.cases and not any(part in name for part in given.cases):
            continue
        rows: list[tuple[int, float, str]] = []
        with rg.config(threads=1, general_plans=0):
            for size in sizes:
                arguments = make(size)
                rows.append((size, least_time(compute, arguments), tactics(compute, arguments)))
        forget_kernels()
        varying.OFTEN = 1 << 30  # type: ignore[misc]
        with rg.config(threads=1, general_plans=1):
            for size in (67, 71):
                compute(*make(size)).realize()
            for size, own, tactic in rows:
                arguments = make(size)
                general = least_time(compute, arguments)
                told = tactics(compute, arguments)
                print(
                    f"{name:26}{size:6}{own:12.1f}{general:12.1f}{general / own:8.2f}   {tactic} | {told}", flush=True
                )
        forget_kernels()


if __name__ == "__main__":
    main()
