"""A graph of the corpus in rulegrad, with the chosen plan or that of a policy under bench/policies: what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rulegrad
from common import repeated
from corpus import Graph
from corpus.with_rulegrad import Rulegrad
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.compile.estimate import computed
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.profile import profile

POLICIES = Path(__file__).resolve().parent / "policies"
#: A plan with more operations than this is not run.
MOST_OPERATIONS = 5e10


def measure(graph: Graph, policy: str, seconds: float) -> dict[str, Any]:
    """The figures of bench/fusion.py; policy: the name of its file, or nothing for the chosen plan."""
    rulegrad.load_rules(POLICIES / "estimate.rules", *([POLICIES / f"{policy}.rules"] if policy else []))
    device = devices.default()
    target = devices.target_of(device)
    library = Rulegrad(device)
    inputs = [library.tensor(array) for array in graph.arrays()]
    outputs = graph.outputs(library, inputs)
    kernels = compile_graph([output.uop for output in outputs], target)
    found = {
        "kernels": len(kernels),
        "bytes": sum(kernel.nbytes for kernel in kernels),
        "operations": sum(kernel.flops for kernel in kernels),
        "estimated": estimated(kernels, target),
        "outputs": sum(output.nbytes for output in outputs),
    }
    if found["operations"] > MOST_OPERATIONS:
        return {**found, "not run": f"more than {MOST_OPERATIONS:.0e} operations"}
    return {**found, **run(graph, library, inputs, seconds)}


def estimated(kernels: Sequence[Kernel], target: str) -> float:
    """Seconds, by the cost model's terms: what each node of a kernel computes, its buffers once, its launch."""
    rules = engine.program(target)
    nanoseconds = 0
    for kernel in kernels:
        nanoseconds += rules.call("launch_time", kernel.graph)
        buffers = {node.attrs["slot"]: node for node in kernel.graph.toposort() if node.op == "PARAM"}
        nanoseconds += sum(rules.call("buffer_time", node) for node in buffers.values())
        nanoseconds += sum(rules.call("node_time", node, times) for node, times in computed(kernel.graph))
    return nanoseconds * 1e-9


def run(graph: Graph, library: Rulegrad, inputs: list[Any], seconds: float) -> dict[str, Any]:
    """Peak memory and the sums of the results at the first run, times of the best of some more."""
    device = devices.get(library.device)

    def compute(outputs: list[Any]) -> list[Any]:
        Tensor.realize(*outputs)
        device.synchronize()
        return outputs

    peak = Peak(devices.allocator(library.device))
    outputs = compute(graph.outputs(library, inputs))
    found: dict[str, Any] = {"peak": peak.most, "sums": [library.sum_of(output) for output in outputs]}
    del outputs
    found["time"] = repeated(seconds, compute, lambda: graph.outputs(library, inputs))

    def compute_profiled(outputs: list[Any]) -> float:
        with profile() as record:
            compute(outputs)
        return record.seconds

    found["in kernels"] = min(compute_profiled(graph.outputs(library, inputs)) for _ in range(7))
    return found


class Peak:
    """The most bytes that an allocator has given out at once, from now on."""

    def __init__(self, allocator: Any) -> None:
        self.most = allocator.in_use
        allocate = allocator.allocate

        def watched(*arguments: Any, **options: Any) -> Any:
            handle = allocate(*arguments, **options)
            self.most = max(self.most, allocator.in_use)
            return handle

        allocator.allocate = watched
