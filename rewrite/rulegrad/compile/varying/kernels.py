"""One kernel for all sizes, from the kernels of a template at a few generic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted

from .formulas import Fit, Formula, value_of
from .pairs import DifferentError


def variable(number: int, least: int, typical: int, most: int) -> UOp:
    """A size as an argument of kernels."""
    return UOp("VAR", (UOp.const(least, "index"), UOp.const(most, "index")), slot=number, typical=typical)


def expression(formula: Formula, variables: Sequence[UOp]) -> UOp:
    """A formula as index arithmetic.

    >>> t = variable(0, 2, 7, 4096)
    >>> expression((((), 3), ((0,), 2)), [t]) == t * 2 + 3
    True
    """
    constant = sum(factor for names, factor in formula if not names)
    total: UOp | None = None
    for names, factor in formula:
        if names:
            term = math.prod([variables[name] for name in names[1:]], start=variables[names[0]])
            term = term if factor == 1 else term * factor
            total = term if total is None else total + term
    if total is None:
        return UOp.const(constant, "index")
    return total + constant if constant else total


def at_sizes(kernel: UOp, sizes: Sequence[int] = ()) -> UOp:
    """A kernel with its sizes as constants: these, by default those that choices are made for."""
    numbers = {node: sizes[node.attrs["slot"]] if sizes else node.attrs["typical"] for node in kernel.toposort("VAR")}
    return substituted(kernel, {node: UOp.const(number, node.dtype) for node, number in numbers.items()})


def general_kernel(kernels: Sequence[UOp], fit: Fit, variables: Sequence[UOp]) -> UOp:
    """The kernel that is each of these, with flat addresses, at the sizes of the fit's points.

    Raises DifferentError where they differ in more than numbers, and NoFormulaError for a number that is not a formula.
    """
    most = [size.vmax or 0 for size in variables]
    return _in_step(kernels, lambda nodes, src: _general_node(nodes, src, fit, variables, most))


def at_point(graphs: Sequence[UOp], fit: Fit, point: Sequence[int]) -> UOp:
    """The graph that is each of these at one of the fit's points, at another point.

    Raises DifferentError, NoFormulaError, and GraphError where there is none.
    """

    def number(numbers: Sequence[Any]) -> Any:
        first = numbers[0]
        if all(type(one) is type(first) and one == first for one in numbers):
            return first
        if all(isinstance(one, tuple) and len(one) == len(first) for one in numbers):
            return tuple(map(number, zip(*numbers, strict=True)))
        whole = all(type(one) is int or (type(one) is float and one.is_integer()) for one in numbers)
        if not whole:
            raise DifferentError(f"graphs have {' and '.join(dict.fromkeys(map(repr, numbers)))}")
        return type(first)(value_of(fit(list(map(int, numbers))), point))

    def made(nodes: Sequence[UOp], src: tuple[UOp, ...]) -> UOp:
        every = [node.attrs for node in nodes]
        attributes = {name: number([attrs[name] for attrs in every]) for name in every[0]}
        return nodes[0].replace(src, **{name: one for name, one in attributes.items() if one is not every[0][name]})

    found = _in_step(graphs, made)
    _ = found.shape  # of all nodes, which is checked by it
    return found


def _in_step(graphs: Sequence[UOp], make: Callable[[Sequence[UOp], tuple[UOp, ...]], UOp]) -> UOp:
    """The graphs as one: `make` joins the nodes at one place of all, from the sources up; equal ones stay as they are.

    Raises DifferentError where they have different ops, dtypes or numbers of sources.
    """
    done: dict[tuple[UOp, ...], UOp] = {}
    stack = [(tuple(graphs), False)]
    while stack:
        nodes, ready = stack.pop()
        if nodes in done:
            continue
        first = nodes[0]
        if len(set(nodes)) == 1:
            done[nodes] = first
            continue
        below = list(zip(*(node.src for node in nodes), strict=False))
        if not ready:
            if any((n.op, n.dtype, len(n.src)) != (first.op, first.dtype, len(first.src)) for n in nodes):
                raise DifferentError(f"kernels have {' and '.join(dict.fromkeys(n.describe() for n in nodes))}")
            stack.append((nodes, True))
            stack.extend((several, False) for several in below)
            continue
        done[nodes] = make(nodes, tuple(done[several] for several in below))
    return done[tuple(graphs)]


def _general_node(
    nodes: Sequence[UOp], src: tuple[UOp, ...], fit: Fit, variables: Sequence[UOp], most: Sequence[int]
) -> UOp:
    first, every = nodes[0], [node.attrs for node in nodes]
    if all(attrs == every[0] for attrs in every):
        return first.replace(src)
    if first.op == "CONST":
        numbers = [int(attrs["value"]) for attrs in every]
        if any(number != attrs["value"] for number, attrs in zip(numbers, every, strict=True)):
            raise DifferentError(f"a constant of a kernel varies: {[attrs['value'] for attrs in every]}")
        found = expression(fit(numbers), variables)
        return found if str(first.dtype) == "index" else UOp("CAST", (found,), first.dtype)
    if first.op == "PARAM" and len({attrs["slot"] for attrs in every}) == 1:
        elements = value_of(fit([math.prod(attrs["shape"]) for attrs in every]), most)
        return UOp("PARAM", (), first.dtype, slot=every[0]["slot"], shape=(elements,))
    raise DifferentError(f"kernels have {' and '.join(dict.fromkeys(n.describe() for n in nodes))}")
