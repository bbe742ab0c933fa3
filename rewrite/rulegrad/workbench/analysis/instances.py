"""Real nodes out of cells: what is left open is chosen at random, from a seed, until the node constructor admits it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.analysis.cells import (
    UNKNOWN,
    Cell,
    Contradiction,
    Domain,
    Slot,
    apply_signature,
    below,
    infer,
    representable,
)

_INTEGERS = (0, 1, -1, 2, 3, 4, 5, 6, 7, 8, -2, -3, -4, 12, 16, 31, 255)
_FLOATS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -4.0, 1.5)
_SHAPES: tuple[tuple[int, ...], ...] = ((), (), (2, 3))
_TUPLES: tuple[tuple[int, ...], ...] = (
    (), (0,), (1,), (0, 1), (1, 0), (2, 3), (3, 2), (6,), (1, 3), (2, 1), (0, 0), (1, 1), (2, 3, 1), (1, 6),
)  # fmt: skip
_ATTEMPTS = 12


def texts_of(files: Sequence[syntax.File]) -> tuple[str, ...]:
    """The strings that rules give to attributes: the kinds, spaces and names that there are."""
    found: dict[str, None] = {}
    for declaration in (d for f in files for d in f.declarations):
        for rule in getattr(declaration, "rules", ()):
            for side in (rule.pattern, rule.template):
                for item in expressions_in(side):
                    if isinstance(item, syntax.Attribute) or not isinstance(item, syntax.OpCall):
                        continue
                    for attribute in item.attributes:
                        if isinstance(attribute.value, syntax.Literal) and isinstance(attribute.value.value, str):
                            found[attribute.value.value] = None
    return tuple(found) or ("",)


class Maker:
    """Makes nodes. tensors: leaves may have axes."""

    def __init__(self, table: OpTable, texts: tuple[str, ...], random_numbers: random.Random, tensors: bool) -> None:
        self.table = table
        self.texts = texts
        self.random = random_numbers
        self.tensors = tensors
        self.made: dict[int, UOp] = {}
        self.count = 0

    def make(self, root: Cell) -> UOp:
        """A node that the cells describe, as far as cells can say. Raises Contradiction where none is found."""
        self.made.clear()
        infer(self.table, root)
        for cell in below(root):
            if cell.ops is not None:
                self._choose(cell.ops)
                apply_signature(self.table, cell, self.table.ops[next(iter(cell.ops.root().names))])
        return self._node(root.root())

    def _choose(self, domain: Domain) -> str:
        found = domain.root()
        if len(found.names) > 1:
            order = self.table.declared_order(self.table.usual(found.names))
            found.names = frozenset((self.random.choice(order),))
        return next(iter(found.names))

    def _node(self, cell: Cell) -> UOp:
        if id(cell) not in self.made:
            self.made[id(cell)] = self._leaf(cell) if cell.ops is None else self._inner(cell, cell.ops)
        return self.made[id(cell)]

    # ---- leaves ----

    def _leaf(self, cell: Cell) -> UOp:
        dtype = self._choose(cell.dtype)
        if cell.constant:
            return UOp.const(self._value(cell, dtype), dtype)
        self.count += 1
        kind = self.table.dtypes[dtype].properties.get("kind")
        if kind == "void":
            return UOp("BARRIER") if "BARRIER" in self.table.ops else UOp("SINK")
        chance = self.random.random()
        if kind == "index" and chance < 0.85:
            return self._index(chance)
        if chance < 0.1:
            return UOp.const(self._value(cell, dtype), dtype)
        shape = self.random.choice(_SHAPES) if self.tensors else ()
        return UOp("PARAM", (), dtype, slot=900 + self.count, shape=shape)

    def _index(self, chance: float) -> UOp:
        def loop() -> UOp:
            self.count += 1
            extent = UOp.const(self.random.choice((2, 4, 6, 9, 100)), "index")
            return UOp("RANGE", (extent,), id=900 + self.count, kind="test")

        if chance < 0.5:
            return loop()
        if chance < 0.65:
            return loop() * self.random.choice((2, 3, 4, 8, -2)) + loop()
        if chance < 0.75:
            return loop() + self.random.choice((-9, -1, 1, 5))
        return loop() * self.random.choice((2, 3, 4, 8))

    def _value(self, cell: Cell, dtype: str) -> Any:
        if cell.value is not UNKNOWN:
            return cell.value
        pool: tuple[Any, ...] = _INTEGERS
        kind = self.table.dtypes[dtype].properties.get("kind")
        if kind == "bool":
            pool = (True, False)
        elif kind == "float":
            pool = _FLOATS
        elif kind == "void":
            raise Contradiction
        return self.random.choice([v for v in pool if representable(self.table, v, dtype)])

    # ---- other nodes ----

    def _inner(self, cell: Cell, ops: Domain) -> UOp:
        op = self.table.ops[next(iter(ops.root().names))]
        sources = tuple(self._node(source.root()) for source in cell.sources)
        dtype = self._choose(cell.dtype) if op.explicit else None
        for _ in range(_ATTEMPTS if op.attributes else 1):
            attributes: dict[str, Any] = {}
            for name, declaration in op.attributes.items():
                slot = cell.attributes.get(name)
                if slot is None and declaration.default is not None and self.random.random() < 0.6:
                    continue
                attributes[name] = self._attribute(slot, declaration.type, dtype or "int32", sources)
            if op.name == "CONST" and cell.value is not UNKNOWN:
                attributes["value"] = cell.value
            try:
                return UOp(op.name, sources, dtype, **attributes)
            except RulegradError:
                continue
        raise Contradiction

    def _attribute(self, slot: Slot | None, kind: str, dtype: str, sources: tuple[UOp, ...]) -> Any:
        value = UNKNOWN if slot is None else slot.root().value
        if kind == "op":
            return self._operation(value, sources)
        if value is not UNKNOWN:
            return value
        if kind in ("ints", "tuple"):
            return self.random.choice([*_TUPLES, *(source.shape for source in sources)])
        if kind == "scalar":
            return self._value(Cell(Domain(frozenset((dtype,)))), dtype)
        self.count += 1
        choices = {"int": 900 + self.count, "float": 0.5, "bool": True, "dtype": "int32"}
        return choices[kind] if kind in choices else self.random.choice(self.texts)

    def _operation(self, value: Any, sources: tuple[UOp, ...]) -> str:
        """An op as an attribute is one that folds the node's sources: it has an identity and takes their dtype."""
        names = value.root().names if isinstance(value, Domain) else self.table.ops.keys()
        fitting = []
        for name in self.table.declared_order(names):
            op = self.table.ops[name].declaration
            admitted = self.table.resolve_dtypes(op.where.get(op.result, ""))
            if op.identity is not None and (not sources or admitted is None or sources[0].dtype in admitted):
                fitting.append(name)
        if not fitting:
            raise Contradiction
        if isinstance(value, Domain):
            value.root().names = frozenset(fitting)
            return self._choose(value)
        return self.random.choice(fitting)


def retyped(node: UOp, before: str, after: str) -> UOp | None:
    """The graph with one dtype put in the place of another; None where no such graph can be."""
    made: dict[UOp, UOp] = {}
    explicit = {"PARAM", "BUFFER", "CAST", "BITCAST", "INVALID"}
    for item in node.toposort():
        sources = tuple(made[s] for s in item.src)
        try:
            if item.op == "CONST":
                value = item.attrs["value"]
                new = UOp.const(value, after) if item.dtype == before else item
            else:
                dtype = after if item.dtype == before else item.dtype
                new = UOp(item.op, sources, dtype if item.op in explicit else None, **item.attrs)
        except (RulegradError, OverflowError, ValueError):
            return None
        made[item] = new
    return made[node]
