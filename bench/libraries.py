"""The libraries that are measured, behind one face: build nodes, simplify, count.

Operations have the names of the op table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from common import find
from expressions import evaluate_rulegrad, evaluate_tinygrad, to_rulegrad, to_tinygrad
from program import Program


class Library(Protocol):
    """The functions of a library that the engine's benchmark uses."""

    name: str
    # An elementwise node from an operation and its sources, as directly as the library can.
    new: Callable[[Any, tuple[Any, ...]], Any]

    def operation(self, name: str) -> Any: ...
    def integer(self, value: int) -> Any: ...
    def real(self, value: float) -> Any: ...
    def range(self, number: int, extent: int) -> Any: ...
    def as_float(self, node: Any) -> Any: ...
    def sink(self, nodes: Sequence[Any]) -> Any: ...
    def convert(self, program: Program) -> Any: ...
    def simplify(self, node: Any) -> Any: ...
    def forget(self) -> None: ...
    def nodes(self, root: Any) -> Sequence[Any]: ...
    def divisions(self, root: Any) -> int: ...
    def evaluate(self, root: Any, points: Any) -> Any: ...


class Rulegrad:
    name = "rulegrad"

    def __init__(self, module: Any) -> None:
        self.module = module
        self.new = module.UOp

    def operation(self, name: str) -> Any:
        return name

    def integer(self, value: int) -> Any:
        return self.module.UOp.const(value, "index")

    def real(self, value: float) -> Any:
        return self.module.UOp.const(value, "float32")

    def range(self, number: int, extent: int) -> Any:
        return self.module.UOp("RANGE", (self.integer(extent),), id=number, kind="test")

    def as_float(self, node: Any) -> Any:
        return self.module.UOp("CAST", (node,), "float32")

    def sink(self, nodes: Sequence[Any]) -> Any:
        return self.module.UOp("SINK", tuple(nodes))

    def convert(self, program: Program) -> Any:
        return to_rulegrad(program)

    def simplify(self, node: Any) -> Any:
        return self.module.rewrite(node, "symbolic")

    def forget(self) -> None:
        """Nothing is remembered from one rewrite to the next beyond the facts kept with live nodes."""

    def nodes(self, root: Any) -> Sequence[Any]:
        found: Sequence[Any] = root.toposort()
        return found

    def divisions(self, root: Any) -> int:
        return sum(node.op in ("FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD") for node in root.toposort())

    def evaluate(self, root: Any, points: Any) -> Any:
        return evaluate_rulegrad(root, points)


class Tinygrad:
    name = "tinygrad"

    def __init__(self, module: Any) -> None:
        from tinygrad.dtype import dtypes
        from tinygrad.uop import divandmod
        from tinygrad.uop.ops import Ops, UOp

        self.ops, self.uop, self.dtypes, self.divandmod = Ops, UOp, dtypes, divandmod
        # Without a dtype it would derive one, which takes ten times as long as all the rest.
        self.new = lambda operation, sources: UOp(operation, sources[-1].dtype, sources)

    def operation(self, name: str) -> Any:
        return self.ops[name]

    def integer(self, value: int) -> Any:
        return self.uop.const(value)

    def real(self, value: float) -> Any:
        return self.uop.const(value, self.dtypes.float32)

    def range(self, number: int, extent: int) -> Any:
        return self.uop.range(extent, number)

    def as_float(self, node: Any) -> Any:
        return node.cast(self.dtypes.float32)

    def sink(self, nodes: Sequence[Any]) -> Any:
        return self.uop.sink(*nodes)

    def convert(self, program: Program) -> Any:
        return to_tinygrad(program)

    def simplify(self, node: Any) -> Any:
        return node.simplify()

    def forget(self) -> None:
        """Empty the one table that keeps simplified divisions between calls."""
        self.divandmod.fold_divmod_general.cache_clear()

    def nodes(self, root: Any) -> Sequence[Any]:
        return list(root.toposort())

    def divisions(self, root: Any) -> int:
        names = ("FLOORDIV", "FLOORMOD", "CDIV", "CMOD")
        return sum(node.op.name in names for node in root.toposort())

    def evaluate(self, root: Any, points: Any) -> Any:
        return evaluate_tinygrad(root, points)


MAKERS: dict[str, type[Rulegrad] | type[Tinygrad]] = {"rulegrad": Rulegrad, "tinygrad": Tinygrad}


def library(name: str) -> Library | None:
    """A library by name, or None (after saying so) where it is not installed."""
    module = find(name)
    return None if module is None else MAKERS[name](module)


def all_libraries() -> list[Library]:
    return [found for name in MAKERS if (found := library(name)) is not None]
