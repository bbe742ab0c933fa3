"""The alternatives of a rule: each order of its commutative ops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rulegrad.lang import syntax
from rulegrad.lang.compiler.heads import Head, head_of, is_constant
from rulegrad.lang.compiler.scope import Emitter, problem

MOST_ORDERS = 32
Swapped = dict[int, bool]  # which of a pattern's commutative ops (by identity) have their sources swapped


def orders_of(e: Emitter, pattern: syntax.Expression) -> Iterator[Swapped]:
    """Each order of a pattern's commutative ops."""
    nodes = [id(x) for x in _parts(pattern) if (h := head_of(e, x)) is not None and swappable(h)]
    if 2 ** len(nodes) > MOST_ORDERS:
        raise problem(
            f"this pattern has {2 ** len(nodes)} orders of its commutative ops, more than {MOST_ORDERS}", pattern.span,
            "write `ordered` before an op whose order is known, or split the rule",
        )  # fmt: skip
    for choice in itertools.product((False, True), repeat=len(nodes)):
        yield dict(zip(nodes, choice, strict=True))


def swappable(head: Head) -> bool:
    """Whether both orders of the sources must be tried."""
    if not head.commutes or any(isinstance(a, syntax.Splice) for a in head.arguments):
        return False
    left, right = head.arguments
    if is_constant(left) or is_constant(right):
        return False
    return not (isinstance(left, syntax.Name) and isinstance(right, syntax.Name) and left.name == right.name)


def _parts(x: syntax.Expression) -> Iterator[syntax.Expression]:
    """The patterns of nodes in a pattern, but for those in a negation."""
    yield x
    match x:
        case syntax.Infix():
            yield from _parts(x.left)
            yield from _parts(x.right)
        case syntax.Prefix():
            yield from _parts(x.operand)
        case syntax.OpCall() | syntax.Call():
            for argument in x.arguments:
                yield from _parts(argument)
        case syntax.Multiset():
            for item in x.items:
                yield from _parts(item)
        case syntax.Capture():
            yield from _parts(x.pattern)
        case syntax.Splice():
            yield from _parts(x.inner)
