"""Questions of all interpreters: which nodes are memory, loops or vectors, and how many iterations a loop has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulegrad import engine
from rulegrad.errors import DeviceError

if TYPE_CHECKING:
    from rulegrad.ir import UOp

#: Memory: its contents are given.
STORAGE = ("BUFFER", "PARAM")
#: Ops that count the iterations of a loop, or the work-items of a grid.
LOOPS = ("RANGE", "SPECIAL")
#: Ops of vectors whose lanes are computed side by side.
VECTORS = (
    "LOAD_VECTOR",
    "LOAD_LANES",
    "LOAD_TRANSPOSED",
    "STORE_VECTOR",
    "LANE",
    "HALF_VECTOR",
    "REVERSE_LANES",
    "REPEAT_LANES",
    "BROADCAST",
    "STACK",
    "RAMP",
)


def is_identity(node: UOp) -> bool:
    """Whether a node's value is that of its first source, of which it says something: the op's class is Identity.

    >>> from rulegrad.ir import UOp
    >>> is_identity(UOp("DETACH", (UOp.const(1, "int32"),)))
    True
    """
    return "Identity" in engine.summary()["ops"][node.op][0]


def is_segment(loop: UOp) -> bool:
    """Whether a loop is a segment of a launch grid: a work-item runs one of its iterations or none."""
    return bool(loop.src) and loop.src[0].op == "SEGMENT"


def extent(loop: UOp) -> int:
    """How many iterations a RANGE or SPECIAL has. Raises DeviceError where that is not a constant.

    >>> from rulegrad.ir import UOp
    >>> extent(UOp("RANGE", (UOp.const(4, "index"),), id=0, kind="output"))
    4
    """
    size = loop.src[0].src[0] if is_segment(loop) else next(iter(loop.src), loop)
    if loop.op not in LOOPS or size.op != "CONST":
        raise DeviceError(f"the interpreter needs loops of a constant extent, not {loop}")
    return int(size.attrs["value"])
