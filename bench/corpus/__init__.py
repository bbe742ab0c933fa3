"""The corpus: graphs that fusion is measured on and tested with, written once for NumPy, rulegrad, tinygrad and torch.

from corpus import GRAPHS
from corpus.with_rulegrad import Rulegrad

graph, library = GRAPHS["softmax of rows"], Rulegrad("opencl")
inputs = [library.tensor(array) for array in graph.arrays(small=True)]
results = graph.outputs(library, inputs)
"""

from __future__ import annotations

from . import convolutions, elementwise, gathering, movement, products, reductions, training, updates
from .graph import Graph, Input

FAMILIES = (elementwise, reductions, movement, gathering, products, convolutions, training, updates)

#: all graphs, by name
GRAPHS: dict[str, Graph] = {graph.name: graph for family in FAMILIES for graph in family.FAMILY}

__all__ = ["FAMILIES", "GRAPHS", "Graph", "Input"]
