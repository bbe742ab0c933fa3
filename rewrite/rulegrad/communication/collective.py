"""Collectives: steps that ranks take together, with the ranks that take part and the bytes that are sent."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Final

from rulegrad.errors import CommunicationError
from rulegrad.ir.dtype import DType

KINDS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "part", "shift")
OPERATIONS: Final = ("sum", "prod", "max", "min")
_REDUCTIONS: Final = ("all_reduce", "reduce_scatter")
BLOCKS: Final = ("reduce_scatter", "all_to_all", "part")  # whose source is a block for each member


@dataclass(frozen=True)
class Collective:
    """One step that ranks take together, on flat contiguous memory.

    The ranks are a `mesh`, row-major; those that differ along `axes` only are a group, its members in the order of
    these axes, the first outermost. With p members and n elements:

    ================ ============ ==================================================================
    kind             source       result
    ================ ============ ==================================================================
    all_reduce       n            n, the reduction over the members, the same on all
    all_gather       n            p n, the members' values in order
    reduce_scatter   p n          n, the member's block of the reduction
    all_to_all       p n          p n, block k from member k, who had it as block (this member)
    part             p n          n, the member's own block; nothing is sent
    shift            n            n, from the member `by` places before, in a ring
    ================ ============ ==================================================================

    `operation` is "sum", "prod", "max" or "min" of a reduction, `count` the elements of the source on one rank, `dtype`
    a name. Raises CommunicationError for what is not like this.

    >>> Collective("all_reduce", (2, 4), (1,), "sum", 10, "float32").result_count
    10
    """

    kind: str
    mesh: tuple[int, ...]
    axes: tuple[int, ...]
    operation: str
    count: int
    dtype: str
    by: int = 0

    def __post_init__(self) -> None:
        problem = _problem_of_group(self) or _problem_of_values(self)
        if problem:
            raise CommunicationError(f"{self.kind}: {problem}; this is {self!r}")

    @property
    def members(self) -> int:
        """The size p of a group.

        >>> Collective("part", (2, 4), (0, 1), "", 16, "int8").members
        8
        """
        return math.prod(self.mesh[axis] for axis in self.axes)

    @property
    def result_count(self) -> int:
        """The elements of the result on one rank.

        >>> Collective("all_gather", (4,), (0,), "", 3, "int8").result_count
        12
        """
        if self.kind == "all_gather":
            return self.count * self.members
        return self.count // self.members if self.kind in ("reduce_scatter", "part") else self.count

    @property
    def bytes_sent(self) -> int:
        """The bytes that one rank sends, by the textbook: the least that any algorithm can do with, rounded up.

        With n bytes of the source (the result of an `all_gather`): 2 (p-1)/p n of an `all_reduce` and (p-1)/p n of the
        others, n of a `shift`, nothing where a rank is alone. Sources: R. Thakur, R. Rabenseifner, W. Gropp,
        "Optimization of collective communication operations in MPICH", 2005; P. Patarasuk, X. Yuan, "Bandwidth optimal
        all-reduce algorithms for clusters of workstations", 2009.

        >>> Collective("all_reduce", (4,), (0,), "sum", 8, "float32").bytes_sent
        48
        """
        members = self.members
        whole = max(self.count, self.result_count) * DType(self.dtype).itemsize
        if self.kind == "shift":
            return whole if self.by % members else 0
        times = {"all_reduce": 2, "part": 0}.get(self.kind, 1)
        return -(-times * whole * (members - 1) // members)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group, in the order of their members.

        >>> Collective("shift", (2, 3), (0,), "", 1, "int8", by=1).groups()
        ((0, 3), (1, 4), (2, 5))
        """
        return groups_of(self.mesh, self.axes)

    def __str__(self) -> str:
        """As messages name it: its kind, what it is of, and the size of a group."""
        operation = f" ({self.operation})" if self.operation else f" (by {self.by})" if self.by else ""
        axes = f" along {', '.join(map(str, self.axes))}" if len(self.axes) < len(self.mesh) else ""
        return f"{self.kind}{operation} of {self.count} {self.dtype} on a mesh of {'x'.join(map(str, self.mesh))}{axes}"


@cache
def groups_of(mesh: tuple[int, ...], axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The ranks that communicate along axes of a mesh, a tuple for each group, in the order of their members.

    >>> groups_of((2, 2), (1, 0))
    ((0, 2, 1, 3),)
    """
    strides = [math.prod(mesh[axis + 1 :]) for axis in range(len(mesh))]
    others = [axis for axis in range(len(mesh)) if axis not in axes]

    def ranks(along: tuple[int, ...] | list[int], first: int) -> tuple[int, ...]:
        steps = ([k * strides[axis] for k in range(mesh[axis])] for axis in along)
        return tuple(first + sum(parts) for parts in itertools.product(*steps))

    return tuple(ranks(axes, first) for first in ranks(others, 0))


@cache
def place_of(mesh: tuple[int, ...], axes: tuple[int, ...], rank: int) -> tuple[tuple[int, ...], int]:
    """The group of a rank, and which of its members it is.

    >>> place_of((2, 3), (0,), 4)
    ((1, 4), 1)
    """
    group = next(group for group in groups_of(mesh, axes) if rank in group)
    return group, group.index(rank)


def _problem_of_group(of: Collective) -> str:
    """The problem with the kind, the mesh or the axes; "" if there is none."""
    if of.kind not in KINDS:
        return "there is no such collective; there are " + ", ".join(KINDS)
    if not of.mesh or any(size < 1 for size in of.mesh):
        return "the axes of a mesh have at least one rank each"
    if len(set(of.axes)) < len(of.axes) or not set(of.axes) <= set(range(len(of.mesh))):
        return f"its axes are different ones from 0 to {len(of.mesh) - 1}"
    return ""


def _problem_of_values(of: Collective) -> str:
    """The problem with the operation, or with the number or the type of elements; "" if there is none."""
    dtype = DType(of.dtype)
    if dtype.kind in ("void", "index"):
        return f"values of type {dtype} are not in memory"
    if of.kind in _REDUCTIONS and of.operation not in OPERATIONS:
        return "its operation is one of " + ", ".join(OPERATIONS)
    if of.kind not in _REDUCTIONS and of.operation:
        return "only reductions have an operation"
    if of.operation in ("max", "min") and dtype.is_complex:
        return "complex numbers have no order"
    if of.by and of.kind != "shift":
        return "only a shift has a distance"
    members = math.prod(of.mesh[axis] for axis in of.axes)
    if of.count < 0 or (of.kind in BLOCKS and of.count % members):
        return f"its source is a block for each of the {members} members"
    return ""
