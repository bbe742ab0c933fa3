"""The furthest test of a rule that failed, in words: read from the instruction, its operands and the registers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rulegrad import _core
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import DtypeName, OpName
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.explaining.naming import Namer
from rulegrad.workbench.explaining.watched import Instruction, WatchedCode, WatchedProgram

_MOST_NAMES = 8
_OP_TESTS = ("IS_OP", "IN_SET")
# Which operand of an instruction has what its result is a part of, or says something about.
_COMES_FROM = {
    "SOURCE": 1,
    "SOURCE_END": 1,
    "SOURCE_SLICE": 1,
    "ITERATE": 2,
    "MOVE": 1,
    "GET_DTYPE": 1,
    "GET_OP": 1,
    "GET_ATTR": 1,
    "GET_VALUE": 1,
}
_CONDITIONS = ("GUARD", "JUMP_FALSE", "JUMP_TRUE")
_NO_VALUE = {
    "vmin": "it is unbounded, or no integer",
    "vmax": "it is unbounded, or no integer",
    "value": "it is not a constant",
    "attr": "the op has no such attribute",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an alternative did not go on: where in the rule (part, span), and what was found there.

    path: of the node that a pattern failed on, source by source from the matched node; None for anything else.
    matched, total: of the ops in the pattern.
    """

    part: str  # pattern, clause or template
    message: str
    span: syntax.Span
    names: dict[str, str]
    path: tuple[int, ...] | None
    matched: int
    total: int


class Reader:
    """Reads one alternative's run: its code, the place that it reached, and the registers there."""

    def __init__(
        self, rule: syntax.Rule, code: WatchedCode, watched: WatchedProgram, texts: dict[str, str], namer: Namer
    ) -> None:
        self.rule = rule
        self.code = code
        self.assembler, self.table, self.definitions = watched.assembler, watched.table, watched.definitions
        self.texts = texts
        self.namer = namer
        tests = {k for k, i in code.instructions.items() if i.opcode in _OP_TESTS and i.part is code.pattern}
        self._op_tests = sorted(tests)
        self.ops = [name for name, _ in sorted(self.table.ops.items(), key=lambda item: item[1].number)]

    def progress(self, place: int) -> tuple[int, int]:
        """How many of the pattern's ops were matched, and how many it has."""
        return bisect_left(self._op_tests, place), len(self._op_tests)

    def read(self, place: int, registers: Sequence[Any], error: str = "") -> Reason:
        """Why the run stopped at a place; an error, when it did not stop at a test."""
        instruction = self.code.instructions[place]
        self._registers = registers
        self._before = self.code.before(place)
        part = self._part(instruction)
        expression = instruction.here or instruction.part or self.rule.pattern
        path: tuple[int, ...] | None = None
        if error:
            message = error
        elif part == "pattern" and (found := self._of_pattern(instruction, expression)):
            message, path = found
        elif instruction.opcode in _CONDITIONS:
            expression = self._first_false(expression)
            message = self._with_values(f"`{self.text(expression)}` is false", expression, instruction)
        elif instruction.opcode == "PICK" and self._is_kept(instruction.operands[2]):
            message = f"of all choices above `least {self.text(expression)}` none is left"
        else:
            message = self._with_values(self._valueless(instruction, expression), expression, instruction)
        matched, total = self.progress(place)
        return Reason(part, message, _whole(expression), self._names(instruction), path, matched, total)

    def _is_kept(self, register: int) -> bool:
        """Whether a register has the choices that a `least` keeps."""
        return any(i.opcode == "LEAST" and i.operands[0] == register for i in self._before)

    def _part(self, instruction: Instruction) -> str:
        if instruction.part is self.code.pattern:
            return "pattern"
        return "template" if instruction.part is self.code.template else "clause"

    def text(self, x: syntax.Expression) -> str:
        """An expression as it stands in its file."""
        span = _whole(x)
        lines = self.texts.get(span.file, "").split("\n")[span.line - 1 : span.end_line]
        if not lines:
            return "this"
        lines[-1] = lines[-1][: span.end_column]
        lines[0] = lines[0][span.column :]
        text = " ".join(" ".join(lines).split())
        return text + ")" * (text.count("(") - text.count(")"))

    # ---- what is known ----

    def _names(self, instruction: Instruction) -> dict[str, str]:
        """The names that are bound, with their values."""
        return {name: text for name in instruction.names if (text := self._name(name, instruction))}

    def _name(self, name: str, instruction: Instruction) -> str:
        binding = instruction.names.get(name)
        value = self._registers[binding.register] if binding is not None else None
        return "" if value is None else self.namer.value(value)

    def _with_values(self, message: str, x: syntax.Expression, instruction: Instruction) -> str:
        values: dict[str, str] = {}
        self._collect(x, x, instruction, values)
        shown = [f"{name} = {value}" for name, value in list(values.items())[:_MOST_NAMES]]
        return f"{message}: {', '.join(shown)}" if shown else message

    def _collect(
        self, x: syntax.Expression, whole: syntax.Expression, instruction: Instruction, values: dict[str, str]
    ) -> None:
        """The values of the names in an expression, and of the calls and members that are parts of it."""
        if isinstance(x, syntax.Name):
            if text := self._name(x.name, instruction):
                values.setdefault(x.name, text)
            return
        for part in _parts(x):
            self._collect(part, whole, instruction, values)
        if x != whole and isinstance(x, syntax.Call | syntax.Member | syntax.Subscript):
            register = self.code.values.get(x)
            if register is not None and self._registers[register] is not None:
                values.setdefault(self.text(x), self.namer.value(self._registers[register]))

    def _first_false(self, x: syntax.Expression) -> syntax.Expression:
        """Of `a and b`, the one that was false."""
        while isinstance(x, syntax.Infix) and x.operator == "and":
            register = self.code.values.get(x.left)
            x = x.left if register is not None and self._registers[register] is False else x.right
        return x

    def _valueless(self, instruction: Instruction, x: syntax.Expression) -> str:
        if isinstance(x, syntax.Negation):
            return f"`{self.text(x)}` does not hold"
        if isinstance(x, syntax.Multiset):
            return f"no member is left for what `{self.text(x)}` still asks for"
        text = f"`{self.text(x)}` has no value"
        registers, operands = self._registers, instruction.operands
        match instruction.opcode:
            case "BUILTIN":
                reason = _NO_VALUE.get(self.assembler.builtins[operands[1]])
                return f"{text}, {reason}" if reason else text
            case "FUNCTION":
                name = self.assembler.functions[operands[1]].name
                return (
                    f"{text}, no rule of `{name}` gives one" if "." not in name else f"{text}, nothing is known of it"
                )
            case "BINARY" if registers[operands[4]] == 0 and not isinstance(registers[operands[4]], UOp):
                return f"{text}, it divides by zero"
            case "SUBSCRIPT":
                return f"{text}, the index is out of range"
            case "GET_MEMBER" if hasattr(owner := registers[operands[1]], "_record"):
                return f"{text}, a `{type(owner).__name__}` has {_list(owner._record)}"
            case "UNPACK":
                value = registers[operands[0]]
                count = len(value) if isinstance(value, tuple) else "no"
                return f"`{self.text(x)}` is a sequence of {count} items, not of {operands[1]}"
            case "LEAST":
                return f"`{self.text(x)}` is not a number"
        return text

    # ---- patterns ----

    def _of_pattern(self, instruction: Instruction, x: syntax.Expression) -> tuple[str, tuple[int, ...]] | None:
        """The finding of a failed test of the pattern, and the path of the node."""
        test = self._TESTS.get(instruction.opcode)
        if test is None:
            return None
        second = instruction.opcode in ("SOURCE", "SOURCE_END", "GET_VALUE")
        second |= instruction.opcode == "SAME" and not isinstance(x, syntax.Compute)
        subject = instruction.operands[1 if second else 0]
        where, path = self._where(subject)
        message = test(self, instruction, subject, x)
        return (f"{where} {message}", path) if message else None

    def _where(self, register: int) -> tuple[str, tuple[int, ...]]:
        """In words and as a path, which node of the match a register holds."""
        path: list[int] = []
        words: list[str] = []
        while register != 0:
            maker = next((i for i in reversed(self._before) if _writes(i, register)), None)
            known = maker is not None and maker.opcode in _COMES_FROM
            if maker is None or not known or maker.opcode == "ITERATE":  # one of a sequence, whatever that is made of
                path.clear()
                words = words if words[-1:] == ["a source"] else [*words, "a source"]
            if maker is None or not known:
                break
            if maker.opcode in ("SOURCE", "SOURCE_END"):
                path.insert(0, self._number(maker))
                words.append(f"source {path[0]}")
            register = maker.operands[_COMES_FROM[maker.opcode]]
        return " of ".join(words) or "it", tuple(path)

    def _number(self, maker: Instruction) -> int:
        """Which source an instruction takes."""
        if maker.opcode == "SOURCE":
            return maker.operands[2]
        node = self._registers[maker.operands[1]]
        return len(node.src) - maker.operands[2] if isinstance(node, UOp) else 0

    def _found(self, register: int) -> str:
        return self.namer.value(self._registers[register])

    def _node(self, register: int) -> str:
        value = self._registers[register]
        return self.namer.node(value) if isinstance(value, UOp) else self._found(register)

    def _is_op(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        return f"is {self._node(register)}, not {self.ops[i.operands[1]]}"

    def _in_set(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        return f"is {self._node(register)}, not one of {_list(self.assembler.sets[i.operands[1]])}"

    def _sources(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        node = self._registers[register]
        at_least = "" if i.opcode == "SOURCES" else "at least "
        count = f"{len(node.src)} source{'s' * (len(node.src) != 1)}"
        return f"is {self._node(register)} with {count}, not {at_least}{i.operands[1]}"

    def _source(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        return f"is {self._node(register)}, which has too few sources"

    def _dtype_in(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        node = self._registers[register]
        allowed = [name for k, name in enumerate(self.table.dtypes) if i.operands[1] >> k & 1]
        wanted = allowed[0] if len(allowed) == 1 else f"one of {_list(allowed)}"
        return f"is {self._node(register)} of dtype {node.dtype}, not {wanted}"

    def _is_const(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        return f"is {self._node(register)}, no constant"

    def _const_is(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        return f"is {self._node(register)}, not {self._constant(i.operands[1])}"

    def _equals(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        attribute = next((y for y in self._before if y.opcode == "GET_ATTR" and y.operands[0] == register), None)
        node = self._registers[attribute.operands[1]] if attribute else None
        if attribute is None or not isinstance(node, UOp):
            return f"is {self._found(register)}, not {self._constant(i.operands[1])}"
        name = list(self.table.ops[node.op].attributes)[attribute.operands[2]]
        wanted = self.assembler.constants[i.operands[1]]
        if not isinstance(wanted, OpName | DtypeName):
            wanted = self.namer.attribute(node.op, name, wanted)
        found = self.namer.attribute(node.op, name, self._registers[register])
        return f"is {self._node(attribute.operands[1])}, whose {name} is {found}, not {getattr(wanted, 'name', wanted)}"

    def _same(self, i: Instruction, register: int, x: syntax.Expression) -> str:
        first, second = i.operands
        if isinstance(x, syntax.Compute):
            return f"is {self._found(first)}, and `{self.text(x)}` is {self._found(second)}"
        name = (
            x.name if isinstance(x, syntax.Name) else next((n for n, b in i.names.items() if b.register == first), "")
        )
        if isinstance(x, syntax.Name) and x.dtype is not None and isinstance(self._registers[first], str):
            return f"has dtype {self._found(second)}, and {x.dtype} is {self._found(first)} already"
        if not name and not isinstance(self._registers[second], UOp):
            return f"is not the same everywhere: {self._found(first)} and {self._found(second)}"
        other = f"`{name}` is {self._node(first)} already" if name else f"another is {self._node(first)}"
        return f"is {self._node(second)}, and {other}"

    def _constant(self, number: int) -> str:
        value = self.assembler.constants[number]
        return value.name if isinstance(value, OpName | DtypeName) else self.namer.value(value)

    _TESTS: ClassVar[dict[str, Callable[[Reader, Instruction, int, syntax.Expression], str]]] = {
        "IS_OP": _is_op,
        "IN_SET": _in_set,
        "SOURCES": _sources,
        "SOURCES_MIN": _sources,
        "SOURCE": _source,
        "SOURCE_END": _source,
        "DTYPE_IN": _dtype_in,
        "IS_CONST": _is_const,
        "GET_VALUE": _is_const,
        "CONST_IS": _const_is,
        "EQUALS": _equals,
        "SAME": _same,
    }


_OPERANDS: dict[str, str] = dict(_core.OPCODES)


def _writes(instruction: Instruction, register: int) -> bool:
    kinds = _OPERANDS[instruction.opcode]
    return any(kind == "d" and operand == register for kind, operand in zip(kinds, instruction.operands, strict=False))


def _whole(x: syntax.Expression) -> syntax.Span:
    """From the first to the last character of an expression: the span of some is that of their operator."""
    spans = [part.span for part in expressions_in(x) if part.span.file == x.span.file]
    line, column = min((span.line, span.column) for span in spans)
    end_line, end_column = max((span.end_line, span.end_column) for span in spans)
    return syntax.Span(x.span.file, line, column, end_line, end_column)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _parts(x: syntax.Expression) -> list[syntax.Expression]:
    """The expressions right inside one, but not those of a loop's body."""
    match x:
        case syntax.Comprehension():
            return [x.iterable]
        case syntax.Infix():
            return [x.left, x.right]
        case syntax.Prefix():
            return [x.operand]
        case syntax.Call() | syntax.OpCall():
            return list(x.arguments)
        case syntax.Member():
            return [x.owner]
        case syntax.Attribute():
            return [x.value]
        case syntax.Subscript():
            return [x.sequence, x.index]
        case syntax.Conditional():
            return [x.condition, x.then, x.otherwise]
        case syntax.Sequence():
            return list(x.items)
        case syntax.Splice() | syntax.Compute():
            return [x.inner]
        case syntax.Fold():
            return [x.sequence]
        case syntax.Negation():
            return [x.pattern]
    return []
