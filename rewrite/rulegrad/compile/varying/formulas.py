"""Formulas of sizes: polynomials with whole coefficients, and how they are found from their values.

A formula is a tuple of terms: the numbers of the variables that are multiplied, and the coefficient. `2 * t * u + 3` is
`(((), 3), ((0, 1), 2))`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

Formula = tuple[tuple[tuple[int, ...], int], ...]

_DEGREE: Final = 2
#: Sizes at which a template is compiled, for each variable: primes, so that no size is equal to another or divides it
#: unless it does so at all sizes. Smaller ones where a size cannot be as large.
GENERIC: Final = (
    ((1009, 1013, 1019, 1031), (2003, 2011, 2017, 2027), (3001, 3011, 3019, 3023)),
    ((97, 101, 103, 107), (197, 199, 211, 223), (307, 311, 313, 317)),
    ((23, 29, 31, 37), (59, 61, 67, 71), (79, 83, 89, 97)),
)
MOST_VARIABLES: Final = len(GENERIC[0])


class NoFormulaError(Exception):
    """Values that are not a formula of the sizes."""


def value_of(formula: Formula, sizes: Sequence[int]) -> int:
    """The value of a formula at some sizes.

    >>> value_of((((), 3), ((0, 1), 2)), (5, 7))
    73
    """
    return sum(factor * math.prod([sizes[v] for v in variables]) for variables, factor in formula)


class Fit:
    """Formulas of so many variables from their values at some points.

    >>> fit = Fit(1, GENERIC[0])
    >>> fit([3 * t + 1 for t, in fit.points])
    (((), 1), ((0,), 3))
    """

    def __init__(self, variables: int, primes: Sequence[Sequence[int]], small: Sequence[Sequence[int]] = ()) -> None:
        """small: a formula has to hold at one of these points too, so that `min(t, 512)` is none."""
        self._terms = [
            names
            for size in range(_DEGREE + 1)
            for names in itertools.combinations_with_replacement(range(variables), size)
        ]
        #: as many as a formula has coefficients, and one more that checks them
        self.points = [tuple(primes[v][names.count(v)] for v in range(variables)) for names in self._terms]
        self.points.append(tuple(primes[v][_DEGREE + 1] for v in range(variables)))
        rows = tuple(tuple(math.prod(point[v] for v in names) for names in self._terms) for point in self.points[:-1])
        if small:
            self.points.append(tuple(small[v][0] for v in range(variables)))
        self._inverse = _inverse(rows)
        self._known: dict[tuple[int, ...], Formula] = {}

    def __call__(self, values: Sequence[int]) -> Formula:
        """The formula that has these values at the points. Raises NoFormulaError."""
        key = tuple(values)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._found(key)
        return found

    def _found(self, values: tuple[int, ...]) -> Formula:
        if len(set(values)) == 1:
            return (((), values[0]),) if values[0] else ()
        factors = [sum(map(operator.mul, row, values)) for row in self._inverse]
        whole = all(Fraction(factor).denominator == 1 for factor in factors)
        found = tuple((names, int(factor)) for names, factor in zip(self._terms, factors, strict=True) if factor)
        if not whole or any(value_of(found, p) != v for p, v in zip(self.points, values, strict=True)):
            raise NoFormulaError(
                f"{', '.join(map(str, values[:4]))} at {self.points[:4]} is not a formula of the sizes"
            )
        return found


def numbers_within(ranges: Sequence[tuple[int, int]]) -> list[list[int]] | None:
    """For each range, ends included, as many numbers as `Fit` takes, no number twice; None where there are not.

    Primes, where there are so many.

    >>> numbers_within([(20, 40), (20, 90)])
    [[23, 29, 31, 37], [41, 43, 47, 53]]
    >>> numbers_within([(2, 9), (2, 9)])
    [[2, 3, 5, 7], [4, 6, 8, 9]]
    """
    found: list[list[int]] = [[] for _ in ranges]
    taken: set[int] = set()
    for k in sorted(range(len(ranges)), key=lambda k: ranges[k][1] - ranges[k][0]):
        numbers = range(max(ranges[k][0], 2), ranges[k][1] + 1)
        primes = (n for n in numbers if n not in taken and _is_prime(n))
        others = (n for n in numbers if n not in taken and not _is_prime(n))
        found[k] = list(itertools.islice(itertools.chain(primes, others), _DEGREE + 2))
        taken.update(found[k])
    return found if all(len(numbers) == _DEGREE + 2 for numbers in found) else None


def _is_prime(n: int) -> bool:
    return all(n % k for k in range(2, math.isqrt(n) + 1))


@functools.cache
def _inverse(rows: tuple[tuple[int, ...], ...]) -> list[list[Fraction]]:
    """The inverse of a matrix, by elimination."""
    size = len(rows)
    wide = [[Fraction(x) for x in row] + [Fraction(int(k == j)) for j in range(size)] for k, row in enumerate(rows)]
    for k in range(size):
        pivot = next(j for j in range(k, size) if wide[j][k])
        wide[k], wide[pivot] = wide[pivot], wide[k]
        wide[k] = [x / wide[k][k] for x in wide[k]]
        for j in range(size):
            if j != k and wide[j][k]:
                factor = wide[j][k]
                wide[j] = [x - factor * y for x, y in zip(wide[j], wide[k], strict=True)]
    return [row[size:] for row in wide]
