"""The cost of a step beside its kernels: small operations, a training step and a decode step, eager and captured.

    python bench/replay.py [--quick] [--json] [--memory STEPS]

All on device `c` with one thread, by the processor time of this thread: the fastest of some runs of each, rulegrad and
PyTorch in turn. "kernels" is what the programs of rulegrad's plans take, and "beside the kernels" the share of a step
that they do not. Captured are the same steps by `rulegrad.jit`, where this version has it. With --memory the resident
memory is measured instead, before and after so many steps of the first two and of training.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import Row, arguments, find, note, report

Step = Callable[[], object]
DEVICE = "c"
_BLOCK = 8e-3  # seconds of calls that are timed together, so that the first of them fills the caches for the others


def addition(library: Any) -> Step:
    """The sum of two vectors of 1,000 elements."""
    x, y = library.array(np.ones(1000)), library.array(np.ones(1000))
    return library.captured(lambda: library.computed(x + y))


def chain(library: Any) -> Step:
    """100 operations on 1,000 elements, of which one value is asked for."""
    x, y = library.array(np.ones(1000)), library.array(np.ones(1000))

    def run() -> object:
        z = x
        for _ in range(50):
            z = (z + y) * 0.5
        return library.computed(z)

    return library.captured(run)


def products(library: Any) -> Step:
    """60 products of 24×24 matrices, each of the result before."""
    x, w = library.array(np.eye(24)), library.array(np.linalg.qr(np.random.default_rng(0).normal(size=(24, 24)))[0])

    def run() -> object:
        z = x
        for _ in range(60):
            z = z @ w
        return library.computed(z)

    return library.captured(run)


def training(library: Any) -> Step:
    """A step of Adam on a network of 784-128-128-10 with 64 examples."""
    rng = np.random.default_rng(0)
    sizes = (784, 128, 128, 10)
    weights = [library.parameter(rng.normal(size=(a, b)) / a**0.5) for a, b in itertools.pairwise(sizes)]
    images, labels = library.array(rng.normal(size=(64, 784))), library.array(np.eye(10)[rng.integers(0, 10, 64)])
    optimizer = library.adam(weights)

    def run() -> object:
        optimizer.zero_grad()
        z = images
        for weight in weights[:-1]:
            z = (z @ weight).relu()
        loss = -((z @ weights[-1]).log_softmax(1) * labels).sum() / 64
        loss.backward()
        optimizer.step()
        return library.computed(loss.detach())

    return library.captured(run)


def decoding(library: Any, layers: int, width: int = 192, length: int = 128) -> Step:
    """A token through made-up transformer layers, whose caches of keys and values are updated in place."""
    rng = np.random.default_rng(0)

    def weight(rows: int, columns: int) -> Any:
        return library.array(rng.normal(size=(rows, columns)) / rows**0.5)

    all_weights = [
        (weight(width, 3 * width), weight(width, 4 * width), weight(4 * width, width)) for _ in range(layers)
    ]
    caches = [tuple(library.array(np.zeros((length, width))) for _ in range(2)) for _ in range(layers)]
    token, here = library.array(rng.normal(size=(1, width))), library.array(np.eye(length)[:, 5:6])

    def run() -> object:
        x = token
        for (projection, up, down), (keys, values) in zip(all_weights, caches):
            q, k, v = (x @ projection).reshape(3, 1, width)
            library.assign(keys, keys * (1 - here) + here * k)
            library.assign(values, values * (1 - here) + here * v)
            x = x + (q @ keys.T / width**0.5).softmax(1) @ values
            x = x + (x @ up).relu() @ down
        return library.computed(x, *(cache for pair in caches for cache in pair))

    return library.captured(run)


class Rulegrad:
    def __init__(self, module: Any, is_captured: bool = False) -> None:
        self._module, self._tensor = module, module.Tensor
        self.captured: Callable[[Step], Step] = module.jit if is_captured else lambda step: step
        self._computed = (lambda x, *_: x) if is_captured else self._tensor.realize

    def array(self, values: Any) -> Any:
        return self._tensor(np.asarray(values, np.float32), device=DEVICE)

    def parameter(self, values: Any) -> Any:
        return self.array(values).requires_grad_()

    def adam(self, weights: Any) -> Any:
        return self._module.optim.Adam(weights, lr=1e-3)

    def assign(self, tensor: Any, value: Any) -> None:
        tensor.assign(value)

    def computed(self, *tensors: Any) -> object:
        return self._computed(*tensors)


class Torch:
    def __init__(self, module: Any) -> None:
        self._module = module
        self.captured: Callable[[Step], Step] = lambda step: step

    def array(self, values: Any) -> Any:
        return self._module.tensor(np.asarray(values, np.float32))

    def parameter(self, values: Any) -> Any:
        return self.array(values).requires_grad_()

    def adam(self, weights: Any) -> Any:
        return self._module.optim.Adam(weights, lr=1e-3)

    def assign(self, tensor: Any, value: Any) -> None:
        tensor.copy_(value)

    def computed(self, *tensors: Any) -> object:
        return tensors


def microseconds(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """The fastest run of each step, a few calls a run where they are short, in turn until each had its seconds."""
    calls, best = {}, dict.fromkeys(steps, float("inf"))
    for name, step in steps.items():
        for _ in range(5):
            step()
        start = time.thread_time()
        step()
        calls[name] = max(1, int(_BLOCK / max(time.thread_time() - start, 1e-6)))
    gc.collect()
    gc.freeze()
    for _ in range(max(5, int(seconds / _BLOCK / len(steps)))):
        for name, step in steps.items():
            start = time.thread_time()
            for _ in range(calls[name]):
                step()
            best[name] = min(best[name], (time.thread_time() - start) / calls[name])
    gc.unfreeze()
    return {name: value * 1e6 for name, value in best.items()}


class Timed:
    """A plan's program that adds up what its runs take, without reading the clock."""

    spent = 0.0
    clock = 0.0  # seconds of one reading

    def __init__(self, program: Any) -> None:
        self._program = program

    def run(self, handles: Any, arena: Any) -> None:
        start = time.thread_time()
        self._program.run(handles, arena)
        Timed.spent += time.thread_time() - start - Timed.clock


def kernels_of(step: Step, times: int) -> float:
    """Microseconds that the programs of a step take, the fastest of some runs; Python launches them meanwhile."""
    eager = importlib.import_module("rulegrad.runtime.eager").eager
    finding = importlib.import_module("rulegrad.compile.realize")
    tables = [plan._prepared for plan, _ in finding._plans.values()]
    before = [dict(table) for table in tables]
    for table in tables:
        for key, one in table.items():
            if one.recorded is not None:
                table[key] = one._replace(recorded=one.recorded._replace(program=Timed(one.recorded.program)))
    off, eager.is_off = eager.is_off, True
    best = Timed.clock = float("inf")
    for _ in range(1000):
        start = time.thread_time()
        Timed.clock = min(Timed.clock, time.thread_time() - start)
    try:
        for _ in range(times):
            Timed.spent = 0.0
            step()
            best = min(best, Timed.spent)
    finally:
        eager.is_off = off
        for table, entries in zip(tables, before):
            table.update(entries)
    return best * 1e6


def rows_of(name: str, make: Callable[[Any], Step], libraries: dict[str, Any], seconds: float) -> list[Row]:
    steps: dict[str, Step] = {}
    for library, made in libraries.items():
        try:
            steps[library] = make(made)
            steps[library]()
        except Exception as error:  # one that a library cannot do is left out
            note(f"{library} cannot run {name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            steps.pop(library, None)
    found = microseconds(steps, seconds)
    kernels = kernels_of(steps["rulegrad"], 50)
    rows = [Row(name, "µs", found["rulegrad"], {"torch": found.get("torch")}), Row("  kernels", "µs", kernels)]
    rows.append(Row("  beside the kernels", "%", 100 * max(0.0, 1 - kernels / found["rulegrad"])))
    if "captured" in found:
        captured, kernels = found["captured"], kernels_of(steps["captured"], 50)
        rows.append(Row("  captured", "µs", captured, {"torch": found.get("torch")}))
        rows.append(Row("  captured: kernels", "µs", kernels))
        rows.append(Row("  captured: beside the kernels", "%", 100 * max(0.0, 1 - kernels / captured)))
    return rows


def memory_rows(library: str, made: Any, count: int) -> list[Row]:
    """Resident memory before and after `count` of each of three steps."""
    steps = [make(made) for make in (addition, chain, training)]

    def resident() -> float:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6

    for _ in range(300):
        for step in steps:
            step()
    before = resident()
    for _ in range(count):
        for step in steps:
            step()
    after = resident()
    name = "captured" if library == "captured" else "eager"
    return [
        Row(f"{name}: {count:,} of each step, before", "MB", before),
        Row("  growth", "%", 100 * (after / before - 1)),
    ]


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--memory", type=int, default=0, metavar="STEPS", help="resident memory over so many steps")
    options = parser.parse_args()
    rulegrad = importlib.import_module("rulegrad")
    rulegrad.config.threads = 1
    libraries: dict[str, Any] = {"rulegrad": Rulegrad(rulegrad)}
    if hasattr(rulegrad, "jit"):
        libraries["captured"] = Rulegrad(rulegrad, is_captured=True)
    if options.memory:
        report([row for name, made in libraries.items() for row in memory_rows(name, made, options.memory)], options)
        return
    torch = find("torch")
    if torch is not None:
        torch.set_num_threads(1)
        libraries["torch"] = Torch(torch)
    layers, seconds = (4, 0.3) if options.quick else (30, 2.0)
    cases: dict[str, Callable[[Any], Step]] = {
        "x + y, 1,000 elements": addition,
        "100 operations in a chain": chain,
        "60 products 24×24": products,
        "MLP step, Adam": training,
        f"decode step, {layers} layers": lambda library: decoding(library, layers),
    }
    report([row for name, make in cases.items() for row in rows_of(name, make, libraries, seconds)], options)


if __name__ == "__main__":
    main()
