"""Subgroups as the interpreter has them: of other sizes and other work-items than a program may count on.

Where a program asks how many there are, there is one less than there may be at most, and neighbours are in different
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.interpreter.evaluators import Evaluators
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.ir import UOp


class Subgroups:
    """The subgroups of all work-groups.

    nodes: what a program has of subgroups; teams: the work-items, those of a group one after the other; groups: how
    many groups there are. Raises DeviceError where the program does not say below which number it numbers them.

    >>> from rulegrad.interpreter.evaluators import evaluators
    >>> most, count = UOp.const(3, "int32"), UOp.const(4, "int32")
    >>> number = UOp("SUBGROUP", (most,), name="number")
    >>> found = Subgroups([number, UOp("SUBGROUP", (count,), name="count")], np.arange(8), 1, evaluators())
    >>> found.value(number)
    array([0, 1, 0, 1, 0, 1, 0, 1], dtype=int32)
    >>> found.reduce(UOp("SUBGROUP_REDUCE", (number,), op="ADD", name="sum"), np.arange(8))
    array([12, 16, 12, 16, 12, 16, 12, 16])
    """

    def __init__(self, nodes: Sequence[UOp], teams: Array, groups: int, table: Evaluators) -> None:
        named = [(node.attrs["name"], int(node.src[0].attrs["value"])) for node in nodes if node.op == "SUBGROUP"]
        places = {end for name, end in named if name == "number"}
        if len(places) != 1 and any(node.op != "SUBGROUP_SHUFFLE_XOR" for node in nodes):
            raise DeviceError(f"a program numbers the subgroups of a group below one number, not {sorted(places)}")
        most = max(places, default=1)
        asks = any(name == "count" for name, _ in named)
        self._count = max(1, most - 1) if asks else most
        self._table = table
        self._teams = teams
        self._size = len(teams) // groups  # of a group
        self._place = np.empty(len(teams), np.int64)  # of each work-item in its group
        self._place[teams] = np.arange(len(teams)) % self._size

    def value(self, node: UOp) -> Array:
        """A SUBGROUP node for each work-item. Raises DeviceError where it is not below its end."""
        name = node.attrs["name"]
        if name == "count":
            found = np.full(len(self._place), self._count)
        else:
            found = self._place % self._count if name == "number" else self._place // self._count
        if found.max() >= node.src[0].attrs["value"]:
            raise DeviceError(f"{node.describe()} is {found.max()} here")
        return found.astype(as_dtype(node.dtype).numpy)

    def reduce(self, node: UOp, given: Array) -> Array:
        """A SUBGROUP_REDUCE node for each work-item, of what each gives."""
        members = np.broadcast_to(given, self._place.shape)[self._teams].reshape(-1, self._size)
        found = np.empty_like(members)
        for number in range(min(self._count, self._size)):
            part = members[:, number :: self._count]
            found[:, number :: self._count] = self._table.reduce(node.attrs["op"], node.dtype, part, (1,))
        result = np.empty_like(found.reshape(-1))
        result[self._teams] = found.reshape(-1)
        return result

    def exchange(self, node: UOp, given: Array) -> Array:
        """A SUBGROUP_SHUFFLE_XOR node for each work-item. Raises DeviceError where the other is not in the group."""
        members = np.broadcast_to(given, self._place.shape)[self._teams].reshape(-1, self._size)
        others = np.arange(self._size) ^ node.attrs["mask"]
        if others.max() >= self._size:
            raise DeviceError(f"{node.describe()} stands in a group of {self._size} work-items")
        result = np.empty(members.size, members.dtype)
        result[self._teams] = members[:, others].reshape(-1)
        return result
