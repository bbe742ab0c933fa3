"""vmap: a function of one element, as a function of all elements of an axis.

The function is called once, on arguments without the axis; rules (`rules/tensor/batching.rules`) then move the axis
through the graph that it built.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from rulegrad.compile import batched
from rulegrad.errors import ConfigError, RulegradError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.operands import expand_to
from rulegrad.tensor.trees import change, flatten

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

_levels = itertools.count()

Axes = Any  # None, an int, or a tuple of them, one for each argument


#: The levels and sizes of the maps in which each element draws random numbers of its own, the outermost first.
_drawing: ContextVar[tuple[tuple[int, int], ...]] = ContextVar("maps whose elements draw apart", default=())


def vmap(
    function: Callable[..., Any],
    in_axes: Axes = 0,
    out_axes: int = 0,
    randomness: str = "same",
    *,
    in_dims: Axes = 0,
    out_dims: int = 0,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`function`, mapped over an axis of its arguments; the results are stacked along a new axis.

    in_axes: the axis of every argument that is mapped over, or a tuple with one for each positional argument; None
    for an argument that is given whole. An argument may be nested tuples, lists and dicts of tensors, which share the
    axis. Keyword arguments are given whole. out_axes: where the new axis stands in the results.
    in_dims, out_dims: PyTorch's names of the same. chunk_size: PyTorch's; all elements are computed at once.
    randomness: random numbers are the "same" for all elements, or "different" ones. Raises ShapeError where the axes
    have different sizes, ConfigError for another randomness, and RulegradError where the function asks for a value,
    which no single element has.

    >>> from rulegrad import Tensor, vmap
    >>> dot = lambda a, b: (a * b).sum()
    >>> vmap(dot, in_axes=(0, None))(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """

    in_axes, out_axes = in_dims if in_axes == 0 else in_axes, out_axes or out_dims
    if randomness not in ("same", "different"):
        raise ConfigError(f'vmap: the randomness is "same" or "different", not {randomness!r}')

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
        before = _drawing.set((*_drawing.get(), (level, size)) if randomness == "different" else _drawing.get())
        try:
            results = function(*chosen, **options)
        finally:
            _drawing.reset(before)
        return change(results, lambda result: _all(result, level, size, out_axes))

    return mapped


def apart(count: int, device: str | None) -> tuple[int, list[Tensor]]:
    """How many random numbers are drawn where a mapped function draws `count`, and what numbers of elements add.

    Each of the maps whose elements draw apart adds a multiple of what its elements draw to the places of the numbers.
    """
    from rulegrad.tensor.tensor import Tensor  # late: Tensor is written with these functions

    offsets: list[Tensor] = []
    for level, size in reversed(_drawing.get()):
        every = Tensor.arange(size, dtype="uint64", device=device) * count
        offsets.append(_element(every, 0, level))
        count *= size
    return count, offsets


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
