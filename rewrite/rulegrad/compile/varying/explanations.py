"""Which sizes of two graphs are variables, and what all others are by these: formulas, or rounded quotients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rulegrad.ir import UOp

from .axes import connected
from .formulas import MOST_VARIABLES, Formula, plus, value_of
from .identities import renumbered, solved
from .pairs import DifferentError, NodePair, Pair, differing, in_step


@dataclass(frozen=True, slots=True)
class Quotient:
    """A size that is a rounded quotient: how many windows with a step fit into an axis."""

    formula: Formula  #: what is divided, of variables before it
    divisor: int


class _Windows(NamedTuple):
    """The windows with a step along an axis, of which there are `(size + added) // divisor`."""

    size: Pair
    added: int
    divisor: int

    def quotient(self, size: Formula) -> Quotient:
        """How many there are, by the formula of the axis's size."""
        return Quotient(plus(size, self.added), self.divisor)


def with_quotients(own: Sequence[int], quotients: Mapping[int, Quotient]) -> tuple[int, ...]:
    """All sizes, from those that do not follow from others, in the order of their numbers.

    >>> with_quotients((40, 3), {1: Quotient((((), 1), ((0,), 1)), 2)})
    (40, 20, 3)
    """
    sizes: list[int] = []
    given = iter(own)
    for number in range(len(own) + len(quotients)):
        one = quotients.get(number)
        sizes.append(next(given) if one is None else value_of(one.formula, sizes) // one.divisor)
    return tuple(sizes)


class Sizes(NamedTuple):
    """The sizes of two graphs that vary."""

    variables: list[Pair]
    formulas: dict[Pair, Formula]  # of all, by the variables
    quotients: dict[int, Quotient]  # the variables that follow from those before them


def sizes_of(pairs: Sequence[NodePair], steps: bool, rounded: bool) -> Sizes:
    """The likeliest variables of two graphs in step, and all sizes by these. Raises DifferentError.

    steps: a size may be the quotient of another, as after a stride, of which there is one remainder. rounded: a number
    of windows with a step is the rounded quotient of the size of its axis, whatever the remainder.
    """
    windows = _windows(pairs)
    if rounded and not windows:
        raise DifferentError("no windows have a step")
    windows = windows if rounded else {}
    varying = _varying(pairs)
    varying = sorted(varying, key=lambda pair: abs(pair[1] - pair[0])) if steps else [*varying, *windows]
    together, of_buffers = connected(pairs), set(sizes_of_buffers(pairs))
    _require_few([pair for pair in varying if pair in of_buffers], steps)
    found = explained(varying, steps, together, windows)
    if len(found.variables) > MOST_VARIABLES and not rounded:
        found = explained(varying, steps)
    sizes, is_consistent = _reduced(pairs, found, steps, of_buffers)
    if not (is_consistent or steps or rounded):  # a formula was guessed that holds in these two graphs only
        found = explained(varying, steps, together, windows, of_buffers)
        others, is_consistent = _reduced(pairs, found, steps, of_buffers)
        sizes = others if is_consistent else sizes
    return sizes


def _require_few(of_buffers: Sequence[Pair], steps: bool) -> None:
    """Raises DifferentError where buffers have more sizes of their own than a plan has variables.

    Found out before all other sizes are explained by them, which takes the third power of their number: a hundred
    tensors of different extents that are put together are none of one plan.
    """
    variables: list[Pair] = []
    for pair in of_buffers:
        if next(_explanations(pair, variables, steps), None) is None:
            variables.append(pair)
        if len(variables) > MOST_VARIABLES:
            raise DifferentError(f"more than {MOST_VARIABLES} sizes of buffers vary")


def sizes_by(pairs: Sequence[NodePair], variables: Sequence[Pair], quotients: Mapping[int, Quotient]) -> Sizes:
    """All sizes by these variables, of which some are quotients. Raises DifferentError where there is no formula."""
    _windows(pairs)
    return Sizes(list(variables), {pair: formula_of(pair, variables) for pair in _varying(pairs)}, dict(quotients))


def sizes_of_buffers(pairs: Sequence[NodePair]) -> list[Pair]:
    """Those that vary."""
    return list(dict.fromkeys(pair for a, b in pairs if a.op == "BUFFER" for pair in differing(a, b)))


def _varying(pairs: Sequence[NodePair]) -> list[Pair]:
    """The sizes that vary, those of buffers first: they are likely to be the variables."""
    found: dict[Pair, None] = {}
    for of_buffers in (True, False):
        for a, b in pairs:
            if (a.op == "BUFFER") == of_buffers:
                found.update((pair, None) for pair in differing(a, b))
    return list(found)


def _reduced(pairs: Sequence[NodePair], sizes: Sizes, steps: bool, of_buffers: Collection[Pair]) -> tuple[Sizes, bool]:
    """The same without variables that follow from others, by identities or as numbers of blocks; and whether all
    identities hold. Sizes of buffers stay variables.
    """
    kept = {number for number, pair in enumerate(sizes.variables) if pair in of_buffers}
    for number, quotient in sizes.quotients.items():
        kept |= {number, *(v for names, _ in quotient.formula for v in names)}
    order, formulas, is_consistent = solved(pairs, sizes.formulas, len(sizes.variables), kept)
    paddings = {pair: formulas[pair] for a, b in pairs if a.op == "PAD" for pair in differing(a, b)}
    quotients = sizes.quotients if steps else sizes.quotients | _rounded_up(paddings, kept)
    order = _in_order(order, quotients)
    reduced = Sizes(
        [sizes.variables[number] for number in order],
        {pair: renumbered(one, order) for pair, one in formulas.items()},
        {
            place: Quotient(renumbered(quotients[number].formula, order), quotients[number].divisor)
            for place, number in enumerate(order)
            if number in quotients
        },
    )
    return reduced, is_consistent


def _in_order(variables: Sequence[int], quotients: Mapping[int, Quotient]) -> list[int]:
    """Variables, of which quotients come after what they are quotients of. Raises DifferentError."""
    order = [number for number in variables if number not in quotients]
    waiting = [number for number in variables if number in quotients]
    while waiting:
        ready = [
            number for number in waiting if all(v in order for names, _ in quotients[number].formula for v in names)
        ]
        if not ready:
            raise DifferentError("numbers of windows follow from each other")
        order += ready
        waiting = [number for number in waiting if number not in ready]
    return order


def _windows(pairs: Iterable[NodePair]) -> dict[Pair, _Windows]:
    """The windows with a step, by their number, along axes that vary.

    Raises DifferentError where that number is the same in both graphs, which do not tell that it varies.
    """
    found: dict[Pair, _Windows] = {}
    for a, b in pairs:
        if a.op == "UNFOLD" and a.attrs["step"] > 1 and a.attrs == b.attrs:
            axis, step = a.attrs["axis"], a.attrs["step"]
            count = a.shape[axis], b.shape[axis]
            size = a.src[0].shape[axis], b.src[0].shape[axis]
            if size[0] != size[1]:
                if count[0] == count[1]:
                    raise DifferentError(f"axes of {size[0]} and {size[1]} elements have {count[0]} windows each")
                span = a.attrs["dilation"] * (a.attrs["size"] - 1) + 1
                found.setdefault(count, _Windows(size, step - span, step))
    return found


def rounded_sizes(
    first: Sequence[UOp], second: Sequence[UOp], variables: Sequence[Pair]
) -> tuple[list[Pair], dict[int, Quotient]]:
    """The variables, and behind them the numbers of windows with a step that follow from them; these as quotients.

    Raises DifferentError for graphs that differ in more than their sizes.
    """
    found, quotients = list(variables), dict[int, Quotient]()
    pairs, _ = in_step(list(zip(first, second, strict=True)))
    for count, windows in _windows(pairs).items():
        if count not in found and (size := _likeliest(windows.size, found)) is not None:
            quotients[len(found)] = windows.quotient(size)
            found.append(count)
    return found, quotients


def _rounded_up(paddings: Mapping[Pair, Formula], kept: Collection[int]) -> dict[int, Quotient]:
    """The numbers of blocks of axes that are padded to a whole number of them: where a padding is less than a block.

    paddings: in both graphs, and as formulas, `8 * blocks - size`.
    """
    found: dict[int, Quotient] = {}
    for pair, formula in paddings.items():
        for names, factor in formula:
            rest = tuple((others, -k) for others, k in formula if others != names)
            is_alone = len(names) == 1 and not any(names[0] in others for others, _ in rest)
            if is_alone and names[0] not in kept and factor > max(pair):
                found.setdefault(names[0], Quotient(plus(rest, factor - 1), factor))
    return found


def formulas_of_shapes(
    shapes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]], sizes: Sizes
) -> Iterator[list[Formula]]:
    """Of each pair of shapes the sizes that vary; those that follow from others by division are not counted."""
    for one, two in shapes:
        those: list[Formula] = []
        for pair in zip(one, two, strict=False):
            if pair[0] != pair[1]:
                found = sizes.formulas.get(pair) or next(_explanations(pair, sizes.variables, steps=False), None)
                those.extend([found] if found else [])
        yield those


def explained(
    pairs: Sequence[Pair],
    steps: bool = False,
    together: Mapping[Pair, Pair] | None = None,
    windows: Mapping[Pair, _Windows] | None = None,
    by: Collection[Pair] | None = None,
) -> Sizes:
    """Which pairs of sizes are variables, and all as formulas of these: the likeliest that holds in both graphs.

    together: which pairs may be formulas of each other (`connected`). windows: which are rounded quotients of others;
    these variables follow from those before them. by: the variables that others may be formulas of, by default all.
    """
    variables: list[Pair] = []
    found: dict[Pair, Formula] = {}
    quotients: dict[int, Quotient] = {}

    def explain(pair: Pair) -> Formula:
        if pair not in found:
            formula = None
            if windows and pair in windows:
                counted = windows[pair].quotient(explain(windows[pair].size))
                quotients[len(variables)] = counted
            else:
                formula = next(_explanations(pair, variables, steps, together, by), None)
            if formula is None:
                formula = (((len(variables),), 1),)
                variables.append(pair)
            found[pair] = formula
        return found[pair]

    for pair in pairs:
        explain(pair)
    return Sizes(variables, found, quotients)


def formula_of(pair: tuple[int, int], variables: Sequence[tuple[int, int]]) -> Formula:
    """The likeliest formula of a size that varies. Raises DifferentError where there is none."""
    found = _likeliest(pair, variables)
    if found is None:
        raise DifferentError(f"a size that is {pair[0]} and {pair[1]} is not a formula of the sizes that vary")
    return found


def _likeliest(pair: Pair, variables: Sequence[Pair]) -> Formula | None:
    return next(itertools.chain(_explanations(pair, variables, steps=False), _sums(pair, variables)), None)


def _explanations(
    pair: Pair,
    variables: Sequence[Pair],
    steps: bool,
    together: Mapping[Pair, Pair] | None = None,
    by: Collection[Pair] | None = None,
) -> Iterator[Formula]:
    """A pair of sizes by the variables, the likeliest first: x + c, c * x, c * x * y, c * x + d, c - x."""
    (m, n), numbered = pair, [(v, one) for v, one in enumerate(variables) if by is None or one in by]
    every = numbered  # of which a size may be the product
    if together is not None:
        numbered = [(v, one) for v, one in numbered if together.get(one) == together.get(pair)]
    for v, (p, _) in sorted(
        (one for one in numbered if n - m == one[1][1] - one[1][0]), key=lambda one: abs(m - one[1][0])
    ):
        yield (((), m - p), ((v,), 1)) if m != p else (((v,), 1),)
    for count, factors in ((1, numbered), (2, every)):
        for several in itertools.combinations_with_replacement(factors, count):
            p, q = (math.prod(one[k] for _, one in several) for k in (0, 1))
            if p and m % p == 0 and n * p == m * q:
                yield ((tuple(v for v, _ in several), m // p),)
    for v, (p, q) in numbered:
        factor, rest = divmod(n - m, q - p)
        offset = m - factor * p
        if rest == 0 and factor > 0 and (steps or offset % factor == 0):
            yield (((), offset), ((v,), factor))
    yield from _rests(pair, numbered)


def _rests(pair: tuple[int, int], numbered: Iterable[tuple[int, tuple[int, int]]]) -> Iterator[Formula]:
    """A pair of sizes as c - x: what is left of an axis, as the padding behind a value that is put into it."""
    for v, (p, q) in numbered:
        if pair[1] - pair[0] == p - q:
            yield ((((), pair[0] + p), ((v,), -1)) if pair[0] + p else (((v,), -1),))


def _sums(pair: tuple[int, int], variables: Sequence[tuple[int, int]]) -> Iterator[Formula]:
    """A pair of sizes as x + y + c, x - y + c or c * x + d."""
    for (v, (p, q)), (w, (r, s)) in itertools.permutations(enumerate(variables), 2):
        for sign in (1, -1):
            offset = pair[0] - p - sign * r
            if pair[1] == q + sign * s + offset:
                terms = (((v,), 1), ((w,), sign))
                yield ((((), offset), *terms) if offset else terms)
    for v, (p, q) in enumerate(variables):
        factor, rest = divmod(pair[1] - pair[0], q - p)
        if rest == 0 and factor > 0:
            yield (((), pair[0] - factor * p), ((v,), factor))
