"""The reference interpreter: runs graphs with NumPy, by the evaluators of the op table.

What it computes is what a graph means; every other device is compared with it. It runs tensor graphs and
the graphs of kernels before they are lowered to loops.

>>> import numpy as np
>>> from rulegrad.ir import UOp
>>> a = UOp("BUFFER", (), "float32", id=7, shape=(2, 3), device="numpy")
>>> evaluate(UOp("REDUCE", (a,), op="ADD", axes=(1,)), {a: np.ones((2, 3), np.float32)})
array([[3.],
       [3.]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import DeviceError, GraphError
from rulegrad.interpreter.array_program import ArrayProgram
from rulegrad.interpreter.builder import Builder
from rulegrad.interpreter.evaluators import Evaluators, evaluators
from rulegrad.interpreter.nodes import LOOPS
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.ir import UOp

Arrays = Mapping[Any, Array]

_MEMORY = ("PARAM", "BUFFER")
#: Many functions of NumPy take arrays of 32 axes at most, and what is read has axes of its own.
_MOST_LOOPS = 24


def evaluate(
    uop: UOp,
    arrays: Arrays | None = None,
    loops: Sequence[UOp] = (),
    table: Evaluators | None = None,
) -> Array:
    """The value of a node.

    `arrays` has the contents of its BUFFER and PARAM nodes, by node or by the id of a BUFFER. `loops` are
    the RANGE nodes that are open in it: the result then has an axis for each, in this order, before its
    own. Raises DeviceError when an array is missing or does not fit, for an index out of bounds, and for
    a graph that cannot be interpreted.
    """
    if as_dtype(uop.dtype).kind == "void":
        raise GraphError(f"{uop.op} has no value; evaluate takes a node that has one, run_kernel a SINK")
    builder = Builder([uop], loops, table or evaluators(), "evaluate")
    program = builder.program
    (value,) = program.run(lambda node: _given(node, arrays or {}), [builder.slot(uop)])
    if any(size != 1 for size in value.shape[len(loops) : len(program.extents)]):
        raise GraphError("a RANGE is open in the graph; name it in `loops`, or reduce over it")
    extents = program.extents[: len(loops)]
    shape = (*extents, *(1,) * (len(program.extents) - len(loops)), *uop.shape)
    return np.array(np.broadcast_to(value, shape)).reshape((*extents, *uop.shape))


def evaluate_all(
    uops: Sequence[UOp], table: Evaluators | None = None
) -> Callable[[Callable[[UOp], Array]], list[Array]]:
    """Several nodes, ready to be run at once: a function of one that gives the array of a PARAM or BUFFER node.

    What is stored on the way is written into these arrays. Raises DeviceError for a graph that cannot be interpreted.

    >>> from rulegrad.ir import UOp
    >>> x = UOp("PARAM", (), "float32", slot=0, shape=(2,))
    >>> evaluate_all([x + x, x * x])(lambda node: np.array([3, 4], np.float32))
    [array([6., 8.], dtype=float32), array([ 9., 16.], dtype=float32)]
    """
    if any(uop.ranges for uop in uops):
        raise GraphError("a RANGE is open in the graph; reduce over it")
    builder = Builder(uops, (), table or evaluators(), "evaluate")
    slots = [builder.slot(uop) for uop in uops]

    def run(storage: Callable[[UOp], Array]) -> list[Array]:
        values = builder.program.run(lambda node: _fitting(node, storage(node)), slots)
        return [np.array(value).reshape(uop.shape) for value, uop in zip(values, uops, strict=True)]

    return run


class KernelProgram:
    """A kernel's graph, ready to run."""

    def __init__(self, graph: UOp, name: str = "kernel", table: Evaluators | None = None) -> None:
        self.name = name
        self._programs: list[ArrayProgram] = []
        for loops, stores in _stores_by_loops(graph).items():
            for part in _parts(stores):
                self._programs.append(Builder(part, loops, table or evaluators(), name).program)

    def run(self, storage: Callable[[UOp], Array]) -> None:
        """Runs it; `storage` gives the array of a PARAM or BUFFER node, which is written in place."""
        for program in self._programs:
            program.run(storage)


def run_kernel(graph: UOp, arrays: Sequence[Array], name: str = "kernel") -> None:
    """Runs a kernel's graph; PARAM slot k is `arrays[k]`. Raises DeviceError, as `evaluate` does."""
    slots = dict(enumerate(arrays))
    KernelProgram(graph, name).run(
        lambda node: _fitting(node, slots.get(node.attrs["slot"]) if "slot" in node.attrs else None)
    )


def _stores_by_loops(graph: UOp) -> dict[tuple[UOp, ...], list[UOp]]:
    """The stores below a SINK, in order, by the loops that are closed around them."""
    found: dict[tuple[UOp, ...], list[UOp]] = {}
    stack: list[tuple[UOp, tuple[UOp, ...]]] = [(graph, ())]
    while stack:
        node, loops = stack.pop()
        if node.op in ("STORE", "UPDATE"):
            found.setdefault(loops, []).append(node)
        elif node.op == "END":
            stack.append((node.src[0], (*loops, *node.src[1:])))
        elif node.op in ("SINK", "BARRIER", "GROUP", "SEGMENTS"):
            stack.extend((source, loops) for source in reversed(node.src))
        else:
            raise DeviceError(f"the interpreter expects stores below a {graph.op}, not {node.op}")
    return found


def _parts(stores: list[UOp]) -> list[list[UOp]]:
    """The stores of each program: all, or one each, where they have more loops inside than an array has axes.

    A store whose memory another one reads stays with it: all reads come before the stores.
    """
    if len({loop for store in stores for loop in store.toposort(*LOOPS)}) <= _MOST_LOOPS:
        return [stores]
    read = [{node for source in (*s.src[0].src[1:], *s.src[1:]) for node in source.toposort(*_MEMORY)} for s in stores]
    for number, store in enumerate(stores):
        if any(store.src[0].src[0] in nodes for other, nodes in enumerate(read) if other != number):
            return [stores]
    return [[store] for store in stores]


def _given(node: UOp, arrays: Arrays) -> Array:
    found = arrays.get(node)
    return _fitting(node, arrays.get(node.attrs.get("id")) if found is None else found)


def _fitting(node: UOp, array: Array | None) -> Array:
    if array is None:
        raise DeviceError(f"no array was given for {node}")
    if array.shape != node.shape or array.dtype != as_dtype(node.dtype).numpy:
        raise DeviceError(
            f"{node} was given an array of shape {array.shape} and dtype {array.dtype}; "
            f"it needs {node.shape} and {node.dtype}"
        )
    return array
