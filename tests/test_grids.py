"""The part of a grid that the short run takes has what it should."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from grids import covering


@pytest.mark.parametrize("strength", [1, 2])
@pytest.mark.parametrize("sizes", [(3,), (2, 5), (3, 4, 9), (2, 2, 3, 4)])
def test_every_combination_of_so_many_values_is_there(sizes: tuple[int, ...], strength: int) -> None:
    rows = [*product(*(range(100 * k, 100 * k + size) for k, size in enumerate(sizes)))]
    chosen = [rows[k] for k in sorted(covering(rows, strength))]
    for columns in combinations(range(len(sizes)), min(strength, len(sizes))):
        values = [tuple(row[k] for k in columns) for row in chosen]
        assert {*values} == {*product(*({row[k] for row in rows} for k in columns))}
    least = sorted(sizes)[-strength:]
    assert len(chosen) <= 1.5 * least[0] * (least[1] if len(least) > 1 else 1)


def test_values_are_chosen_equally_often() -> None:
    rows = [*product(range(3), range(10, 26))]
    chosen = [rows[k][0] for k in covering(rows, 1)]
    assert len(chosen) == 16 and {chosen.count(value) for value in range(3)} <= {5, 6}


def test_rows_that_are_no_grid_are_all_there() -> None:
    rows = [(k, k + 10, k + 20) for k in range(7)]
    assert covering(rows, 1) == covering(rows, 2) == {*range(7)}
