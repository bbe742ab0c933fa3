"""The movement ops on NumPy arrays whose first axes are loops, and other views of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rulegrad.interpreter.nodes import is_identity
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.ir import UOp

#: Ops of the class Movement that `function` has.
OPS = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP", "UNFOLD"})
#: Ops that show the same memory as something else.
_READINGS = frozenset({"REAL", "IMAG", "BITCAST"})


def origin(node: UOp, longest: int = 32) -> tuple[UOp, list[UOp]]:
    """The node below views, and the views (`longest` at most) that lead from there to it, the first one first.

    >>> from rulegrad.ir import UOp
    >>> shown, moves = origin(UOp("FLIP", (UOp("RESHAPE", (UOp.const(1, "int32"),), shape=(1,)),), axes=(0,)))
    >>> shown.op, [move.op for move in moves]
    ('CONST', ['RESHAPE', 'FLIP'])
    """
    moves: list[UOp] = []
    while len(moves) < longest:
        if node.op in OPS or (node.op in _READINGS and node.dtype != "bool"):
            moves.append(node)
        elif not node.src or not is_identity(node):
            break
        node = node.src[0]
    return node, moves[::-1]


def function(node: UOp, loops: int) -> Callable[[Array], Array]:
    """The op of the node as a function of an array with that many loop axes in front."""
    attributes = node.attrs
    match node.op:
        case "RESHAPE":
            return lambda x: x.reshape(x.shape[:loops] + node.shape)
        case "EXPAND":
            return lambda x: np.broadcast_to(x, x.shape[:loops] + node.shape)
        case "PERMUTE":
            order = (*range(loops), *(loops + k for k in attributes["order"]))
            return lambda x: x.transpose(order)
        case "FLIP":
            axes = tuple(loops + k for k in attributes["axes"])
            return lambda x: np.flip(x, axes)
        case "SHRINK":
            cuts = tuple(slice(b, e) for b, e in zip(attributes["begin"], attributes["end"], strict=True))
            return lambda x: x[(slice(None),) * loops + cuts]
        case "PAD":
            return _pad(attributes["before"], node.shape, node.src[0].shape, loops)
        case "UNFOLD":
            return _windows(node, loops)
        case "REAL":
            return lambda x: x.real
        case "IMAG":
            return lambda x: x.imag
        case "BITCAST":
            return lambda x: np.ascontiguousarray(x).view(as_dtype(node.dtype).numpy).reshape(x.shape)
    raise AssertionError(node.op)


def _windows(node: UOp, loops: int) -> Callable[[Array], Array]:
    """The windows of an UNFOLD, which may be written to where they do not overlap: a view."""
    axis, size, step, dilation = (node.attrs[name] for name in ("axis", "size", "step", "dilation"))
    axis, reach = axis + loops, dilation * (size - 1) + 1
    every = (*(slice(None),) * axis, slice(None, None, step), ..., slice(None, None, dilation))

    def unfold(x: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis, writeable=x.flags.writeable)
        return np.moveaxis(windows[every], -1, axis + 1)

    return unfold


def _pad(
    before: tuple[int, ...], shape: tuple[int, ...], inner: tuple[int, ...], loops: int
) -> Callable[[Array], Array]:
    cuts = tuple(slice(b, b + size) for b, size in zip(before, inner, strict=True))

    def pad(x: Array) -> Array:
        result = np.zeros(x.shape[:loops] + shape, x.dtype)
        result[(slice(None),) * loops + cuts] = x
        return result

    return pad
