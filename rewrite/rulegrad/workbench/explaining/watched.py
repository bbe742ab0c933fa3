"""A rule compiled to be watched: its code tests the whole pattern, and a table says what each instruction belongs to.

Such code is for one question only and never cached; `Program.explain` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from rulegrad import _core
from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.compiler.assembler import OPCODES, Alternative, Assembler, CompiledFunction
from rulegrad.lang.compiler.rules import RuleCompiler
from rulegrad.lang.compiler.scope import Binding, Emitter, Generics
from rulegrad.lang.optable import OpTable

PROBE = "why?"  # the function of the program that has the watched alternatives
_NAMES = {number: name for name, number in OPCODES.items()}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its operands, what it is of, and the names that are bound there."""

    opcode: str
    operands: tuple[int, ...]
    part: syntax.Expression | None  # pattern, clause or template
    here: syntax.Expression | None  # the expression in it
    names: Mapping[str, Binding]


@dataclass(slots=True)
class WatchedCode:
    """One alternative: its instructions by their places, and the registers that hold values of expressions."""

    number: int  # of the code in the assembler
    pattern: syntax.Expression | None = None  # of this alternative: one of those that the rule's may stand for
    template: syntax.Expression | None = None
    instructions: dict[int, Instruction] = field(default_factory=dict)
    values: dict[syntax.Expression, int] = field(default_factory=dict)

    def before(self, place: int) -> list[Instruction]:
        """The instructions that stand before a place."""
        return [self.instructions[k] for k in sorted(self.instructions) if k < place]


class WatchedEmitter(Emitter):
    """Writes down where each instruction comes from. Every value keeps its register, unless they run out."""

    def __init__(self, *arguments: Any, keeps: bool) -> None:
        self.keeps = keeps
        self.places: list[tuple[int, syntax.Expression | None, syntax.Expression | None, Mapping[str, Binding]]] = []
        self.values: dict[syntax.Expression, int] = {}
        self._next = 0
        super().__init__(*arguments)

    @property
    def next_register(self) -> int:
        return self._next

    @next_register.setter
    def next_register(self, register: int) -> None:
        self._next = max(self._next, register) if self.keeps else register

    def emit(self, opcode: str, *operands: int) -> int:
        self.places.append((len(self.words), self.part, self.here, self.names))
        return super().emit(opcode, *operands)

    def settle(self, start: int, register: int) -> int:
        if not self.keeps:
            return super().settle(start, register)
        if self.here is not None:
            self.values[self.here] = register
        return register

    def code(self, number: int) -> WatchedCode:
        """The recorded code; when the code is complete, so that its jumps have their targets."""
        found = WatchedCode(number, self.places[0][1], self.places[-1][1], values=self.values)
        ends = [place for place, *_ in self.places[1:]] + [len(self.words)]
        for (place, part, here, names), end in zip(self.places, ends, strict=True):
            opcode, *operands = self.words[place:end]
            found.instructions[place] = Instruction(_NAMES[opcode], tuple(operands), part, here, names)
        return found


class WatchedRuleCompiler(RuleCompiler):
    """Compiles one rule for the question, after the program that it is part of."""

    dispatched = False

    def __init__(self, plain: RuleCompiler) -> None:
        super().__init__(plain.library, plain.assembler, plain.facts, plain.strict)
        self.codes: list[WatchedCode] = []
        self._keeps = True
        self._emitters: list[WatchedEmitter] = []

    def emitter(self, generics: Generics) -> Emitter:
        self._emitters.append(WatchedEmitter(self.library, self.assembler, generics, keeps=self._keeps))
        return self._emitters[-1]

    def compile(self, owner: str, rule: syntax.Rule, parameters: tuple[str, ...] = ()) -> list[Alternative]:
        try:
            return self._watched(owner, rule, parameters)
        except RuleError:
            self._keeps = False
            return self._watched(owner, rule, parameters)

    def _watched(self, owner: str, rule: syntax.Rule, parameters: tuple[str, ...]) -> list[Alternative]:
        self._emitters.clear()
        alternatives = super().compile(owner, rule, parameters)
        emitters = {id(self.assembler.codes[a.code]): a.code for a in alternatives}
        self.codes = [e.code(emitters[id(e.words)]) for e in self._emitters if id(e.words) in emitters]
        return alternatives


@dataclass(slots=True)
class WatchedProgram:
    """The program of all rules, and as its function PROBE the watched alternatives of one."""

    program: _core.Program
    assembler: Assembler
    table: OpTable
    definitions: Mapping[str, syntax.Definition]
    codes: list[WatchedCode]
    alternatives: list[Alternative]


def watched_program(
    compiler: ProgramCompiler, owner: str, rule: syntax.Rule, parameters: tuple[str, ...], inside: syntax.Pass
) -> WatchedProgram:
    """The program of a compiler that has compiled, with the rule's watched alternatives; none when it is left out.

    inside: the pass whose facts and states the rule may ask for.
    """
    watched = WatchedRuleCompiler(compiler.rules)
    names = [*(fact.name for fact in inside.facts), *(state.name for state in inside.states)]
    compiler.library.dataflow = {name: f"{inside.name}.{name}" for name in names}
    alternatives = watched.compile(owner, rule, parameters)
    compiler.library.dataflow = {}
    assembler = copy(compiler.assembler)
    assembler.functions = [*assembler.functions, CompiledFunction(PROBE, 1 + len(parameters), alternatives)]
    return WatchedProgram(
        _core.Program(assembler.serialize()),
        assembler,
        compiler.library.table,
        compiler.library.definitions,
        watched.codes,
        alternatives,
    )
