"""Templates: what two graphs have in common that differ in sizes only, and whether a third graph is one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rulegrad._core import TemplateGraph, template_key
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp

from .explanations import Quotient, formulas_of_shapes, sizes_by, sizes_of, sizes_of_buffers, with_quotients
from .formulas import MOST_VARIABLES, Formula, Monomial, monomials_of, value_of
from .pairs import SIZES, DifferentError, Pair, in_step, numbers_of


@dataclass(frozen=True, slots=True)
class Hole:
    """A size that varies."""

    formula: Formula


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


def key_of(roots: Sequence[UOp]) -> int:
    """A number that all graphs of a template have in common."""
    return template_key(roots, SIZES)


def generalised(
    first: Sequence[UOp],
    second: Sequence[UOp],
    steps: bool = False,
    rounded: bool = False,
    variables: Sequence[Pair] | None = None,
    quotients: Mapping[int, Quotient] | None = None,
    separate: bool = False,
) -> Template:
    """The template of two lists of graphs. Raises DifferentError.

    steps: a size may be the quotient of another, as after a stride, of which there is one remainder. rounded: a number
    of windows with a step is the rounded quotient of the size of its axis, whatever the remainder.
    variables: the sizes, in both graphs, that all others are formulas of; found out where they are not given.
    quotients: those of the given ones that follow from others (`rounded_sizes`).
    separate: different sizes of buffers do not follow from each other.
    """
    if len(first) != len(second):
        raise DifferentError("the number of results differs")
    pairs, places = in_step(list(zip(first, second, strict=True)))
    if separate:
        variables = sizes_of_buffers(pairs)
    sizes = sizes_of(pairs, steps, rounded) if variables is None else sizes_by(pairs, variables, quotients or {})
    template = Template(steps=steps, examples=sizes.variables, quotients=sizes.quotients)
    if len(template.examples) - len(template.quotients) > MOST_VARIABLES:
        raise DifferentError(f"{len(template.examples)} sizes vary")
    for a, b in pairs:
        src = tuple(places[pair] for pair in zip(a.src, b.src, strict=True))
        template.nodes.append(_common(a, b, src, sizes.formulas, template))
    template.roots = [places[pair] for pair in zip(first, second, strict=True)]
    shapes = {(a.shape, b.shape) for a, b in pairs if a is not b}
    template.monomials = monomials_of(formulas_of_shapes(shapes, sizes), len(template.examples))
    given = [
        (a, node.src, node.scalar, node.buffer, _holes(node))
        for (a, _), node in zip(pairs, template.nodes, strict=True)
    ]
    counts = len(template.examples), len(template.scalars), template.buffers
    divided = [(number, one.formula, one.divisor) for number, one in template.quotients.items()]
    template.graph = TemplateGraph(given, template.roots, *counts, divided)
    return template


def _holes(node: Node) -> list[tuple[str, int, Formula]]:
    """The sizes of a node that vary: attribute, the place in it, formula."""
    found: list[tuple[str, int, Formula]] = []
    for name, value in node.attrs.items():
        numbered = enumerate(value) if isinstance(value, tuple) else ((-1, value),)
        found.extend((name, place, size.formula) for place, size in numbered if isinstance(size, Hole))
    return found


def _common(a: UOp, b: UOp, src: tuple[int, ...], formulas: dict[tuple[int, int], Formula], template: Template) -> Node:
    def hole(m: int, n: int) -> int | Hole:
        return m if m == n else Hole(formulas[m, n])

    node, others = Node(a.op, a.dtype, src, {}), b.attrs
    for name, x in a.attrs.items():
        y = others[name]
        if name in SIZES:
            both = tuple(hole(m, n) for m, n in zip(numbers_of(x), numbers_of(y), strict=True))
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
