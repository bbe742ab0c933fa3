"""Which sizes of two graphs in step belong together: those that movements make of each other, axis by axis.

Two graphs tell little of how their sizes depend on each other: 5 and 8 are `3 * b - 1` where another size is 2 and 3.
So a size is explained by those only that its axis is made of, or that are made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rulegrad.ir import UOp

from .pairs import Pair, how_many_vary, paired


def connected(pairs: Iterable[tuple[UOp, UOp]]) -> dict[Pair, Pair]:
    """For each size that varies one of those that it belongs together with, the same for all of these."""
    above: dict[Pair, Pair] = {}

    def root(pair: Pair) -> Pair:
        above.setdefault(pair, pair)
        while above[pair] != pair:
            pair = above[pair]
        return pair

    for a, b in pairs:
        if a is not b:
            for group in _groups(a, b):
                varying = [pair for pair in group if pair[0] != pair[1]]
                for pair in varying:
                    above[root(pair)] = root(varying[0])
    return {pair: root(pair) for pair in above}


def _groups(a: UOp, b: UOp) -> Iterator[list[Pair]]:
    """The sizes of a node and of its sources that belong together."""
    others = b.attrs
    own = paired(a.shape, b.shape)
    along = [
        paired(value, others[name]) for name, value in a.attrs.items() if name in ("before", "after", "begin", "end")
    ]
    for x, y in zip(a.src, b.src, strict=True):
        below = paired(x.shape, y.shape)
        if a.op == "RESHAPE":
            # where several vary, one size is their product, which says nothing of how they depend on each other
            groups = regrouped(below, own)
            yield from ([*one, *two] for one, two in groups if max(map(how_many_vary, (one, two))) <= 1)
        elif a.op == "PERMUTE":
            yield from ([own[k], below[axis]] for k, axis in enumerate(a.attrs["order"]))
        elif a.op == "UNFOLD":
            axis = a.attrs["axis"]
            yield from ([pair, below[k if k <= axis else k - 1]] for k, pair in enumerate(own))
        elif len(own) == len(below):
            yield from ([*found] for found in zip(own, below, *along, strict=False))
        elif below:  # an op that has other axes than its source, about which nothing is known here
            yield [*own, *below]


def regrouped(below: Sequence[Pair], own: Sequence[Pair]) -> Iterator[tuple[list[Pair], list[Pair]]]:
    """The neighbouring axes that a reshape makes of each other, as many elements being before them in both.

    >>> list(regrouped([(2, 3), (8, 8), (5, 6)], [(16, 24), (5, 6)]))
    [([(2, 3), (8, 8)], [(16, 24)]), ([(5, 6)], [(5, 6)])]
    """
    left, right = ([pair for pair in pairs if pair != (1, 1)] for pairs in (below, own))
    groups: tuple[list[Pair], list[Pair]] = [], []
    sizes = [(1, 1), (1, 1)]
    while left or right:
        side = 0 if not right or (left and sizes[0][0] <= sizes[1][0]) else 1
        pair = (left, right)[side].pop(0)
        groups[side].append(pair)
        sizes[side] = (sizes[side][0] * pair[0], sizes[side][1] * pair[1])
        if sizes[0] == sizes[1]:
            yield groups
            groups = [], []
