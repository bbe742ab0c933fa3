"""Statistics of passes and rules: seconds and counts, collected until somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from rulegrad._core import Program


class Statistics:
    """Of passes: seconds, count (of runs), visited (nodes), fired. Of rules, while counted: seconds, tried, count."""

    __slots__ = ("passes", "rules")

    def __init__(self) -> None:
        self.passes: dict[str, dict[str, float]] = {}
        self.rules: dict[str, dict[str, float]] = {}

    def add_pass(self, name: str, seconds: float, count: int = 1, visited: int = 0, fired: int = 0) -> None:
        """Some runs of a pass."""
        record = self.passes.setdefault(name, {"seconds": 0.0, "count": 0, "visited": 0, "fired": 0})
        record["seconds"] += seconds
        record["count"] += count
        record["visited"] += visited
        record["fired"] += fired

    def add_rules(self, program: Program) -> None:
        """A program's counts; it starts again at 0."""
        counts = program.counts
        if not counts:
            return
        for rule, tried, fired, nanoseconds in counts:
            record = self.rules.setdefault(rule, {"seconds": 0.0, "count": 0, "tried": 0})
            record["seconds"] += nanoseconds * 1e-9
            record["count"] += fired
            record["tried"] += tried
        program.count(True)

    def taken(self, programs: Iterable[Program]) -> dict[str, dict[str, dict[str, float]]]:
        """Everything so far, as plain data; begins again."""
        for program in programs:
            self.add_rules(program)
        found = {"passes": self.passes, "rules": self.rules}
        self.passes, self.rules = {}, {}
        return found
