"""The `test` lines of rules: the rule, and no other, is applied to the left side and must give the right side.

A rule of a pass that first looks at the whole graph is tried together with it: the pass is run on the left side. The
`test` lines of an extern call the host's function, where that is asked for.

Both sides are built by the engine, as templates are. A name with a kind is a variable: `i:range(100)` an index,
`x:float32` a scalar, `x:float32[4, 8]` a tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rulegrad._core import Program
from rulegrad.engine import host_function
from rulegrad.errors import RuleError, RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler import PASS_KINDS, ProgramCompiler
from rulegrad.lang.compiler.assembler import Alternative, CompiledPass
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.rules import RuleCompiler
from rulegrad.lang.compiler.scope import Binding, Emitter
from rulegrad.lang.modules import plain
from rulegrad.lang.targets import find
from rulegrad.lang.walk import expressions_in

WHOLE = ("collect", "flow")  # kinds of passes whose rules depend on facts or states
STATEMENTS = "accumulate"  # the pass that makes statements of reductions
_MANY = 0x7FFFFFFF


class EveryNeedMet(RuleCompiler):
    """A rule is tested whatever the target has."""

    def _holds(self, x: syntax.Expression, bound: dict[str, str]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class OwnedRule:
    """A rule, and the rule set, pass or function that it stands in."""

    owner: str
    rule: syntax.Rule

    @property
    def name(self) -> str:
        return plain(f"{self.owner}.{self.rule.name}")

    @property
    def location(self) -> str:
        return f"{self.rule.span.file}:{self.rule.span.line}"

    def has(self, keyword: str) -> bool:
        """Whether the rule has a clause of this keyword."""
        return any(clause.keyword == keyword for clause in self.rule.clauses)

    def ulp(self) -> float | None:
        """The stated error bound."""
        for clause in self.rule.clauses:
            if clause.keyword == "ulp" and isinstance(clause.expression, syntax.Literal):
                return float(clause.expression.value or 0)
        return None

    def measure(self) -> syntax.Expression | None:
        """The unit of the error, if that is not the result."""
        return next((clause.of for clause in self.rule.clauses if clause.of is not None), None)

    def add_alone(self, compiler: ProgramCompiler, number: int) -> None:
        """Adds passes of this rule alone: `rule NUMBER`, and `measure NUMBER` for what its error is measured by."""
        compiler.add_alone(f"rule {number}", self.owner, self.rule)
        if (measure := self.measure()) is not None:
            compiler.add_alone(f"measure {number}", self.owner, replace(self.rule, template=measure))


@dataclass(frozen=True, slots=True)
class Case(OwnedRule):
    """One test line: its rule, the set or function that has it, and its number in the program."""

    test: syntax.RuleTest
    number: int
    function: str = ""
    whole: bool = False  # the owner is a pass that is run as a whole

    @property
    def location(self) -> str:
        return f"{self.test.span.file}:{self.test.span.line}"


Owned = TypeVar("Owned", bound=OwnedRule)


def owners(files: Sequence[syntax.File]) -> Iterator[tuple[str, str, tuple[syntax.Rule, ...]]]:
    """(name, function or "", rules as written) of each declaration with rules that are not texts."""
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Function):
            yield declaration.name, declaration.name, tuple(r for r in declaration.rules if not r.of_form)
        elif isinstance(declaration, syntax.Ruleset | syntax.Pass):
            rules = tuple(r for r in declaration.rules if not isinstance(r.template, syntax.Text))
            yield declaration.name, "", rules


def selected(rules: Sequence[Owned], names: Sequence[str], paths: Collection[str]) -> list[Owned]:
    """Those of these names (SET.RULE, a rule, or a rule set, pass or function), and of these files; all, where neither.

    Raises RuleError for a name that none has.
    """
    for name in names:
        if not any(name in (rule.name, rule.owner, rule.rule.name) for rule in rules):
            raise RuleError(f"no rule, rule set, pass or function is called `{name}`")
    if not names and not paths:
        return list(rules)
    chosen = set(names)
    return [r for r in rules if chosen & {r.name, r.owner, r.rule.name} or r.rule.span.file in paths]


def with_hosts(program: Program, files: Sequence[syntax.File]) -> None:
    """Gives a program the host's functions that externs of the files name. Raises RuleError where one is missing."""
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Extern) and declaration.name in program.externs:
            name, file = declaration.name, declaration.span.file
            program.set_extern(name, host_function(name, declaration.qualified_name, file))


def externs(files: Sequence[syntax.File]) -> Iterator[tuple[str, str, tuple[syntax.Rule, ...]]]:
    """Externs as `owners` gives functions: each with one rule that has its test lines."""
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Extern) and declaration.tests:
            call = declaration.tests[0].left
            rule = syntax.Rule(declaration.name, (), call, call, (), declaration.tests, declaration.span)
            yield "extern", declaration.name, (rule,)


@dataclass(slots=True)
class RuleTests:
    """All test lines of some rule files, compiled into one program.

    hosts: whether externs call the host, and have their test lines; only: the files whose test lines these are, where
    not of all.
    """

    files: Sequence[syntax.File]
    hosts: bool = False
    only: Collection[str] = ()
    cases: list[Case] = field(default_factory=list)
    _programs: dict[str, Program] = field(default_factory=dict)  # by target
    # By number, which lines that others make may have in common: so with the line.
    _variables: dict[int, tuple[Case, dict[str, syntax.Name]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = {d.name for f in self.files for d in f.declarations if isinstance(d, syntax.Pass) and d.kind in WHOLE}
        for owner, function, rules in (*owners(self.files), *(externs(self.files) if self.hosts else ())):
            for rule in rules:
                for test in rule.tests if not self.only or rule.span.file in self.only else ():
                    is_whole = owner in whole and not function
                    self.cases.append(Case(owner, rule, test, len(self.cases), function, is_whole))

    def compiler(self, target: str) -> ProgramCompiler:
        """The compiler for test lines of a target; for none, all rules are there, whatever they need."""
        declared = find((d for f in self.files for d in f.declarations), target) if target else None
        compiler = ProgramCompiler(self.files, declared, False, tested=declared is None)
        if declared is None:
            compiler.rules = EveryNeedMet(compiler.library, compiler.assembler, compiler.rules.facts)
        return compiler

    def _compiled(self, target: str) -> Program:
        compiler = self.compiler(target)
        cases = [case for case in self.cases if case.test.target == target]
        compiler.compile({STATEMENTS, *(case.owner for case in cases if case.whole)})
        for case in cases:
            if not case.function and not case.whole:
                case.add_alone(compiler, case.number)
        return self.loaded(compiler, cases)

    def loaded(self, compiler: ProgramCompiler, cases: Iterable[Case]) -> Program:
        """The program of what was compiled, with both sides of some test lines."""
        sides: dict[str, list[Alternative]] = {"left": [], "right": [], "argument": []}
        for case in cases:
            test = case.test
            argument = test.left.arguments[0] if case.function and isinstance(test.left, syntax.Call) else None
            several = isinstance(test.right, syntax.Sequence)
            for name, expression in (("left", test.left), ("right", test.right), ("argument", argument)):
                if expression is not None:
                    is_tuple = several and name != "argument"
                    sides[name].append(_builder(compiler, case, self.variables(case), expression, is_tuple))
        for name, side in sides.items():
            compiler.assembler.passes.append(CompiledPass(name, PASS_KINDS.index("walk"), -1, side, [], []))
        program = Program(compiler.serialize())
        if self.hosts:
            with_hosts(program, self.files)
        return program

    def variables(self, case: Case) -> dict[str, syntax.Name]:
        """The names with a kind, on either side of a line, in order."""
        known = self._variables.get(case.number)
        if known is None or known[0] is not case:
            known = self._variables[case.number] = case, _variables(case)
        return known[1]

    def beside(self, programs: dict[str, Program]) -> RuleTests:
        """The same lines, with other programs, by target: of changed rules."""
        made = copy.copy(self)
        made._programs = programs
        return made

    def run(self, case: Case) -> str:
        """Empty, or what is wrong: the rule did not fire, fired where it must not, or gave something else."""
        try:
            left = self.values(case)
            like = left[0] if left and not isinstance(case.test.right, syntax.Sequence) else None
            right = self._build("right", case, like) if case.test.right is not None else None
            if case.function and right is None:
                return "is of a function, which has a value or none: write `test call -> value`"
            if case.function:
                same = right is not None and len(left) == len(right) and all(map(_equal, left, right))
                return "" if same else f"gives something else\n{_shown(left)}\nnot\n{_shown(right or ())}"
            found = self.applied(case, left[0])
        except RulegradError as error:
            return error.problem
        return self.problem(case, left, right, found)

    def problem(self, case: Case, left: Sequence[UOp], right: Sequence[UOp] | None, found: UOp | None) -> str:
        """Empty, or what is wrong with a rule's result (None where it does not fire) for the left side of its line."""
        if case.test.target and found is None and not self._is_there(case):
            return f"is about a rule that the target {case.test.target} does not have: it lacks what the rule needs"
        if case.test.fires:
            return "" if found is not None else f"does not fire on\n{left[0]}"
        if right is None:
            return "" if found is None else f"fires and gives\n{found}"
        if found is None:
            return f"does not fire on\n{left[0]}"
        return "" if _equal(found, right[0]) else f"gives something else\n{found}\nnot\n{right[0]}"

    def values(self, case: Case) -> tuple[UOp, ...]:
        """The values of the left side of a line: a node, or those of a function. Raises RuleError."""
        return self._build("left", case)

    def left(self, case: Case) -> UOp:
        """The node that a test is about. Raises RuleError when it cannot be built."""
        return self._build("left", case)[0]

    def argument(self, case: Case) -> UOp:
        """The node that the function of a test is asked about. Raises RuleError when it cannot be built."""
        return self._build("argument", case)[0]

    def right(self, case: Case, left: UOp) -> UOp:
        """The node that a test asks for, beside the one that it is about. Raises RuleError when it cannot be built."""
        return self._build("right", case, left)[0]

    def measured(self, case: Case, left: UOp) -> UOp | None:
        """The unit of the rule's error on a node, as a node; None for the result itself."""
        return None if case.measure() is None else self.program(case).apply(f"measure {case.number}", left)

    def program(self, case: Case) -> Program:
        """The rules and functions for a line's target, compiled."""
        target = case.test.target
        if target not in self._programs:
            self._programs[target] = self._compiled(target)
        return self._programs[target]

    def applied(self, case: Case, left: UOp) -> UOp | None:
        """The rule's result for a node; None when it does not fire."""
        if not case.whole:
            return self.program(case).apply(f"rule {case.number}", left)
        result, info = self.program(case).rewrite(case.owner, left)
        return result if info["fired"] else None

    def _is_there(self, case: Case) -> bool:
        """Whether the line's target has what the rule needs."""
        declared = find((d for f in self.files for d in f.declarations), case.test.target)
        compiler = ProgramCompiler(self.files, declared, False)
        return compiler.rules.generics(case.rule) is not None

    def _build(self, side: str, case: Case, like: UOp | None = None) -> tuple[UOp, ...]:
        """The nodes of one side: several when it is a tuple. A bare number takes the dtype of `like`."""
        variables = [_variable(k, name) for k, name in enumerate(self.variables(case).values())]
        number = UOp.const(case.number, "index")
        nothing = UOp("SINK") if like is None else like
        made = self.program(case).apply(side, UOp("AFTER", (nothing, number, *variables)))
        if made is None:
            raise RuleError("cannot be computed: a built-in or a function of it has no value here")
        return made.src


def _variables(case: Case) -> dict[str, syntax.Name]:
    found: dict[str, syntax.Name] = {}
    for side in (case.test.left, case.test.right):
        items = [item for item in expressions_in(side) if isinstance(item, syntax.Name)] if side is not None else []
        for item in sorted(items, key=lambda item: (item.span.line, item.span.column)):
            if item.bounds or item.dtype or item.shape:
                found.setdefault(item.name, item)
    return found


def _variable(number: int, name: syntax.Name) -> UOp:
    if name.bounds is not None:
        low, high = name.bounds
        counter = UOp("RANGE", (UOp.const(high - low, "index"),), id=500 + number, kind="test")
        return counter + low if low else counter
    return UOp("PARAM", (), name.dtype or "float32", slot=500 + number, shape=name.shape or ())


def _builder(
    compiler: ProgramCompiler, case: Case, variables: Iterable[str], expression: syntax.Expression, is_tuple: bool
) -> Alternative:
    """A rule AFTER(like, number, variables...) -> SINK(expression), so that the engine builds the expression."""
    assembler = compiler.assembler
    e = Emitter(compiler.library, assembler)
    e.register(expression.span)  # 0, the node
    number = e.register(expression.span)
    e.emit("SOURCE", number, 0, 1)
    e.emit("CONST_IS", number, assembler.constant(case.number))
    for k, name in enumerate(variables):
        register = e.register(expression.span)
        e.emit("SOURCE", register, 0, k + 2)
        e.names = {**e.names, name: Binding(register, "node")}
    value = compile_expression(e, expression, True)
    result = e.register(expression.span)
    sink = compiler.library.table.ops["SINK"].number
    e.emit("BUILD", result, sink, -1, -1, -1, 0, 1, -(value + 1) if is_tuple else value)
    e.emit("RETURN", result)
    if not assembler.rules:
        assembler.rules.append(("test", case.location))
    root = assembler.op_set(frozenset(("AFTER",)))
    return Alternative(0, assembler.code(e.words), 0xFFFFFFFF, 2, _MANY, root, (-1, -1, -1))


def _equal(found: UOp, wanted: UOp) -> bool:
    """The same node; a constant on the right side takes the dtype of what it is compared with."""
    if found.op == wanted.op == "CONST":
        return bool(found.attrs["value"] == wanted.attrs["value"])
    return found == wanted


def _shown(nodes: Sequence[UOp]) -> str:
    return "(" + ", ".join(str(n) for n in nodes) + ")"
