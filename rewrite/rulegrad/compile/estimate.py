"""Operations and bytes of one launch of a kernel: for the profile, not for decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rulegrad._core import evaluate
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype

_FREE = frozenset(("CAST", "BITCAST", "WHERE", "LOAD", "INDEX", "STORE", "AFTER", "END", "SINK"))


def estimate(indexed: UOp) -> tuple[int, int]:
    """(operations, bytes) of an indexed kernel.

    Arithmetic on values counts once for each combination of the loops around it, an element of a buffer once.
    """
    buffers = {node.attrs["slot"]: nbytes(node.shape, node.dtype) for node in indexed.toposort("PARAM")}
    accessed: dict[int, int] = {}  # no more than each access can name, where it names few of many
    for node in indexed.toposort("INDEX"):
        memory = node.src[0]
        if memory.op == "PARAM":
            slot, item = memory.attrs["slot"], as_dtype(memory.dtype).itemsize
            accessed[slot] = accessed.get(slot, 0) + item * _trips(node)
    moved = sum(min(whole, accessed.get(slot, whole)) for slot, whole in buffers.items())
    return sum(times for _, times in computed(indexed)), moved


def nbytes(shape: Sequence[int], dtype: DType | str) -> int:
    """The size of a tensor in memory."""
    return math.prod(shape) * as_dtype(dtype).itemsize


def computed(indexed: UOp) -> Iterator[tuple[UOp, int]]:
    """The nodes of an indexed kernel that compute values, and how often: arithmetic on indices is not told of."""
    for node in indexed.toposort():
        if node.op == "REDUCE":
            yield node, _trips(node.src[0])
        elif node.op not in _FREE and node.dtype not in ("index", "void", "bool") and len(node.src) in (1, 2, 3):
            yield node, _trips(node)


def _trips(node: UOp) -> int:
    return math.prod(typical(r.src[0]) for r in node.ranges)


def typical(extent: UOp, sizes: Sequence[int] = ()) -> int:
    """The value of an extent at these sizes, by default at those that the kernel was made for. Raises RewriteError."""
    if extent.op == "CONST":
        return int(extent.attrs["value"])
    if extent.op == "VAR":
        return int(sizes[extent.attrs["slot"]] if sizes else extent.attrs["typical"])
    values = [typical(source, sizes) for source in extent.src]
    if len(values) == 1:
        return values[0]
    found = evaluate(extent.op, extent.dtype, *values)
    if found is None:
        raise RewriteError(f"an extent of a loop is made of {extent.op}, and nobody knows how many iterations that is")
    return int(found)
