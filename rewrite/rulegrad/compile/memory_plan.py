"""Which buffers of a schedule share memory: blocks, each of which serves several buffers in turn.

A buffer lives from the step that first writes it to the last step that uses it; results live on. Buffers in one block
have lives that do not meet, except where a kernel may write an element over the only one that it needs for it. Blocks
are whole allocations, so no device needs views of memory.

>>> chain = [Use((), (0,)), Use((0,), (1,)), Use((1,), (2,)), Use((2,), (3,))]
>>> plan = plan_memory(chain, [1024] * 4, inputs=0, outputs=[3])
>>> plan.block_of, plan.nbytes, plan.bound
((1, 0, 1, 0), 2048, 2048)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import NamedTuple

_NONE: Mapping[int, int] = MappingProxyType({})
_MOST_TRIED = 256  # blocks that are looked at for one buffer, so that planning stays close to linear


class Use(NamedTuple):
    """The buffers that one step reads and writes."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


class Block(NamedTuple):
    """One allocation. `largest` is the largest buffer in it; `taken` the input whose memory it was, if any."""

    nbytes: int
    largest: int
    taken: int | None = None


class MemoryPlan(NamedTuple):
    """The blocks of a schedule, and the block of each buffer that it makes."""

    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]
    overwritten: tuple[tuple[tuple[int, int], ...], ...]  #: of each step, the buffers (read, written) in one block
    nbytes: int  #: of all blocks that are allocated
    bound: int  #: no plan for this order of steps that overwrites nothing needs less: the largest sum of buffers alive


_Life = tuple[int, int]  # first and last step
_Pairs = Set[tuple[int, int]]


def plan_memory(
    steps: Sequence[Use],
    sizes: Sequence[int],
    inputs: int,
    outputs: Sequence[int],
    taken: Sequence[int] = (),
    pairs: _Pairs = frozenset(),
    own: Mapping[int, int] = _NONE,
) -> MemoryPlan:
    """Places every buffer that the steps make.

    Buffers are numbered, the inputs first. sizes: bytes of each. taken: the inputs that nobody needs after their last
    use here. pairs: (read, written) buffers of a step that may be the same memory. own: for some results the input,
    one that is taken, in whose place they should lie: the new value of a state in that of the old one. Other results
    take the memory of inputs of just their size too; overwriting is planned only where it saves memory, or for `own`.
    """
    lives = _lives(steps, len(sizes), inputs, outputs)
    made = range(inputs, len(sizes))
    ends = {number for number in outputs if number >= inputs}
    inner = [number for number in made if number not in ends]
    orders: list[Callable[[int], tuple[int, ...]]] = [
        lambda number: (-sizes[number], -lives[number][1]),
        lambda number: (-sizes[number], lives[number][0]),
        lambda number: (-sizes[number], lives[number][0] - lives[number][1]),
    ]
    bound = _bound(lives, sizes, made, len(steps))
    by_life = sorted(ends, key=lambda number: lives[number])

    def least(allowed: _Pairs, most: float) -> _Placing | None:
        """The first of the placings with the fewest bytes; None where each takes as many as `most`."""
        best = None
        for order in orders:
            placing = _Placing(sizes, lives, allowed, most)
            for number in taken:
                placing.add(_Room(sizes[number], number, number), number)
            placing.place_results(by_life, own)
            placing.place(sorted(inner, key=order))
            if placing.nbytes < most:
                best, most = placing, placing.nbytes
        return best

    best = least(pairs, inf)
    assert best is not None
    # what overwrites nothing is as good where it takes no more, which most often cannot be
    if pairs and not own and _bound(lives, sizes, made, len(steps), taken) <= best.nbytes:
        best = least(frozenset(), best.nbytes + 1) or best
    return best.plan(steps, made, bound)


def useful_inputs(
    steps: Sequence[Use], sizes: Sequence[int], inputs: int, outputs: Sequence[int], pairs: _Pairs
) -> tuple[int, ...]:
    """The inputs in whose memory something could lie once they are no longer needed.

    >>> useful_inputs([Use((0, 1), (2,)), Use((2,), (3,))], [256, 128, 256, 128], 2, [3], {(0, 2)})
    (0, 1)
    """
    lives = _lives(steps, len(sizes), inputs, outputs)
    smallest: list[float] = [inf] * (len(steps) + 1)  # of the inner buffers that are first written from each step on
    result_at: dict[int, int] = {}  # by size, the last step that writes a new result
    for number in range(inputs, len(sizes)):
        first = lives[number][0]
        if lives[number][1] == len(steps):
            result_at[sizes[number]] = max(first, result_at.get(sizes[number], 0))
        else:
            smallest[first] = min(smallest[first], sizes[number])
    for place in reversed(range(len(steps))):
        smallest[place] = min(smallest[place], smallest[place + 1])
    overwritten = {read for read, _ in pairs}
    return tuple(
        number
        for number in range(inputs)
        if 0 <= lives[number][1] < len(steps)
        and (
            number in overwritten
            or smallest[lives[number][1] + 1] <= sizes[number]
            or result_at.get(sizes[number], -1) > lives[number][1]
        )
    )


def _lives(steps: Sequence[Use], buffers: int, inputs: int, outputs: Sequence[int]) -> list[_Life]:
    """First and last step of each buffer: -1 for the first of an input, which is there before."""
    first, last = [-1] * buffers, [-1] * buffers
    seen = set(range(inputs))
    for place, step in enumerate(steps):
        for number in (*step.reads, *step.writes):
            if number not in seen:
                seen.add(number)
                first[number] = place
            last[number] = place
    for number in outputs:
        last[number] = len(steps)
    return list(zip(first, last, strict=True))


def _bound(
    lives: Sequence[_Life], sizes: Sequence[int], made: Sequence[int], steps: int, taken: Sequence[int] = ()
) -> int:
    """The largest sum of the buffers alive, without what has room in inputs that are taken, after their last use."""
    change = [0] * (steps + 2)
    for number in taken:
        change[lives[number][1] + 1] -= sizes[number]
    for number in made:
        change[lives[number][0]] += sizes[number]
        change[lives[number][1] + 1] -= sizes[number]
    most = alive = 0
    for difference in change:
        alive += difference
        most = max(most, alive)
    return most


@dataclass(slots=True, eq=False)
class _Room:
    """A block while it is planned, with the buffers in it by their first steps."""

    nbytes: int
    largest: int
    taken: int | None = None
    ends: bool = False  # a result is in it
    occupants: list[tuple[int, int]] = field(default_factory=list)  # (first step, buffer)
    busy: int = 0  # the steps in which one of them lives, as bits


class _Placing:
    """One attempt: rooms by size, and the room of each buffer. It is given up when it takes as much as `most` bytes."""

    def __init__(self, sizes: Sequence[int], lives: Sequence[_Life], pairs: _Pairs, most: float = inf) -> None:
        self._sizes = sizes
        self._lives = lives
        self._pairs = pairs
        self._most = most
        self._sources: dict[int, list[int]] = {}
        for read, written in sorted(pairs):
            self._sources.setdefault(written, []).append(read)
        self._rooms: list[_Room] = []
        self._by_size: list[_Room] = []  # of one size, as they were made
        self._rising: list[int] = []  # the sizes of these
        self._room_of: dict[int, _Room] = {}
        self.nbytes = 0  # that are allocated

    def add(self, room: _Room, number: int) -> None:
        """A new room, with its first buffer."""
        at = bisect_right(self._rising, room.nbytes)
        self._rising.insert(at, room.nbytes)
        self._by_size.insert(at, room)
        self._rooms.append(room)
        if room.taken is None:
            self.nbytes += room.nbytes
        self._put(number, room)

    def place_results(self, numbers: Sequence[int], own: Mapping[int, int]) -> None:
        """Each result has a room to itself from its first step on: one of just its size."""
        waiting = self._place_in(numbers, lambda number: self._room_of.get(own.get(number, -1)))
        # what may overwrite an input goes there before others do
        for number in self._place_in(waiting, self._overwritable):
            size = self._sizes[number]
            start, stop = bisect_left(self._rising, size), bisect_right(self._rising, size)
            rooms = self._by_size[start : min(stop, start + _MOST_TRIED)]
            found = next((room for room in rooms if room.taken is not None and self._suits(room, number)), None)
            if found is None:
                self.add(_Room(size, number, ends=True), number)
            else:
                self._put(number, found, ends=True)

    def _place_in(self, numbers: Sequence[int], room_of: Callable[[int], _Room | None]) -> list[int]:
        """Places results in the rooms of inputs that are theirs, where these suit; returns the other results."""
        waiting = []
        for number in numbers:
            room = room_of(number)
            if room is not None and room.taken is not None and self._suits(room, number):
                self._put(number, room, ends=True)
            else:
                waiting.append(number)
        return waiting

    def _suits(self, room: _Room, number: int) -> bool:
        return not room.ends and room.nbytes == self._sizes[number] and self._is_free(room, number)

    def place(self, numbers: Sequence[int]) -> None:
        """The smallest room that is large enough and free, or a new one."""
        for number in numbers:
            if self.nbytes >= self._most:
                return
            room = self._overwritable(number)
            if room is None or room.nbytes < self._sizes[number] or not self._is_free(room, number):
                room = self._smallest_free(number)
            if room is None:
                self.add(_Room(self._sizes[number], number), number)
            else:
                self._put(number, room)

    def _smallest_free(self, number: int) -> _Room | None:
        during, within = self._steps_of(number)
        start = bisect_left(self._rising, self._sizes[number])
        for room in self._by_size[start : start + _MOST_TRIED]:
            # most rooms are busy in the middle of a life: that is seen at once
            if not room.busy & during or (not room.busy & within and self._is_free(room, number)):
                return room
        return None

    def _overwritable(self, number: int) -> _Room | None:
        rooms = (self._room_of.get(source) for source in self._sources.get(number, ()))
        return next((room for room in rooms if room is not None and self._is_free(room, number)), None)

    def _is_free(self, room: _Room, number: int) -> bool:
        """Occupants do not meet each other, so only the neighbours in time can meet a new one."""
        first, last = self._lives[number]
        at = bisect_left(room.occupants, (first, -1))
        before = room.occupants[max(0, at - 1) : at]
        after = room.occupants[at : at + 2]
        for _, other in (*before, *after):
            start, end = self._lives[other]
            if not (end < first or last < start or self._may_follow(other, number) or self._may_follow(number, other)):
                return False
        return True

    def _steps_of(self, number: int) -> tuple[int, int]:
        """The steps of a buffer's life as bits, the first of an input's too; and without the two at its ends."""
        first, last = self._lives[number]
        return (2 << (last + 1)) - (1 << (first + 1)), max(0, (1 << (last + 1)) - (2 << (first + 1)))

    def _may_follow(self, earlier: int, later: int) -> bool:
        """Whether one buffer ends in the step that writes the other, which may write over it."""
        return self._lives[earlier][1] == self._lives[later][0] and (earlier, later) in self._pairs

    def _put(self, number: int, room: _Room, ends: bool = False) -> None:
        insort(room.occupants, (self._lives[number][0], number))
        room.ends |= ends
        room.busy |= self._steps_of(number)[0]
        self._room_of[number] = room

    def plan(self, steps: Sequence[Use], made: Sequence[int], bound: int) -> MemoryPlan:
        """The memory plan, and which steps write over what they read."""
        numbers = {id(room): k for k, room in enumerate(self._rooms)}
        overwritten = tuple(
            tuple(
                (read, written)
                for written in dict.fromkeys(step.writes)
                for read in dict.fromkeys(step.reads)
                if read != written
                and read in self._room_of
                and written in self._room_of
                and self._room_of[read] is self._room_of[written]
            )
            for step in steps
        )
        return MemoryPlan(
            tuple(Block(room.nbytes, room.largest, room.taken) for room in self._rooms),
            tuple(numbers[id(self._room_of[number])] for number in made),
            overwritten,
            self.nbytes,
            bound,
        )
