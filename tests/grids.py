"""Grids of parameters: the short run takes a part of them, in which nothing is missing but some combinations.

Faults mostly depend on the values of one or two parameters (D. R. Kuhn, D. R. Wallace, A. M. Gallo: "Software Fault
Interactions and Implications for Software Testing", IEEE Transactions on Software Engineering 30, 2004).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

import pytest

MARK = "each_value"
DESCRIPTION = (
    f"{MARK}: the short run has each value of each parameter, not all of their combinations; "
    "of a test with three parameters or more it has each pair of values"
)
LONG_RUN_MARK = "long_run"
LONG_RUN_DESCRIPTION = (
    f"{LONG_RUN_MARK}: only the long run has it, as it takes seconds, and others say most of the same"
)


def thinned(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The items of the short run."""
    grids: dict[str, list[pytest.Function]] = defaultdict(list)
    left_out = {item for item in items if item.get_closest_marker(LONG_RUN_MARK)}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item not in left_out:
            grids[item.nodeid.partition("[")[0]].append(item)
    for grid in grids.values():
        strength = 1 if grid[0].get_closest_marker(MARK) else 2
        rows = [_values(item) for item in grid]
        chosen = covering(rows, strength)
        left_out.update(item for k, item in enumerate(grid) if k not in chosen)
    return [item for item in items if item not in left_out]


def _values(item: pytest.Function) -> tuple[object, ...]:
    """An object that stands for the value of each parameter; names that one list gives values to are one parameter."""
    # Of what is not a number or a text, the same object stands in each combination.
    given = {name: id(value) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
    found: list[object] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        found.append(tuple(given.pop(name.strip()) for name in names))
    return (*found, *given.values())  # of fixtures


def covering(rows: Sequence[tuple[object, ...]], strength: int) -> set[int]:
    """Which rows have every combination of values of so many columns that any row has.

    Each time the row with the most that are new; of several, the one whose values were chosen least.
    """
    columns = [k for k, values in enumerate(zip(*rows, strict=True)) if len(set(values)) > 1]
    if len(columns) <= strength:
        return set(range(len(rows)))
    parts = [{(c, tuple(row[k] for k in c)) for c in combinations(columns, strength)} for row in rows]
    missing, chosen, used = set().union(*parts), set(), Counter[object]()

    def worth(k: int) -> tuple[int, int, int]:
        return len(parts[k] & missing), -sum(used[value] for value in rows[k]), -k

    while missing:
        best = max(range(len(rows)), key=worth)
        chosen.add(best)
        missing -= parts[best]
        used.update(rows[best])
    return chosen
