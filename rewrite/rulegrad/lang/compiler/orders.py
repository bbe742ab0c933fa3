"""The alternatives of a rule: `or` and `maybe` written out, and each order of its commutative ops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.compiler.heads import Head, head_of, is_constant
from rulegrad.lang.compiler.scope import Emitter, problem
from rulegrad.lang.compiler.variants import Typed, expanded, variants

MOST_ORDERS = 32
Swapped = dict[int, bool]  # which of a pattern's commutative ops (by identity) have their sources swapped


def alternatives(e: Emitter, rule: syntax.Rule) -> Iterator[tuple[syntax.Rule, Swapped]]:
    """What a rule stands for: rules without `or` and `maybe`, each with the orders of its commutative ops."""
    found = [(variant, order) for variant in variants(rule) for order in _orders(e, variant.pattern)]
    if len(found) > MOST_ORDERS:
        raise _too_many(len(found), rule.pattern.span)
    yield from found


def orders_of(e: Emitter, pattern: syntax.Expression) -> Iterator[tuple[syntax.Expression, Swapped]]:
    """The same for a pattern alone, as inside `not`."""
    for variant, _ in expanded(pattern):
        for order in _orders(e, variant):
            yield variant, order


def _orders(e: Emitter, pattern: syntax.Expression) -> Iterator[Swapped]:
    nodes = [id(x) for x in _parts(pattern) if (h := head_of(e, x)) is not None and swappable(h)]
    if 2 ** len(nodes) > MOST_ORDERS:
        raise _too_many(2 ** len(nodes), pattern.span)
    for choice in itertools.product((False, True), repeat=len(nodes)):
        yield dict(zip(nodes, choice, strict=True))


def _too_many(count: int, span: syntax.Span) -> RuleError:
    return problem(
        f"this pattern has {count} orders of its commutative ops, more than {MOST_ORDERS}", span,
        "write `ordered` before an op whose order is known, or split the rule",
    )  # fmt: skip


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
        case syntax.Capture() | Typed():
            yield from _parts(x.pattern)
        case syntax.Splice():
            yield from _parts(x.inner)
