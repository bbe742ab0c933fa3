"""Common state of the compiler: names in scope, registers, code under construction, errors with a place."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS, RENDER, RULE
from rulegrad.lang.compiler.assembler import OPCODES, Assembler
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.lang.optable import OpTable
from rulegrad.lang.step_text import Form
from rulegrad.lang.steps import forms_of

REGISTERS = 250


def problem(message: str, span: syntax.Span, hint: str = "") -> RuleError:
    """An error at a place in a rule file that only the compiler finds."""
    diagnostic = Diagnostic("cannot-compile", message, span, hint)
    return RuleError(str(diagnostic), (diagnostic,))


@dataclass(frozen=True, slots=True)
class Binding:
    """A name's register. kind: node, const (a CONST node), consts (a sequence of them), value."""

    register: int
    kind: str = "value"


Declaration = TypeVar("Declaration")


class Declared(dict[str, Declaration]):
    """Declarations by name, and the names that were asked for: what is compiled depends on what these stand for.

    asked: where several of these keep them together.
    """

    def __init__(self, declarations: Mapping[str, Declaration], asked: set[str] | None = None) -> None:
        super().__init__(declarations)
        self.asked: set[str] = set() if asked is None else asked

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Declaration:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The declaration of this name, which is noted as asked for."""
        self.asked.add(name)
        return super().get(name, default)


@dataclass(frozen=True)
class AskedTable(OpTable):
    """An op table, and the words that it was asked for: ops as they are and in calls, dtypes, classes, steps.

    Dtypes are taken to be the same: masks of them are numbers.
    """

    asked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, table: OpTable) -> AskedTable:
        """The same table, which nobody has asked yet."""
        asked: set[str] = set()
        ops, dtypes = Declared(table.ops, asked), Declared(table.dtypes, asked)
        return cls(ops, dtypes, Declared(table.op_classes, asked), Declared(table.dtype_classes, asked), asked)

    @functools.cached_property
    def by_function_name(self) -> dict[str, str]:
        """As of any op table."""
        return Declared({name.lower(): name for name in self.ops}, self.asked)

    @functools.cached_property
    def forms(self) -> dict[str, Form]:
        """As of any op table."""
        return Declared(forms_of(self), self.asked)

    def declared_order(self, names: Iterable[str]) -> list[str]:
        """As of any op table; the order follows from where each of these is."""
        wanted = list(names)
        self.asked.update(wanted)
        return super().declared_order(wanted)


@dataclass(slots=True)
class Library:
    """All declarations that rules may refer to."""

    table: AskedTable
    functions: Declared[syntax.Function]
    definitions: Declared[syntax.Definition]
    externs: Declared[syntax.Extern]
    # The pass whose rules are compiled; empty: rules that stand in none; None: a pass that cannot run on a part.
    running: str | None = ""
    chooses: bool = False  # whether it is a choose pass
    depends: bool = False  # whether the code of a rule is for this pass only
    dataflow: Mapping[str, str] = field(default_factory=dict)  # facts and states of a pass -> their full names
    views: Declared[syntax.View] = field(default_factory=lambda: Declared({}))
    tables: Declared[syntax.Table] = field(default_factory=lambda: Declared({}))


@dataclass(slots=True)
class Generics:
    """The op and dtype variables of a rule: what they range over."""

    ops: dict[str, frozenset[str]] = field(default_factory=dict)
    dtypes: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal variables."""
        return (*self.ops.items(), *self.dtypes.items())


class Emitter:
    """Code of one alternative: instructions, registers and names."""

    def __init__(
        self,
        library: Library,
        assembler: Assembler,
        generics: Generics | None = None,
        scopes: tuple[str, ...] = (RULE, RENDER),
    ) -> None:
        self.library = library
        self.assembler = assembler
        self.generics = generics or Generics()
        self.scopes = scopes  # whose built-in functions can be called
        self.words: list[int] = []
        self.names: dict[str, Binding] = {}
        self.next_register = 0
        self.part: syntax.Expression | None = None  # pattern, clause or template that is being compiled
        self.here: syntax.Expression | None = None  # the expression in it

    def begin(self, part: syntax.Expression) -> None:
        """The code that follows is of this pattern, clause or template."""
        self.part = self.here = part

    def has_builtin(self, name: str) -> bool:
        """Whether a built-in function of this name can be called here."""
        return name in BUILTINS and any(scope in self.scopes for scope in BUILTINS[name].scopes)

    def emit(self, opcode: str, *operands: int) -> int:
        """Appends an instruction; the place of its last operand (a jump target to be patched)."""
        self.words.append(OPCODES[opcode])
        self.words.extend(operands)
        return len(self.words) - 1

    def patch(self, place: int) -> None:
        """Lets the jump at `place` lead here."""
        self.words[place] = len(self.words)

    def register(self, span: syntax.Span) -> int:
        if self.next_register >= REGISTERS:
            raise problem("this needs more registers than the machine has", span, "split it into several rules")
        self.next_register += 1
        return self.next_register - 1

    def result(self, start: int, span: syntax.Span) -> int:
        """The register `start`, with everything above it given back: instructions read before they write."""
        self.next_register = start
        return self.register(span)

    def settle(self, start: int, register: int) -> int:
        """The value of `register` in the lowest register from `start` on; temporaries are given back."""
        if register >= start and register != start:
            self.emit("MOVE", start, register)
        self.next_register = start + (register >= start)
        return min(start, register)

    def constant(self, value: Any, span: syntax.Span) -> int:
        register = self.register(span)
        self.emit("CONSTANT", register, self.assembler.constant(value))
        return register

    def dtype_mask(self, names: frozenset[str]) -> int:
        return sum(1 << k for k, name in enumerate(self.library.table.dtypes) if name in names)


def with_names(emitter: Emitter, names: dict[str, Binding]) -> dict[str, Binding]:
    """Replaces the names in scope; the old ones are returned, to be put back."""
    old, emitter.names = emitter.names, names
    return old


__all__ = ["Binding", "Emitter", "Generics", "Library", "problem", "with_names"]
