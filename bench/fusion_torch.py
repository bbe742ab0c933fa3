"""A graph of the corpus in PyTorch, by torch.compile: calls in the generated code, and its own count of bytes."""

from __future__ import annotations

import re
from typing import Any

from common import repeated
from corpus import Graph

#: A line of the generated wrapper that runs a kernel: its own, a library's, or an operator without one.
CALL = re.compile(r"^\s+(?:\w+ = )?(cpp_fused\w*|extern_kernels\.\w+|aten\.[\w.]+|torch\.ops\.[\w.]+)\(", re.MULTILINE)


def measure(graph: Graph, policy: str, seconds: float) -> dict[str, Any]:
    """The figures of bench/fusion.py. A cpp_fused function is one kernel, however many loops it has."""
    import torch
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    from corpus.with_torch import Torch

    config.fx_graph_cache = False  # what comes from there is not counted
    library = Torch()
    inputs = [library.tensor(array) for array in graph.arrays()]
    counted = watched_bytes()
    compiled = torch.compile(lambda *tensors: graph.outputs(library, tensors))
    outputs, code = run_and_get_code(compiled, *inputs)
    found: dict[str, Any] = {
        "kernels": sum(len(CALL.findall(text[text.index("def call") :])) for text in code),
        "bytes": sum(counted),
        "sums": [library.sum_of(output) for output in outputs],
    }
    del outputs

    def compute(_: None) -> Any:
        return compiled(*inputs)

    found["peak"] = sum(tensor.nbytes for tensor in inputs) + peak_of(lambda: compute(None))
    found["time"] = repeated(seconds, compute, lambda: None)
    return found


def watched_bytes() -> list[int]:
    """Bytes of each graph that inductor generates code for, from now on: each kernel's buffers once."""
    from torch._inductor.graph import GraphLowering

    counted: list[int] = []
    generate = GraphLowering.codegen

    def watched(self: Any) -> Any:
        result = generate(self)
        counted.append(self.count_bytes()[0])
        return result

    GraphLowering.codegen = watched
    return counted


def peak_of(work: Any) -> int:
    """The most bytes of what `work` allocates, at once."""
    import torch

    with torch.profiler.profile(profile_memory=True) as record:
        result = work()
    del result
    now = most = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
