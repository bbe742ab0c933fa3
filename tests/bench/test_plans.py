"""Numbers of kernels of the corpus's graphs, and the buffers that these read and write."""

from __future__ import annotations

from functools import cache

import pytest

from corpus import GRAPHS
from corpus.with_rulegrad import Rulegrad
from rulegrad.compile import compile_graph
from rulegrad.compile.schedule import Schedule, make_schedule, number_buffers
from rulegrad.ir import UOp

# Where small sizes need fewer than large ones: there nothing costs more than a launch.
SMALL = {
    "joining of computed parts": 1,
    "stack of computed parts": 1,
    "rotary embedding": 1,
    "transformer block": 4,
    "gradients of a transformer block": 8,
}
WANTED = {name: graph.kernels for name, graph in GRAPHS.items() if graph.kernels is not None}


def graph_of(name: str, small: bool) -> UOp:
    library, graph = Rulegrad("opencl"), GRAPHS[name]
    outputs = graph.outputs(library, [library.tensor(array) for array in graph.arrays(small=small)])
    return UOp("SINK", tuple(output.uop for output in outputs))


@cache
def plan(name: str, small: bool) -> tuple[Schedule, list[UOp]]:
    numbered, inputs = number_buffers(graph_of(name, small))
    return make_schedule(numbered, len(inputs), "opencl", {}), inputs


@pytest.mark.parametrize("small", [True, False], ids=["small", "large"])
@pytest.mark.parametrize("name", WANTED)
def test_kernels(name: str, small: bool) -> None:
    schedule, _ = plan(name, small)
    assert len(schedule.steps) <= (SMALL.get(name, WANTED[name]) if small else WANTED[name])


@pytest.mark.parametrize("name", [name for name, kernels in WANTED.items() if kernels == 1])
def test_one_kernel_has_its_inputs_and_outputs_alone(name: str) -> None:
    schedule, inputs = plan(name, small=False)
    (step,) = schedule.steps
    assert len(step.buffers) == len(inputs) + len(set(schedule.outputs))


@pytest.mark.parametrize(
    ("name", "reads", "writes"),
    [("two sums that share a part", 4, 2), ("gelu chain", 1, 1), ("adam of one parameter", 4, 3)],
)
def test_reads_and_writes(name: str, reads: int, writes: int) -> None:
    """Every element is read and written once."""
    (kernel,) = compile_graph(graph_of(name, small=True).src, "opencl")
    nodes = kernel.graph.toposort()
    assert len([node for node in nodes if node.op == "LOAD"]) == reads
    assert len([node for node in nodes if node.op == "STORE"]) == writes


def test_the_cost_of_a_plan_grows_with_the_graph() -> None:
    """The rules fire about twice as often on a graph of twice the size."""
    from rulegrad import Tensor, engine

    def firings(layers: int) -> int:
        x = Tensor([[0.5] * 256] * 256, device="opencl")
        for _ in range(layers):
            x = (x @ x).softmax(-1)
        graph, _ = number_buffers(UOp("SINK", (x.uop,)))
        count = 0
        for name in engine.pipeline("schedule")[1:]:
            graph, info = engine.run(graph, name, "opencl", trace=True)
            count += len(info["firings"])
        return count

    assert firings(32) < 2.5 * firings(16)
