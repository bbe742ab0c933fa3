"""Templates: what two graphs have in common that differ in sizes only, and whether a third graph is one of these."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rulegrad._core import TemplateGraph
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp

from .axes import Pair, connected
from .formulas import MOST_VARIABLES, Formula, Monomial, monomials_of, plus, value_of

#: Attributes that may vary: whole numbers, or tuples of them.
_SIZES: Final = frozenset(("shape", "before", "after", "begin", "end", "extent"))
_Pair = tuple[UOp, UOp]


class DifferentError(Exception):
    """Two graphs differ in more than their sizes."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A size that varies."""

    formula: Formula


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


@dataclass(slots=True)
class Node:
    """A node of a template; its sources are places of nodes before it."""

    op: str
    dtype: Any
    src: tuple[int, ...]
    attrs: dict[str, Any]  # with Hole in the place of sizes that vary
    scalar: int = -1  #: of a constant that varies, its number
    buffer: int = -1  #: of a BUFFER, its number


@dataclass(slots=True)
class Template:
    """Graphs with variables in the place of sizes, and inputs in the place of constants that vary."""

    nodes: list[Node] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    #: the values of each variable in the two graphs
    examples: list[tuple[int, int]] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)  #: their dtypes
    buffers: int = 0
    steps: bool = False  #: whether the variables are quotients of sizes
    quotients: dict[int, Quotient] = field(default_factory=dict)  #: the variables that follow from those before them
    monomials: tuple[Monomial, ...] = ((),)  #: those of the numbers of elements of its values
    graph: TemplateGraph | None = None  #: the same for the engine

    def own(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Of all sizes those that do not follow from others."""
        return tuple(size for number, size in enumerate(sizes) if number not in self.quotients)

    def sizes_of(self, own: Sequence[int]) -> tuple[int, ...]:
        """All sizes, from those that do not follow from others."""
        return with_quotients(own, self.quotients)

    def text(self) -> str:
        """Changes with the template, but not with its examples."""
        return repr((self.nodes, self.roots, self.scalars, self.steps, self.quotients, self.monomials))

    def formulas(self) -> set[Formula]:
        """Those of axes."""
        shapes = [node.attrs.get("shape", ()) for node in self.nodes]
        return {size.formula for shape in shapes for size in shape if isinstance(size, Hole)}


@dataclass(frozen=True, slots=True)
class Match:
    """The sizes, constants and ids of buffers with which a template is a graph."""

    sizes: tuple[int, ...]
    scalars: tuple[Any, ...]
    buffers: tuple[int, ...]


def generalised(
    first: Sequence[UOp],
    second: Sequence[UOp],
    steps: bool = False,
    rounded: bool = False,
    variables: Sequence[Pair] | None = None,
    quotients: Mapping[int, Quotient] | None = None,
) -> Template:
    """The template of two lists of graphs. Raises DifferentError.

    steps: a size may be the quotient of another, as after a stride, of which there is one remainder. rounded: a number
    of windows with a step is the rounded quotient of the size of its axis, whatever the remainder.
    variables: the sizes, in both graphs, that all others are formulas of; found out where they are not given.
    quotients: those of the given ones that follow from others (`rounded_sizes`).
    """
    if len(first) != len(second):
        raise DifferentError("the number of results differs")
    pairs, places = _in_step(list(zip(first, second, strict=True)))
    windows = _windows(pairs)
    if rounded and not windows:
        raise DifferentError("no windows have a step")
    windows = windows if rounded else {}
    sizes: dict[tuple[int, int], None] = {}  # those of buffers first: they are likely to be the variables
    for of_buffers in (True, False):
        for a, b in pairs:
            if (a.op == "BUFFER") == of_buffers:
                sizes.update((pair, None) for pair in _differing(a, b))
    varying = sorted(sizes, key=lambda pair: abs(pair[1] - pair[0])) if steps else [*sizes, *windows]
    template = Template(steps=steps)
    if variables is None:
        template.examples, formulas, template.quotients = explained(varying, steps, connected(pairs), windows)
        if len(template.examples) > MOST_VARIABLES and not rounded:
            template.examples, formulas, _ = explained(varying, steps)
    else:
        template.examples, formulas = list(variables), {pair: formula_of(pair, variables) for pair in varying}
        template.quotients = dict(quotients or {})
    if len(template.examples) - len(template.quotients) > MOST_VARIABLES:
        raise DifferentError(f"{len(template.examples)} sizes vary")
    for a, b in pairs:
        src = tuple(places[pair] for pair in zip(a.src, b.src, strict=True))
        template.nodes.append(_common(a, b, src, formulas, template))
    template.roots = [places[pair] for pair in zip(first, second, strict=True)]
    shapes = {(a.shape, b.shape) for a, b in pairs if a is not b}
    template.monomials = monomials_of(_varying_sizes(shapes, formulas, template.examples), len(template.examples))
    given = [
        (a, node.src, node.scalar, node.buffer, _holes(node))
        for (a, _), node in zip(pairs, template.nodes, strict=True)
    ]
    counts = len(template.examples), len(template.scalars), template.buffers
    divided = [(number, one.formula, one.divisor) for number, one in template.quotients.items()]
    template.graph = TemplateGraph(given, template.roots, *counts, divided)
    return template


def _varying_sizes(
    shapes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]],
    formulas: dict[tuple[int, int], Formula],
    variables: Sequence[tuple[int, int]],
) -> Iterator[list[Formula]]:
    """Of each pair of shapes the sizes that vary; those that follow from others by division are not counted."""
    for one, two in shapes:
        sizes: list[Formula] = []
        for pair in zip(one, two, strict=False):
            if pair[0] != pair[1]:
                found = formulas.get(pair) or next(_explanations(pair, variables, steps=False), None)
                sizes.extend([found] if found else [])
        yield sizes


def _windows(pairs: Iterable[_Pair]) -> dict[Pair, _Windows]:
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
    pairs, _ = _in_step(list(zip(first, second, strict=True)))
    for count, windows in _windows(pairs).items():
        if count not in found and (size := _likeliest(windows.size, found)) is not None:
            quotients[len(found)] = windows.quotient(size)
            found.append(count)
    return found, quotients


def _holes(node: Node) -> list[tuple[str, int, Formula]]:
    """The sizes of a node that vary: attribute, the place in it, formula."""
    found: list[tuple[str, int, Formula]] = []
    for name, value in node.attrs.items():
        numbered = enumerate(value) if isinstance(value, tuple) else ((-1, value),)
        found.extend((name, place, size.formula) for place, size in numbered if isinstance(size, Hole))
    return found


def _in_step(roots: Sequence[_Pair]) -> tuple[list[_Pair], dict[_Pair, int]]:
    """Pairs of nodes at one place of both graphs, sources first: nodes that happen to be equal in one stay apart."""
    pairs: list[_Pair] = []
    places: dict[_Pair, int] = {}
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


def _numbers(value: Any) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _differing(a: UOp, b: UOp) -> Iterator[tuple[int, int]]:
    if a is b:
        return
    others = b.attrs
    for name, value in a.attrs.items():
        if name in _SIZES:
            left, right = _numbers(value), _numbers(others[name])
            if len(left) != len(right):
                raise DifferentError(f"{a.describe()} and {b.describe()}")
            yield from ((m, n) for m, n in zip(left, right, strict=True) if m != n)


def _common(a: UOp, b: UOp, src: tuple[int, ...], formulas: dict[tuple[int, int], Formula], template: Template) -> Node:
    def hole(m: int, n: int) -> int | Hole:
        return m if m == n else Hole(formulas[m, n])

    node, others = Node(a.op, a.dtype, src, {}), b.attrs
    for name, x in a.attrs.items():
        y = others[name]
        if name in _SIZES:
            both = tuple(hole(m, n) for m, n in zip(_numbers(x), _numbers(y), strict=True))
            node.attrs[name] = both if isinstance(x, tuple) else both[0]
        elif name == "id" and a.op == "BUFFER":
            node.buffer = template.buffers
            template.buffers += 1
        elif name == "id" and a.op == "ARGUMENT":
            node.attrs[name] = 0  # a new one in each call
        elif a.op == "CONST" and not _is_same(x, y):
            node.scalar = len(template.scalars)
            template.scalars.append(a.dtype)
        elif not _is_same(x, y):
            raise DifferentError(f"{a.describe()} and {b.describe()}")
        else:
            node.attrs[name] = x
    return node


def _is_same(x: Any, y: Any) -> bool:
    """Whether two attributes are the same: 0.0 and -0.0 are not, two nan are."""
    return type(x) is type(y) and (repr(x) == repr(y) if isinstance(x, (float, complex)) else x == y)


def explained(
    pairs: Sequence[Pair],
    steps: bool = False,
    together: Mapping[Pair, Pair] | None = None,
    windows: Mapping[Pair, _Windows] | None = None,
) -> tuple[list[Pair], dict[Pair, Formula], dict[int, Quotient]]:
    """Which pairs of sizes are variables, and all as formulas of these: the likeliest that holds in both graphs.

    together: which pairs may be formulas of each other (`connected`). windows: which are rounded quotients of others;
    these variables follow from those before them.
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
                formula = next(_explanations(pair, variables, steps, together), None)
            if formula is None:
                formula = (((len(variables),), 1),)
                variables.append(pair)
            found[pair] = formula
        return found[pair]

    for pair in pairs:
        explain(pair)
    return variables, found, quotients


def formula_of(pair: tuple[int, int], variables: Sequence[tuple[int, int]]) -> Formula:
    """The likeliest formula of a size that varies. Raises DifferentError where there is none."""
    found = _likeliest(pair, variables)
    if found is None:
        raise DifferentError(f"a size that is {pair[0]} and {pair[1]} is not a formula of the sizes that vary")
    return found


def _likeliest(pair: Pair, variables: Sequence[Pair]) -> Formula | None:
    return next(itertools.chain(_explanations(pair, variables, steps=False), _sums(pair, variables)), None)


def _explanations(
    pair: Pair, variables: Sequence[Pair], steps: bool, together: Mapping[Pair, Pair] | None = None
) -> Iterator[Formula]:
    """A pair of sizes by the variables, the likeliest first: x + c, c * x, c * x * y, c * x + d, c - x."""
    (m, n), numbered = pair, list(enumerate(variables))
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


def matched(template: Template, roots: Sequence[UOp], given_sizes: Sequence[int] | None = None) -> Match | None:
    """With which sizes, constants and buffers the template is these graphs; None where it is with none.

    given_sizes: those that it has to be.
    """
    assert template.graph is not None
    found = template.graph.match(roots, given_sizes)
    return None if found is None else Match(*found)


def instance(template: Template, sizes: Sequence[int], device: str) -> list[UOp]:
    """The template at these sizes, with BUFFERs numbered from 1 for its buffers and then its constants that vary.

    Raises GraphError where these sizes are not possible.
    """

    def filled(value: Any) -> Any:
        if isinstance(value, Hole):
            return value_of(value.formula, sizes)
        return tuple(map(filled, value)) if isinstance(value, tuple) else value

    made: list[UOp] = []
    for node in template.nodes:
        src = tuple(made[place] for place in node.src)
        attrs = {name: filled(value) for name, value in node.attrs.items()}
        if node.scalar >= 0:
            number = 1 + template.buffers + node.scalar
            made.append(UOp("BUFFER", (), node.dtype, id=number, shape=(), device=device))
        elif node.buffer >= 0:
            made.append(UOp("BUFFER", (), node.dtype, id=1 + node.buffer, **attrs))
        else:
            made.append(_made(node, src, attrs))
    return [made[place] for place in template.roots]


def _made(node: Node, src: tuple[UOp, ...], attrs: dict[str, Any]) -> UOp:
    """A node of a template; ops differ in whether their dtype is said or follows from their sources."""
    try:
        return UOp(node.op, src, node.dtype, **attrs)
    except RulegradError:
        return UOp(node.op, src, **attrs)
