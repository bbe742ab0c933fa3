"""The memory plan of a schedule: blocks of memory, each of which several buffers use one after the other.

A buffer lives from the step that first writes it to the last step that uses it; results live on. Buffers in one block
have lives that do not meet, except where a kernel may write an element over the only one that it needs for it. Blocks
are whole allocations, so no device needs views of memory.

>>> chain = [Use((), (0,)), Use((0,), (1,)), Use((1,), (2,)), Use((2,), (3,))]
>>> plan = plan_memory(chain, [1024] * 4, inputs=0, outputs=[3])
>>> plan.block_of, plan.nbytes, plan.bound
((1, 0, 1, 0), 2048, 2048)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from rulegrad._core import place_buffers

_NONE: Mapping[int, int] = MappingProxyType({})


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
    orders = _orders(inner, sizes, lives)
    bound = _bound(lives, sizes, made, len(steps))
    by_life = sorted(ends, key=lambda number: lives[number])

    def least(allowed: _Pairs, most: int | None) -> _Placed | None:
        """The first of the placings with the fewest bytes; None where each takes as many as `most`."""
        best = None
        for order in orders:
            found = _Placed(*place_buffers(sizes, lives, list(allowed), taken, by_life, list(own.items()), order, most))
            if most is None or found.nbytes < most:
                best, most = found, found.nbytes
        return best

    best = least(pairs, None)
    assert best is not None
    # what overwrites nothing is as good where it takes no more, which most often cannot be
    if pairs and not own and _bound(lives, sizes, made, len(steps), taken) <= best.nbytes:
        best = least(frozenset(), best.nbytes + 1) or best
    return MemoryPlan(
        tuple(Block(*block) for block in best.blocks),
        tuple(best.block_of[inputs:]),
        tuple(_overwritten(step, best.block_of) for step in steps),
        best.nbytes,
        bound,
    )


def _orders(numbers: Sequence[int], sizes: Sequence[int], lives: Sequence[_Life]) -> list[list[int]]:
    """Orders in which buffers are placed: the largest first; equal ones by their ends, starts or how long they live."""
    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda number: (-sizes[number], -lives[number][1]),
        lambda number: (-sizes[number], lives[number][0]),
        lambda number: (-sizes[number], lives[number][0] - lives[number][1]),
    ]
    return [sorted(numbers, key=key) for key in keys]


class _Placed(NamedTuple):
    """A placing: blocks of memory, and the block of each buffer, -1 where an input keeps its own."""

    blocks: list[tuple[int, int, int | None]]
    block_of: list[int]
    nbytes: int


def _overwritten(step: Use, block_of: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The buffers (read, written) of a step that are in one block."""
    return tuple(
        (read, written)
        for written in dict.fromkeys(step.writes)
        for read in dict.fromkeys(step.reads)
        if read != written and block_of[read] == block_of[written] != -1
    )


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
