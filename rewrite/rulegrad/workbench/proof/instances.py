"""Graphs at random that match a rule's pattern: variables, constants, shapes, attributes that the op table admits."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from rulegrad._core import UOp
from rulegrad.errors import RulegradError
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import AskedTable, Declared, Library
from rulegrad.lang.notation import CHAIN_OPS, op_of
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.proof.dtypes import Choice, Dtypes
from rulegrad.workbench.proof.values import DtypeName, is_known, limits, representable

LENGTH = 97  # elements of a variable in a rule of elementwise ops: each is a test of a scalar
_FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 4.0, math.inf, -math.inf, math.nan, 1e-40, 3e38, 1e-10, 448.0, 1e300)
_REDUCTIONS = ("ADD", "MAX", "MIN", "MUL")


class NoGraphError(Exception):
    """This time no graph was found that matches."""


@dataclass(slots=True)
class Generator:
    """Makes one graph for a pattern: `of(pattern)`."""

    table: OpTable
    random: random.Random
    dtypes: Dtypes
    choice: Choice
    vector: bool  # variables are vectors of values, or of any shape
    given: Mapping[str, Any] = field(default_factory=dict)  # values for constants of these names
    known: Mapping[str, UOp] = field(default_factory=dict)  # nodes for variables of these names
    names: dict[str, Any] = field(default_factory=dict)
    variables: int = 0

    def of(self, x: syntax.Expression, shape: tuple[int, ...] | None = None) -> UOp:
        """A graph for a part of the pattern; of that shape, if one is wanted. Raises NoGraphError."""
        match x:
            case syntax.Name():
                return self._name(x, shape)
            case syntax.Literal(value=value):
                return self._literal(value, self._dtype(x))
            case syntax.Compute(inner=inner):
                return UOp.const(self._computed(inner), self._dtype(x))
            case syntax.Capture(name=name, pattern=pattern):
                found = self.of(pattern, shape)
                if self.names.setdefault(name, found) != found:
                    raise NoGraphError
                return found
            case syntax.Negation():
                return self.variable(self._dtype(x), shape)
            case syntax.Multiset():
                return self._multiset(x, shape)
        head = op_of(self.table, x, self.dtypes.ops)
        if head is None:
            raise NoGraphError
        return self._op(x, head.name, head.attributes, head.arguments, shape)

    def _multiset(self, x: syntax.Multiset, shape: tuple[int, ...] | None) -> UOp:
        """A chain of the members and a few others, in any order."""
        members = [self.of(item, shape) for item in x.items if not isinstance(item, syntax.Splice)]
        if len(members) < len(x.items):
            members += [self.variable(self._dtype(x), shape) for _ in range(self.random.randint(0, 2))]
        self.random.shuffle(members)
        if not members:
            raise NoGraphError
        op = CHAIN_OPS[x.kind]
        return reduce(lambda a, b: UOp(op, (a, b)), members)

    def _dtype(self, x: syntax.Expression) -> str:
        return self.choice[self.dtypes.of[id(x)].root()]

    def _computed(self, x: syntax.Expression) -> Any:
        """The value of `{...}` in a pattern; without z3, which evaluates it, there is no graph for the pattern."""
        names = {n: v.attrs["value"] for n, v in self.names.items() if isinstance(v, UOp) and v.op == "CONST"}
        names |= {n: DtypeName(self.choice[u.root()]) for n, u in self.dtypes.variables.items()}
        library = Library(AskedTable.of(self.table), Declared({}), Declared({}), Declared({}))
        try:
            from rulegrad.workbench.proof.encoding import Encoding  # late: z3 is optional
            from rulegrad.workbench.proof.evaluation import Evaluation  # late: z3 is optional
            from rulegrad.workbench.proof.meaning import Meaning  # late: z3 is optional

            found = Evaluation(library, Meaning(self.table, Encoding())).evaluate(x, names, False)
        except Exception as error:
            raise NoGraphError from error
        if not is_known(found):
            raise NoGraphError
        return found

    # ---- leaves ----

    def _literal(self, value: Any, dtype: str) -> UOp:
        if not representable(value, dtype):
            raise NoGraphError
        if as_dtype(dtype).is_float and value == 0:
            value = self.random.choice((0.0, -0.0))
        return UOp.const(value, dtype)

    def _name(self, x: syntax.Name, shape: tuple[int, ...] | None) -> UOp:
        if x.name != "_" and x.name in self.names:
            return self._bound(x.name)
        dtype = self._dtype(x)
        if x.is_const:
            value = self.given[x.name] if x.name in self.given else self.constant(dtype)
            node = UOp.const(value, dtype)
        else:
            node = self.known[x.name] if x.name in self.known else self.variable(dtype, shape)
        if x.name != "_":
            self.names[x.name] = node
        return node

    def _bound(self, name: str) -> UOp:
        found = self.names[name]
        if not isinstance(found, UOp):
            raise NoGraphError
        return found

    def constant(self, dtype: str) -> Any:
        """A value of a dtype: small and extreme ones often."""
        d, r = as_dtype(dtype), self.random
        if d.kind == "void":
            raise NoGraphError
        if d.kind == "bool":
            return r.random() < 0.5
        if d.is_float:
            return r.choice((*_FLOATS, r.uniform(-4, 4), float(r.randint(-9, 9))))
        low, high = limits(dtype)
        small = r.randint(max(low, -9), 12)
        power = 2 ** r.randint(0, 10)
        extreme = r.choice((low, low + 1, high, high - 1)) if d.kind != "index" else small
        found = r.choice((small, small, power, -power, power - 1, -power + 1, extreme, r.choice((3, 4, 5, 6, 8, 12))))
        return min(max(found, low), high)

    def variable(self, dtype: str, shape: tuple[int, ...] | None = None) -> UOp:
        """A variable of a dtype, or an expression of variables."""
        kind = as_dtype(dtype).kind
        if kind == "void":
            return self._effect()
        if kind == "index":
            return self.index()
        if shape is None:
            shape = self._scalar() if self.vector else self.shape()
        if self.vector and kind in ("int", "uint", "bool") and self.random.random() < 0.4:
            return self._narrow(dtype)
        if not self.vector and kind == "float" and self.random.random() < 0.4:
            return self._computed_tensor(dtype, shape)
        return self.leaf(dtype, shape)

    def _computed_tensor(self, dtype: str, shape: tuple[int, ...]) -> UOp:
        """A tensor with reductions and repetitions in it."""
        r = self.random
        if not shape and r.random() < 0.6:
            return self._loaded(dtype, [self._loop(r.choice((2, 3))) for _ in range(r.choice((1, 2, 3)))])
        if not shape or r.random() < 0.3:
            return UOp("NEG", (self.leaf(dtype, shape),))
        axes = tuple(k for k in range(len(shape)) if r.random() < 0.5)
        sizes = tuple(r.choice((1, 2, 3)) if k in axes else n for k, n in enumerate(shape))
        found = UOp("REDUCE", (self.leaf(dtype, sizes),), op="MAX", axes=axes)
        return UOp("EXPAND", (found,), shape=shape)

    def _loop(self, extent: int, kind: str = "") -> UOp:
        """A loop of a kernel."""
        self.variables += 1
        kind = kind or self.random.choice(("output", "reduce", "lane"))
        return UOp("RANGE", (UOp.const(extent, "index"),), id=self.variables, kind=kind)

    def _loaded(self, dtype: str, loops: Sequence[UOp]) -> UOp:
        """An element of memory, at the counters of some loops."""
        storage = self.leaf(dtype, tuple(int(loop.src[0].attrs["value"]) for loop in loops))
        return UOp("LOAD", (UOp("INDEX", (storage, *loops)),))

    def _effect(self) -> UOp:
        """A store: of one value, or of a reduction for each value of two loops."""
        if self.random.random() < 0.5:
            return UOp("STORE", (self.leaf("float32", ()), self.leaf("float32", ())))
        i, j = self._loop(self.random.choice((3, 6)), "output"), self._loop(self.random.choice((2, 34)), "output")
        k = self._loop(2, "reduce")
        total = UOp(
            "REDUCE", (UOp("MUL", (self._loaded("float32", (i, k)), self._loaded("float32", (k, j)))), k), op="MAX"
        )
        sizes = tuple(int(loop.src[0].attrs["value"]) for loop in (i, j))
        return UOp("STORE", (UOp("INDEX", (self.leaf("float32", sizes), i, j)), total))

    def _scalar(self) -> tuple[int, ...]:
        return (LENGTH,)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.choice((1, 2, 3, 4)) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4))))

    def leaf(self, dtype: str, shape: tuple[int, ...]) -> UOp:
        if dtype == "void":
            raise NoGraphError
        self.variables += 1
        return UOp("PARAM", (), dtype, slot=500 + self.variables, shape=shape)

    def counter(self, extent: int | None = None) -> UOp:
        """A loop counter."""
        self.variables += 1
        extent = extent or self.random.choice((1, 2, 3, 4, 5, 7, 8, 12))
        return UOp("RANGE", (UOp.const(extent, "index"),), id=500 + self.variables, kind="test")

    def _narrow(self, dtype: str) -> UOp:
        """A value with known bounds."""
        if dtype == "bool":
            return UOp("CMPLT", (self.counter(), UOp.const(self.random.randint(0, 6), "index")))
        found = UOp("CAST", (self.index(),), dtype)
        return found

    def index(self, depth: int = 2) -> UOp:
        """An index expression: sums, products, quotients and remainders of counters."""
        r = self.random
        kind = r.randrange(8) if depth else 0
        if kind <= 2:
            counter = self.counter()
            low = r.choice((0, 0, 0, -3, -7, 2))
            return UOp("ADD", (counter, UOp.const(low, "index"))) if low else counter
        first = self.index(depth - 1)
        factor = UOp.const(r.choice((2, 3, 4, 8, -1, -2, -4)), "index")
        if kind <= 5:
            second = self.index(depth - 1) if r.random() < 0.7 else UOp.const(r.randint(-9, 9), "index")
            product = UOp("MUL", (first, factor))
            return UOp("ADD", (product, second)) if r.random() < 0.8 else product
        return UOp("FLOORDIV" if kind == 6 else "FLOORMOD", (first, factor))

    # ---- ops ----

    def _op(
        self,
        x: syntax.Expression,
        op: str,
        attributes: Sequence[syntax.Attribute],
        arguments: Sequence[syntax.Expression],
        shape: tuple[int, ...] | None,
    ) -> UOp:
        if op in ("GATHER", "SCATTER"):
            return self._along_axis(op, attributes, arguments, shape)
        later = sorted(range(len(arguments)), key=lambda k: _computes(arguments[k]))
        sources: dict[int, list[UOp]] = {}
        wanted = shape
        for k in later:
            inner = arguments[k]
            if isinstance(inner, syntax.Splice):
                sources[k] = self._sequence(op, inner, [s for j in sorted(sources) for s in sources[j]], wanted)
            else:
                if op == "BATCHED" and wanted is not None:
                    wanted = (self.random.choice((2, 3)), *wanted)
                keeps = self._elementwise(op) or op in ("SCAN", "RECURRENCE", "CUMCOUNT", "BATCHED")
                sources[k] = [self.of(inner, wanted if keeps or k else None)]
                if (self._elementwise(op) or op == "STORE") and sources[k][0].shape:
                    wanted = sources[k][0].shape
        nodes = [s for k in range(len(arguments)) for s in sources[k]]
        dtype, given = self._attributes(x, op, attributes, nodes, shape)
        if dtype == "void":
            raise NoGraphError
        try:
            node = UOp(op, nodes, dtype, **given)
        except RulegradError as error:
            raise NoGraphError from error
        self._bind(op, attributes, node)
        return node

    def _along_axis(
        self,
        op: str,
        attributes: Sequence[syntax.Attribute],
        arguments: Sequence[syntax.Expression],
        shape: tuple[int, ...] | None,
    ) -> UOp:
        """A GATHER or SCATTER: the index and the updates differ from x in one axis."""
        x = self.of(arguments[0], shape)
        if not x.shape:
            raise NoGraphError
        axis = self.random.randrange(len(x.shape))
        other = tuple(self.random.choice((1, 2, 3, 5)) if k == axis else n for k, n in enumerate(x.shape))
        nodes = [x, *(self.of(argument, other) for argument in arguments[1:])]
        _, given = self._attributes(arguments[0], op, attributes, nodes, shape)
        try:
            node = UOp(op, tuple(nodes), x.dtype, **{**given, "axis": axis})
        except RulegradError as error:
            raise NoGraphError from error
        self._bind(op, attributes, node)
        return node

    def _elementwise(self, op: str) -> bool:
        return self.table.ops[op].elementwise

    def _sequence(self, op: str, x: syntax.Splice, before: list[UOp], shape: tuple[int, ...] | None) -> list[UOp]:
        """Sources for `xs...`: one index per axis, ranges for a reduction, else any number."""
        name = x.inner.name if isinstance(x.inner, syntax.Name) else ""
        if name in self.names and name != "_":
            return list(self.names[name])
        declared = self.table.ops[op]
        if op == "INDEX" and not before:
            raise NoGraphError
        if op == "INDEX":
            found = [self._place(n) for n in before[0].shape]
        elif declared.closes:
            found = list(dict.fromkeys(r for b in before for r in b.ranges if self.random.random() < 0.8))
        elif declared.elementwise:
            wanted = len(declared.parameters) - len(before)
            shape = shape if shape is not None else self.shape()
            dtype = self.choice[self.dtypes.of[id(x)].root()] if id(x) in self.dtypes.of else "float32"
            found = [self.leaf(dtype, shape) for _ in range(wanted)]
        elif isinstance(x.inner, syntax.Name) and not x.inner.is_const:
            found = [self.leaf("float32", self.shape()) for _ in range(self.random.randint(0, 3))]
        else:
            found = [self.of(x.inner, shape) for _ in range(self.random.randint(0, 3))]
        if name and name != "_":
            self.names[name] = tuple(found)
        return found

    def _place(self, size: int) -> UOp:
        """An index within an axis."""
        if size == 1 or self.random.random() < 0.15:
            return UOp.const(self.random.randrange(size), "index")
        return self.counter(size)

    def _attributes(
        self,
        x: syntax.Expression,
        op: str,
        attributes: Sequence[syntax.Attribute],
        sources: Sequence[UOp],
        shape: tuple[int, ...] | None,
    ) -> tuple[str | None, dict[str, Any]]:
        declared = self.table.ops[op]
        dtype = self._dtype(x) if declared.explicit else None
        given = self._random_attributes(op, sources, shape)
        for attribute in attributes:
            if (attribute.name is None and declared.explicit) or attribute.name == "dtype":
                continue
            name = attribute.name or next(iter(declared.attributes))
            match attribute.value:
                case syntax.Literal(value=value):
                    given[name] = value
                case syntax.Sequence(items=items) if all(isinstance(i, syntax.Literal) for i in items):
                    given[name] = tuple(i.value for i in items if isinstance(i, syntax.Literal))
                case syntax.Name(name=word) if word in self.dtypes.ops:
                    given[name] = self.dtypes.ops[word]
                case syntax.Name(name=word) if word in self.table.ops:
                    given[name] = word
                case syntax.Name(name=word) if word in self.names:
                    given[name] = self.names[word]
        return dtype, given

    def _bind(self, op: str, attributes: Sequence[syntax.Attribute], node: UOp) -> None:
        for attribute in attributes:
            name = attribute.name or next(iter(self.table.ops[op].attributes), "")
            if isinstance(attribute.value, syntax.Name) and name in node.attrs:
                self.names.setdefault(attribute.value.name, node.attrs[name])

    def _random_attributes(self, op: str, sources: Sequence[UOp], shape: tuple[int, ...] | None) -> dict[str, Any]:
        r, given = self.random, sources[0].shape if sources else shape if shape is not None else self.shape()
        self.variables += 1
        match op:
            case "RESHAPE" | "PERMUTE" | "EXPAND" | "PAD" | "SHRINK" | "FLIP":
                return _random_view(r, given, op)
            case "ROLL":
                return {"axis": r.randrange(len(given)) if given else 0, "by": r.randint(-3, 3)}
            case "UNFOLD" | "FOLD":
                return _random_windows(r, given, op)
            case "REDUCE":
                axes = tuple(k for k in range(len(given)) if r.random() < 0.5)
                return {"op": r.choice(_REDUCTIONS), "axes": axes}
            case "GATHER" | "SCATTER" | "SCAN" | "RECURRENCE":
                axis = r.randrange(len(given)) if given else 0
                return {"axis": axis} if op in ("GATHER", "RECURRENCE") else {"axis": axis, "op": r.choice(_REDUCTIONS)}
            case "CUMCOUNT":
                return {"axis": r.randrange(len(given)) if given else 0, "extent": r.choice((1, 2, 5))}
            case "UPDATE":
                return {"op": r.choice(_REDUCTIONS)}
            case "BATCHED":
                return {"level": r.choice((0, 1, 2))}
            case "ARANGE":
                return {"extent": r.choice((1, 2, 3, 5))}
            case "RANGE":
                return {"id": 500 + self.variables, "kind": r.choice(("output", "reduce"))}
            case "SPECIAL":
                return {"axis": 0, "name": "item"}
            case "PARAM":
                return {"slot": 500 + self.variables, "shape": given}
            case "BUFFER":
                return {"id": 500 + self.variables, "shape": given}
            case "CONST":
                return {"value": 0}
        return {}


def _computes(x: syntax.Expression) -> int:
    """Computed constants last: their names are bound elsewhere in the pattern. Sequences follow what they belong to."""
    return 2 if isinstance(x, syntax.Splice) else 1 if isinstance(x, syntax.Compute) else 0


def _random_view(r: random.Random, shape: tuple[int, ...], op: str) -> dict[str, Any]:
    """How the elements of a shape are shown."""
    match op:
        case "RESHAPE":
            return {"shape": _refactored(r, shape)}
        case "PERMUTE":
            return {"order": tuple(r.sample(range(len(shape)), len(shape)))}
        case "EXPAND":
            return {"shape": tuple(r.choice((1, 2, 3)) if n == 1 else n for n in shape)}
        case "PAD":
            return {"before": tuple(r.randint(0, 2) for _ in shape), "after": tuple(r.randint(0, 2) for _ in shape)}
        case "SHRINK":
            begin = [r.randrange(n) for n in shape]
            return {"begin": tuple(begin), "end": tuple(r.randint(b + 1, n) for b, n in zip(begin, shape))}
    return {"axes": tuple(k for k in range(len(shape)) if r.random() < 0.5)}  # FLIP


def _random_windows(r: random.Random, shape: tuple[int, ...], op: str) -> dict[str, Any]:
    """How windows lie along an axis that they fit; or an extent that they fit, of axes that are windows already."""
    step, dilation = r.randint(1, 3), r.randint(1, 2)
    axis = r.randrange(max(len(shape) - (op == "FOLD"), 1))
    how = {"axis": axis, "step": step, "dilation": dilation}
    if op == "FOLD":
        reach = sum((n - 1) * by for n, by in zip(shape[axis : axis + 2], (step, dilation)))
        return {**how, "extent": reach + r.randint(1, 3)}
    return {**how, "size": r.randint(1, (max(shape[axis : axis + 1], default=1) - 1) // dilation + 1)}


def _refactored(r: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements."""
    kind = r.randrange(3)
    if kind == 0:  # axes of size 1 come and go
        found = [n for n in shape if n != 1]
        for _ in range(r.randint(0, 2)):
            found.insert(r.randint(0, len(found)), 1)
        return tuple(found)
    primes = [p for n in shape for p in _primes(n)]
    r.shuffle(primes)
    found = []
    while primes:
        count = r.randint(1, len(primes))
        found.append(math.prod(primes[:count]))
        del primes[:count]
    return tuple(found)


def _primes(n: int) -> list[int]:
    for p in range(2, n + 1):
        if n % p == 0:
            return [p, *_primes(n // p)]
    return []
