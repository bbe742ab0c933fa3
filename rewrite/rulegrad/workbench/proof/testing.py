"""Tests of rules: random graphs that match, what the engine makes of them, and both sides compared by evaluation."""

from __future__ import annotations

import contextlib
import itertools
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rulegrad._core import UOp
from rulegrad.errors import DtypeError, RulegradError
from rulegrad.interpreter.elements import Key, Memory, storage_key
from rulegrad.interpreter.nodes import STORAGE
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.ir.substitution import substituted
from rulegrad.lang import syntax
from rulegrad.lang.notation import op_of
from rulegrad.lang.walk import calls_in, expressions_in
from rulegrad.workbench.diagnosis.on_mesh import mesh_of
from rulegrad.workbench.diagnosis.samples import constants, numbers_near
from rulegrad.workbench.proof.dtypes import Choice, Dtypes
from rulegrad.workbench.proof.instances import Generator, NoGraphError
from rulegrad.workbench.proof.outcome import NoMeaningError, Outcome, elements, outcome
from rulegrad.workbench.proof.plain import plain_rules
from rulegrad.workbench.proof.programs import Entry, Rules
from rulegrad.workbench.proof.shards import placed_otherwise, sample_on_mesh

_LARGEST_GRAPH = 1 << 14  # elements over which a graph is compared at most
_MANY = 8  # elements that may be added up
_MOST_BETWEEN = 1 << 14  # different floats between two of a narrower dtype; among more elements they come again
_EXTREMES = ("MAX", "MIN")
_MANTISSAS = (2, 3, 7, 10, 23)  # of the floats that are narrower than another
_SIZES = 24  # values of sizes that vary
_SPECIAL_INTEGERS = (0, 1, -1, 2, 3, 7, -7, 8)


@dataclass(frozen=True, slots=True)
class Difference:
    """A graph on which the rule fires, and what shows that both sides differ."""

    before: UOp
    after: UOp
    values: str


@dataclass(slots=True)
class Trial:
    """The result of testing a rule. fired: on how many graphs it was compared; problem: why it was not on another."""

    fired: int = 0
    difference: Difference | None = None
    tried: int = 0
    problem: str = ""


@dataclass(slots=True)
class Tester:
    """Tests rules. wanted: graphs on which a rule is to be compared; most: graphs that are tried at most."""

    rules: Rules
    wanted: int = 40
    most: int = 1200
    _dtypes: dict[int, list[_Possible]] = field(default_factory=dict)

    def test(self, entry: Entry, seeds: Sequence[Mapping[str, Any]] = ()) -> Trial:
        """Compares both sides on the rule's test lines and on random graphs, until they differ.

        seeds: values of constants that are to be tried first.
        """
        trial = Trial()
        generator = random.Random(zlib.crc32(entry.name.encode()))
        for graph in self._graphs(entry, generator, seeds):
            trial.tried += 1
            found = self.compare(entry, graph, generator)
            if found is None or isinstance(found, str):
                trial.problem = trial.problem or found or ""
                continue
            trial.fired += 1
            if isinstance(found, Difference):
                trial.difference = found
                return trial
            if trial.fired >= self.wanted and trial.tried > len(seeds):
                break
        return trial

    def compare(self, entry: Entry, graph: UOp, generator: random.Random) -> Difference | bool | str | None:
        """True where both sides agree; None where the rule does not fire; why a side has no value, as a text."""
        try:
            after = self.rules.walk(entry, graph) if asks_for_consumers(entry) else self.rules.apply(entry, graph)
        except RulegradError:
            return None
        if after is None or after == graph:
            return None
        found: Difference | bool | str | None = None
        for before, rewritten in _at_sizes(graph, after, generator):
            found = self._compare_sides(entry, before, rewritten, generator)
            if found is not True:
                break
        return found

    def _compare_sides(self, entry: Entry, graph: UOp, after: UOp, generator: random.Random) -> Difference | bool | str:
        try:
            memory = sample_memory((graph, after), generator)
            wanted = outcome(graph, memory, graph.ranges)
            try:
                found = outcome(after, memory, graph.ranges)
            except NoMeaningError as error:  # on a mesh parts have to be as large as their placement says
                if not mesh_of((graph,)):
                    raise
                return Difference(graph, after, f"gives what has no value: {error}")
            measure = self.rules.measured(entry, graph)
            size = _terms(graph, memory) if measure is None else outcome(measure, memory, graph.ranges).arrays[0]
        except (NoMeaningError, DtypeError) as error:
            return str(error) or "a side has no value"
        return difference(graph, after, found, wanted, memory, Allowed(entry.ulp(), size)) or True

    # ---- graphs ----

    def _graphs(self, entry: Entry, r: random.Random, seeds: Sequence[Mapping[str, Any]]) -> Iterator[UOp]:
        examples: list[UOp] = []
        with contextlib.suppress(RulegradError):
            for graph in self.rules.examples(entry):
                examples.append(graph)
                yield graph
        meshed = [graph for graph in examples if mesh_of((graph,))]
        for _ in range(self.wanted if meshed else 0):
            for graph in meshed:
                with contextlib.suppress(RulegradError):
                    yield placed_otherwise(graph, r)
        for seed in itertools.chain(seeds, itertools.repeat({}, self.most)):
            try:
                yield self._graph(entry, r, seed)
            except (NoGraphError, RulegradError, OverflowError):
                continue
        # where random graphs hardly match, the test lines again, on other values
        for _ in range(self.wanted if examples else 0):
            yield from examples

    def _graph(self, entry: Entry, r: random.Random, seed: Mapping[str, Any]) -> UOp:
        pattern, dtypes, choices = r.choice(self._possible(entry))
        table = self.rules.library.table
        generator = Generator(table, r, dtypes, r.choice(choices), _is_elementwise(entry, dtypes), seed)
        if not asks_for_consumers(entry):
            return generator.of(pattern)
        shape = generator.shape() or (2,)
        node = UOp("REDUCE", (UOp("NEG", (generator.leaf("float32", shape),)),), op="ADD", axes=(0,))
        others = [UOp("EXP", (node,)), UOp("RESHAPE", (node,), shape=(*node.shape, 1)), UOp("SQRT", (node,))]
        return UOp("SINK", tuple(r.sample(others, 2)))

    def _possible(self, entry: Entry) -> list[_Possible]:
        if entry.number not in self._dtypes:
            library = self.rules.library
            plain = plain_rules(entry.rule, library.views)
            self._dtypes[entry.number] = [found for rule in plain for found in possible_dtypes(library.table, rule)]
        if not self._dtypes[entry.number]:
            raise NoGraphError
        return self._dtypes[entry.number]


_Possible = tuple[syntax.Expression, Dtypes, list[Choice]]


def possible_dtypes(table: Any, rule: syntax.Rule) -> Iterator[_Possible]:
    """For each choice of the rule's op variables: its pattern, that's dtypes, and the choices of these."""
    kinds = {g.name: table.resolve_generic(g.classes) for g in rule.generics}
    dtype_generics = {name: names for name, (kind, names) in kinds.items() if kind == "dtype"}
    pools = {name: table.declared_order(names) for name, (kind, names) in kinds.items() if kind == "op"}
    for chosen in itertools.product(*pools.values()):
        dtypes = Dtypes(table, dict(zip(pools, chosen, strict=True)), dtype_generics)
        dtypes.infer(rule.pattern)
        choices = list(dtypes.choices(frozenset())) if dtypes.possible else []
        if choices:
            yield rule.pattern, dtypes, choices


def asks_for_consumers(entry: Entry) -> bool:
    """Whether the rule looks at the graph around a node, so that it must be tried on a whole one."""
    return any(c.expression is not None and "uses" in calls_in(c.expression) for c in entry.rule.clauses)


def _is_elementwise(entry: Entry, dtypes: Dtypes) -> bool:
    for part in expressions_in(entry.rule.pattern):
        head = op_of(dtypes.table, part, dtypes.ops)
        if head is not None and not (dtypes.table.ops[head.name].elementwise or head.name in ("CONST", "INVALID")):
            return False
    return True


# ---- contents of memory ----


def sample_memory(graphs: Sequence[UOp], r: random.Random, apart: bool = False) -> Memory:
    """Random contents for all the memory of some graphs; on each rank of the mesh, where they have one.

    apart: each element is computed with by itself, so that a nan hides no other.
    """
    if mesh := mesh_of(graphs):
        return sample_on_mesh(graphs, mesh, r)
    memory: dict[Key, Array] = {}
    near = constants(graphs)
    for node in (n for g in graphs for n in g.toposort() if n.op in STORAGE):
        if storage_key(node) not in memory:
            memory[storage_key(node)] = values(node.dtype, elements(node), r, near, apart)
    return memory


def values(dtype: DType | str, count: int, r: random.Random, near: Sequence[float] = (), apart: bool = False) -> Array:
    """Values of a dtype: special ones, small ones, any bits, floats between those of a narrower dtype, and `near`.

    near: numbers at which something may change, such as the constants that a value is compared with. apart: there are
    special values among many floats too, which may be summed otherwise.
    """
    d = as_dtype(dtype)
    if d.is_complex:
        return values(d.real, 2 * count, r, near, apart).view(d.numpy)
    generator = np.random.default_rng(r.getrandbits(32))
    if d.kind == "bool":
        return generator.integers(0, 2, count).astype(np.bool_)
    bits = generator.integers(0, 256, count * d.itemsize, dtype=np.uint8).view(d.numpy)
    with np.errstate(all="ignore"):
        if d.is_float:
            small = (generator.integers(-40, 41, count) / 8).astype(d.numpy)
            pool = np.array([0.0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, *_extremes(d.numpy)]).astype(d.numpy)
        else:
            limits = np.iinfo(d.numpy)
            small = generator.integers(max(limits.min, -9), 13, count).astype(d.numpy)
            extremes = [limits.min, limits.min + 1, limits.max, limits.max - 1]
            pool = np.array([*extremes, *(v for v in _SPECIAL_INTEGERS if v >= limits.min)], dtype=object).astype(
                d.numpy
            )
    kinds = [small]
    # a sum of many floats is nan, with any bits among them
    if apart or not d.is_float or count < _MANY or generator.random() < 0.5:
        kinds += [bits, pool[generator.integers(0, len(pool), count)]]
    if d.is_float:
        between = _between(d, min(count, _MOST_BETWEEN), generator).astype(d.numpy)
        kinds.append(between if len(between) == count else between[generator.integers(0, len(between), count)])
    if (close := numbers_near(near, d)).size:
        kinds.append(close[generator.integers(0, len(close), count)])
    return np.stack(kinds)[generator.integers(0, len(kinds), count), np.arange(count)]


def _between(dtype: DType, count: int, generator: np.random.Generator) -> Array:
    """Floats half-way between two of a narrower dtype, or next to that: rounded twice they become another number."""
    narrower = np.array([m for m in _MANTISSAS if m < dtype.mantissa] or [0])
    bits = narrower[generator.integers(0, len(narrower), count)]
    half = np.ldexp(0.5, -bits)
    kept = np.floor(np.ldexp(generator.random(count), bits)) * 2 * half
    off = np.ldexp(generator.integers(-1, 2, count), -generator.integers(1, dtype.mantissa + 1, count))
    off = np.where(np.abs(off) < half, off, 0)
    sign = generator.choice([-1.0, 1.0], count)
    return np.asarray(np.ldexp(sign * (1 + kept + half + off), generator.integers(-6, 7, count)))


def _extremes(dtype: Any) -> list[float]:
    import ml_dtypes  # late: for bfloat16 and fp8

    facts: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return [float(facts.max), -float(facts.max), float(facts.tiny), float(facts.smallest_subnormal)]


# ---- comparison ----


@dataclass(frozen=True, slots=True)
class Allowed:
    """By how much floats may differ: by units in the last place of the value, or of a size that the rule names."""

    ulp: float | None = None
    size: Array | None = None

    def near(self, a: Array, b: Array) -> Array:
        """Where finite values differ by few units of the size; everywhere where that is infinite."""
        if self.size is None or self.ulp is None:
            return np.zeros(a.shape, np.bool_)
        with np.errstate(all="ignore"):
            size = np.abs(np.broadcast_to(self.size, a.shape) if self.size.ndim == 0 else self.size.reshape(-1))
            close = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= (np.ceil(self.ulp) + 1) * np.spacing(size))
            return np.asarray(close | np.isinf(size))


def _at_sizes(graph: UOp, after: UOp, r: random.Random) -> Iterator[tuple[UOp, UOp]]:
    """Both sides at several values of the sizes that vary, if any: the least, and others near it."""
    sizes = list(dict.fromkeys([*graph.toposort("VAR"), *after.toposort("VAR")]))
    for try_ in range(_SIZES if sizes else 1):
        values = {}
        for size in sizes:
            least, most = size.vmin or 0, size.vmax or 0
            values[size] = UOp.const(min(least + (r.randrange(9) if try_ else 0), most), size.dtype)
        yield _with_constant_loops(graph, values), _with_constant_loops(after, values)


def _with_constant_loops(graph: UOp, values: Mapping[UOp, UOp]) -> UOp:
    """A graph with sizes as constants, and loops over what is computed from these."""
    if not values:
        return graph
    found = substituted(graph, values)
    extents = {loop.src[0] for loop in found.toposort("RANGE") if loop.src[0].op != "CONST"}
    return substituted(found, {extent: UOp.const(extent.vmin or 0, extent.dtype) for extent in extents})


def _terms(graph: UOp, memory: Memory) -> Array | None:
    """The size of all that the sums of a statement may add up: as terms may cancel, a result is off by units of it.

    Infinite where they overflow in some order.
    """
    if graph.dtype != "void" or not any(n.op == "REDUCE" and n.attrs["op"] == "ADD" for n in graph.toposort()):
        return None
    floats = [array[np.isfinite(array)] for array in memory.values() if array.dtype.kind == "f"]
    with np.errstate(over="ignore"):
        return np.asarray(sum((np.abs(one).sum(dtype=np.float32) for one in floats), np.float32(0)), np.float32)


def difference(
    before: UOp, after: UOp, found: Outcome, wanted: Outcome, memory: Memory, allowed: Allowed
) -> Difference | None:
    """Where two outcomes differ, if they do. Floats must be equal to the bit (any nan for a nan), or as `allowed`."""
    if len(found.arrays) != len(wanted.arrays):
        return Difference(before, after, f"gives {len(found.arrays)} results, not {len(wanted.arrays)}")
    for a, b in zip(found.arrays, wanted.arrays):
        if not after.shape and a.shape == b.shape[: a.ndim] and a.ndim < b.ndim:  # the same for all elements
            a = np.broadcast_to(a.reshape((*a.shape, *(1,) * (b.ndim - a.ndim))), b.shape)
        if before.op == "SINK" and a.dtype.kind in "iu":  # an index that has been given a machine type
            a = a.astype(b.dtype)
        if a.size != b.size or a.dtype != b.dtype:
            return Difference(before, after, f"gives {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}")
        a, b = a.reshape(-1), b.reshape(-1)
        certain = True if wanted.certain is None else wanted.certain.reshape(-1)
        wrong = np.flatnonzero(~(same(a, b, allowed.ulp, _any_zero(before)) | allowed.near(a, b)) & certain)
        if wrong.size:
            place = int(min(wrong, key=lambda k: (bool(a[k] == b[k]), _size(b[k]))))  # signs of zeros last
            return Difference(before, after, _described(before, memory, place, a[place], b[place]))
    return None


def _any_zero(graph: UOp) -> bool:
    """Whether a zero may have either sign: the larger of 0.0 and -0.0 can be either, as can the smaller."""
    return any(n.op in _EXTREMES or n.attrs.get("op") in _EXTREMES for n in graph.toposort())


def same(a: Array, b: Array, ulp: float | None, any_zero: bool = False) -> Array:
    """Where two arrays of one dtype agree."""
    d = as_dtype(a.dtype)
    if d.is_complex:
        return _same_complex(a, b, ulp)
    if not d.is_float:
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        equal = (a == b) & ((np.signbit(a) == np.signbit(b)) | any_zero) | (a != a) & (b != b)
        if ulp is None:
            return np.asarray(equal)
        return np.asarray(equal | (np.abs(_order(a) - _order(b)) <= np.ceil(ulp) + 1) & (a == a) & (b == b))


def _same_complex(a: Array, b: Array, ulp: float | None) -> Array:
    """Part for part; or within `ulp` of the size of the number, where neither has overflowed on the way."""
    parts = (a.real.copy(), b.real.copy()), (a.imag.copy(), b.imag.copy())
    exact = same(*parts[0], None) & same(*parts[1], None)
    if ulp is None:
        return exact
    with np.errstate(all="ignore"):
        limits = np.finfo(a.dtype)
        near = np.abs(a - b) <= ulp * np.maximum(limits.eps * np.abs(b), limits.smallest_normal)
    return np.asarray(exact | near | ~np.isfinite(a) | ~np.isfinite(b))


def _order(a: Array) -> Array:
    """Floats as integers in their order, neighbours one apart."""
    bits = a.view(np.dtype(f"int{a.dtype.itemsize * 8}")).astype(np.float64 if a.dtype.itemsize < 8 else np.longdouble)
    least = -(2.0 ** (a.dtype.itemsize * 8 - 1))
    return np.where(bits < 0, least - bits, bits)


def _size(value: Any) -> float:
    number = abs(complex(value))
    return number if number == number else 1e9


def _described(before: UOp, memory: Memory, place: int, found: Any, wanted: Any) -> str:
    """The values of the variables that show the difference."""
    parts = []
    for node in before.toposort():
        if node.op in STORAGE:
            array = memory[storage_key(node)]
            parts.append(f"{array[place % array.size] if array.size else 'nothing'}")
    where = f" for the values {', '.join(parts)}" if parts else ""
    return f"gives {found}, not {wanted}{where}"
