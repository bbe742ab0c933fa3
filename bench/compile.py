"""Compile time, from tensors to the source of every kernel, without the device's own compiler.

    python bench/compile.py [--json] [--quick] [--passes]

Each workload is compiled in a process of its own: "first" is that process's first compilation of
anything, "again" the best of some more with all finished work forgotten. tinygrad compiles for its
NULL device, in one process: the workers of its pool keep finished work and cannot be told to forget it.
"again" is processor time, of all threads together.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from typing import Any

from common import Row, arguments, find, in_child, note, report

WORKLOADS = {
    "training_step": "digits training step, batch 64",
    "softmax": "softmax 4096×1024",
    "layer_norm": "layer norm 4096×1024",
    "matmul": "matmul 512³",
    "conv2d": "conv2d 1×64×56×56 by 64×64×3×3",
}
# Of bench/schedule_models.py, by rulegrad alone: schedules, plan of memory and kernels for the device `c`.
MODELS = {
    "mlp": "MLP 784-128-128-10, training step",
    "resnet": "ResNet-18, forward",
    "gpt2": "GPT-2 small, 128 tokens, forward",
    "gpt2_training": "GPT-2 small, 128 tokens, training step",
}
LIBRARIES = ("rulegrad", "tinygrad")
# The device without a compiler, and everything in the measured process.
SETTINGS = {"DEV": "NULL", "PARALLEL": "0"}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--passes", action="store_true", help="rulegrad's time per pass and per rule as well")
    options = parser.parse_args()
    os.environ.update(SETTINGS)
    libraries = [name for name in LIBRARIES if find(name)]
    rows, passes = [], []
    for workload, title in (WORKLOADS | MODELS).items():
        first, again = Row(f"{title}: first", "ms"), Row(f"{title}: again", "ms")
        kernels = Row(f"{title}: kernels", "kernels")
        for name in libraries if workload in WORKLOADS else libraries[:1]:
            answer = in_child(__file__, (name, workload, 1 if options.quick else 5), timeout=300)
            if "error" in answer:
                note(f"{name} cannot compile {workload}: {answer['error']}")
            for row, key in ((first, "first"), (again, "again"), (kernels, "kernels")):
                row.put(name, answer.get(key))
            passes.append((title, answer.get("statistics")))
        rows += [first, again, kernels]
    report(rows, options)
    if options.passes:
        for title, statistics in passes:
            show_statistics(title, statistics, sys.stderr if options.json else sys.stdout)


def measure(name: str, workload: str, repeats: int) -> dict[str, Any]:
    """Milliseconds of the first compilation in this process, and of the best of some more."""
    library = importlib.import_module(f"compile_{name}")
    build = library.prepare(workload)
    first = compile_once(library, build)
    again = min((compile_once(library, build) for _ in range(repeats)), key=lambda answer: answer["work"])
    return {
        "first": first["ms"],
        "again": again["work"],
        "kernels": again["kernels"],
        "statistics": again["statistics"],
    }


def compile_once(library: Any, build: Any) -> dict[str, Any]:
    library.forget()
    statistics = getattr(library, "statistics", None)
    if statistics:
        statistics()
    gc.collect()
    # As tinygrad's own realize does.
    gc.disable()
    start, start_of_work = time.perf_counter(), time.process_time()
    sources = library.compile_tensors(build())
    seconds, work = time.perf_counter() - start, time.process_time() - start_of_work
    gc.enable()
    found = statistics() if statistics else None
    return {"ms": seconds * 1000, "work": work * 1000, "kernels": len(sources), "statistics": found}


def show_statistics(title: str, statistics: Any, stream: Any) -> None:
    """The passes, and the rules that took longest, of one compilation."""
    for what, figures in (statistics or {}).items():
        print(f"\n{title}: {what}", file=stream)
        slowest = sorted(figures.items(), key=lambda item: -item[1]["seconds"])
        for name, figure in slowest[:20]:
            print(f"  {figure['seconds'] * 1e6:10.1f} µs  {int(figure['count']):8,}  {name}", file=stream)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        os.environ.update(SETTINGS)
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main()
