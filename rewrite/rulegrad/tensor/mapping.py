"""vmap: a function of one element, as a function of all elements of an axis.

The function is called once, on arguments without the axis; rules (`rules/tensor/batching.rules`) then move the axis
through the graph that it built.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from rulegrad.compile import batched
from rulegrad.errors import RulegradError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.operands import expand_to
from rulegrad.tensor.trees import change, flatten

_levels = itertools.count()

Axes = Any  # None, an int, or a tuple of them, one for each argument


def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: int = 0) -> Callable[..., Any]:
    """`function`, mapped over an axis of its arguments; the results are stacked along a new axis.

    in_axes: the axis of every argument that is mapped over, or a tuple with one for each positional argument; None
    for an argument that is given whole. An argument may be nested tuples, lists and dicts of tensors, which share the
    axis. Keyword arguments are given whole. out_axes: where the new axis stands in the results.
    Random numbers are the same for all elements. Raises ShapeError where the axes have different sizes, and
    RulegradError where the function asks for a value, which no single element has.

    >>> from rulegrad import Tensor, vmap
    >>> dot = lambda a, b: (a * b).sum()
    >>> vmap(dot, in_axes=(0, None))(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """

    @wraps(function)
    def mapped(*arguments: Any, **options: Any) -> Any:
        axes = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(arguments)
        if len(axes) != len(arguments):
            raise ShapeError(f"vmap: in_axes has {len(axes)} entries for {len(arguments)} arguments; give one for each")
        level = next(_levels)
        size = _common_size(arguments, axes)
        chosen = [
            argument if axis is None else change(argument, partial(_element, axis=axis, level=level))
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        return change(function(*chosen, **options), lambda result: _all(result, level, size, out_axes))

    return mapped


def _common_size(arguments: Any, axes: Any) -> int:
    sizes: set[int] = {
        leaf.shape[one_axis(axis, leaf.ndim, "vmap")]
        for argument, axis in zip(arguments, axes, strict=True)
        for leaf in (flatten(argument)[0] if axis is not None else ())
    }
    if len(sizes) != 1:
        found = " and ".join(map(str, sorted(sizes))) or "no mapped argument"
        raise ShapeError(f"vmap: the axes that are mapped over must have one size, not {found}")
    return sizes.pop()


def _element(x: Any, axis: int, level: int) -> Any:
    first = x.moveaxis(axis, 0)
    return first._result(UOp("BATCHED", (first.uop,), level=level))


def _all(result: Any, level: int, size: int, axis: int) -> Any:
    """The results for all elements: what the function built, with the axis moved outwards through it."""
    node = batched(result.uop)
    if node.op == "BATCHED" and node.attrs["level"] == level:
        node = node.src[0]
    elif any(inner.attrs["level"] == level for inner in node.toposort("BATCHED")):
        stuck = next(n for n in node.toposort() if n.op != "BATCHED" and any(s.op == "BATCHED" for s in n.src))
        raise RulegradError(
            f"vmap: {stuck.op} cannot be mapped: no rule in rules/tensor/batching.rules takes an axis through it"
        )
    else:
        node = expand_to(UOp("RESHAPE", (node,), shape=(1, *node.shape)), (size, *node.shape))
    every = result._result(node)
    return every if axis == 0 else every.moveaxis(0, axis)
