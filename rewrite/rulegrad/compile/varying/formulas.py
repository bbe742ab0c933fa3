"""Formulas of sizes: polynomials with whole coefficients, and how they are found from their values.

A formula is a tuple of terms: the numbers of the variables that are multiplied, and the coefficient. `2 * t * u + 3` is
`(((), 3), ((0, 1), 2))`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final

Monomial = tuple[int, ...]  # the variables that are multiplied, in order
Formula = tuple[tuple[Monomial, int], ...]

_MOST_DEGREE: Final = 3  # of one variable: the voxels of a cube
_FIELD: Final = 2**61 - 1  # a prime: numbers that depend on each other do so modulo it
#: Sizes at which a template is compiled, for each variable: primes, so that no size is equal to another or divides it
#: unless it does so at all sizes. Smaller ones where a size cannot be as large.
GENERIC: Final = (
    (
        (1009, 1013, 1019, 1031, 1033), (2003, 2011, 2017, 2027, 2029), (3001, 3011, 3019, 3023, 3037),
        (4001, 4003, 4007, 4013, 4019), (5003, 5009, 5011, 5021, 5023), (6007, 6011, 6029, 6037, 6043),
        (7001, 7013, 7019, 7027, 7039), (8009, 8011, 8017, 8039, 8053),
    ),
    (
        (97, 101, 103, 107, 109), (197, 199, 211, 223, 227), (307, 311, 313, 317, 331), (401, 409, 419, 421, 431),
        (503, 509, 521, 523, 541), (601, 607, 613, 617, 619), (701, 709, 719, 727, 733), (809, 811, 821, 823, 827),
    ),
    (
        (23, 29, 31, 37, 41), (59, 61, 67, 71, 73), (79, 83, 89, 97, 101), (103, 107, 109, 113, 127),
        (131, 137, 139, 149, 151), (157, 163, 167, 173, 179), (181, 191, 193, 197, 199), (211, 223, 227, 229, 233),
    ),
)  # fmt: skip
MOST_VARIABLES: Final = len(GENERIC[0])
NAMES: Final = "tuvwxyzs"  # of variables


class NoFormulaError(Exception):
    """Values that are not a formula of the sizes."""


def value_of(formula: Formula, sizes: Sequence[int]) -> int:
    """The value of a formula at some sizes.

    >>> value_of((((), 3), ((0, 1), 2)), (5, 7))
    73
    """
    return sum(factor * math.prod([sizes[v] for v in variables]) for variables, factor in formula)


def plus(formula: Formula, constant: int) -> Formula:
    """A formula and a constant.

    >>> plus((((), 3), ((0,), 2)), -1)
    (((), 2), ((0,), 2))
    """
    constant += sum(factor for names, factor in formula if not names)
    terms = tuple(term for term in formula if term[0])
    return (((), constant), *terms) if constant else terms


def sum_of_products(products: Iterable[tuple[int, Iterable[Formula]]]) -> Formula:
    """The sum of products of formulas, each times a factor.

    >>> t, u = (((0,), 1),), (((), 1), ((1,), 1))
    >>> sum_of_products([(2, [t, u]), (-1, [t])])
    (((0,), 1), ((0, 1), 2))
    """
    total: dict[Monomial, int] = {}
    for factor, formulas in products:
        product: dict[Monomial, int] = {(): factor}
        for formula in formulas:
            wider: dict[Monomial, int] = {}
            for (one, k), (two, m) in itertools.product(product.items(), formula):
                names = tuple(sorted(one + two))
                wider[names] = wider.get(names, 0) + k * m
            product = wider
        for names, k in product.items():
            total[names] = total.get(names, 0) + k
    return tuple(sorted(((names, k) for names, k in total.items() if k), key=lambda one: (len(one[0]), one[0])))


def substituted(formula: Formula, variable: int, value: Formula) -> Formula:
    """A formula with another one in the place of a variable.

    >>> substituted((((), 1), ((0, 1), 2)), 1, (((), 3), ((0,), 1)))
    (((), 1), ((0,), 6), ((0, 0), 2))
    """
    return sum_of_products((k, [value if v == variable else (((v,), 1),) for v in names]) for names, k in formula)


def monomials_of(shapes: Iterable[Sequence[Formula]], variables: int) -> tuple[Monomial, ...]:
    """The monomials of the numbers of elements of these shapes, all that divide one of them, and all variables.

    Strides and places are sums of these too.

    >>> t, u = (((0,), 1),), (((), 3), ((1,), 1))
    >>> monomials_of([(t, t, u)], 2)
    ((), (0,), (1,), (0, 0), (0, 1), (0, 0, 1))
    """
    found: set[Monomial] = {(number,) for number in range(variables)}
    for shape in shapes:
        products: set[Monomial] = {()}
        for size in shape:
            products = {tuple(sorted(one + names)) for one in products for names, _ in size}
        found |= products
    divisors = {d for one in found for size in range(len(one) + 1) for d in itertools.combinations(one, size)}
    return tuple(sorted(divisors | {()}, key=lambda one: (len(one), one)))


def numbers_needed(monomials: Iterable[Monomial]) -> int:
    """How many values of each variable `Fit` takes for these monomials. Raises NoFormulaError for too high powers."""
    degree = max((names.count(v) for names in monomials for v in names), default=0)
    if degree > _MOST_DEGREE:
        raise NoFormulaError(f"a number of elements has the power {degree} of a size")
    return degree + 2


def grid(variables: int, monomials: Sequence[Monomial], primes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Points that determine a formula of these monomials, with all their divisors, and one more that checks it.

    Raises NoFormulaError for too high powers.

    primes: for each variable as many values as `numbers_needed` says.

    >>> grid(1, [(), (0,)], GENERIC[0])
    [(1009,), (1013,), (1019,)]
    """
    last = numbers_needed(monomials) - 1
    points = [tuple(primes[v][names.count(v)] for v in range(variables)) for names in monomials]
    return [*points, tuple(primes[v][last] for v in range(variables))]


def determining(
    monomials: Sequence[Monomial], points: Iterable[tuple[int, ...]]
) -> tuple[list[Monomial], list[tuple[int, ...]]] | None:
    """The monomials that do not follow from those before them, points that determine these, and one that checks them.

    Rounded quotients depend on other sizes: where `u` is `(2 * t + 8) // 2` it is a formula of `t` at all points, and
    where it is `t // 2` points with odd numbers alone do not tell it from one. None where there are too few points.

    >>> determining([(), (0,), (1,)], [(t, t // 2) for t in (5, 7, 9, 10, 12)])
    ([(), (0,), (1,)], [(5, 2), (7, 3), (10, 5), (9, 4)])
    >>> determining([(), (0,), (1,)], [(t, t + 4) for t in (5, 7, 9)])
    ([(), (0,)], [(5, 9), (7, 11), (9, 13)])
    """
    kept: list[tuple[int, ...]] = []
    spare: list[tuple[int, ...]] = []
    rows: dict[int, list[int]] = {}  # in echelon form, by the place of their first number, which is 1
    for point in points:
        row = [math.prod(point[v] for v in names) % _FIELD for names in monomials]
        for lead, other in sorted(rows.items()):
            if factor := row[lead]:
                row = [(x - factor * y) % _FIELD for x, y in zip(row, other, strict=True)]
        lead = next((k for k, x in enumerate(row) if x), -1)
        if lead < 0:
            spare.append(point)
            continue
        inverse = pow(row[lead], -1, _FIELD)
        rows[lead] = [x * inverse % _FIELD for x in row]
        kept.append(point)
    return ([monomials[lead] for lead in sorted(rows)], [*kept, spare[0]]) if spare else None


class Fit:
    """Formulas of some monomials from their values at some points.

    >>> fit = Fit([(), (0,)], grid(1, [(), (0,)], GENERIC[0]))
    >>> fit([3 * t + 1 for t, in fit.points])
    (((), 1), ((0,), 3))
    """

    def __init__(self, monomials: Sequence[Monomial], points: Sequence[tuple[int, ...]]) -> None:
        """points: of `grid` or `determining`, as many as a formula has coefficients, and one that checks them."""
        self._terms = tuple(monomials)
        self.points = list(points)
        rows = tuple(tuple(math.prod(point[v] for v in names) for names in self._terms) for point in self.points[:-1])
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


def numbers_within(ranges: Sequence[tuple[int, int]], count: int) -> list[list[int]] | None:
    """For each range, ends included, so many numbers, no number twice; None where there are not.

    Primes, where there are so many.

    >>> numbers_within([(20, 40), (20, 90)], 4)
    [[23, 29, 31, 37], [41, 43, 47, 53]]
    >>> numbers_within([(2, 9), (2, 9)], 4)
    [[2, 3, 5, 7], [4, 6, 8, 9]]
    """
    found: list[list[int]] = [[] for _ in ranges]
    taken: set[int] = set()
    for k in sorted(range(len(ranges)), key=lambda k: ranges[k][1] - ranges[k][0]):
        numbers = range(max(ranges[k][0], 2), ranges[k][1] + 1)
        primes = primes_in(numbers, taken)
        others = (n for n in numbers if n not in taken and not _is_prime(n))
        found[k] = list(itertools.islice(itertools.chain(primes, others), count))
        taken.update(found[k])
    return found if all(len(numbers) == count for numbers in found) else None


def primes_near(sizes: Sequence[int], count: int) -> list[list[int]]:
    """For each size so many primes that are not smaller, none twice, and none that is likely to be a constant.

    >>> primes_near([4, 30, 24], 3)
    [[23, 29, 31], [37, 41, 43], [47, 53, 59]]
    """
    taken: set[int] = set()
    found = []
    for size in sizes:
        primes = primes_in(itertools.count(max(size, GENERIC[-1][0][0])), taken)
        found.append(list(itertools.islice(primes, count)))
        taken.update(found[-1])
    return found


def primes_in(numbers: Iterable[int], taken: Collection[int]) -> Iterator[int]:
    """Those of numbers from 2 on that are primes and not taken.

    >>> list(primes_in(range(2, 20), {3, 4, 5}))
    [2, 7, 11, 13, 17, 19]
    """
    return (n for n in numbers if n not in taken and _is_prime(n))


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
