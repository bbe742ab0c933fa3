"""A graph of the corpus in tinygrad: its own counters of kernels, operations and bytes; the time of its JIT."""

from __future__ import annotations

from typing import Any

from common import repeated
from corpus import Graph


def measure(graph: Graph, policy: str, seconds: float) -> dict[str, Any]:
    """The figures of bench/fusion.py."""
    from tinygrad import Device, GlobalCounters, Tensor, TinyJit

    from corpus.with_tinygrad import Tinygrad

    library = Tinygrad()
    inputs = [library.tensor(array) for array in graph.arrays()]
    peak = watched_peak()
    GlobalCounters.reset()
    outputs = graph.outputs(library, inputs)
    Tensor.realize(*outputs)
    found = {
        "kernels": GlobalCounters.kernel_count,
        "bytes": GlobalCounters.global_mem,
        "operations": GlobalCounters.global_ops,
        "peak": peak["most"],
        "sums": [library.sum_of(output) for output in outputs],
    }

    @TinyJit
    def step(*inputs: Any) -> list[Any]:
        results = graph.outputs(library, inputs)
        Tensor.realize(*results)
        return results

    def compute(_: None) -> list[Any]:
        results: list[Any] = step(*inputs)
        Device[Device.DEFAULT].synchronize()
        return results

    for _ in range(2):  # the JIT runs, then records
        compute(None)
    found["time"] = repeated(seconds, compute, lambda: None)
    return found


def watched_peak() -> dict[str, int]:
    """The most bytes that tinygrad's buffers have at once, from now on."""
    from tinygrad import GlobalCounters
    from tinygrad.device import Buffer

    peak = {"most": GlobalCounters.mem_used}
    allocate = Buffer.allocate

    def watched(self: Any, *arguments: Any, **options: Any) -> Any:
        result = allocate(self, *arguments, **options)
        peak["most"] = max(peak["most"], GlobalCounters.mem_used)
        return result

    Buffer.allocate = watched
    return peak
