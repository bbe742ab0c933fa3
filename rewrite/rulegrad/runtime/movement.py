"""The movement ops on NumPy arrays whose first axes are loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rulegrad.runtime.numerics import Array

if TYPE_CHECKING:
    from rulegrad.ir import UOp

OPS = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP"})


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
    raise AssertionError(node.op)


def _pad(
    before: tuple[int, ...], shape: tuple[int, ...], inner: tuple[int, ...], loops: int
) -> Callable[[Array], Array]:
    cuts = tuple(slice(b, b + size) for b, size in zip(before, inner, strict=True))

    def pad(x: Array) -> Array:
        result = np.zeros(x.shape[:loops] + shape, x.dtype)
        result[(slice(None),) * loops + cuts] = x
        return result

    return pad
