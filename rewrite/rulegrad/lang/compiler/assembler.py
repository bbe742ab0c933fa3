"""Compiled programs as bytes: what `rewrite/core/program.cpp` reads."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from rulegrad import _core

OPCODES: dict[str, int] = {name: number for number, (name, _) in enumerate(_core.OPCODES)}
BINARY: dict[str, int] = {name: number for number, name in enumerate(_core.BINARY_OPERATORS)}
UNARY: dict[str, int] = {name: number for number, name in enumerate(_core.UNARY_OPERATORS)}


@dataclass(frozen=True, slots=True)
class DtypeName:
    """A dtype as a constant."""

    name: str


@dataclass(frozen=True, slots=True)
class OpName:
    """An op as a constant."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordValue:
    """A record, such as a row of a table, as a constant."""

    name: str
    fields: tuple[str, ...]
    values: tuple[Any, ...]


class Writer:
    """Little-endian 32-bit integers, strings and tagged values."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def number(self, value: int) -> None:
        self.parts.append(struct.pack("<I", value & 0xFFFFFFFF))

    def numbers(self, values: Iterable[int]) -> None:
        found = [value & 0xFFFFFFFF for value in values]
        self.parts.append(struct.pack(f"<{len(found)}I", *found))

    def text(self, value: str) -> None:
        data = value.encode()
        self.number(len(data))
        self.parts.append(data)

    def texts(self, values: Collection[str]) -> None:
        self.number(len(values))
        for value in values:
            self.text(value)

    def value(self, value: Any) -> None:
        """A constant: none, bool, int, float, str, DtypeName, OpName, RecordValue or a tuple of them."""
        if value is None:
            self.number(0)
        elif isinstance(value, bool):
            self.numbers((1, int(value)))
        elif isinstance(value, int):
            self.number(2)
            self.text(str(value))
        elif isinstance(value, float):
            self.number(3)
            self.parts.append(struct.pack("<d", value))
        elif isinstance(value, str):
            self.number(4)
            self.text(value)
        elif isinstance(value, DtypeName):
            self.number(5)
            self.text(value.name)
        elif isinstance(value, OpName):
            self.number(6)
            self.text(value.name)
        elif isinstance(value, RecordValue):
            self.number(8)
            self.value((value.name, *value.fields))
            self.value(value.values)
        elif isinstance(value, tuple):
            self.numbers((7, len(value)))
            for item in value:
                self.value(item)
        else:
            raise TypeError(f"not a constant of a rule program: {value!r}")

    def bytes(self) -> bytes:
        return b"".join(self.parts)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to match a rule; commutative patterns have several."""

    rule: int
    code: int
    dtypes: int  # mask
    minimum: int
    maximum: int
    root: int  # op set
    children: tuple[int, int, int]  # op sets, -1: any


@dataclass(slots=True)
class CompiledDataflow:
    """A fact or a state: the function without rules that gives its values, and how they are merged."""

    name: str
    function: int
    merge: int
    initial: Any
    alternatives: list[Alternative]


@dataclass(slots=True)
class CompiledPass:
    name: str
    kind: int
    function: int
    alternatives: list[Alternative]
    priorities: list[tuple[str, int, Any, int]]
    prefixes: list[tuple[str, str]]
    dataflow: list[CompiledDataflow] = field(default_factory=list)
    normal: str = ""  # choose: the pass that normalises
    fuel: int = 0  # choose: candidates examined at most


@dataclass(slots=True)
class CompiledFunction:
    name: str
    parameters: int
    alternatives: list[Alternative] = field(default_factory=list)
    nested: int = 0  # the engine's Nested: no, rewritten, given
    runs: str = ""  # the pass that a nested rewriting runs


class Pooled(int):
    """The number of something in a pool of one program; `Assembler.moved` finds or adds the same in another's."""

    pool: str
    content: tuple[Any, ...]

    @classmethod
    def at(cls, number: int, pool: str, *content: Any) -> Pooled:
        """The number of what the assembler's method `pool` makes of this content."""
        pooled = cls(number)
        pooled.pool, pooled.content = pool, content
        return pooled


class Assembler:
    """Collects the pools of a program; equal constants and op sets are stored once.

    ops: all that there are.
    """

    def __init__(self, ops: Iterable[str] = ()) -> None:
        self._ops = frozenset(ops)
        self._every_op: Pooled | None = None
        self.constants: list[Any] = []
        self._constant_numbers: dict[Any, Pooled] = {}
        self.sets: list[tuple[str, ...]] = []
        self._set_numbers: dict[frozenset[str], Pooled] = {}
        self.builtins: list[str] = []
        self._builtin_numbers: dict[str, Pooled] = {}
        self.externs: list[str] = []
        self.rules: list[tuple[str, str]] = []
        self.codes: list[list[int]] = []
        self.functions: list[CompiledFunction] = []
        self._function_numbers: dict[str, Pooled] = {}
        self._moved: dict[int, tuple[Pooled, int]] = {}  # by the identity of the number of another program, held
        self.called: set[str] = set()  # functions that what was compiled calls
        self.passes: list[CompiledPass] = []
        self.types: dict[str, str] = {}
        self.limits: dict[str, Any] = {}

    def constant(self, value: Any) -> int:
        key = (type(value).__name__, repr(value))
        if key not in self._constant_numbers:
            self._constant_numbers[key] = Pooled.at(len(self.constants), "constant", value)
            self.constants.append(value)
        return self._constant_numbers[key]

    def op_set(self, names: frozenset[str]) -> int:
        if names not in self._set_numbers:
            self._set_numbers[names] = Pooled.at(len(self.sets), "op_set", names)
            self.sets.append(tuple(sorted(names)))
        return self._set_numbers[names]

    def every_op(self) -> int:
        """The op set of all ops: in another program they may be others."""
        if self._every_op is None:
            self._every_op = Pooled.at(self.op_set(self._ops), "every_op")
        return self._every_op

    def builtin(self, name: str) -> int:
        if name not in self._builtin_numbers:
            self._builtin_numbers[name] = Pooled.at(len(self.builtins), "builtin", name)
            self.builtins.append(name)
        return self._builtin_numbers[name]

    def extern(self, name: str) -> int:
        if name not in self.externs:
            self.externs.append(name)
        return Pooled.at(self.externs.index(name), "extern", name)

    def code(self, words: list[int]) -> int:
        self.codes.append(words)
        return len(self.codes) - 1

    def function_number(self, name: str) -> int:
        """The number by which a function is called."""
        self.called.add(name)
        if name not in self._function_numbers:
            number = next(k for k, f in enumerate(self.functions) if f.name == name)
            self._function_numbers[name] = Pooled.at(number, "function_number", name)
        return self._function_numbers[name]

    def nested_function(self, kind: str, runs: str) -> int:
        """The function `rewritten` or `given` of a pass (empty: of rules that stand in none)."""
        name = f"{kind} {runs}"
        if all(function.name != name for function in self.functions):
            number = ("", "rewritten", "given").index(kind)
            self.functions.append(CompiledFunction(name, 1 if kind == "rewritten" else 2, [], number, runs))
        return Pooled.at(self.function_number(name), "nested_function", kind, runs)

    def moved(self, number: int) -> int:
        """A word or field of another program in this one."""
        if number.__class__ is not Pooled:
            return number
        known = self._moved.get(id(number))
        if known is None:
            assert isinstance(number, Pooled)
            known = self._moved[id(number)] = number, getattr(self, number.pool)(*number.content)
        return known[1]

    def serialize(self, op_table: bytes | None = None) -> bytes:
        """The program; `op_table` is the serialized op table of the program that installs it."""
        w = Writer()
        w.text("rulegrad 1")
        w.number(int(op_table is not None))
        if op_table is not None:
            w.parts.append(op_table)
        w.number(len(self.constants))
        for value in self.constants:
            w.value(value)
        w.number(len(self.sets))
        for names in (*self.sets, self.builtins, self.externs):
            w.texts(names)
        w.number(len(self.rules))
        for name, place in self.rules:
            w.text(name)
            w.text(place)
        w.number(len(self.codes))
        for code in self.codes:
            w.number(len(code))
            w.parts.append(struct.pack(f"<{len(code)}i", *code))
        passes = [compiled.name for compiled in self.passes]
        w.number(len(self.functions))
        for function in self.functions:
            w.text(function.name)
            runs = passes.index(function.runs) if function.runs else -1
            w.numbers((function.parameters, function.nested, runs))
        for function in self.functions:
            self._alternatives(w, function.alternatives)
        w.number(len(self.passes))
        for compiled in self.passes:
            self._pass(w, compiled, passes)
        w.number(len(self.types))
        for dtype, text in self.types.items():
            w.text(dtype)
            w.text(text)
        w.number(len(self.limits))
        for name, value in self.limits.items():
            w.text(name)
            w.value(value)
        return w.bytes()

    @staticmethod
    def _alternatives(w: Writer, alternatives: list[Alternative]) -> None:
        w.number(len(alternatives))
        for a in alternatives:
            w.numbers((a.rule, a.code, a.dtypes, a.minimum, a.maximum, a.root, *a.children))

    def _pass(self, w: Writer, compiled: CompiledPass, passes: list[str]) -> None:
        w.text(compiled.name)
        normal = passes.index(compiled.normal) if compiled.normal else -1
        w.numbers((compiled.kind, compiled.function, normal, compiled.fuel))
        self._alternatives(w, compiled.alternatives)
        w.number(len(compiled.priorities))
        for op, attribute, value, priority in compiled.priorities:
            w.text(op)
            w.number(attribute)
            w.value(value)
            w.number(priority)
        w.number(len(compiled.prefixes))
        for op, prefix in compiled.prefixes:
            w.text(op)
            w.text(prefix)
        w.number(len(compiled.dataflow))
        for dataflow in compiled.dataflow:
            w.text(dataflow.name)
            w.numbers((dataflow.function, dataflow.merge))
            w.value(dataflow.initial)
            self._alternatives(w, dataflow.alternatives)
