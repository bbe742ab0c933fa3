"""Rules at work: compiled for one target, each on its own and in the passes that use it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from rulegrad._core import Program
from rulegrad.errors import GraphError, RewriteError, RuleError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler, each_once, in_order
from rulegrad.lang.compiler.scope import Generics
from rulegrad.workbench.analysis.asked import Asked
from rulegrad.workbench.analysis.cells import Cell, Contradiction, Opaque, below, infer
from rulegrad.workbench.analysis.instances import Maker, retyped, texts_of
from rulegrad.workbench.analysis.lowering import way_of
from rulegrad.workbench.analysis.sketches import Sketch
from rulegrad.workbench.rule_tests import RuleTests

_FUEL = 20_000
_LITTLE_FUEL = 1_000  # for a pass that is known not to end: many nodes would each burn all of it
_SKETCHES = 24  # instances out of cells that are tried for each rule
_ENOUGH = 8  # of them that a rule fires on


Key = int  #: a rule and what its variables range over: the same for another target


@dataclass(eq=False, slots=True)
class Subject:
    """A rule as it is for a target: with its variables narrowed, its instances, and what it may meet."""

    owner: str
    rule: syntax.Rule
    generics: Generics
    number: int
    name: str
    key: Key
    instances: list[UOp] = field(default_factory=list)  # nodes that it fires on
    sketch: Sketch | None = None  # None: cells cannot say what it matches
    cell: Cell | None = None
    contradictory: bool = False  # its pattern matches nothing
    alone: bool = False  # compiled into a pass of its own


@dataclass(eq=False, slots=True)
class PassRules:
    """The rules of a rewriting pass, of a rule set, or another list (a function's, say), in the order of trying."""

    name: str
    direction: str  # children_first, parents_first, walk; or set, list, choose (actions: all are tried)
    subjects: list[Subject]
    tensors: bool = False


class Samples:
    """Nodes that rules fire on, found once for all targets.

    asked: the rules of which they are found; tests: their test lines.
    """

    def __init__(self, asked: Asked, tests: RuleTests) -> None:
        self.asked = asked
        self.texts = texts_of(tests.files)
        self.tests: dict[tuple[str, str], list[UOp]] = {}  # left sides of tests, by rule set and rule
        self.found: dict[Key, list[UOp]] = {}
        self.endless: set[str] = set()  # passes that did not end on some node, whatever the target
        self._keys: dict[tuple[object, ...], Key] = {}
        for case in tests.cases:
            if not case.function and not case.test.target:
                try:
                    self.tests.setdefault((case.owner, case.rule.name), []).append(tests.left(case))
                except RuleError:
                    continue

    def key(self, owner: str, rule: syntax.Rule, generics: Generics) -> Key:
        """The number of a rule whose variables are narrowed so."""
        variables = (*generics.ops.items(), *generics.dtypes.items())
        return self._keys.setdefault((owner, rule.name, rule.span.line, variables), len(self._keys))


def _alternatives(of: syntax.Pass) -> list[tuple[str, str, tuple[syntax.Rule, ...], tuple[str, ...]]]:
    """(name, owner, rules, parameters) of what a collect or flow pass tries in order: rules, facts, states' sends."""
    found: dict[str, list[syntax.Rule]] = {of.name: list(of.rules)}
    for fact in of.facts:
        found.setdefault(f"the fact {fact.name} of {of.name}", []).append(fact.rule)
    for send in of.sends:
        state = send.state or of.states[0].name
        found.setdefault(f"the state {state} of {of.name}", []).append(send.rule)
    return [(name, of.name, tuple(rules), ()) for name, rules in found.items()]


def _rules(compiler: ProgramCompiler, of: syntax.Pass) -> list[tuple[str, syntax.Rule]]:
    """(owner, rule) of the rules of a pass, also of its facts and sends, and of its rule sets."""
    found = [(of.name, rule) for rule in (*of.rules, *(fact.rule for fact in of.facts), *(s.rule for s in of.sends))]
    for name in of.uses if of.kind != "reverse" else ():
        found.extend(compiler.rules_of(name, of.span))
    return found


def _ops(subject: Subject) -> frozenset[str]:
    """The ops that its pattern names; empty where that is not known."""
    cells = [] if subject.cell is None else below(subject.cell)
    return frozenset[str]().union(*(cell.ops.root().names for cell in cells if cell.ops is not None))


class Laboratory:
    """All rewriting rules of some files for one target (None: everything is there, nothing is lowered)."""

    def __init__(self, files: Sequence[syntax.File], target: syntax.Target | None, samples: Samples) -> None:
        self.files = files
        self.target = target
        self.samples = samples
        self.texts = samples.texts
        self.asked = samples.asked
        compiler = ProgramCompiler(files, target, False)
        compiler.compile(self._needed(compiler))
        self.table = compiler.library.table
        declarations = [d for f in files for d in f.declarations]
        self.views = {d.name: d for d in declarations if isinstance(d, syntax.View)}
        schedule = {s for d in declarations if isinstance(d, syntax.Pipeline) and d.name == "schedule" for s in d.steps}
        self.subjects: dict[tuple[str, str, int], Subject] = {}
        self.passes: list[PassRules] = []
        self.sets: list[PassRules] = []  # rule sets as if each were a pass
        for declaration in compiler.passes:
            if declaration.kind == "rewrite" and self._looked_at(pairs := _rules(compiler, declaration)):
                found = self._subjects(compiler, pairs)
                self.passes.append(
                    PassRules(declaration.name, declaration.direction, found, declaration.name in schedule)
                )
        for name, ruleset in compiler.rulesets.items():
            if not self._looked_at(pairs := compiler.rules_of(name, ruleset.span)):
                continue
            self.sets.append(PassRules(name, "set", self._subjects(compiler, pairs)))
        listed = [(f.name, f.name, f.rules, f.parameters[1:]) for f in compiler.library.functions.values()]
        listed += [entry for d in compiler.passes if d.kind in ("collect", "flow") for entry in _alternatives(d)]
        self.lists = [
            PassRules(name, "list", self._subjects(compiler, [(owner, rule) for rule in rules], parameters))
            for name, owner, rules, parameters in listed
        ]
        for declaration in compiler.passes:
            if declaration.kind == "choose":
                found = self._subjects(compiler, [(declaration.name, rule) for rule in declaration.rules])
                self.lists.append(PassRules(declaration.name, "choose", found))
        for subject in self._alone():
            compiler.add_alone(f"rule {subject.number}", subject.owner, subject.rule)
        self.program = Program(compiler.serialize())
        self._find_instances(samples)

    def _needed(self, compiler: ProgramCompiler) -> list[str]:
        """The passes that have a rule that is asked about, and those that lower one node for the target."""
        lowering = way_of(self.files, self.target, self.asked) if self.target is not None else ()
        return [d.name for d in compiler.passes if d.name in lowering or self._looked_at(_rules(compiler, d))]

    def _looked_at(self, rules: Sequence[tuple[str, syntax.Rule]]) -> bool:
        """Whether one of the rules is asked about; the others of its list are looked at for its sake."""
        return any(rule in self.asked for _, rule in rules)

    def _subjects(
        self,
        compiler: ProgramCompiler,
        pairs: Sequence[tuple[str, syntax.Rule]],
        parameters: tuple[str, ...] | None = None,
    ) -> list[Subject]:
        """The rules that the target admits; each is to be compiled into a pass of its own, unless it has parameters."""
        found = []
        for owner, rule in in_order(each_once(pairs)):
            key = (owner, rule.name, rule.span.line)
            if key not in self.subjects:
                generics = compiler.rules.generics(rule)
                if generics is None:
                    continue
                name, number = f"{owner}.{rule.name}", self.samples.key(owner, rule, generics)
                subject = Subject(owner, rule, generics, len(self.subjects), name, number)
                self._draw(subject)
                subject.alone = parameters is None and not isinstance(rule.template, syntax.Text)
                self.subjects[key] = subject
            found.append(self.subjects[key])
        return found

    def _alone(self) -> list[Subject]:
        """The rules that are tried alone: those that are asked about, and those with an op in common with one."""
        able = [subject for subject in self.subjects.values() if subject.alone]
        mine = [subject for subject in able if subject.rule in self.asked]
        if len(mine) == len(able):
            return able
        ops = frozenset[str]().union(*map(_ops, mine))
        for subject in able:
            subject.alone = subject.rule in self.asked or not _ops(subject) or bool(_ops(subject) & ops)
        return [subject for subject in able if subject.alone]

    def pair(self, earlier: Subject, later: Subject) -> tuple[Subject, Subject] | None:
        """Two rules with a problem, the one at which it is reported last; None where neither is asked about."""
        if later.rule in self.asked:
            return earlier, later
        return (later, earlier) if earlier.rule in self.asked else None

    # ---- instances ----

    def _find_instances(self, samples: Samples) -> None:
        """For each rule: its tests' left sides, the same in other dtypes, and instances of its pattern."""
        tensors = {id(s) for p in self.passes if p.tensors for s in p.subjects}
        for subject in self.subjects.values():
            if not subject.alone or subject.rule not in self.asked:
                continue
            if subject.key not in samples.found:
                given = samples.tests.get((subject.owner, subject.rule.name), [])
                nodes = [*given, *(other for node in given for other in self._retyped(node))]
                found = [node for node in dict.fromkeys(nodes) if self.fires(subject, node)]
                samples.found[subject.key] = found + self._made(subject, set(found), id(subject) in tensors)
            subject.instances = samples.found[subject.key]

    def _made(self, subject: Subject, known: set[UOp], tensors: bool) -> list[UOp]:
        """Nodes of the pattern's form that the rule fires on."""
        numbers = random.Random(subject.name)
        found: list[UOp] = []
        for _ in range(_SKETCHES):
            node = self.instance(subject, numbers, tensors)
            if node is not None and node not in known and self.fires(subject, node):
                known.add(node)
                found.append(node)
                if len(found) == _ENOUGH:
                    break
        return found

    def _retyped(self, node: UOp) -> list[UOp]:
        used = dict.fromkeys(str(item.dtype) for item in node.toposort())
        made = [
            retyped(node, before, after)
            for before in used
            for after in self.table.dtypes
            if before not in ("void", "bool", "index") and after not in ("void", before)
            if (self.table.kind(before) == "complex") == (self.table.kind(after) == "complex")
        ]
        return [item for item in made if item is not None]

    def _draw(self, subject: Subject) -> None:
        """The cells of the rule's pattern, with nothing chosen."""
        sketch = Sketch(self.table, subject.generics, self.views)
        try:
            cell = sketch.pattern(subject.rule.pattern)
            infer(self.table, cell)
        except Opaque:
            return
        except Contradiction:
            subject.contradictory = True
            return
        subject.sketch, subject.cell = sketch, cell.root()

    def drawn(self, subject: Subject, numbers: random.Random) -> Cell:
        """The cells of the rule's pattern, with orders and lengths chosen. Raises Contradiction, Opaque."""
        return Sketch(self.table, subject.generics, self.views, numbers.randrange).pattern(subject.rule.pattern)

    def instance(self, subject: Subject, numbers: random.Random, tensors: bool) -> UOp | None:
        """A node of the pattern's form."""
        try:
            cell = self.drawn(subject, numbers)
            return Maker(self.table, self.texts, numbers, tensors).make(cell)
        except (Contradiction, Opaque, GraphError, OverflowError):
            return None

    # ---- the engine ----

    def apply(self, subject: Subject, node: UOp) -> UOp | None:
        """The rule alone on one node; None when it does not fire. Raises RewriteError where its template fails."""
        return self.program.apply(f"rule {subject.number}", node)

    def fires(self, subject: Subject, node: UOp) -> bool:
        try:
            return self.apply(subject, node) is not None
        except (RewriteError, GraphError):
            return True

    def normal(self, of: PassRules, node: UOp) -> UOp:
        """The pass's result for a node. Raises RewriteError when it does not end."""
        endless = self.samples.endless
        try:
            return self.program.rewrite(of.name, node, fuel=_LITTLE_FUEL if of.name in endless else _FUEL)[0]
        except RewriteError as error:
            if "did not end" in error.problem:
                endless.add(of.name)
            raise
