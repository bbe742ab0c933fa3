"""Kernels on the processor: rulegrad's device c beside its OpenCL device and PyTorch, all on two threads.

    python bench/processor.py [--json] [--quick]

Each library is measured in a process of its own with warm caches; times are the best of many calls, each on computed
operands and until the result is there. The first compilation is that of a kernel that no cache has, by everything that
it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from common import Row, arguments, in_child, note, report

SECONDS, QUICK_SECONDS = 0.7, 0.15
THREADS = 2
LIBRARIES = ("rulegrad", "opencl", "torch")  # rulegrad on the device c, rulegrad on OpenCL, PyTorch

#: name -> shapes and dtype of the operands, what is computed (the same text for both libraries)
CASES: dict[str, tuple[tuple[tuple[int, ...], ...], str, str]] = {
    "small addition (8 x 8)": (((8, 8), (8, 8)), "float32", "a + b"),
    "addition, 4 M": (((2048, 2048), (2048, 2048)), "float32", "a + b"),
    "exp, 4 M": (((2048, 2048),), "float32", "a.exp()"),
    "gelu, 4 M": (((2048, 2048),), "float32", "gelu(a)"),
    "softmax, 4096 x 1024": (((4096, 1024),), "float32", "a.softmax(-1)"),
    "sums of rows, 4096 x 1024": (((4096, 1024),), "float32", "a.sum(-1)"),
    "sums of columns, 4096 x 1024": (((4096, 1024),), "float32", "a.sum(0)"),
    "product, 512": (((512, 512), (512, 512)), "float32", "a @ b"),
    "product, 1024": (((1024, 1024), (1024, 1024)), "float32", "a @ b"),
    "product of bfloat16, 1024": (((1024, 1024), (1024, 1024)), "bfloat16", "a @ b"),
    "product of bfloat16, 2048": (((2048, 2048), (2048, 2048)), "bfloat16", "a @ b"),
    "product of int8, 1024": (((1024, 1024), (1024, 1024)), "int8", "int8_product(a, b)"),
}
COMPILATION = "first compilation of a kernel"


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2], float(sys.argv[3]))))
        return
    options = arguments(__doc__).parse_args()
    report(rows(options), options)


def rows(options: argparse.Namespace) -> list[Row]:
    """A row for each case, in microseconds."""
    os.environ["OMP_NUM_THREADS"] = os.environ["RULEGRAD_THREADS"] = str(THREADS)
    found = [Row(name, "µs") for name in (*CASES, COMPILATION)]
    for library in LIBRARIES:
        answer = in_child(__file__, (library, QUICK_SECONDS if options.quick else SECONDS), 600)
        if "error" in answer:
            note(f"{library} was not measured: {answer['error']}")
            continue
        for row in found:
            row.put(library, answer.get(row.name))
    return found


def child(library: str, seconds: float) -> dict[str, float]:
    """Microseconds of each case, on one library."""
    import numpy as np

    make, compute, names = torch_library() if library == "torch" else rulegrad_library(library)
    generator = np.random.default_rng(0)
    answers: dict[str, float] = {}
    if library != "torch":
        answers[COMPILATION] = compilation(make, compute)
    for name, (shapes, dtype, text) in CASES.items():
        arrays = (generator.standard_normal(s).astype(np.float32) for s in shapes)
        operands = dict(zip("ab", (make(16 * a if dtype == "int8" else a, dtype) for a in arrays)))
        work = eval(f"lambda: {text}", {**names, **operands})
        answers[name] = 1e6 * best(lambda work=work: compute(work()), seconds)
    return answers


def best(work: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call."""
    work()
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def compilation(make: Callable[[Any, str], Any], compute: Callable[[Any], Any]) -> float:
    """Microseconds of the first kernel with a constant that no kernel had before, once the library is warm."""
    import numpy as np

    x = make(np.ones((300, 7), np.float32), "float32")
    compute(x * 3.5 + 1)
    start = time.perf_counter()
    compute((x * float(time.time_ns() % 1_000_003 + 2)).exp() + x)
    return 1e6 * (time.perf_counter() - start)


def rulegrad_library(library: str) -> tuple[Callable[[Any, str], Any], Callable[[Any], Any], dict[str, Any]]:
    from rulegrad import Tensor
    from rulegrad.nn import functional
    from rulegrad.runtime import devices

    device = "c" if library == "rulegrad" else "opencl"
    opened = devices.get(device)

    def compute(x: Any) -> None:
        x.realize()
        opened.synchronize()

    def make(array: Any, dtype: str) -> Tensor:
        return Tensor(array, device=device).cast(dtype).realize()

    def int8_product(a: Tensor, b: Tensor) -> Tensor:
        return a.cast("int32") @ b.cast("int32")

    return make, compute, {"gelu": functional.gelu, "int8_product": int8_product}


def torch_library() -> tuple[Callable[[Any, str], Any], Callable[[Any], Any], dict[str, Any]]:
    import torch

    torch.set_num_threads(THREADS)

    def make(array: Any, dtype: str) -> Any:
        return torch.from_numpy(array).to(getattr(torch, dtype))

    return make, lambda x: x, {"gelu": torch.nn.functional.gelu, "int8_product": torch._int_mm}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("POCL_CACHE_DIR", folder)
        main()
