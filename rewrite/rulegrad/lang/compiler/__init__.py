"""The compiler: from checked declarations to the bytes that the engine loads.

`compile_op_table` makes the program that installs the op table; `compile_program` makes the program of all rule sets,
functions and passes for one target.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import Alternative, Assembler, CompiledFunction, CompiledPass, DtypeName, OpName
from rulegrad.lang.compiler.dataflow import compile_dataflow
from rulegrad.lang.compiler.op_code import OpTableCompiler
from rulegrad.lang.compiler.reuse import spelling_rule
from rulegrad.lang.compiler.rules import RuleCompiler, TargetFacts
from rulegrad.lang.compiler.scope import AskedTable, Declared, Library, problem
from rulegrad.lang.optable import OpTable
from rulegrad.lang.targets import limits
from rulegrad.lang.walk import has_clause

# In the order of the engine's PassKind.
PASS_KINDS = (
    "children_first",
    "parents_first",
    "walk",
    "order",
    "render",
    "reverse",
    "collect",
    "consumers_first",
    "sources_first",
    "best",
    "first",
)
_WALK = PASS_KINDS.index("walk")
USUAL_FUEL = 10_000  # candidates that a choose pass examines which does not say how many


def library_of(files: Sequence[syntax.File], rows: Mapping[str, tuple[syntax.Row, ...]] | None = None) -> Library:
    """All declarations of the files, by name; `rows` of a target come before a table's own."""
    added = rows or {}
    declarations = [d for f in files for d in f.declarations]
    tables = [d for d in declarations if isinstance(d, syntax.Table)]
    return Library(
        AskedTable.of(OpTable.from_declarations(declarations)),
        Declared({d.name: d for d in declarations if isinstance(d, syntax.Function)}),
        Declared({d.name: d for d in declarations if isinstance(d, syntax.Definition)}),
        Declared({d.name: d for d in declarations if isinstance(d, syntax.Extern)}),
        views=Declared({d.name: d for d in declarations if isinstance(d, syntax.View)}),
        tables=Declared({d.name: replace(d, rows=(*added[d.name], *d.rows)) if d.name in added else d for d in tables}),
    )


def compile_op_table(files: Sequence[syntax.File]) -> bytes:
    """The program that installs the op table of these files."""
    return OpTableCompiler(library_of(files)).compile()


def compile_program(
    files: Sequence[syntax.File], target: syntax.Target | None = None, strict: bool = False, seed: int | None = None
) -> bytes:
    """The program of all passes and functions in these files for a target; `strict` leaves unsound rules out.

    With a seed, the rules of each pass are in a random order that keeps to what they declare.
    Raises RuleError for what only the compiler can find, such as a pattern with too many orders.
    """
    compiler = ProgramCompiler(files, target, strict, seed)
    compiler.compile()
    return compiler.serialize()


class ProgramCompiler:
    """Compiles the declarations of all files into one program; `tested`: with limits as test lines have them."""

    def __init__(
        self,
        files: Sequence[syntax.File],
        target: syntax.Target | None,
        strict: bool,
        seed: int | None = None,
        tested: bool = False,
    ) -> None:
        self.library = library_of(files, target.rows if target is not None else {})
        self.target = target
        self.seed = seed
        self.assembler = Assembler(self.library.table.ops)
        self.rules = RuleCompiler(self.library, self.assembler, TargetFacts.of(target), strict)
        declarations = [d for f in files for d in f.declarations]
        self.rulesets = {d.name: d for d in declarations if isinstance(d, syntax.Ruleset)}
        self.passes = [d for d in declarations if isinstance(d, syntax.Pass)]
        self.assembler.limits.update(limits(declarations, target, tested))
        self._fixed_points: dict[str, str] = {}
        self._functions: set[str] = set()  # that are compiled

    def compile(self, needed: Collection[str] | None = None) -> None:
        """Compiles all functions and passes; or only these passes, and the functions that are called."""
        for function in self.library.functions.values():
            self.assembler.functions.append(CompiledFunction(function.name, len(function.parameters)))
        if needed is None:
            self.assembler.called.update(self.library.functions)
            self._add_called()
        for declaration in self.passes:
            if needed is None or declaration.name in needed:
                self.assembler.passes.append(self._pass(declaration))
        if self.target is not None:
            self._spellings(self.target)
        self._add_what_is_run()

    def serialize(self) -> bytes:
        """The program of what was compiled, with rules that were added alone and the rule sets that these run."""
        self._add_what_is_run()
        return self.assembler.serialize()

    def add_pass(self, declaration: syntax.Pass) -> None:
        """Adds a pass, as it is declared or changed."""
        self.assembler.passes.append(self._pass(declaration))

    def _add_what_is_run(self) -> None:
        """The functions, rule sets and passes that rules call or run which were compiled, until there is none more."""
        added = True
        while added:
            before = len(self.assembler.codes)
            self._add_called()
            self._add_nested_sets()
            added = len(self.assembler.codes) > before

    def _add_called(self) -> None:
        """The functions that are called, by what was compiled before."""
        numbered = {compiled.name: compiled for compiled in self.assembler.functions}
        for name, function in self.library.functions.items():
            if name in self.assembler.called and name not in self._functions:
                self._functions.add(name)
                for _, rule in in_order([(name, rule) for rule in function.rules]):
                    numbered[name].alternatives.extend(self.rules.compile(name, rule, function.parameters[1:]))

    def _add_nested_sets(self) -> None:
        """The rule sets that `rewritten` runs in a rule that was compiled, as passes; and passes that `given` runs."""
        for function in self.assembler.functions:
            done = any(compiled.name == function.runs for compiled in self.assembler.passes)
            runs = (d for d in self.passes if function.runs and self.simplifying(d) == function.runs)
            if not done and (declared := next(runs, None)) is not None:
                self.add_pass(declared)
            elif function.runs.startswith("rules ") and not done:
                name = function.runs.removeprefix("rules ")
                span = self.rulesets[name].span if name in self.rulesets else syntax.Span("", 0, 0, 0, 0)
                alternatives: list[Alternative] = []
                for owner, rule in self.rules_of(name, span):
                    alternatives.extend(self.rules.compile(owner, rule))
                self.assembler.passes.append(CompiledPass(function.runs, 0, -1, alternatives, [], []))

    def _spellings(self, target: syntax.Target) -> None:
        self.assembler.types = dict(target.types)
        for key, text in target.literals.items():
            kind, _, name = key.partition(" ")
            named = kind in ("suffix", "memory") and name
            self.assembler.limits[f"{kind}.{name}" if named else f"literal.{key}"] = text
        for name, text in target.templates.items():
            self.assembler.limits[f"template.{name}"] = text

    def rules_of(self, name: str, span: syntax.Span, above: tuple[str, ...] = ()) -> list[tuple[str, syntax.Rule]]:
        """The rules of a rule set, with the names of the sets that they come from; each set once."""
        if name not in self.rulesets:
            raise problem(f"no rule set is called `{name}`", span)
        if name in above:
            raise problem(f"rule set `{name}` contains itself", span)
        ruleset = self.rulesets[name]
        found = [(name, rule) for rule in ruleset.rules]
        for part in ruleset.union:
            found.extend(self.rules_of(part, ruleset.span, (*above, name)))
        return each_once(found)

    def add_alone(self, name: str, owner: str, rule: syntax.Rule) -> None:
        """Adds a pass `name` that walks by one rule only; `given` in it runs a pass that has its owner."""
        self._fixed_points = self._fixed_points or self._made_fixed_points()
        self.library.running = self._fixed_points.get(owner, "")
        self.assembler.passes.append(CompiledPass(name, _WALK, -1, self.rules.compile(owner, rule), [], []))
        self.library.running = ""

    def _made_fixed_points(self) -> dict[str, str]:
        """For each rule set and pass, the first pass that simplifies by its rules."""
        found: dict[str, str] = {}
        for d in self.passes:
            if runs := self.simplifying(d):
                for owner in (d.name, *(name for used in d.uses for name, _ in self.rules_of(used, d.span))):
                    found.setdefault(owner, runs)
        return found

    @staticmethod
    def simplifying(d: syntax.Pass) -> str | None:
        """The pass that `given` runs in the rules of a pass; None where it has no meaning."""
        if d.kind == "choose":
            return _normalising_name(d) or None
        return d.name if d.kind == "rewrite" and d.direction != "walk" else None

    def _pass(self, d: syntax.Pass) -> CompiledPass:
        kind = PASS_KINDS.index(d.direction or d.kind)
        if d.kind == "reverse":
            return CompiledPass(d.name, kind, self.assembler.function_number(d.uses[0]), [], [], [])
        self.library.running, self.library.chooses = self.simplifying(d), d.kind == "choose"
        dataflow = compile_dataflow(self.rules, d)
        pairs: list[tuple[str, syntax.Rule]] = [(d.name, rule) for rule in d.rules]
        for name in d.uses if d.kind != "choose" else ():
            pairs.extend(self.rules_of(name, d.span))
        shuffle = None if self.seed is None else random.Random(f"{self.seed} {d.name}")
        alternatives: list[Alternative] = []
        for owner, rule in in_order(each_once(pairs), shuffle):
            alternatives.extend(self.rules.compile(owner, rule))
        if d.kind == "render":
            alternatives.extend(self._default_spellings())
        self.library.dataflow = {}
        self.library.running, self.library.chooses = "", False
        priorities = [self._priority(p) for p in d.priorities]
        compiled = CompiledPass(d.name, kind, -1, alternatives, priorities, list(d.prefixes), dataflow)
        if d.kind == "choose":
            compiled.function = self.assembler.function_number(d.cost)
            compiled.normal = self._normalising(d)
            compiled.fuel = d.fuel or USUAL_FUEL
        return compiled

    def _normalising(self, d: syntax.Pass) -> str:
        """The pass that normalises the candidates of a choose pass; empty where they stay as they are."""
        name = _normalising_name(d)
        if name and all(compiled.name != name for compiled in self.assembler.passes):
            self.library.running = name
            pairs = [pair for used in d.uses for pair in self.rules_of(used, d.span)]
            alternatives: list[Alternative] = []
            for owner, rule in in_order(each_once(pairs)):
                alternatives.extend(self.rules.compile(owner, rule))
            self.assembler.passes.append(CompiledPass(name, 0, -1, alternatives, [], []))
            self.library.running = ""
        return name

    def _default_spellings(self) -> list[Alternative]:
        """An op with a `c` spelling in the op table needs no rule in a render pass."""
        found: list[Alternative] = []
        for op in self.library.table.ops.values():
            if op.declaration.spelling is not None:
                found.extend(self._unswapped(self.rules.compile("ops", spelling_rule(op.declaration))))
        return found

    @staticmethod
    def _unswapped(alternatives: list[Alternative]) -> list[Alternative]:
        return alternatives[:1]

    def _priority(self, p: syntax.Priority) -> tuple[str, int, object, int]:
        if not p.attributes:
            return p.op, -1, None, p.value
        attribute = p.attributes[0]
        declared = list(self.library.table.ops[p.op].attributes)
        value = attribute.value
        if not isinstance(value, (syntax.Literal, syntax.Name)):
            raise problem("a priority's attribute must be a literal, an op or a dtype", attribute.span)
        constant: object = value.value if isinstance(value, syntax.Literal) else None
        if isinstance(value, syntax.Name):
            constant = OpName(value.name) if value.name in self.library.table.ops else DtypeName(value.name)
        return p.op, declared.index(attribute.name or declared[0]), constant, p.value


_Owned = tuple[str, syntax.Rule]


def _normalising_name(d: syntax.Pass) -> str:
    return f"rules {' + '.join(d.uses)}" if d.uses else ""


def in_order(rules: Sequence[_Owned], shuffle: random.Random | None = None) -> list[_Owned]:
    """Rules with the names of their sets in file order; `before`, `after` and `fallback` are respected.

    They may be shuffled within their sets: the order of the sets is declared by those who name them.
    """
    given = list(rules)
    if shuffle is not None:
        sets = list(dict.fromkeys(owner for owner, _ in rules))
        shuffle.shuffle(given)
        given.sort(key=lambda pair: sets.index(pair[0]))
    waiting = sorted(given, key=lambda pair: has_clause(pair[1], "fallback"))
    follows = _follows(waiting)
    if not any(follows.values()):
        return waiting
    names = Counter(map(_name, waiting))
    result: list[_Owned] = []
    while waiting:
        free = (k for k, pair in enumerate(waiting) if not any(names[other] for other in follows[_name(pair)]))
        ready = next(free, None)
        if ready is None:
            message = "`before` and `after` contradict each other among " + ", ".join(sorted(set(map(_name, waiting))))
            raise problem(message, waiting[0][1].span)
        result.append(waiting.pop(ready))
        names[_name(result[-1])] -= 1
    return result


def each_once(rules: Sequence[_Owned]) -> list[_Owned]:
    """Rules that several ways lead to stay at their first place."""
    return list({(owner, id(rule)): (owner, rule) for owner, rule in rules}.values())


def _name(pair: _Owned) -> str:
    return f"{pair[0]}.{pair[1].name}"


def _follows(rules: Sequence[_Owned]) -> dict[str, set[str]]:
    """For each rule, those that come before it."""
    follows: dict[str, set[str]] = {_name(pair): set() for pair in rules}
    for owner, rule in rules:
        own = f"{owner}.{rule.name}"
        for clause in rule.clauses:
            for name in clause.names if clause.keyword in ("before", "after") else ():
                other = name if "." in name else f"{owner}.{name}"
                if other == own or other not in follows:
                    continue
                earlier, later = (own, other) if clause.keyword == "before" else (other, own)
                follows[later].add(earlier)
    return follows
