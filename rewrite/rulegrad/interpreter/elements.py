"""The interpreter of single elements: a graph with effects at any level, one iteration after the other.

`evaluation` runs tensors and kernels as arrays, `statements` whole programs in linear order. This needs no order and no
whole program: stores, loops, forms of loops and vectors are run where they stand, so that both sides of a rule can be
compared. It is the slowest. A store is run once for each value of the loops that are open in it, before what comes
after it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rulegrad._core import UOp
from rulegrad.errors import DeviceError
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.interpreter.nodes import LOOPS, STORAGE, VECTORS, extent, is_segment
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import DType, as_dtype

COUNTERS = ("RANGE", "RAMP")  # what the loops of a form count with
LANE = ("LANE",)  # the lane of a vector that is computed: lanes are computed one after the other
_VECTORS = (*VECTORS, "ACROSS")
#: Ops whose lanes are lanes of their source: which one a lane is, by the node and its number.
_MOVED_LANES: dict[str, Callable[[UOp, int], int]] = {
    "HALF_VECTOR": lambda node, lane: lane + node.attrs["at"] * node.shape[0],
    "REVERSE_LANES": lambda node, lane: node.shape[0] - 1 - lane,
    "REPEAT_LANES": lambda node, lane: lane // node.attrs["by"],
}
_OF_KERNELS = ("STORE", "UPDATE", "END", "SINK", "BARRIER", "GROUP", "SEGMENTS", "AFTER", "LOAD", "SPECIAL")
EFFECTS = frozenset((*_OF_KERNELS, "SCHEDULED", *_VECTORS))

Key = tuple[Any, ...]
Memory = dict[Key, Array]


class _Elementwise(NamedTuple):
    """How a node is computed from its sources: a function, the dtypes that it takes, the kind of its result."""

    function: Callable[..., Array]
    dtypes: tuple[np.dtype[Any], ...]
    kind: str


class InvalidError(Exception):
    """The value is INVALID."""


def storage_key(node: UOp) -> Key:
    """Which memory a BUFFER or PARAM is, whatever its dtype and shape."""
    if node.op == "PARAM":
        return ("PARAM", node.attrs["slot"])
    return ("BUFFER", node.attrs["id"], node.attrs.get("space", "global"))


def loop_key(node: UOp) -> Key:
    """Which loop a counter counts, whatever its dtype."""
    if node.op == "SPECIAL":
        return ("SPECIAL", node.attrs["axis"])
    if node.op == "RAMP":
        return LANE
    return ("RANGE", node.attrs["id"], node.attrs["path"])


def view(memory: Memory, node: UOp) -> Array:
    """The memory of a BUFFER or PARAM, in its dtype and shape."""
    return memory[storage_key(node)].view(as_dtype(node.dtype).numpy).reshape(node.shape)


@dataclass(slots=True)
class Run:
    """One run over some memory, which it changes."""

    memory: Memory
    loops: dict[Key, int] = field(default_factory=dict)
    _done: set[tuple[UOp, tuple[tuple[Key, int], ...]]] = field(default_factory=set)
    _elementwise: dict[UOp, _Elementwise] = field(default_factory=dict)  # those that were computed once

    # ---- effects ----

    def effect(self, node: UOp) -> None:
        """Does what a node does."""
        match node.op:
            case "SINK" | "BARRIER" | "GROUP" | "SEGMENTS":
                for source in node.src:
                    self.effect(source)
            case "SCHEDULED":
                self.effect(node.src[0])
            case "END":
                for _ in self.over(node.src[1:]):
                    self.effect(node.src[0])
            case "STORE" | "UPDATE":
                self._store(node)
            case "STORE_VECTOR":
                self._store_vector(node)
            case "AFTER":
                for source in node.src[1:]:
                    if source.dtype == "void":  # a value that is waited for changes nothing
                        self._once(source)
            case "RANGE" | "SPECIAL":
                return
            case _:
                raise DeviceError(f"{node.op} is not an effect")

    def over(self, forms: Sequence[UOp]) -> Iterator[None]:
        """Every combination of the values of some loops, the last one fastest.

        A loop may be a form of counters: it runs for all their values, where it is not INVALID.
        """
        either = next((node for form in forms for node in self._parts(form) if node.op == "EITHER"), None)
        if either is not None:
            for number in range(len(either.src)):
                self.loops["EITHER", either] = number
                yield from self.over(forms)
            del self.loops["EITHER", either]
            return
        loops = dict.fromkeys(node for form in forms for node in self._parts(form) if node.op in (*LOOPS, *COUNTERS))
        keys = [loop_key(loop) for loop in loops]
        before = {key: self.loops[key] for key in keys if key in self.loops}
        for values in itertools.product(*(self._iterations(loop) for loop in loops)):
            self.loops.update(zip(keys, values))
            if all(form.op in LOOPS or self._is_met(form) for form in forms):
                yield
        for key in keys:
            self.loops.pop(key, None)
        self.loops.update(before)

    def _parts(self, form: UOp) -> Iterator[UOp]:
        """The nodes of a form; of one form after the other only those of the chosen one, if one is chosen."""
        chosen = self.loops.get(("EITHER", form))
        if chosen is None:
            yield form
        for source in () if form.op in (*LOOPS, *COUNTERS) else form.src if chosen is None else (form.src[chosen],):
            yield from self._parts(source)

    def _is_met(self, form: UOp) -> bool:
        try:
            self.value(form)
        except InvalidError:
            return False
        return True

    def _lanes(self, count: int) -> Iterator[int]:
        """The lanes of a vector, one after the other."""
        before = self.loops.get(LANE)
        for lane in range(count):
            self.loops[LANE] = lane
            yield lane
        self.loops.pop(LANE)
        if before is not None:
            self.loops[LANE] = before

    def _iterations(self, loop: UOp) -> Sequence[int]:
        """The values of a loop's counter: of a segment the one iteration that this work-item runs, if it runs any."""
        if loop.op == "RAMP":
            return range(loop.attrs["lanes"])
        if not is_segment(loop):
            return range(extent(loop))
        number = int(self.value(loop.src[0].src[1]))
        return [number] if 0 <= number < extent(loop) else []

    def _once(self, node: UOp) -> None:
        key = (node, tuple((loop_key(r), self.loops[loop_key(r)]) for r in node.ranges if loop_key(r) in self.loops))
        if key not in self._done:
            self._done.add(key)
            self.effect(node)

    def _store(self, node: UOp) -> None:
        target, value = node.src[:2]
        count = max(math.prod(source.shape) for source in (value, *target.src[1:], *node.src[2:]))
        if target.op == "INDEX" and count > 1 and LANE not in self.loops:  # a vector
            for _ in self._lanes(count):
                self._store(node)
            return
        if len(node.src) > 2 and not self.value(node.src[2]):
            return
        if target.op == "INDEX":
            try:
                place = self._place(target)
            except InvalidError:
                return
            array, found = self._memory(target.src[0]), self.value(value)
            if node.op == "UPDATE":
                found = _combined(node.attrs["op"], array[place], found, value.dtype)
            array[place] = found
        elif target.op in (*STORAGE, "AFTER", "SHRINK"):
            array = self._memory(target)
            np.copyto(array, self.tensor(value))
        else:
            raise DeviceError(f"a store into {target.op}")

    def _store_vector(self, node: UOp) -> None:
        """The lanes that are counted, if the gate is true; all are computed before one is stored."""
        if len(node.src) > 3 and not self.value(node.src[3]):
            return
        lanes = node.attrs["lanes"] if len(node.src) < 3 else min(node.attrs["lanes"], int(self.value(node.src[2])))
        values = [self.value(node.src[1]) for _ in self._lanes(lanes)]
        for lane, value in enumerate(values):
            array, place = self._behind(node.src[0], lane)
            array[place] = value

    def _behind(self, address: UOp, lane: int) -> tuple[Array, tuple[int, ...]]:
        """The memory of an address, and the place that is so many elements behind it."""
        if address.op == "INDEX":
            return self._memory(address.src[0]), self._place(address, lane)
        return self._memory(address), (lane,)

    def _memory(self, node: UOp) -> Array:
        if node.op == "AFTER":
            self.effect(node)
            return self._memory(node.src[0])
        if node.op == "SHRINK":
            return self._memory(node.src[0])[tuple(map(slice, node.attrs["begin"], node.attrs["end"]))]
        if node.op not in STORAGE:
            raise DeviceError(f"{node.op} is not a memory")
        return view(self.memory, node)

    def _place(self, node: UOp, behind: int = 0) -> tuple[int, ...]:
        """The indices of an address, or of the element so many behind it."""
        array = self._memory(node.src[0])
        *others, last = (int(self.value(i)) for i in node.src[1:])
        found = (*others, last + behind)
        if len(found) != array.ndim or any(not 0 <= i < n for i, n in zip(found, array.shape)):
            raise DeviceError("an index out of bounds")
        return found

    # ---- values ----

    def tensor(self, node: UOp) -> Array:
        """The value of a node with a shape."""
        if not node.shape and has_effects(node):
            return np.asarray(self.value(node), as_dtype(node.dtype).numpy)
        if len(node.shape) == 1 and any(inner.op in _VECTORS for inner in node.toposort()):
            return np.asarray([self.value(node) for _ in self._lanes(node.shape[0])], as_dtype(node.dtype).numpy)
        for inner in node.toposort():
            if inner.op == "AFTER":
                self.effect(inner)
        arrays = {n: view(self.memory, n) for n in node.toposort() if n.op in STORAGE}
        loops = node.ranges
        found = evaluate(node, arrays, loops)
        return np.asarray(found[tuple(self.loops[loop_key(r)] for r in loops)])

    def value(self, node: UOp) -> Any:
        """The value of a scalar, where the loops are."""
        if (known := self._elementwise.get(node)) is not None:
            return self._computed(node, known)
        if node.op == "CONST":
            return node.attrs["value"]
        if node.op in (*LOOPS, *COUNTERS):
            return self.loops[loop_key(node)]
        if node.op == "EITHER":
            return self.value(node.src[self.loops["EITHER", node]])
        if node.op in _VECTORS:
            return self._of_vector(node)
        if node.op == "INVALID":
            raise InvalidError
        if node.op == "LABEL":
            return self.value(node.src[0])
        if node.op == "WHERE":
            return self.value(node.src[1] if self.value(node.src[0]) else node.src[2])
        if node.op == "LOAD":
            return self._load(node)
        if node.op == "INDEX":
            return self._element(node)
        if node.op == "REDUCE" and not node.attrs["axes"]:
            return self._reduce(node)
        if node.op == "EXPSUM":
            return self._exponential_sum(node)
        if node.op == "SCAN" and len(node.src) > 1:
            return self._scan(node)
        if node.op == "RECURRENCE" and len(node.src) > 2:
            return self._recurrence(node)
        if node.op == "CUMCOUNT" and len(node.src) > 1:
            return self._cumcount(node)
        if node.op in STORAGE or node.op == "AFTER":
            return _plain(self._memory(node)[()], node.dtype)
        dtypes = tuple(as_dtype(s.dtype).numpy for s in node.src)
        function = evaluators().bind(node.op, node.dtype, list(map(as_dtype, dtypes)))
        self._elementwise[node] = found = _Elementwise(function, dtypes, as_dtype(node.dtype).kind)
        return self._computed(node, found)

    def _computed(self, node: UOp, how: _Elementwise) -> Any:
        arrays = [np.asarray(self.value(source), dtype) for source, dtype in zip(node.src, how.dtypes)]
        with np.errstate(all="ignore"):
            return _of_kind(np.asarray(how.function(*arrays))[()], how.kind)

    def _of_vector(self, node: UOp) -> Any:
        """One lane of a vector, or what is made of its lanes."""
        if node.op == "STACK":
            return self.value(node.src[self.loops[LANE]])
        if node.op == "BROADCAST":
            return self.value(node.src[0])
        if node.op == "LOAD_LANES":
            address, otherwise, first, last, gate = node.src
            if not (self.value(gate) and self.value(first) <= self.loops[LANE] < self.value(last)):
                return self.value(otherwise)
            array, place = self._behind(address, self.loops[LANE] * node.attrs["stride"])
            return _plain(array[place], node.dtype)
        if node.op == "LOAD_TRANSPOSED":
            if len(node.src) > 2 and not self.value(node.src[2]):
                return _plain(np.zeros((), as_dtype(node.dtype).numpy)[()], node.dtype)
            row, column = divmod(self.loops[LANE], node.attrs["lanes"])
            if len(node.src) > 3:
                column = min(column, int(self.value(node.src[3])) - 1)
            array, place = self._behind(node.src[0], column * self.value(node.src[1]) + row)
            return _plain(array[place], node.dtype)
        if node.op == "LOAD_VECTOR":
            most = int(self.value(node.src[1])) - 1 if len(node.src) > 1 else node.attrs["lanes"]
            array, place = self._behind(node.src[0], min(self.loops[LANE], most) * node.attrs["stride"])
            return _plain(array[place], node.dtype)
        if not node.src[0].shape:  # a scalar that stands for a vector
            return self.value(node.src[0])
        moved = _MOVED_LANES.get(node.op)
        if moved is not None:
            lane = self.loops[LANE]
            self.loops[LANE] = moved(node, lane)
            found = self.value(node.src[0])
            self.loops[LANE] = lane
            return found
        (count,) = node.src[0].shape
        values = [self.value(node.src[0]) for _ in self._lanes(count)]
        if node.op == "LANE":
            return values[node.attrs["at"]]
        first = node.attrs["first"]
        return _folded(node, values[first : first + (node.attrs["count"] or count)])

    def _load(self, node: UOp) -> Any:
        address = node.src[0]
        if len(node.src) > 2 and not self.value(node.src[2]):
            return self.value(node.src[1])
        return self._element(address) if address.op == "INDEX" else _plain(self._memory(address)[()], node.dtype)

    def _element(self, node: UOp) -> Any:
        base = node.src[0]
        if base.op in STORAGE or base.op == "AFTER":
            return _plain(self._memory(base)[self._place(node)], node.dtype)
        return _plain(self.tensor(base)[tuple(int(self.value(i)) for i in node.src[1:])], node.dtype)

    def _reduce(self, node: UOp) -> Any:
        identity = _plain(evaluators().identity(node.attrs["op"], node.dtype)[()], node.dtype)
        values = [identity, *(self.value(node.src[0]) for _ in self.over(node.src[1:]))]
        facts = as_dtype(node.dtype)
        if not facts.is_float or facts.bits >= 32:
            return _folded(node, values)
        total = _folded(node, values, "float32")  # small floats keep the digits of float32 until the end
        with np.errstate(all="ignore"):
            return _plain(np.asarray(np.float32(total), facts.numpy)[()], facts)

    def _exponential_sum(self, node: UOp) -> Any:
        pairs = [(self.value(node.src[0]), self.value(node.src[1])) for _ in self.over(node.src[2:])]
        scores, values = (np.asarray(given, as_dtype(node.dtype).numpy) for given in zip(*pairs, strict=True))
        largest = scores.max()
        powers = np.exp(scores - np.where(largest == -np.inf, largest.dtype.type(0), largest))
        return _plain((powers * values).sum(), node.dtype)

    def _scan(self, node: UOp) -> Any:
        last = self.loops[loop_key(node.src[1])]
        iterations = enumerate(self.over(node.src[1:2]))
        return _folded(node, [self.value(node.src[0]) for iteration, _ in iterations if iteration <= last])

    def _recurrence(self, node: UOp) -> Any:
        last = self.loops[loop_key(node.src[2])]
        iterations = enumerate(self.over(node.src[2:3]))
        pairs = [[self.value(s) for s in node.src[:2]] for iteration, _ in iterations if iteration <= last]
        result: Any = 0
        for factor, more in pairs:
            result = _combined("ADD", _combined("MUL", factor, result, node.dtype), more, node.dtype)
        return result

    def _cumcount(self, node: UOp) -> Any:
        own = self.loops[loop_key(node.src[1])]
        values = [self.value(node.src[0]) for _ in self.over(node.src[1:2])]
        inside = [min(max(value, 0), node.attrs["extent"] - 1) for value in values]
        return inside[:own].count(inside[own])


def _combined(op: str, a: Any, b: Any, dtype: DType | str) -> Any:
    both = [np.asarray(v, as_dtype(dtype).numpy) for v in (a, b)]
    return _plain(evaluators().evaluate(op, dtype, both)[()], dtype)


def _folded(node: UOp, values: Sequence[Any], dtype: DType | str | None = None) -> Any:
    """The values combined by the node's op, from the first to the last; dtype: a wider one than the node's."""
    return functools.reduce(lambda a, b: _combined(node.attrs["op"], a, b, dtype or node.dtype), values)


def _plain(value: Any, dtype: DType | str) -> Any:
    return _of_kind(value, as_dtype(dtype).kind)


def _of_kind(value: Any, kind: str) -> Any:
    return bool(value) if kind == "bool" else float(value) if kind == "float" else int(value)


def has_effects(node: UOp) -> bool:
    return any(n.op in EFFECTS for n in node.toposort())
