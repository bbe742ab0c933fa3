"""Counterexamples: made as small as they get while the rule fires and both sides differ; written as test lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rulegrad._core import UOp
from rulegrad.errors import RulegradError
from rulegrad.ir.dtype import as_dtype
from rulegrad.workbench.proof.instances import LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_STEPS = 400


def shrink(graph: UOp, differs: Callable[[UOp], bool]) -> UOp:
    """A smaller graph for which `differs` holds too: smaller constants, variables in place of what is below."""
    steps = 0
    improved = True
    while improved and steps < _MOST_STEPS:
        improved = False
        for smaller in _smaller(graph):
            steps += 1
            if _weight(smaller) < _weight(graph) and differs(smaller):
                graph, improved = smaller, True
                break
            if steps >= _MOST_STEPS:
                break
    return graph


def _smaller(graph: UOp) -> Iterator[UOp]:
    """Graphs that are a little simpler."""
    nodes = graph.toposort()
    slots = [int(n.attrs["slot"]) for n in nodes if n.op == "PARAM"]
    free = max([500, *slots]) + 1
    for node in reversed(nodes[:-1]):
        if node.src and as_dtype(node.dtype).kind not in ("void", "index"):
            yield from _attempt(graph, {node: UOp("PARAM", (), node.dtype, slot=free, shape=node.shape)})
        for source in node.src:
            if source.dtype == node.dtype and source.shape == node.shape:
                yield from _attempt(graph, {node: source})
        if node.op == "CONST":
            for value in _simpler_values(node.attrs["value"]):
                yield from _attempt(graph, {node: UOp.const(value, node.dtype)})


def _simpler_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return []
    if isinstance(value, float):
        return [v for v in (0.0, 1.0, -1.0, 2.0) if v != value]
    return [v for v in (0, 1, -1, 2, 3, value // 2, value - 1 if value > 0 else value + 1, -value) if v != value]


def _attempt(graph: UOp, replaced: dict[UOp, UOp]) -> Iterator[UOp]:
    made: dict[UOp, UOp] = {}
    try:
        for node in graph.toposort():
            sources = [made[s] for s in node.src]
            made[node] = (
                replaced[node] if node in replaced else node if sources == list(node.src) else node.replace(sources)
            )
    except RulegradError:
        return
    yield made[graph]


def _weight(graph: UOp) -> tuple[float, float]:
    """Nodes, then the sizes of constants and variables."""
    total = 0.0
    nodes = graph.toposort()
    for node in nodes:
        if node.op == "CONST":
            value = node.attrs["value"]
            number = abs(float(value))
            total += (number if math.isfinite(number) else 1e9) + (0.5 if value < 0 else 0)
        elif node.op == "PARAM":
            total += math.prod(node.shape) / 1e6 + len(node.shape)
    return len(nodes), total


def test_line(graph: UOp) -> str:
    """`test fails …`, as it can stand in a rule file."""
    return "test fails " + _Writer().text(graph)


class _Writer:
    """Writes graphs as expressions; each variable has a name of its own."""

    def __init__(self) -> None:
        self.names: dict[UOp, str] = {}

    def text(self, node: UOp) -> str:
        variable = self._variable(node)
        if variable is not None:
            return variable
        if node.op == "CONST":
            return f"CONST[{node.dtype}]({_number(node.attrs['value'])})"
        sources = ", ".join(self.text(s) for s in node.src)
        return f"{node.op}{self._attributes(node)}({sources})"

    def _variable(self, node: UOp) -> str | None:
        """`i:range(4)`, `i:range(-3, 4)`, `x:float32`, `x:float32[4, 8]`."""
        low, counter = 0, node
        if node.op == "ADD" and node.src[0].op == "RANGE" and node.src[1].op == "CONST":
            low, counter = int(node.src[1].attrs["value"]), node.src[0]
        if counter.op == "RANGE" and counter.attrs["kind"] == "test" and counter.src[0].op == "CONST":
            high = low + int(counter.src[0].attrs["value"])
            return self._named(node, "ijklmn", f":range({low}, {high})" if low else f":range({high})")
        if node.op == "PARAM" and int(node.attrs["slot"]) >= 500:
            shape = "" if node.shape == (LENGTH,) else ", ".join(map(str, node.shape))
            return self._named(node, "xyzuvw", f":{node.dtype}[{shape}]" if shape else f":{node.dtype}")
        return None

    def _named(self, node: UOp, letters: str, kind: str) -> str:
        if node in self.names:
            return self.names[node]
        used = len([n for n in self.names.values() if n[0] in letters])
        name = letters[used % len(letters)] + (str(used // len(letters)) if used >= len(letters) else "")
        self.names[node] = name
        return name + kind

    def _attributes(self, node: UOp) -> str:
        parts = [f"{name}={_attribute(name, value)}" for name, value in node.attrs.items()]
        explicit = node.op in ("CAST", "BITCAST", "PARAM", "BUFFER", "INVALID")
        if explicit:
            parts.append(str(node.dtype) if not parts else f"dtype={node.dtype}")
        return f"[{', '.join(parts)}]" if parts else ""


def _attribute(name: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(str, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, str) and name != "op":
        return f'"{value}"'
    return _number(value) if isinstance(value, bool | float) else str(value)


def _number(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
