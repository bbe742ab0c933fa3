"""The interpreter of programs with registers: statements in order, for all work-items at once.

A reduction that became a loop around a register is not an array expression any more. Its loops are run one iteration
after the other; what is the grid stays an array axis. It is for checking passes, and slower than the other interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.interpreter.boxes import box_of, places
from rulegrad.interpreter.evaluators import Evaluators, evaluators
from rulegrad.interpreter.fragments import multiply, positions, xor_swizzled
from rulegrad.interpreter.nodes import VECTORS, extent, is_segment
from rulegrad.interpreter.numerics import Array, ends
from rulegrad.interpreter.subgroups import Subgroups
from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.ir import UOp

#: Statements, each as often as its loops say, that are run at most.
MOST_STEPS = 1 << 19
_EFFECTS = (
    "LOAD",
    "STORE",
    "MATRIX_MULACC",
    "CLEAR_MATRIX",
    "COPY_ELEMENTS",
    "COPY_OR_ZERO",
    "COPY_TILE",
    "LOAD_LINES",
)
_WAITS = ("BARRIER", "WAIT_MATRICES", "STORE_MATRIX", "INIT_MBARRIERS", "EXPECT_BYTES", "WAIT_MBARRIER")
_OF_SUBGROUPS = ("SUBGROUP", "SUBGROUP_REDUCE", "SUBGROUP_SHUFFLE_XOR")
_STRUCTURE = ("PARAM", "BUFFER", "AFTER", "INDEX", "END", "SINK", "SEGMENT", "TENSOR_MAP", *_WAITS)


@dataclass(slots=True)
class _Block:
    """Statements in order; a loop is its RANGE (none for the whole program) and the block inside it."""

    loop: UOp | None
    items: list[UOp | _Block] = field(default_factory=list)

    def steps(self) -> int:
        """How many statements it runs."""
        inside = sum(item.steps() if isinstance(item, _Block) else 1 for item in self.items)
        return inside * (1 if self.loop is None or is_segment(self.loop) else extent(self.loop))


class Statements:
    """A program as (node, whether its loop closes here) in linear order, ready to run.

    Raises DeviceError for what cannot be run: an op without an evaluator, unknown memory, too many steps. Barriers and
    waits do nothing: all work-items are at the same statement, and what one begins is done.
    """

    def __init__(self, order: Sequence[tuple[UOp, bool]], table: Evaluators | None = None) -> None:
        self._table = table or evaluators()
        self._grid = [node for node, _ in order if node.op == "SPECIAL"]
        self._subgroups: list[UOp] = []
        self._functions: dict[UOp, Callable[..., Array]] = {}
        self._registers: list[UOp] = []
        self._program = _Block(None)
        open_blocks = [self._program]
        for node, closes in order:
            if closes:
                open_blocks.pop()
            elif node.op == "RANGE":
                block = _Block(node)
                open_blocks[-1].items.append(block)
                open_blocks.append(block)
            else:
                self._add(node, open_blocks[-1])
        if self._program.steps() > MOST_STEPS:
            raise DeviceError(f"{self._program.steps()} statements are too many to run one by one")

    def _add(self, node: UOp, block: _Block) -> None:
        if node.op == "BUFFER":
            if node.attrs["space"] not in ("register", "vector", "local", "global"):
                raise DeviceError(f"the interpreter has no {node.attrs['space']} memory")
            self._registers.append(node)
        elif node.op in _EFFECTS or node.op in VECTORS:
            block.items.append(node)
        elif node.op in _OF_SUBGROUPS:
            self._subgroups.append(node)
            block.items.append(node)
        elif node.op in self._table:
            self._functions[node] = self._table.bind(node.op, node.dtype, [source.dtype for source in node.src])
            block.items.append(node)
        elif node.op not in (*_STRUCTURE, "CONST", "SPECIAL"):
            raise DeviceError(f"the interpreter of programs cannot run {node.op}")

    def run(self, storage: Callable[[UOp], Array]) -> None:
        """Runs it; `storage` gives the array of a PARAM, which is written in place.

        Raises DeviceError for an index out of bounds.
        """
        run = _Run(self._grid, self._functions, self._registers, storage)
        if self._subgroups:
            run.subgroups = Subgroups(self._subgroups, run.teams, int(run.groups.max()) + 1, self._table)
        with np.errstate(all="ignore"):
            run.block(self._program)


class _Run:
    """One run: the value of each node, a number or one for each work-item."""

    def __init__(
        self,
        grid: Sequence[UOp],
        functions: dict[UOp, Callable[..., Array]],
        registers: Sequence[UOp],
        storage: Callable[[UOp], Array],
    ) -> None:
        self.functions = functions
        self.storage = storage
        self.arrays: dict[UOp, Array] = {}
        self.subgroups: Subgroups | None = None
        self.active: Array | None = None  # which work-items a segment has; all outside of segments
        sizes = [extent(node) for node in grid]
        self.items = np.arange(math.prod(sizes))
        self.values: dict[UOp, Array] = {}
        for place, node in enumerate(grid):
            counter = self.items // math.prod(sizes[place + 1 :]) % sizes[place]
            self.values[node] = counter.astype(as_dtype(node.dtype).numpy)
        local = [place for place, node in enumerate(grid) if node.attrs["name"] == "local"]
        self.groups = _without(self.items, sizes, local)
        self.teams = np.lexsort((self.items, self.groups))
        self.registers = {
            node: np.zeros(
                (int(self.groups.max()) + 1 if self._is_shared(node) else len(self.items), math.prod(node.shape)),
                as_dtype(node.dtype).numpy,
            )
            for node in registers
        }

    def block(self, block: _Block) -> None:
        """Runs a block as often as its loop says, that of a segment once, for its work-items."""
        counter = block.loop
        if counter is not None and is_segment(counter):
            place = np.broadcast_to(self._value(counter.src[0].src[1]), self.items.shape)
            self.active = (place >= 0) & (place < extent(counter))
            self.values[counter] = np.where(self.active, place, 0).astype(place.dtype)
            self._statements(block)
            self.active = None
            return
        for number in range(1 if counter is None else extent(counter)):
            if counter is not None:
                self.values[counter] = np.asarray(number, as_dtype(counter.dtype).numpy)
            self._statements(block)

    def _statements(self, block: _Block) -> None:
        for item in block.items:
            if isinstance(item, _Block):
                self.block(item)
            elif item.op == "STORE":
                self._store(item)
            elif item.op == "MATRIX_MULACC":
                self._multiply(item)
            elif item.op == "CLEAR_MATRIX":
                memory, (holder, first) = self._place(item.src[0], None)
                memory[
                    holder[:, None], np.broadcast_to(first, holder.shape)[:, None] + np.arange(item.attrs["count"])
                ] = 0
            elif item.op in ("COPY_ELEMENTS", "COPY_OR_ZERO"):
                self._copy(item)
            elif item.op == "COPY_TILE":
                self._copy_tile(item)
            elif item.op == "LOAD_LINES":
                self._load_lines(item)
            elif item.op in VECTORS:
                self._of_vectors(item)
            elif item.op in _OF_SUBGROUPS:
                self.values[item] = self._of_subgroup(item)
            else:
                self.values[item] = self._load(item) if item.op == "LOAD" else self._computed(item)

    def _value(self, node: UOp) -> Array:
        if node.op == "CONST" and node not in self.values:
            self.values[node] = np.asarray(node.attrs["value"]).astype(as_dtype(node.dtype).numpy)
        return self.values[node]

    def _computed(self, node: UOp) -> Array:
        return np.asarray(self.functions[node](*[self._value(source) for source in node.src]))

    def _of_subgroup(self, node: UOp) -> Array:
        if self.subgroups is None or self.active is not None:
            raise DeviceError(f"{node.describe()} stands where not all work-items get to")
        if node.op == "SUBGROUP":
            return self.subgroups.value(node)
        if node.op == "SUBGROUP_SHUFFLE_XOR":
            return self.subgroups.exchange(node, self._value(node.src[0]))
        return self.subgroups.reduce(node, self._value(node.src[0]))

    def _load(self, node: UOp) -> Array:
        gate = self._value(node.src[2]) if len(node.src) > 2 else None
        memory, place = self._place(node.src[0], gate)
        found: Array = memory[place]
        return found if gate is None else np.where(gate, found, self._value(node.src[1]))

    def _store(self, node: UOp) -> None:
        gate = self._value(node.src[2]) if len(node.src) > 2 else None
        memory, place = self._place(node.src[0], gate)
        everywhere = [self._of_items(array) for array in (*place, self._value(node.src[1]))]
        gates = [mask for mask in (gate, self.active) if mask is not None]
        if gates:
            where = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*gates)), self.items.shape)
            everywhere = [array[where] for array in everywhere]
        memory[tuple(everywhere[:-1])] = everywhere[-1]

    def _of_items(self, array: Array) -> Array:
        """A value for each work-item."""
        return array if array.shape == self.items.shape else np.broadcast_to(array, self.items.shape)

    def _of_vectors(self, node: UOp) -> None:
        """The values of a vector's lanes stand along an axis of their own, before that of the work-items."""
        if node.op == "STORE_VECTOR":
            self._store_vector(node)
        elif node.op == "LOAD_VECTOR":
            memory, (*holders, first) = self._place(node.src[0], None, bounded=False)
            lanes = np.arange(node.attrs["lanes"])[:, None]
            if len(node.src) > 1:
                lanes = np.minimum(lanes, self._value(node.src[1]) - 1)
            chosen_places = (*holders, self._within(first + lanes * node.attrs["stride"], memory, node))
            self.values[node] = memory[chosen_places]
        elif node.op == "LOAD_LANES":
            self.values[node] = self._load_lanes(node)
        elif node.op == "LOAD_TRANSPOSED":
            memory, (*holders, first) = self._place(node.src[0], None, bounded=False)
            rows, columns = np.divmod(np.arange(node.attrs["lanes"] ** 2)[:, None], node.attrs["lanes"])
            gate = np.asarray(self._value(node.src[2]) if len(node.src) > 2 else True)
            if len(node.src) > 3:
                columns = np.minimum(columns, self._value(node.src[3]) - 1)
            place = np.where(gate, first + columns * self._value(node.src[1]) + rows, 0)
            chosen_places = (*holders, self._within(place, memory, node))
            self.values[node] = np.where(gate, memory[chosen_places], 0).astype(memory.dtype)
        elif node.op == "LANE":
            self.values[node] = self._value(node.src[0])[node.attrs["at"]]
        elif node.op == "HALF_VECTOR":
            self.values[node] = np.split(self._value(node.src[0]), 2)[node.attrs["at"]]
        elif node.op == "REVERSE_LANES":
            self.values[node] = self._value(node.src[0])[::-1]
        elif node.op == "REPEAT_LANES":
            self.values[node] = np.repeat(self._value(node.src[0]), node.attrs["by"], axis=0)
        elif node.op == "RAMP":
            self.values[node] = np.arange(node.attrs["lanes"], dtype=as_dtype(node.dtype).numpy)[:, None]
        else:
            count = node.attrs["lanes"] if node.op == "BROADCAST" else 1
            values = [np.broadcast_to(self._value(source), self.items.shape) for source in node.src * count]
            self.values[node] = np.stack(values)

    def _load_lanes(self, node: UOp) -> Array:
        """The elements of the lanes that a condition holds for, the other value for the rest."""
        memory, (*holders, begin) = self._place(node.src[0], None, bounded=False)
        lanes = np.arange(node.attrs["lanes"])[:, None]
        other, first, last, gate = (self._value(source) for source in node.src[1:])
        where = np.broadcast_to((lanes >= first) & (lanes < last) & gate, (len(lanes), *self.items.shape))
        chosen_places = (*holders, self._within(np.where(where, begin + lanes * node.attrs["stride"], 0), memory, node))
        return np.where(where, memory[chosen_places], other)

    def _store_vector(self, node: UOp) -> None:
        """The first lanes, as many as are counted, where the gate is true."""
        memory, (*holders, first) = self._place(node.src[0], None, bounded=False)
        shape = (node.attrs["lanes"], *self.items.shape)
        lanes = np.arange(node.attrs["lanes"])[:, None]
        where = lanes < self._value(node.src[2]) if len(node.src) > 2 else np.asarray(True)
        for gate in (self._value(node.src[3]) if len(node.src) > 3 else None, self.active):
            where = where if gate is None else where & gate
        chosen = np.broadcast_to(where, shape)
        *owners, place, value = (
            np.broadcast_to(array, shape)[chosen] for array in (*holders, first + lanes, self._value(node.src[1]))
        )
        chosen_places = (*owners, self._within(place, memory, node))
        memory[chosen_places] = value

    @staticmethod
    def _within(place: Array, memory: Array, node: UOp) -> Array:
        if place.size and not (place.min() >= 0 and place.max() < memory.shape[-1]):
            raise DeviceError(f"{node.describe()} is read or written out of its bounds")
        return place

    def _copy(self, node: UOp) -> None:
        """Elements that follow each other, from one memory to another."""
        (target, (*lines, first)), (source, (*others, start)) = (self._place(address, None) for address in node.src[:2])
        every = np.arange(node.attrs["count"])
        if start.size and not (
            start.max() + len(every) <= source.shape[-1] and first.max() + len(every) <= target.shape[-1]
        ):
            raise DeviceError(f"{node.describe()} copies what is out of bounds")
        into = (*(line[:, None] for line in lines), np.asarray(first)[..., None] + every)
        out_of = (*(line[:, None] for line in others), np.asarray(start)[..., None] + every)
        found = source[out_of]
        target[into] = np.where(self._value(node.src[2])[..., None], found, 0) if len(node.src) > 2 else found

    def _copy_tile(self, node: UOp) -> None:
        """Boxes of an array to local memory, of the work-items whose gate is true."""
        to, described, _, gate, *begin = node.src
        target, (groups, first) = self._place(to, None)
        array = self._array(described.src[0]).reshape(described.src[0].shape)
        gates, firsts, *begins = (
            np.broadcast_to(values, self.items.shape)
            for values in (self._value(gate), first, *(self._value(one) for one in begin))
        )
        for item in np.flatnonzero(gates):
            found = box_of(array, described.attrs["sizes"], described.attrs["box"], [int(one[item]) for one in begins])
            where = places(int(firsts[item]), found.size, found.itemsize)
            if where.max() >= target.shape[-1]:
                raise DeviceError(f"{node.describe()} copies what is out of bounds")
            target[groups[item], where] = found.reshape(-1)

    def _load_lines(self, node: UOp) -> None:
        """Each thread of a warp gives the place of a line, and gets the elements of all lines that the layout says."""
        threads, line = node.attrs["threads"], node.attrs["line"]
        (target, (owners, first)), (source, (groups, start)) = (self._place(address, None) for address in node.src)
        begin, group, owner, into = (
            np.broadcast_to(array, self.items.shape)[self.teams].reshape(-1, threads)
            for array in (start, groups, owners, first)
        )
        named, on_line = np.divmod(positions(node.attrs["layout"], threads), line)
        found = source[group[:, named], begin[:, named] + on_line]
        target[owner[..., None], into[..., None] + np.arange(named.shape[1])] = found

    def _multiply(self, node: UOp) -> None:
        """A matrix instruction, of all groups of threads that work together."""
        fragments, places = [], []
        threads = node.attrs["threads"]
        teams = self.teams.reshape(-1, threads)
        for source, layout in zip(node.src, ("result", "left", "right"), strict=True):
            memory, (*holders, first) = self._place(source, None)
            own = threads if len(memory) == len(self.items) else 1  # of a matrix in local memory a team has all
            count = 1 << (len(node.attrs[layout]) - own.bit_length() + 1)
            within = np.arange(count) if own == threads else xor_swizzled(np.arange(count), node.attrs["swizzle"])
            if layout == "left" and node.attrs["pitch"]:
                within = within // node.attrs["size"][2] * node.attrs["pitch"] + within % node.attrs["size"][2]
            those = teams[:, :own].reshape(-1)  # that read: of what a team has once, the first
            first = np.broadcast_to(first, self.items.shape)[those]
            place = (*(h[those][:, None] for h in holders), first[:, None] + within)
            places.append((memory, place))
            fragments.append(memory[place].reshape(-1, own, count))
        memory, place = places[0]
        memory[place] = multiply(node, *fragments).reshape(len(self.items), -1)

    @staticmethod
    def _is_shared(node: UOp) -> bool:
        return bool(node.attrs["space"] == "local")

    def _place(self, address: UOp, gate: Array | None, *, bounded: bool = True) -> tuple[Array, tuple[Array, ...]]:
        """The memory, and where in it: of a register the work-item and the element, of an array the element."""
        storage = address.src[0] if address.op == "INDEX" else address
        while storage.op == "AFTER":
            storage = storage.src[0]
        indices = [self._value(index) for index in address.src[1:]] if address.op == "INDEX" else [np.asarray(0)]
        index = indices[0] if len(indices) == 1 else _flat(indices, storage.shape)
        memory = self.registers[storage] if storage.op == "BUFFER" else self._array(storage)
        if gate is not None:
            index = np.where(gate, index, 0)
        if bounded and index.size:
            first, last = ends(index)
            if first < 0 or last >= memory.shape[-1]:
                raise DeviceError(f"{storage.describe()} is read or written out of its bounds")
        if storage.op != "BUFFER":
            return memory, (index,)
        return memory, (self.groups if self._is_shared(storage) else self.items, index)

    def _array(self, parameter: UOp) -> Array:
        if parameter not in self.arrays:
            self.arrays[parameter] = self.storage(parameter).reshape(-1)
        return self.arrays[parameter]


def _flat(indices: Sequence[Array], shape: Sequence[int]) -> Array:
    """One index for one of each axis, row by row; -1 where one of them is out of bounds."""
    inside = np.logical_and.reduce(
        np.broadcast_arrays(*((index >= 0) & (index < size) for index, size in zip(indices, shape, strict=True)))
    )
    steps = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    return np.where(inside, sum(index * step for index, step in zip(indices, steps, strict=True)), -1)


def _without(items: Array, sizes: Sequence[int], places: Sequence[int]) -> Array:
    """The numbers of the work-items in a grid that lacks the axes at these places."""
    found = np.zeros_like(items)
    for place, size in enumerate(sizes):
        if place not in places:
            found = found * size + items // math.prod(sizes[place + 1 :]) % size
    return found
