"""Graphs of one op on arrays, lowered for a target that has little, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.ir import UOp

Array = np.ndarray
Lower = Callable[..., UOp]
Compute = Callable[[UOp, dict[UOp, Array]], Array]

_LEAVES = frozenset(("CONST", "BUFFER", "RANGE"))


@pytest.fixture(scope="module")  # other files' tests look at all rules in force
def lower() -> Iterator[Lower]:
    """`lower(graph, *passes)`: the graph as these passes (`decompose`) leave it for the target `bare`.

    What the target lacks must be gone.
    """
    with engine.load_rules(Path(__file__).with_name("bare.rules")):
        target = engine.target_declaration("bare")

        def run(graph: UOp, *passes: str) -> UOp:
            for name in passes or ("decompose",):
                graph = engine.rewrite(graph, name, target="bare")
            for node in graph.toposort():
                assert node.op in target.ops | _LEAVES, f"{node.op} is left"
                assert node.dtype in target.dtypes | {"index"}, f"{node.dtype} is left in {node.op}"
            return graph

        yield run


@pytest.fixture(scope="session")
def compute() -> Compute:
    """`compute(graph, {buffer: array})`: the graph's value by the interpreter, without warnings."""

    def run(graph: UOp, arrays: dict[UOp, Array]) -> Array:
        with np.errstate(all="ignore"):
            return evaluate(graph, arrays)

    return run


@pytest.fixture(scope="session")
def variable() -> Callable[[int, Array], UOp]:
    """`variable(number, array)`: a BUFFER of the array's shape and dtype."""
    return lambda number, array: UOp("BUFFER", (), array.dtype.name, id=number, shape=array.shape, device="numpy")
