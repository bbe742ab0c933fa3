"""What ops declare about themselves, compared with their `eval` lines: intervals, identities and laws.

Rules and proofs believe these lines. They are tried, not proved: on all pairs of values of 8 bits, on the ends of the
other dtypes and on values at random from a seed that is the op's name.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rulegrad._core import UOp
from rulegrad.errors import GraphError, RulegradError
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.optable import Op, OpTable
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.op_values import few_values, same, values_of

_MOST_INTERVALS = 300  # of all sources together, for one choice of dtypes
_MOST_CHOICES = 128  # of dtypes
_MOST_POINTS = 1 << 16  # combinations of values of all sources, for one choice of dtypes
_WITH_INTERVALS = ("bool", "int", "uint", "index")  # kinds of dtypes
_Ends = tuple[int | None, int | None]  # of an interval
_HINT = "rules and proofs rely on this line: correct it, or the `eval` line"
#: What ops of a class must be, as rules take it for granted.
_LAWS_OF_CLASSES = {
    "Associative": ("associative",),
    "Idempotent": ("idempotent",),
    "Reduction": ("commutative", "associative"),
}
#: Of attributes without a default, for nodes of which only the interval is asked: a `check` may refuse the first ones.
_PLACEHOLDERS: tuple[dict[str, Any], ...] = (
    {"int": 0, "float": 0.0, "bool": False, "str": "", "ints": (), "scalar": 0, "tuple": (), "op": "ADD"},
    {"int": 1, "float": 1.0, "bool": True, "str": "a", "ints": (0,), "scalar": 1, "tuple": (0,), "op": "MAX"},
    {"int": 8, "float": 8.0, "bool": True, "str": "a", "ints": (8,), "scalar": 8, "tuple": (1, 0), "op": "MAX"},
)
_WITHOUT_VALUES = (RulegradError, TypeError, ValueError, OverflowError, KeyError, IndexError)


def check_op_facts(findings: Findings, files: Sequence[syntax.File], ops: frozenset[str] = frozenset()) -> None:
    """Reports the lines of ops (of these names; without any, of all) that are false. Their table must be in force."""
    table = OpTable.from_declarations([d for file in files for d in file.declarations])
    for op in table.ops.values():
        if op.declaration.evaluator is not None and (not ops or op.name in ops):
            with np.errstate(all="ignore"):
                _Facts(findings, table, op).check()


class _Line(NamedTuple):
    """A line of an op, by the word that says it; and what finds values that show that it is false, or gives ""."""

    word: str
    denied: str
    counterexample: Callable[[_Choice], str]


@dataclass(slots=True)
class _Facts:
    """The lines of one op."""

    findings: Findings
    table: OpTable
    op: Op
    _random: random.Random = field(init=False)
    _numbers: tuple[int, ...] = ()  # in its lines: next to them something may change

    def __post_init__(self) -> None:
        self._random = random.Random(zlib.crc32(self.op.name.encode()))
        lines = (self.op.declaration.evaluator, *(self.op.declaration.interval or ()))
        parts = (part for line in lines if line is not None for part in expressions_in(line))
        values = (part.value for part in parts if isinstance(part, syntax.Literal))
        self._numbers = tuple(dict.fromkeys(int(v) for v in values if isinstance(v, int) and not isinstance(v, bool)))

    def check(self) -> None:
        """Reports the first counterexample to each line."""
        waiting = list(self._lines())
        for choice in self._choices() if waiting else ():
            for line in list(waiting):
                try:
                    problem = line.counterexample(choice)
                except _WITHOUT_VALUES:  # the line says nothing of a dtype for which `eval` has no value
                    continue
                if problem:
                    message = f"{self.op.name}: {line.denied}: {problem}"
                    self.findings.report_word("false-fact", message, self.op.declaration.span, line.word, _HINT)
                    waiting.remove(line)

    def _lines(self) -> Iterator[_Line]:
        """What its lines say, each law once."""
        laws = {} if len(self.op.parameters) != 2 else {f: f for f in self.op.declaration.flags if f in _LAWS}
        for name, implied in _LAWS_OF_CLASSES.items() if len(self.op.parameters) == 2 else ():
            if self._is_in(name):
                laws |= {law: name for law in implied if law not in laws}
        yield from (_Line(word, f"it is not {law}", _LAWS[law]) for law, word in laws.items())
        if self.op.declaration.identity is not None:
            yield _Line("identity", "its identity is false", _no_identity)
        if self._is_in("Identity"):
            yield _Line("Identity", "it is not its first source", _no_copy)
        if self.op.declaration.interval is not None:
            yield _Line("interval", "its interval is false", self._outside)

    def _is_in(self, name: str) -> bool:
        return self.op.name in self.table.op_classes.get(name, ())

    # ---- dtypes ----

    def _choices(self) -> Iterator[_Choice]:
        """The dtypes that the sources and the result can have; where these are very many, some."""
        words = [parameter.type or "" for parameter in self.op.parameters]
        names = list(dict.fromkeys(words))
        pools = [self._dtypes(word) for word in names]
        if self.op.explicit:
            pools.append([d for d in self.table.dtypes if as_dtype(d).kind != "void"])
        if math.prod(map(len, pools)) <= _MOST_CHOICES:
            choices = list(itertools.product(*pools))
        else:
            choices = [tuple(map(self._random.choice, pools)) for _ in range(_MOST_CHOICES)]
        for chosen in dict.fromkeys(choices):
            of = dict(zip(names, chosen))
            result = chosen[-1] if self.op.explicit else of.get(self.op.declaration.result, self.op.declaration.result)
            yield _Choice(self.op, tuple(of[word] for word in words), result)

    def _dtypes(self, word: str) -> list[str]:
        found = self.table.resolve_dtypes(self.op.declaration.where.get(word, word))
        names = self.table.declared_order(self.table.dtypes if found is None else found)
        return [name for name in names if as_dtype(name).kind != "void"]

    # ---- intervals ----

    def _outside(self, choice: _Choice) -> str:
        """Values of sources in some intervals of which the result is outside the interval of the line; or ""."""
        if as_dtype(choice.result).kind not in _WITH_INTERVALS or (self.op.explicit and choice.has_complex):
            return ""
        is_many = len(choice.sources) > 2
        axes = [values_of(dtype, self._random, few=is_many, near=self._numbers) for dtype in choice.sources]
        axes = _thinned(axes, self._random)
        results = choice.on_all(axes)
        bounds = [self._bounds(dtype, axis) for dtype, axis in zip(choice.sources, axes)]
        for inside in self._some(bounds):
            try:
                node = choice.node([_of_interval(k, d, *e) for k, (d, e) in enumerate(zip(choice.sources, inside))])
            except _WITHOUT_VALUES:  # an index that does not fit, say: other intervals have a node
                continue
            places = [_within(axis, *ends) for axis, ends in zip(axes, inside)]
            part = results[tuple(places)]
            for end, is_beyond, most in ((node.vmin, np.less, np.argmin), (node.vmax, np.greater, np.argmax)):
                place = np.unravel_index(int(most(part)), part.shape)
                if end is not None and is_beyond(part[place], end):
                    at = [axis[where][k] for axis, where, k in zip(axes, places, place)]
                    return f"{choice.applied(at, part[place])}; {self._said(inside, node)}"
        return ""

    def _said(self, inside: Sequence[_Ends], node: UOp) -> str:
        names = [p.name for p in self.op.parameters]
        where = [f"{name} is in {low} .. {high}" for name, (low, high) in zip(names, inside) if low is not None]
        said = f"the line gives {node.vmin} .. {node.vmax}"
        return f"where {' and '.join(where)}, {said}" if where else said

    def _some(self, bounds: Sequence[Sequence[_Ends]]) -> Iterator[Sequence[_Ends]]:
        """An interval for each source: all, or many at random."""
        if math.prod(map(len, bounds)) <= _MOST_INTERVALS:
            yield from itertools.product(*bounds)
        else:
            yield from ([self._random.choice(of) for of in bounds] for _ in range(_MOST_INTERVALS))

    def _bounds(self, dtype: str, axis: Array) -> list[_Ends]:
        """Intervals of a source, with ends at the numbers of the lines, small ones and others; a float has none."""
        if as_dtype(dtype).kind not in _WITH_INTERVALS:
            return [(None, None)]
        whole = [int(value) for value in axis]
        wanted = {whole[0], whole[-1], -1, 0, 1, *(n + by for n in self._numbers for by in (-1, 0, 1))}
        ends = sorted(wanted.intersection(whole).union(self._random.sample(whole, min(len(whole), 8))))
        return [(low, high) for k, low in enumerate(ends) for high in ends[k:]]


@dataclass(frozen=True, slots=True)
class _Choice:
    """An op on some dtypes."""

    op: Op
    sources: tuple[str, ...]
    result: str

    @property
    def has_complex(self) -> bool:
        return any(as_dtype(dtype).is_complex for dtype in self.sources)

    def __call__(self, *arrays: Array) -> Array:
        """The op by its `eval` line."""
        return np.asarray(evaluators().bind(self.op.name, self.result, self.sources)(*arrays))

    def on_all(self, axes: Sequence[Array]) -> Array:
        """On every combination of values, an axis for each source."""
        count = len(axes)
        grids = [axis.reshape([-1 if k == n else 1 for k in range(count)]) for n, axis in enumerate(axes)]
        return np.broadcast_to(self(*grids), tuple(map(len, axes)))

    def node(self, sources: Sequence[UOp]) -> UOp:
        """The node of the op. Raises GraphError where the op table does not admit it."""
        texts = {name: texts[0] for name, texts in self.op.declaration.values}
        missing = [a for a in self.op.attributes.values() if a.default is None]
        for placeholders in _PLACEHOLDERS if missing else _PLACEHOLDERS[:1]:
            attributes = {a.name: texts.get(a.name, placeholders.get(a.type, 0)) for a in missing}
            try:
                return UOp(self.op.name, tuple(sources), self.result if self.op.explicit else None, **attributes)
            except GraphError as error:
                refused = error
        raise refused

    def applied(self, values: Sequence[Any], result: Any) -> str:
        """`a = 3 and b = 4 (int8) give 7`."""
        said = [f"{p.name} = {v}" for p, v in zip(self.op.parameters, values)]
        dtypes = ", ".join(dict.fromkeys((*self.sources, self.result)))
        return f"{' and '.join(said)} ({dtypes}) give{'s' * (len(said) == 1)} {result}"


def _of_interval(number: int, dtype: str, low: int | None, high: int | None) -> UOp:
    """A node of a dtype with that interval."""
    if low is None or (as_dtype(dtype).kind == "bool" and low != high):
        return UOp("PARAM", (), dtype, slot=500 + number, shape=())
    if low == high:
        return UOp.const(bool(low) if dtype == "bool" else low, dtype)
    return UOp("VAR", (UOp.const(low, dtype), UOp.const(high, dtype)), slot=number, typical=low)


def _thinned(axes: Sequence[Array], generator: random.Random) -> list[Array]:
    """The axes, with fewer values in those that have the most where there were too many combinations.

    An axis keeps its order, and its ends while it has others.
    """
    found = list(axes)
    while math.prod(map(len, found)) > _MOST_POINTS:
        longest = max(range(len(found)), key=lambda n: len(found[n]))
        count = len(found[longest])
        left_out = generator.randrange(1, count - 1) if count > 2 else generator.randrange(count)
        found[longest] = np.delete(found[longest], left_out)
    return found


def _within(axis: Array, low: int | None, high: int | None) -> slice:
    """The places of the values of an interval, in ascending values."""
    if low is None or high is None:
        return slice(None)
    whole = [int(v) for v in axis]
    return slice(whole.index(low), whole.index(high) + 1)


# ---- laws: what shows that one does not hold, or "" ----


def _compared(choice: _Choice, values: Sequence[Array], found: Array, wanted: Array, said: str, near: Any = 0.0) -> str:
    """The values at the first place where two results differ."""
    found, wanted = np.broadcast_arrays(found, wanted)
    different = ~same(found, wanted, near)
    if not different.any():
        return ""
    place = np.unravel_index(int(np.argmax(different)), different.shape)
    at = [np.broadcast_to(array, found.shape)[place] for array in values]
    named = " and ".join(f"{name} = {value}" for name, value in zip("xyz", at))
    return f"for {named} ({choice.sources[-1]}) {said.format(found=found[place], wanted=wanted[place])}"


def _not_commutative(choice: _Choice) -> str:
    if len(set(choice.sources)) > 1:
        return ""
    values = values_of(choice.sources[0])
    x, y = values[:, None], values[None, :]
    name = choice.op.name
    return _compared(choice, (x, y), choice(x, y), choice(y, x), f"{name}(x, y) is {{found}}, {name}(y, x) {{wanted}}")


def _not_associative(choice: _Choice) -> str:
    """Floats round, in another order otherwise: they may differ by a few units of the largest value on the way."""
    if {*choice.sources, choice.result} != {choice.result}:
        return ""
    values = few_values(choice.result)
    x, y, z = values[:, None, None], values[None, :, None], values[None, None, :]
    inner, other = choice(x, y), choice(y, z)
    found, wanted = choice(inner, z), choice(x, other)
    near: Any = 0.0
    if as_dtype(choice.result).is_inexact:
        sizes = [np.abs(part).astype(np.float64) for part in (x, y, z, inner, other, found, wanted)]
        near = 16 * _spacing(choice.result) * sum(sizes[1:], sizes[0])
    name = choice.op.name
    said = f"{name}({name}(x, y), z) is {{found}}, {name}(x, {name}(y, z)) {{wanted}}"
    return _compared(choice, (x, y, z), found, wanted, said, near)


def _spacing(dtype: str) -> float:
    """The distance between 1 and the next number."""
    facts = as_dtype(dtype)
    return 2.0 ** -as_dtype(facts.real if facts.is_complex else dtype).mantissa


def _not_idempotent(choice: _Choice) -> str:
    if {*choice.sources, choice.result} != {choice.result}:
        return ""
    x = values_of(choice.result)
    return _compared(choice, (x,), choice(x, x), x, f"{choice.op.name}(x, x) is {{found}}")


def _no_identity(choice: _Choice) -> str:
    if len(choice.sources) != 2 or {*choice.sources, choice.result} != {choice.result}:
        return ""
    x, name = values_of(choice.result), choice.op.name
    e = evaluators().identity(name, choice.result)
    right = _compared(choice, (x,), choice(x, e), x, f"{name}(x, {e}) is {{found}}")
    return right or _compared(choice, (x,), choice(e, x), x, f"{name}({e}, x) is {{found}}")


def _no_copy(choice: _Choice) -> str:
    """Ops of the class Identity are their first source."""
    values = _thinned([values_of(dtype, few=True) for dtype in choice.sources], random.Random(0))
    first = values[0].reshape([-1, *(1 for _ in values[1:])])
    return _compared(choice, (first,), choice.on_all(values), first, f"{choice.op.name}(x, …) is {{found}}")


_LAWS = {"commutative": _not_commutative, "associative": _not_associative, "idempotent": _not_idempotent}
