"""Making array programs: from a graph to steps on arrays, one array axis for each RANGE."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.interpreter import along_axis, movement
from rulegrad.interpreter.array_program import ArrayProgram, Step
from rulegrad.interpreter.evaluators import Evaluators
from rulegrad.interpreter.gather import read, write
from rulegrad.interpreter.nodes import LOOPS, extent, is_identity
from rulegrad.interpreter.numerics import Array, polygamma
from rulegrad.interpreter.products import sum_of_products
from rulegrad.ir.dtype import as_dtype

if TYPE_CHECKING:
    from rulegrad.ir import UOp

#: Ops that say where a value is, or when: it stays the same.
_PLACED = ("COPY", "REDISTRIBUTE", "AFTER")
_NO_VALUE = ("END", "GROUP", "SEGMENTS", "SINK", "BARRIER", "STORE", "UPDATE")


class Builder:
    """Builds the program of one graph, or of the stores of a kernel that share their loops.

    `loops` are the RANGE nodes that are open in the roots, in the order of the array axes wanted.
    Raises DeviceError for a graph that cannot be interpreted.
    """

    def __init__(self, roots: Sequence[UOp], loops: Sequence[UOp], evaluators: Evaluators, what: str) -> None:
        self._evaluators = evaluators
        self._what = what
        self._axes: dict[UOp, int] = {}
        self._slot: dict[UOp, int] = {}
        self._valid: dict[UOp, int] = {}  # masks of the values that depend on INVALID
        self._slot_loops: list[frozenset[int]] = []
        self._stores: list[UOp] = []
        nodes = _postorder(roots)
        for loop in [*loops, *(node for node in nodes if node.op in LOOPS)]:
            self._axes.setdefault(loop, len(self._axes))
        # A graph that says what comes after a store has its stores in their places, any other at the end.
        self._stores_wait = not any(node.op == "AFTER" for node in nodes)
        parallel = itertools.takewhile(lambda loop: loop.attrs.get("kind") != "serial", loops)
        self.program = ArrayProgram([extent(loop) for loop in self._axes], len(list(parallel)))
        self._rank = len(self._axes)
        for node in nodes:
            self._emit(node)
        self._finish_stores()

    def slot(self, node: UOp) -> int:
        """Where the program leaves the value of a root."""
        return self._slot[node]

    def valid_slot(self, node: UOp) -> int | None:
        """Where it leaves whether that value can be used; None when it can everywhere: it depends on no INVALID."""
        return self._valid.get(node)

    @property
    def rank(self) -> int:
        """The number of array axes that are loops."""
        return self._rank

    # ---- slots and steps ----

    def _new_slot(self, loops: Iterable[int] = ()) -> int:
        self._slot_loops.append(frozenset(loops))
        self.program.slots += 1
        return self.program.slots - 1

    def _add(
        self, function: Callable[..., Any], inputs: Sequence[int], elements: int, closed: Iterable[int] = ()
    ) -> int:
        loops = frozenset[int]().union(*(self._slot_loops[slot] for slot in inputs)) - frozenset(closed)
        output = self._new_slot(loops)
        self.program.steps.append(Step(function, tuple(inputs), output, loops, elements))
        return output

    def _constant(self, value: Any, dtype: Any) -> int:
        slot = self._new_slot()
        self.program.constants.append((slot, np.asarray(value).astype(dtype).reshape((1,) * self._rank)))
        return slot

    def _emit(self, node: UOp) -> None:
        op = node.op
        if op in self._evaluators:
            self._elementwise(node)
        elif op in _PLACED or is_identity(node):
            self._alias(node)
        elif op in movement.OPS:
            function = movement.function(node, self._rank)
            self._slot[node] = self._add(function, [self._slot[node.src[0]]], math.prod(node.shape))
        elif (method := _METHODS.get(op)) is not None:
            method(self, node)
        elif op not in _NO_VALUE:
            raise DeviceError(
                f"{self._what}: the interpreter cannot run {op}: its declaration has no `eval` line, "
                "and no rule has made it of other ops"
            )

    def _alias(self, node: UOp) -> None:
        self._slot[node] = self._slot[node.src[0]]

    # ---- leaves ----

    def _arange(self, node: UOp) -> None:
        values = np.arange(node.attrs["extent"]).astype(as_dtype(node.dtype).numpy)
        self._slot[node] = self._new_slot()
        self.program.constants.append((self._slot[node], values.reshape((1,) * self._rank + values.shape)))

    def _const(self, node: UOp) -> None:
        self._slot[node] = self._constant(node.attrs["value"], as_dtype(node.dtype).numpy)

    def _invalid(self, node: UOp) -> None:
        self._slot[node] = self._constant(0, as_dtype(node.dtype).numpy)
        self._valid[node] = self._constant(False, np.bool_)

    def _loop(self, node: UOp) -> None:
        slot = self._new_slot([self._axes[node]])
        self.program.counters.append((slot, self._axes[node]))
        self._slot[node] = slot

    def _storage(self, node: UOp) -> None:
        if node.attrs.get("space", "global") != "global":
            raise DeviceError(f"{self._what}: the interpreter has no {node.attrs['space']} memory")
        self._slot[node] = self._new_slot()
        self.program.storage.append((self._slot[node], node))

    # ---- one element from one element ----

    def _elementwise(self, node: UOp) -> None:
        function = self._evaluators.bind(node.op, node.dtype, [source.dtype for source in node.src])
        rank, elements = len(node.shape), math.prod(node.shape)
        slots = [self._aligned(source, rank) for source in node.src]
        self._slot[node] = self._add(function, slots, elements)
        masks = [self._valid.get(source) for source in node.src]
        if any(mask is not None for mask in masks):
            self._valid[node] = self._mask_of(node, masks)

    def _aligned(self, source: UOp, rank: int) -> int:
        """The source's slot; a scalar among tensors of that rank gets axes of size 1."""
        slot = self._slot[source]
        missing = (1,) * (rank - len(source.shape))
        if not missing:
            return slot
        return self._add(lambda array: array.reshape(array.shape + missing), [slot], 1)

    def _mask_of(self, node: UOp, masks: list[int | None]) -> int:
        """Where the value of an elementwise node can be used: where those of its sources that it takes can."""
        slots = [self._constant(True, np.bool_) if mask is None else mask for mask in masks]
        if node.op == "WHERE":
            condition = self._slot[node.src[0]]
            return self._add(lambda c, v, a, b: v & np.where(c, a, b), [condition, *slots], 1)
        return self._add(lambda *given: np.logical_and.reduce(np.broadcast_arrays(*given)), slots, 1)

    # ---- reductions ----

    def _reduce(self, node: UOp) -> None:
        loops = [self._axis(loop) for loop in node.src[1:]]
        axes = (*loops, *(self._rank + k for k in node.attrs["axes"]))
        source, op, dtype, table = node.src[0], node.attrs["op"], node.dtype, self._evaluators
        spread = self._spreader(loops)
        if _is_product(node):
            factors = [self._aligned(factor, len(source.shape)) for factor in source.src]
            multiply = table.bind("MUL", source.dtype, [factor.dtype for factor in source.src])

            def sum_products(a: Array, b: Array) -> Array:
                a = spread(a)
                found = sum_of_products(a, b, axes)
                return table.reduce(op, dtype, multiply(a, b), axes) if found is None else found

            elements = math.prod(node.shape)
            if not self._is_matrix_product(factors, loops):  # then the product is made in full
                elements = math.prod((*source.shape, *(self.program.extents[loop] for loop in loops)))
            self._slot[node] = self._add(sum_products, factors, elements, loops)
        else:
            slot = self._slot[source]
            self._slot[node] = self._add(
                lambda array: table.reduce(op, dtype, spread(array), axes), [slot], math.prod(node.shape), loops
            )

    def _polygamma(self, node: UOp) -> None:
        order = node.attrs["order"]
        self._slot[node] = self._add(lambda x: polygamma(order, x), [self._slot[node.src[0]]], math.prod(node.shape))

    def _exponential_sum(self, node: UOp) -> None:
        loops, table, dtype = [self._axis(loop) for loop in node.src[2:]], self._evaluators, node.dtype
        spread, axes = self._spreader(loops), tuple(loops)
        subtract, exp, multiply = (table.bind(op, dtype, [dtype] * n) for op, n in (("SUB", 2), ("EXP", 1), ("MUL", 2)))

        def sums(s: Array, v: Array) -> Array:
            s = spread(s)
            largest = table.reduce("MAX", dtype, s, axes)
            largest = np.where(largest == -np.inf, largest.dtype.type(0), largest)
            return table.reduce("ADD", dtype, spread(multiply(exp(subtract(s, largest)), v)), axes)

        slots = [self._slot[source] for source in node.src[:2]]
        elements = math.prod(self.program.extents[loop] for loop in loops)
        self._slot[node] = self._add(sums, slots, elements, loops)

    def _is_matrix_product(self, factors: list[int], summed: list[int]) -> bool:
        """Whether the loops alone make it one: both factors vary along a summed loop, one along another."""
        a, b = (self._slot_loops[factor] for factor in factors)
        return bool(a & b & set(summed)) and bool((a ^ b) - set(summed))

    def _spreader(self, loops: list[int]) -> Callable[[Array], Array]:
        """Gives an array its full size along the reduced loops: it may not vary along all of them."""
        extents = {loop: self.program.extents[loop] for loop in loops}

        def spread(array: Array) -> Array:
            shape = tuple(extents.get(axis, size) for axis, size in enumerate(array.shape))
            return array if shape == array.shape else np.broadcast_to(array, shape)

        return spread

    def _axis(self, loop: UOp) -> int:
        if loop not in self._axes:
            raise DeviceError(f"{self._what}: a REDUCE names {loop.op} as a range; it takes RANGE nodes")
        return self._axes[loop]

    # ---- along an axis ----

    def _batched(self, node: UOp) -> None:
        """One element along the first axis, the same for a level: any will do to compare graphs. No kernel has one."""
        if self._what != "evaluate":
            raise DeviceError(f"{self._what}: the value of one element of a map is asked for; there is one for each")
        axis, place = self._rank, (node.attrs["level"] + 1) % node.src[0].shape[0]
        slots = [self._slot[node.src[0]]]
        self._slot[node] = self._add(
            lambda x: x.take(min(place, x.shape[axis] - 1), axis), slots, math.prod(node.shape)
        )

    def _gather(self, node: UOp) -> None:
        axis = self._rank + node.attrs["axis"]
        slots = [self._slot[source] for source in node.src]
        self._slot[node] = self._add(lambda x, i: along_axis.gather(x, i, axis), slots, math.prod(node.shape))

    def _scatter(self, node: UOp) -> None:
        axis, combine = self._rank + node.attrs["axis"], self._combination(node)
        slots = [self._slot[source] for source in node.src]
        self._slot[node] = self._add(
            lambda x, i, u: along_axis.scatter(x, i, u, axis, combine), slots, math.prod(node.shape)
        )

    def _roll(self, node: UOp) -> None:
        axis, by = self._rank + node.attrs["axis"], node.attrs["by"]
        slots = [self._slot[node.src[0]]]
        self._slot[node] = self._add(lambda x: np.roll(x, by, axis), slots, math.prod(node.shape))

    def _concat(self, node: UOp) -> None:
        axis, slots = self._rank + node.attrs["axis"], [self._slot[source] for source in node.src]
        self._slot[node] = self._add(lambda *slices: np.concatenate(slices, axis), slots, math.prod(node.shape))

    def _fold(self, node: UOp) -> None:
        """The sum over the offsets in a window: the elements at one offset are of different places."""
        axis, step, dilation = self._rank + node.attrs["axis"], node.attrs["step"], node.attrs["dilation"]
        places, size = node.src[0].shape[node.attrs["axis"] :][:2]
        lead, shape, table = (slice(None),) * axis, node.shape, self._evaluators

        def fold(x: Array) -> Array:
            apart = np.zeros((*x.shape[:axis], size, shape[axis - self._rank], *x.shape[axis + 2 :]), x.dtype)
            for offset in range(size):
                first = offset * dilation
                at_offset = (*lead, offset, slice(first, first + places * step, step))
                apart[at_offset] = x.take(offset, axis + 1)
            return table.reduce("ADD", node.dtype, apart, (axis,)).squeeze(axis)

        self._slot[node] = self._add(fold, [self._slot[node.src[0]]], math.prod(node.shape))

    def _scan(self, node: UOp) -> None:
        loops = [self._axis(loop) for loop in node.src[1:]]
        axis = loops[0] if loops else self._rank + node.attrs["axis"]
        spread, combine = self._spreader(loops), self._combination(node)
        assert combine is not None
        slot = self._add(
            lambda x: along_axis.scan(combine, spread(x), axis), [self._slot[node.src[0]]], math.prod(node.shape)
        )
        self._slot_loops[slot] |= frozenset(loops)
        self._slot[node] = slot

    def _recurrence(self, node: UOp) -> None:
        loops = [self._axis(loop) for loop in node.src[2:]]
        axis = loops[0] if loops else self._rank + node.attrs["axis"]
        spread, inputs = self._spreader(loops), [self._slot[source] for source in node.src[:2]]
        slot = self._add(lambda a, b: along_axis.recurrence(spread(a), spread(b), axis), inputs, math.prod(node.shape))
        self._slot_loops[slot] |= frozenset(loops)
        self._slot[node] = slot

    def _cumcount(self, node: UOp) -> None:
        loops = [self._axis(loop) for loop in node.src[1:]]
        axis, extent = loops[0] if loops else self._rank + node.attrs["axis"], node.attrs["extent"]
        spread, slots = self._spreader(loops), [self._slot[node.src[0]]]
        slot = self._add(lambda x: along_axis.cumcount(spread(x), axis, extent), slots, math.prod(node.shape))
        self._slot_loops[slot] |= frozenset(loops)
        self._slot[node] = slot

    def _combination(self, node: UOp) -> np.ufunc | None:
        """How a SCATTER, SCAN or UPDATE combines two values; None where the later one replaces the other."""
        return None if node.attrs["op"] == "STORE" else self._evaluators.ufunc(node.attrs["op"])

    # ---- memory ----

    def _index(self, node: UOp) -> None:
        self._read(node, node, None, None)

    def _load(self, node: UOp) -> None:
        otherwise = node.src[1] if len(node.src) > 1 else None
        gate = node.src[2] if len(node.src) > 2 else None
        self._read(node, self._address(node), otherwise, gate)

    def _read(self, node: UOp, address: UOp, otherwise: UOp | None, gate: UOp | None) -> None:
        rank, what = self._rank, f"{self._what}, reading {_describe(address.src[0])}"
        indices = [self._slot[index] for index in address.src[1:]]
        count, loops, mask = len(indices), self._known_loops(address), self._access_mask(address, gate)
        inputs = [self._slot[address.src[0]], *indices]
        if mask is None:
            function: Callable[..., Array] = lambda x, *i: read(x, rank, i, loops, None, what)  # noqa: E731
        else:
            inputs.append(mask)
            function = lambda x, *i: read(x, rank, i[:count], loops, i[count], what)  # noqa: E731
        slot = self._add(function, inputs, 1)
        if not self._stores_wait:
            slot = self._add(_copy_of_view, [slot], 1)
        if otherwise is not None and mask is not None:
            slot = self._add(np.where, [mask, slot, self._slot[otherwise]], 1)
        self._slot[node] = slot

    def _store(self, node: UOp) -> None:
        if self._stores_wait:
            self._stores.append(node)
        else:
            self._store_now(node, self._slot[node.src[1]])

    def _finish_stores(self) -> None:
        """All stores that wait. None may change what another is about to store, so views are copied first."""
        values = [self._slot[node.src[1]] for node in self._stores]
        if len(values) > 1:
            values = [self._add(_copy_of_view, [value], 1) for value in values]
        for node, value in zip(self._stores, values, strict=True):
            self._store_now(node, value)

    def _update(self, node: UOp) -> None:
        slots = [self._slot[source] for source in (node.src[1], *node.src[3:])]

        def repeated(value: Array, *iterations: Array) -> Array:
            """The value for each iteration, also where it is the same in all of them."""
            return np.broadcast_to(value, np.broadcast_shapes(value.shape, *(i.shape for i in iterations)))

        value = self._add(repeated, slots, 1) if len(slots) > 1 else slots[0]
        self._store_now(node, value, self._combination(node))

    def _store_now(self, node: UOp, value: int, combine: np.ufunc | None = None) -> None:
        rank, target = self._rank, node.src[0]
        if target.op != "INDEX":
            # In the tensor graph: all of the value.
            self._add(lambda storage, array: np.copyto(storage, array), [self._slot[target], value], 1)
            return
        what = f"{self._what}, writing {_describe(target.src[0])}"
        indices = [self._slot[index] for index in target.src[1:]]
        mask = self._access_mask(target, node.src[2] if len(node.src) > 2 else None)
        count, loops = len(indices), self._known_loops(target)

        def store(storage: Array, array: Array, *rest: Array) -> None:
            own = storage.reshape(storage.shape[rank:])
            write(own, rank, rest[:count], loops, array, rest[count] if mask is not None else None, what, combine)

        masks = [] if mask is None else [mask]
        self._add(store, [self._slot[target.src[0]], value, *indices, *masks], 1)

    def _known_loops(self, address: UOp) -> list[int | None]:
        """For each index of an address: its loop if it is a loop's counter, -1 if it is a constant."""
        known: list[int | None] = []
        for index in address.src[1:]:
            known.append(self._axes[index] if index.op in LOOPS else -1 if index.op == "CONST" else None)
        return known

    def _address(self, node: UOp) -> UOp:
        if node.src[0].op != "INDEX":
            raise DeviceError(f"{self._what}: the address of a {node.op} must be an INDEX, not {node.src[0].op}")
        return node.src[0]

    def _access_mask(self, address: UOp, gate: UOp | None) -> int | None:
        """Where an access happens: where its gate is true and no index is INVALID; None for everywhere."""
        masks = [self._valid[index] for index in address.src[1:] if index in self._valid]
        if gate is not None:
            masks.append(self._slot[gate])
        if not masks:
            return None
        return self._add(lambda *given: np.logical_and.reduce(np.broadcast_arrays(*given)), masks, 1)

    def _stack(self, node: UOp) -> None:
        slots = [self._slot[source] for source in node.src]
        self._slot[node] = self._add(lambda *parts: np.stack(np.broadcast_arrays(*parts), axis=-1), slots, len(slots))


_METHODS: dict[str, Callable[[Builder, Any], None]] = {
    "ARANGE": Builder._arange,
    "CONST": Builder._const,
    "INVALID": Builder._invalid,
    "RANGE": Builder._loop,
    "SPECIAL": Builder._loop,
    "BUFFER": Builder._storage,
    "PARAM": Builder._storage,
    "REDUCE": Builder._reduce,
    "POLYGAMMA": Builder._polygamma,
    "EXPSUM": Builder._exponential_sum,
    "INDEX": Builder._index,
    "LOAD": Builder._load,
    "STORE": Builder._store,
    "STACK": Builder._stack,
    "BATCHED": Builder._batched,
    "GATHER": Builder._gather,
    "SCATTER": Builder._scatter,
    "ROLL": Builder._roll,
    "CONCAT": Builder._concat,
    "FOLD": Builder._fold,
    "SCAN": Builder._scan,
    "RECURRENCE": Builder._recurrence,
    "CUMCOUNT": Builder._cumcount,
    "UPDATE": Builder._update,
}


def _copy_of_view(array: Array) -> Array:
    return array if array.flags.owndata else array.copy()


def _needed(node: UOp) -> tuple[UOp, ...]:
    """The nodes whose values a node is computed from, in the order in which they are wanted."""
    src = node.src
    if node.op in LOOPS:
        return ()  # the extent is a constant
    if node.op in ("LOAD", "STORE", "UPDATE") and src and src[0].op == "INDEX":
        return (*src[0].src, *src[1:])  # the address itself is not read
    if node.op == "REDUCE" and _is_product(node):
        return (*src[1:], *src[0].src)
    return (*src[1:], src[0]) if node.op == "AFTER" else src


def _is_product(node: UOp) -> bool:
    """A sum of products that can be made as a matrix product: not of the floats that NumPy widens."""
    source = node.src[0]
    if node.attrs["op"] != "ADD" or source.op != "MUL":
        return False
    dtype = as_dtype(source.dtype)
    return dtype in ("float32", "float64") or dtype.kind in ("int", "uint")


def _postorder(roots: Sequence[UOp]) -> list[UOp]:
    """All nodes whose values are needed, each after those that it needs."""
    order: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((needed, False) for needed in reversed(_needed(node)) if needed not in order)
    return list(order)


def _describe(storage: UOp) -> str:
    while storage.op in _PLACED or is_identity(storage):
        storage = storage.src[0]
    number = storage.attrs.get("slot", storage.attrs.get("id", ""))
    return f"{storage.op} {number}".strip()
