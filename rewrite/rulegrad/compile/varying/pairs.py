"""Two graphs side by side: pairs of nodes at one place of both, and the sizes in which these differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rulegrad.ir import UOp

#: Attributes that may vary: whole numbers, or tuples of them.
SIZES: Final = ("shape", "before", "after", "begin", "end", "extent")
Pair = tuple[int, int]  # a size in both graphs
NodePair = tuple[UOp, UOp]


class DifferentError(Exception):
    """Two graphs differ in more than their sizes."""


def in_step(roots: Sequence[NodePair]) -> tuple[list[NodePair], dict[NodePair, int]]:
    """Pairs of nodes at one place of both graphs, sources first: nodes that happen to be equal in one stay apart."""
    pairs: list[NodePair] = []
    places: dict[NodePair, int] = {}
    stack = [(pair, False) for pair in reversed(roots)]
    while stack:
        pair, ready = stack.pop()
        if pair in places:
            continue
        a, b = pair
        if a.op != b.op or a.dtype != b.dtype or len(a.src) != len(b.src):
            raise DifferentError(f"{a.describe()} and {b.describe()}")
        if ready:
            places[pair] = len(pairs)
            pairs.append(pair)
        else:
            stack.append((pair, True))
            stack.extend((below, False) for below in reversed(list(zip(a.src, b.src, strict=True))))
    return pairs, places


def numbers_of(value: Any) -> tuple[int, ...]:
    """Of an attribute that is one number, or several."""
    return value if isinstance(value, tuple) else (value,)


def differing(a: UOp, b: UOp) -> Iterator[Pair]:
    """The sizes in which the attributes of two nodes differ. Raises DifferentError for several numbers of axes."""
    if a is b:
        return
    others = b.attrs
    for name, value in a.attrs.items():
        if name in SIZES:
            left, right = numbers_of(value), numbers_of(others[name])
            if len(left) != len(right):
                raise DifferentError(f"{a.describe()} and {b.describe()}")
            yield from ((m, n) for m, n in zip(left, right, strict=True) if m != n)


def paired(one: Sequence[int], two: Sequence[int]) -> list[Pair]:
    """The sizes of two shapes side by side."""
    return list(zip(one, two, strict=False))


def how_many_vary(pairs: Iterable[Pair]) -> int:
    """How many sizes are others in the second graph."""
    return sum(m != n for m, n in pairs)
