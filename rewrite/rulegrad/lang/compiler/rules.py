"""Rules to alternatives: head for the dispatch, code for the rest; `needs` is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rulegrad.lang import syntax
from rulegrad.lang.compiler import reuse
from rulegrad.lang.compiler.assembler import Alternative, Assembler
from rulegrad.lang.compiler.clauses import compile_clauses
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.heads import bare, head_of, literal_value, symbols_of
from rulegrad.lang.compiler.orders import Swapped, orders_of
from rulegrad.lang.compiler.patterns import ANY, PatternCompiler
from rulegrad.lang.compiler.scope import Binding, Emitter, Generics, Library, problem
from rulegrad.lang.modules import plain
from rulegrad.lang.names import names_bound

ALL_DTYPES = 0xFFFFFFFF
MANY = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The ops, dtypes and flags that `needs` asks about. Without a target all are there, so nothing is lowered."""

    ops: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None
    flags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, target: syntax.Target | None) -> TargetFacts:
        return cls() if target is None else cls(target.ops, target.dtypes, target.flags)


@dataclass(slots=True)
class RuleCompiler:
    library: Library
    assembler: Assembler
    facts: TargetFacts
    strict: bool = False
    _numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    # The alternatives of rules that are the same in every pass, by the rule's owner and identity.
    _compiled: dict[tuple[str, int], tuple[syntax.Rule, list[Alternative]]] = field(default_factory=dict)
    _kept: reuse.Kept = field(init=False)  # what earlier programs have
    dispatched: ClassVar[bool] = True  # code need not test what the dispatch has looked at

    def __post_init__(self) -> None:
        self._kept = (reuse.kept_rules if self.dispatched else reuse.alone)(self.library)

    def emitter(self, generics: Generics) -> Emitter:
        """An emitter for the code of one alternative."""
        return Emitter(self.library, self.assembler, generics)

    def compile(self, owner: str, rule: syntax.Rule, parameters: tuple[str, ...] = ()) -> list[Alternative]:
        """The alternatives of a rule; empty when the target lacks what it needs.

        parameters: the further arguments of a function; within: the pass that the rule is compiled for.
        """
        key = (owner, id(rule))
        if key in self._compiled and not (parameters or self.library.dataflow):
            return [*self._compiled[key][1]]
        self.library.depends = bool(parameters or self.library.dataflow)
        found = self._compile(owner, rule, parameters)
        if not self.library.depends:
            self._compiled[key] = rule, found
        return found

    def _compile(self, owner: str, rule: syntax.Rule, parameters: tuple[str, ...]) -> list[Alternative]:
        generics, library = self.generics(rule), self.library
        if generics is None or (self.strict and any(c.keyword == "unsound" for c in rule.clauses)):
            return []
        number = self.number(owner, rule)
        everywhere = (id(rule), generics.key, parameters, *library.dataflow.items())
        inside = (*everywhere, library.running, library.chooses)
        kept = self._kept
        for key in (everywhere, inside):
            if compiled := kept.get(key, library):
                library.depends |= key == inside
                return compiled.moved(self.assembler, number)
        reuse.begin(library)
        found = self._alternatives(rule, number, generics, parameters)
        kept.put(inside if library.depends else everywhere, reuse.Compiled.of(rule, library, self.assembler, found))
        return found

    def _alternatives(
        self, rule: syntax.Rule, number: int, generics: Generics, parameters: tuple[str, ...]
    ) -> list[Alternative]:
        return [
            self._alternative(rule, number, generics, swapped, parameters)
            for swapped in orders_of(self.emitter(generics), rule.pattern)
        ]

    def number(self, owner: str, rule: syntax.Rule) -> int:
        key = (owner, rule.name, rule.span.line)
        if key not in self._numbers:
            self._numbers[key] = len(self.assembler.rules)
            self.assembler.rules.append((plain(f"{owner}.{rule.name}"), f"{rule.span.file}:{rule.span.line}"))
        return self._numbers[key]

    def generics(self, rule: syntax.Rule) -> Generics | None:
        """The rule's op and dtype variables, narrowed to what `needs` admits; None when nothing is left."""
        result = Generics()
        for generic in rule.generics:
            kind, names = self.library.table.resolve_generic(generic.classes)
            (result.ops if kind == "op" else result.dtypes)[generic.name] = names
        for clause in rule.clauses:
            if clause.keyword != "needs":
                continue
            assert clause.expression is not None
            mentioned = [g.name for g in rule.generics if _mentions(clause.expression, g.name)]
            if not mentioned:
                if not self._holds(clause.expression, {}):
                    return None
                continue
            if len(mentioned) > 1:
                raise problem(
                    "`needs` can speak of one variable at a time", clause.span, "write one `needs` line for each"
                )
            pool = result.ops if mentioned[0] in result.ops else result.dtypes
            kept = frozenset(v for v in pool[mentioned[0]] if self._holds(clause.expression, {mentioned[0]: v}))
            if not kept:
                return None
            pool[mentioned[0]] = kept
        return result

    def _holds(self, x: syntax.Expression, bound: dict[str, str]) -> bool:
        match x:
            case syntax.Infix(operator="and"):
                return self._holds(x.left, bound) and self._holds(x.right, bound)
            case syntax.Infix(operator="or"):
                return self._holds(x.left, bound) or self._holds(x.right, bound)
            case syntax.Prefix(operator="not"):
                return not self._holds(x.operand, bound)
            case syntax.Call(function="has", arguments=(syntax.Name(name=name),)):
                return self.facts.ops is None or bound.get(name, name) in self.facts.ops
            case syntax.Call(function="supports", arguments=(syntax.Name(name=name),)):
                return self.facts.dtypes is None or bound.get(name, name) in self.facts.dtypes
            case syntax.Call(function="flag", arguments=(syntax.Name(name=name),)):
                return name in self.facts.flags
        raise problem("`needs` takes has(OP), supports(DTYPE), flag(NAME) with and, or, not", x.span)

    def _alternative(
        self,
        rule: syntax.Rule,
        number: int,
        generics: Generics,
        swapped: Swapped,
        parameters: tuple[str, ...],
    ) -> Alternative:
        e = self.emitter(generics)
        e.next_register = 1 + len(parameters)
        e.names = {name: Binding(1 + k, "node") for k, name in enumerate(parameters)}
        bound = {name for name, _, _ in names_bound(self.library.table, rule.pattern)}
        compiler = PatternCompiler(e, swapped, frozenset(bound | generics.ops.keys() | generics.dtypes.keys()))
        # The dispatch looks at the root's op, not at the value of a CONST.
        tested = self.dispatched and literal_value(bare(rule.pattern)) is None
        e.begin(rule.pattern)
        if not self.dispatched and isinstance(bare(rule.pattern), syntax.Multiset):
            e.emit("IN_SET", 0, self._root(e, rule.pattern))
        compiler.whole(rule.pattern, 0, tested, self.dispatched)
        compile_clauses(e, rule.clauses)
        e.begin(rule.template)
        e.emit("RETURN", compile_expression(e, rule.template, True))
        return self._with_head(rule, number, e, compiler)

    def _with_head(self, rule: syntax.Rule, number: int, e: Emitter, compiler: PatternCompiler) -> Alternative:
        pattern = bare(rule.pattern)
        code = self.assembler.code(e.words)
        head = head_of(e, pattern)
        if head is None:
            return Alternative(number, code, self._dtypes(e, pattern), 0, MANY, self._root(e, pattern), (ANY, ANY, ANY))
        arguments = compiler.arguments(pattern, head)
        splice = next((k for k, a in enumerate(arguments) if isinstance(a, syntax.Splice)), None)
        children = [ANY, ANY, ANY]
        for k, argument in enumerate(arguments[: 3 if splice is None else min(3, splice)]):
            children[k] = self._child(e, argument)
        minimum = len(arguments) - (splice is not None)
        maximum = len(arguments) if splice is None else MANY
        dtypes = self._root_dtypes(e, head.ops, arguments, splice)
        root = self.assembler.op_set(head.ops)
        return Alternative(number, code, dtypes, minimum, maximum, root, (children[0], children[1], children[2]))

    def _root(self, e: Emitter, x: syntax.Expression) -> int:
        """The ops of a pattern that is not an op's."""
        symbols = symbols_of(e, x, root=True)
        if symbols is None:
            return self.assembler.every_op()
        return self.assembler.op_set(frozenset(name.split(" ")[0] for name in symbols))

    def _dtypes(self, e: Emitter, x: syntax.Expression) -> int:
        if isinstance(x, syntax.Name) and x.dtype is not None:
            return self._mask(e, x.dtype)
        if isinstance(x, syntax.Multiset) and x.kind == "all":
            return e.dtype_mask(frozenset(("bool",)))
        return ALL_DTYPES

    def _child(self, e: Emitter, x: syntax.Expression) -> int:
        symbols = symbols_of(e, x)
        return ANY if symbols is None else self.assembler.op_set(symbols)

    def _mask(self, e: Emitter, name: str) -> int:
        names = e.generics.dtypes.get(name)
        if names is None:
            names = self.library.table.resolve_dtypes(name) or frozenset()
        return e.dtype_mask(names)

    def _root_dtypes(
        self, e: Emitter, ops: frozenset[str], arguments: tuple[syntax.Expression, ...], splice: int | None
    ) -> int:
        """Where the result's dtype is that of a source whose dtype the pattern states, the dispatch can look at it."""
        if len(ops) != 1 or splice is not None:
            return ALL_DTYPES
        declaration = self.library.table.ops[next(iter(ops))].declaration
        mask = ALL_DTYPES
        for argument, parameter in zip(arguments, declaration.parameters, strict=False):
            argument = bare(argument)
            if (
                isinstance(argument, syntax.Name)
                and argument.dtype is not None
                and parameter.type == declaration.result
            ):
                mask &= self._mask(e, argument.dtype)
        return mask


def _mentions(x: syntax.Expression, name: str) -> bool:
    match x:
        case syntax.Name():
            return x.name == name
        case syntax.Infix():
            return _mentions(x.left, name) or _mentions(x.right, name)
        case syntax.Prefix():
            return _mentions(x.operand, name)
        case syntax.Call():
            return any(_mentions(a, name) for a in x.arguments)
    return False
