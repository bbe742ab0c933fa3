"""Short texts of nodes and values: nodes of the given graph by their numbers, others by what they are made of."""

from __future__ import annotations

from typing import Any

from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable

_DEEPEST = 3  # nested ops that are written out
_MOST_ITEMS = 8


class Namer:
    """Names nodes as the printed text of a graph does."""

    def __init__(self, graph: UOp, table: OpTable) -> None:
        self.table = table
        self.nodes = graph.toposort()
        self.numbers = {node: number for number, node in enumerate(self.nodes)}

    def name(self, node: UOp) -> str:
        """`%37`, or "" for a node that is not in the graph."""
        return f"%{self.numbers[node]}" if node in self.numbers else ""

    def node(self, node: UOp) -> str:
        """`%37 = ADD(%20, 3)`, or `ADD(%20, 3)` for a node that is not in the graph, or `3`."""
        name = self.name(node)
        if node.op == "CONST":
            return self.value(node.attrs["value"])
        return f"{name} = {self._inside(node, _DEEPEST)}" if name else self._inside(node, _DEEPEST)

    def short(self, node: UOp, depth: int = _DEEPEST) -> str:
        """The same without what stands for `%37`."""
        if node.op == "CONST":
            return self.value(node.attrs["value"])
        return self.name(node) or self._inside(node, depth)

    def value(self, value: Any) -> str:
        """A value as rule text writes it."""
        if isinstance(value, UOp):
            return self.short(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if value is None:
            return "none"
        if isinstance(value, tuple) and hasattr(value, "_record"):
            fields = [f"{name}={self.value(item)}" for name, item in zip(value._record, value, strict=True)]
            return f"{type(value).__name__}({', '.join(fields)})"
        if isinstance(value, tuple | list):
            items = [self.value(item) for item in value[:_MOST_ITEMS]]
            return "(" + ", ".join(items + ["…"] * (len(value) > _MOST_ITEMS)) + ("," if len(items) == 1 else "") + ")"
        return str(value)

    def attribute(self, op: str, name: str, value: Any) -> str:
        """An attribute's value: text in quotes, names of ops and dtypes without."""
        is_text = self.table.ops[op].attributes[name].type == "str"
        return f'"{value}"' if is_text else self.value(value)

    def _inside(self, node: UOp, depth: int) -> str:
        head = node.op
        if given := self._attributes(node):
            shown = [f"{name}={self.attribute(node.op, name, value)}" for name, value in given.items()]
            head += f"[{', '.join(shown)}]"
        if not node.src:
            return head
        if depth == 0:
            return f"{head}(…)"
        sources = [self.short(source, depth - 1) for source in node.src[:_MOST_ITEMS]]
        return f"{head}({', '.join(sources + ['…'] * (len(node.src) > _MOST_ITEMS))})"

    def _attributes(self, node: UOp) -> dict[str, Any]:
        """Those that are not as the op table has them by default."""
        declared = self.table.ops[node.op].attributes
        return {name: value for name, value in node.attrs.items() if value != _default(declared[name].default)}


def _default(x: syntax.Expression | None) -> object:
    """The value of a default; of something that is not a constant, one that no attribute has."""
    match x:
        case syntax.Literal():
            return x.value
        case syntax.Sequence(items=()):
            return ()
        case syntax.Name():
            return x.name
    return None
