"""Sizes that follow from others, as movements make shapes of shapes: not guessed from two numbers.

`x` of t rows that are padded by p and taken as rows of eight has `t + p = 8 * q` rows: p is `8 * q - t`. What was taken
for a variable is none where such an identity says what it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rulegrad.ir import UOp

from .axes import regrouped
from .formulas import Formula, Monomial, substituted, sum_of_products
from .pairs import Pair, how_many_vary, paired

_Product = tuple[int, Sequence[Pair]]  # a factor, and sizes
_ALONG = {"PAD": ("before", "after"), "SHRINK": ("begin", "end")}  # attributes with a number for each axis


def solved(
    pairs: Iterable[tuple[UOp, UOp]], formulas: dict[Pair, Formula], variables: int, kept: Collection[int]
) -> tuple[list[int], dict[Pair, Formula], bool]:
    """The numbers of variables that do not follow from others; all sizes by these; and whether no identity says that a
    formula is wrong. `kept` are left in any case.

    formulas: of the sizes that attributes have; those of shapes are found here.
    """
    known = dict(formulas)
    gone: set[int] = set()
    is_consistent = True
    for products in _identities(pairs, known):
        total = sum_of_products((k, [_formula(pair, known) for pair in sizes]) for k, sizes in products)
        found = _solution(total, kept)
        if found:
            gone.add(found[0])
            known.update({pair: substituted(one, *found) for pair, one in known.items()})
        is_consistent = is_consistent and bool(found or not total)
    return [number for number in range(variables) if number not in gone], known, is_consistent


def renumbered(formula: Formula, order: Sequence[int]) -> Formula:
    """A formula of variables in another order.

    >>> renumbered((((0, 3), 2),), [0, 2, 3])
    (((0, 2), 2),)
    """
    return tuple((tuple(sorted(order.index(v) for v in names)), factor) for names, factor in formula)


def _formula(pair: Pair, known: dict[Pair, Formula]) -> Formula:
    m, n = pair
    return known[pair] if m != n else ((((), m),) if m else ())


def _identities(pairs: Iterable[tuple[UOp, UOp]], known: dict[Pair, Formula]) -> Iterator[list[_Product]]:
    """Sums of products of sizes that are 0, in the order of the graph. Sizes of results become known on the way."""

    def sums(own: Sequence[Pair], *others: tuple[int, Sequence[Pair]]) -> Iterator[list[_Product]]:
        for axis, size in enumerate(own):
            terms = [(sign, [sizes[axis]]) for sign, sizes in others]
            if not how_many_vary([size, *(pair for _, (pair,) in terms)]):
                continue
            if all(_is_known(pair, known) for _, (pair,) in terms):
                if _is_known(size, known):
                    yield [(-1, [size]), *terms]
                else:
                    known[size] = sum_of_products((sign, [_formula(pair, known)]) for sign, (pair,) in terms)

    for a, b in pairs:
        if a is b or len(a.src) != 1:
            continue
        own, below = paired(a.shape, b.shape), paired(a.src[0].shape, b.src[0].shape)
        along = {name: paired(a.attrs[name], b.attrs[name]) for name in _ALONG.get(a.op, ())}
        if a.op == "PAD":
            yield from sums(own, (1, below), (1, along["before"]), (1, along["after"]))
        elif a.op == "SHRINK":
            yield from sums(own, (1, along["end"]), (-1, along["begin"]))
        elif a.op == "UNFOLD" and a.attrs == b.attrs:
            axis, step, span = a.attrs["axis"], a.attrs["step"], a.attrs["dilation"] * (a.attrs["size"] - 1) + 1
            count, size = own[axis], below[axis]
            is_whole = all(n == (m - 1) * step + span for m, n in zip(count, size, strict=True))
            if is_whole and _is_known(count, known) and _is_known(size, known):
                yield [(step, [count]), (1, [(span - step, span - step)]), (-1, [size])]
        elif a.op == "RESHAPE":
            for one, two in regrouped(below, own):
                several = (*one, *two)
                if how_many_vary(several) and all(_is_known(pair, known) for pair in several):
                    yield [(1, one), (-1, two)]


def _is_known(pair: Pair, known: dict[Pair, Formula]) -> bool:
    return pair[0] == pair[1] or pair in known


def _solution(formula: Formula, kept: Collection[int]) -> tuple[int, Formula] | None:
    """A variable that follows from this being 0, and what it is: one that is alone, with the factor 1 or -1."""
    formula = _without_common(formula)
    for names, k in reversed(formula):
        if len(names) == 1 and abs(k) == 1 and names[0] not in kept:
            rest = tuple(term for term in formula if term[0] != names)
            if not any(names[0] in others for others, _ in rest):
                return names[0], tuple((others, -k * factor) for others, factor in rest)
    return None


def _without_common(formula: Formula) -> Formula:
    """A formula divided by the variables that all its terms have."""
    terms: list[tuple[Monomial, int]] = list(formula)
    for variable in terms[0][0] if terms else ():
        if all(variable in names for names, _ in terms):
            terms = [(_without(names, variable), k) for names, k in terms]
    return tuple(terms)


def _without(names: Monomial, variable: int) -> Monomial:
    place = names.index(variable)
    return names[:place] + names[place + 1 :]
