"""An integer expression in no library's terms: a tuple of steps, each an operation on the results of earlier steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Step = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """The last step is the value. Equal steps are one step, so the length is the number of nodes of the graph.

    Steps: ("const", value), ("range", id, extent), and (operation, step numbers...) with the operations add, mul,
    floordiv, floormod, less, at_least, both (logical and) and where.
    """

    steps: tuple[Step, ...]

    @property
    def extents(self) -> dict[int, int]:
        """The ranges that appear: id to extent."""
        return {step[1]: step[2] for step in self.steps if step[0] == "range"}

    def count(self, *operations: str) -> int:
        return sum(step[0] in operations for step in self.steps)


class Builder:
    """Builds a program step by step; equal steps get the same number."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.numbers: dict[Step, int] = {}
        # Conditions under which the value so far is an address at all.
        self.valid: list[int] = []

    def add(self, step: Step) -> int:
        number = self.numbers.setdefault(step, len(self.steps))
        if number == len(self.steps):
            self.steps.append(step)
        return number

    def node(self, operation: str, *sources: int) -> int:
        return self.add((operation, *sources))

    def const(self, value: int) -> int:
        return self.add(("const", value))

    def range(self, number: int, extent: int) -> int:
        return self.const(0) if extent == 1 else self.add(("range", number, extent))

    def scale(self, source: int, factor: int) -> int:
        return source if factor == 1 else self.node("mul", source, self.const(factor))

    def shift(self, source: int, distance: int) -> int:
        return source if distance == 0 else self.node("add", source, self.const(distance))

    def finish(self, value: int) -> Program:
        """The program of `value`, where it is valid, else -1; steps that it does not use are dropped."""
        if self.valid:
            condition = self.valid[0]
            for clause in self.valid[1:]:
                condition = self.node("both", condition, clause)
            value = self.node("where", condition, value, self.const(-1))
        return Program(live(self.steps, value))


def live(steps: Sequence[Step], value: int) -> tuple[Step, ...]:
    """The steps that a value needs, in order and renumbered."""
    needed = {value}
    for number in range(value, -1, -1):
        if number in needed and steps[number][0] not in ("const", "range"):
            needed.update(steps[number][1:])
    new: dict[int, int] = {}
    kept: list[Step] = []
    for number in sorted(needed):
        step = steps[number]
        leaf = step[0] in ("const", "range")
        new[number] = len(kept)
        kept.append(step if leaf else (step[0], *(new[source] for source in step[1:])))
    return tuple(kept)
