"""A list of NumPy steps, run for all iterations of the loops at once, or for a window of them at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad.interpreter.numerics import Array

if TYPE_CHECKING:
    from rulegrad.ir import UOp

#: No step should make an array larger than this, in bytes, when a window of the loops avoids it.
LARGEST_ARRAY = 64 << 20
_BYTES_PER_ELEMENT = 8

Storage = Callable[["UOp"], Array]


@dataclass(frozen=True, slots=True)
class Step:
    """`values[output] = function(*values[inputs])`."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    loops: frozenset[int]  # that the output varies along
    elements: int  # of the output in one iteration of all loops


@dataclass(slots=True)
class ArrayProgram:
    """The steps of a graph. Value slots are filled by constants, storage, loop counters, and steps."""

    extents: list[int]  # of each loop; a loop's number is its array axis
    output_loops: int  # the first ones: these may be run in windows
    constants: list[tuple[int, Array]] = field(default_factory=list)
    storage: list[tuple[int, UOp]] = field(default_factory=list)
    counters: list[tuple[int, int]] = field(default_factory=list)  # (slot, loop)
    steps: list[Step] = field(default_factory=list)
    slots: int = 0
    _prepared: _Prepared | None = None

    def run(self, storage: Storage, results: Sequence[int] = ()) -> list[Array]:
        """Runs all steps; `storage` gives the array of a BUFFER or PARAM. Returns the values in `results`.

        With `results`, nothing is run in windows.
        """
        prepared = self._prepare(results)
        values = list(prepared.values)
        ones = (1,) * len(self.extents)
        for slot, node in self.storage:
            array = storage(node)
            values[slot] = array.reshape(ones + array.shape)
        with np.errstate(all="ignore"):
            _execute(prepared.once, values)
            for window in self._each(prepared.windows) if prepared.windows else ():
                for slot, loop in self.counters:
                    if loop in window:
                        values[slot] = self._counter(loop, *window[loop])
                _execute(prepared.often, values)
        return [values[slot] for slot in results]

    def _prepare(self, results: Sequence[int]) -> _Prepared:
        """Data that is the same in every run, computed at the first."""
        if self._prepared is None or results:
            windows = {} if results else self._windows()
            once = [step for step in self.steps if step.loops.isdisjoint(windows)]
            often = [step for step in self.steps if not step.loops.isdisjoint(windows)]
            values: list[Any] = [None] * self.slots
            for slot, array in self.constants:
                values[slot] = array
            for slot, loop in self.counters:
                if loop not in windows:
                    values[slot] = self._counter(loop, 0, self.extents[loop])
            kept = {*results, *(slot for step in often for slot in step.inputs)}
            self._prepared = _Prepared(windows, _with_last_uses(once, kept), _with_last_uses(often), values)
        return self._prepared

    def _counter(self, loop: int, start: int, stop: int) -> Array:
        shape = [1] * len(self.extents)
        shape[loop] = stop - start
        return np.arange(start, stop, dtype=np.int64).reshape(shape)

    def _windows(self) -> dict[int, int]:
        """The loops to run in windows, and the windows' sizes: none when all arrays are small."""
        sizes = list(self.extents)
        for loop in sorted(range(self.output_loops), key=lambda k: -self.extents[k]):
            peak = max((self._bytes(step, sizes) for step in self.steps), default=0)
            if peak <= LARGEST_ARRAY:
                break
            sizes[loop] = max(1, sizes[loop] * LARGEST_ARRAY // peak)
        return {k: size for k, size in enumerate(sizes) if size < self.extents[k]}

    def _bytes(self, step: Step, sizes: list[int]) -> int:
        return _BYTES_PER_ELEMENT * step.elements * math.prod(sizes[loop] for loop in step.loops)

    def _each(self, windows: dict[int, int]) -> Iterator[dict[int, tuple[int, int]]]:
        """Every combination of windows: loop -> (start, stop)."""
        cuts = [
            [(k, (start, min(start + size, self.extents[k]))) for start in range(0, self.extents[k], size)]
            for k, size in windows.items()
        ]
        for combination in itertools.product(*cuts):
            yield dict(combination)


_Scheduled = list[tuple[Step, tuple[int, ...]]]  # each with the slots that are not needed after it


class _Prepared(NamedTuple):
    windows: dict[int, int]
    once: _Scheduled
    often: _Scheduled
    values: list[Any]  # with constants and counters in their slots


def _with_last_uses(steps: list[Step], kept: Iterable[int] = ()) -> _Scheduled:
    """A value goes after its last use, unless it is kept."""
    last = {slot: number for number, step in enumerate(steps) for slot in step.inputs}
    made = {step.output for step in steps} - set(kept)
    ends: list[list[int]] = [[] for _ in steps]
    for slot, number in last.items():
        if slot in made:
            ends[number].append(slot)
    return [(step, tuple(dying)) for step, dying in zip(steps, ends, strict=True)]


def _execute(steps: _Scheduled, values: list[Any]) -> None:
    for step, dying in steps:
        values[step.output] = step.function(*[values[slot] for slot in step.inputs])
        for slot in dying:
            values[slot] = None
