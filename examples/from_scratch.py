"""From a tensor expression to a kernel: what each pass does to `(a + b).sum()`, and which rules fired.

    python examples/from_scratch.py [--target opencl]

Nothing here is special to this example: the passes are those that rules/pipeline.rules lists, and every line
that a pass changes was changed by a rule that you can open at the file and line printed beside it.
"""

from __future__ import annotations

import argparse
from collections import Counter

from rulegrad import UOp, rewrite
from rulegrad.compile.kernels import render
from rulegrad.engine import Firing, pipeline


def tensor_graph() -> UOp:
    """(a + b).sum() for two 4×8 tensors in memory; the view at the end drops the axes of size 1."""
    a = UOp("BUFFER", (), "float32", id=1, shape=(4, 8))
    b = UOp("BUFFER", (), "float32", id=2, shape=(4, 8))
    total = UOp("REDUCE", (UOp("ADD", (a, b)),), op="ADD", axes=(0, 1))
    return UOp("SINK", (UOp("RESHAPE", (total,), shape=()),))


def show(title: str, graph: UOp, firings: list[Firing]) -> None:
    """Prints the rules that fired and the graph that they left."""
    print(f"\n== {title} ==")
    counts = Counter((f.rule, f.location) for f in firings)
    for (rule, location), count in counts.items():
        print(f"   {rule}  ({location})" + (f"  {count} times" if count > 1 else ""))
    if not counts:
        print("   no rule fired: the graph is as it was")
    if counts or title == "the tensor graph":
        print("   " + str(graph).replace("\n", "\n   "))


def run(name: str, graph: UOp, target: str) -> UOp:
    """One pass, printed."""
    graph, firings = rewrite(graph, name, target, trace=True)
    show(name, graph, firings)
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="opencl", help="whose kernel to end with")
    target = parser.parse_args().target

    graph = tensor_graph()
    show("the tensor graph", graph, [])

    print("\n#### The graph of everything that is computed together: what is stored, and so what a kernel is")
    for name in pipeline("schedule"):
        graph = run(name, graph, target)

    print("\n#### Each kernel: every STORE of the graph is one; here there is only this one")
    stores = [node for node in graph.toposort() if node.op == "STORE"]
    kernel = UOp("SINK", (stores[0],))
    for name in pipeline("kernel"):
        kernel = run(name, kernel, target)

    print("\n#### The program: addresses, the accumulator's loop, machine types")
    for name in pipeline("program"):
        kernel = run(name, kernel, target)

    print("\n#### The source, in the order that the pass `linearize` gives, with the texts that the render pass gives")
    print(render(kernel, target, "sum_of_a_plus_b", 3))


if __name__ == "__main__":
    main()
