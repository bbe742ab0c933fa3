"""The mutants of rules and definitions: each is one of them with one token changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rulegrad.lang import syntax
from rulegrad.lang.modules import plain
from rulegrad.lang.names import names_bound
from rulegrad.lang.walk import calls_in, expressions_in
from rulegrad.workbench.mutation.changes import Change, Changed, Changer, Place, Written, failing
from rulegrad.workbench.mutation.vocabulary import Vocabulary
from rulegrad.workbench.rule_tests import OwnedRule

_PATTERN = Place(pattern=True)
Owner = syntax.Ruleset | syntax.Pass | syntax.Function


@dataclass(frozen=True, slots=True)
class Subject(OwnedRule):
    """A rule of a rule set, pass or function; or a definition, as a rule without a pattern (`defined`)."""

    declaration: Owner | syntax.Definition

    @property
    def name(self) -> str:
        return plain(self.owner if self.defined else f"{self.owner}.{self.rule.name}")

    @property
    def defined(self) -> bool:
        """Whether it is a definition."""
        return isinstance(self.declaration, syntax.Definition)

    def changed(self, rule: syntax.Rule) -> Owner | syntax.Definition:
        """The declaration with another rule in the place of this one."""
        d = self.declaration
        if isinstance(d, syntax.Definition):
            return replace(d, lets=rule.clauses, body=rule.template)
        return replace(d, rules=tuple(rule if other is self.rule else other for other in d.rules))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one token changed."""

    change: Change
    rule: syntax.Rule


def subjects(files: Sequence[syntax.File]) -> list[Subject]:
    """The rules and definitions of some files that test lines may be about.

    Not among them: rules that give a text, which only a device can try; those that ask for the consumers of a node,
    which a test line does not have; records; and rules that the form of a function stands for.
    """
    found: list[Subject] = []
    for d in (d for f in files for d in f.declarations):
        if isinstance(d, syntax.Definition):
            if d.is_record:
                continue
            pattern = syntax.Name(d.span, "_")
            rule = syntax.Rule(d.name, (), pattern, d.body, d.lets, (), d.span)
            found.append(Subject(d.name, rule, d))
        elif isinstance(d, Owner):
            found.extend(Subject(d.name, rule, d) for rule in d.rules if _has_lines(rule))
    return found


def _has_lines(rule: syntax.Rule) -> bool:
    roots = (*(c.expression for c in rule.clauses if c.expression is not None), rule.template)
    is_text = isinstance(rule.template, syntax.Text)
    return not (is_text or rule.of_form or any("uses" in calls_in(root) for root in roots))


@dataclass(frozen=True, slots=True)
class Mutator:
    """Makes mutants."""

    words: Vocabulary
    written: Written
    failing: bool = False  # probes instead of mutants

    def probes(self, subject: Subject) -> dict[Change, syntax.Rule]:
        """For each change: the rule with something in its place (of a pattern: of the template) that has no value.

        Where that makes no difference, nothing that was tried depends on the place.
        """
        rule = subject.rule
        found = Mutator(self.words, self.written, failing=True).mutants(subject)
        never = replace(rule, template=failing(rule.template))
        matches = {m.change for m in found if m.rule.pattern is rule.pattern and m.rule.generics is rule.generics}
        return {m.change: m.rule if m.change in matches else never for m in found}

    def mutants(self, subject: Subject) -> list[Mutant]:
        """The mutants of a rule or definition, in the order of its text; no two of them read the same."""
        found = {mutant.change: mutant for mutant in self._mutants(subject)}
        return sorted(found.values(), key=lambda m: (m.change.span.line, m.change.span.column))

    def _mutants(self, subject: Subject) -> Iterator[Mutant]:
        rule = subject.rule
        names = self._bound(subject)
        if not subject.defined:
            for change, pattern in self._changer(names, rule).changes(rule.pattern, _PATTERN):
                yield Mutant(change, replace(rule, pattern=pattern))
            yield from self._generics(rule)
        for k, clause in enumerate(rule.clauses):
            if clause.keyword in ("if", "let", "for"):
                for change, new in self._clause(clause, names):
                    clauses = (*rule.clauses[:k], *new, *rule.clauses[k + 1 :])
                    yield Mutant(change, replace(rule, clauses=clauses))
            if clause.keyword in ("let", "for"):
                names = {**names, **dict.fromkeys(clause.names, "value")}
        for change, template in self._changer(names).changes(rule.template):
            yield Mutant(change, replace(rule, template=template))

    def _changer(self, names: dict[str, str], rule: syntax.Rule | None = None) -> Changer:
        count = Counter(x.name for x in expressions_in(rule.pattern) if isinstance(x, syntax.Name)) if rule else {}
        repeated = frozenset(name for name, times in count.items() if times > 1 and name in names)
        known = {name: kind for name, kind in names.items() if name != "_"}
        return Changer(self.words, self.written, known, repeated, self.failing)

    def _bound(self, subject: Subject) -> dict[str, str]:
        """The names before the clauses, each with its kind."""
        d, rule = subject.declaration, subject.rule
        if isinstance(d, syntax.Definition):
            return dict.fromkeys(d.parameters, "value")
        splices = [x.inner for x in expressions_in(rule.pattern) if isinstance(x, syntax.Splice)]
        inside = {x.name for inner in splices for x in expressions_in(inner) if isinstance(x, syntax.Name)}
        found: dict[str, str] = {}
        for name, is_const, _ in names_bound(self.words.table, rule.pattern):
            found[name] = ("consts" if is_const else "nodes") if name in inside else "const" if is_const else "node"
        for generic in rule.generics:
            found[generic.name] = self.words.table.resolve_generic(generic.classes)[0]
        if isinstance(d, syntax.Function):
            found.update(dict.fromkeys(d.parameters[1:], "value"))
        return found

    def _clause(self, clause: syntax.Clause, names: dict[str, str]) -> Changed:
        """The replacements of a clause: another one, or nothing."""
        x = clause.expression
        if x is None:
            return
        for change, new in self._changer(names).changes(x):
            yield change, (replace(clause, expression=new),)
        for change, new in self._whole_clause(clause, x, names):
            yield change, (replace(clause, expression=failing(x)),) if self.failing else new

    def _whole_clause(self, clause: syntax.Clause, x: syntax.Expression, names: dict[str, str]) -> Changed:
        text = self.written.text(x.span)
        if clause.keyword == "if":
            yield Change(clause.span, self.written.text(clause.span), ""), ()
            negated = syntax.Prefix(x.span, "not", x)
            yield Change(x.span, text, f"not ({text})"), (replace(clause, expression=negated),)
        elif clause.keyword == "for" and not (isinstance(x, syntax.Name) and x.name not in names):
            rest = syntax.Slice(x.span, x, syntax.Literal(x.span, 1), None)
            yield Change(x.span, text, f"{text}[1:]"), (replace(clause, expression=rest),)
        for k, (a, b) in enumerate(zip(clause.names, clause.names[1:], strict=False)):
            swapped = (*clause.names[:k], b, a, *clause.names[k + 2 :])
            yield Change(clause.span, f"{a}, {b}", f"{b}, {a}"), (replace(clause, names=swapped),)

    def _generics(self, rule: syntax.Rule) -> Iterator[Mutant]:
        """A member of a set that a variable ranges over is left out."""
        for k, generic in enumerate(rule.generics):
            for member in generic.classes if len(generic.classes) > 1 else ():
                narrower = replace(generic, classes=tuple(name for name in generic.classes if name != member))
                span = self.written.word(syntax.Span(*_start(generic.span)), member)
                generics = (*rule.generics[:k], narrower, *rule.generics[k + 1 :])
                yield Mutant(Change(span, member, ""), replace(rule, generics=generics))


def _start(span: syntax.Span) -> tuple[str, int, int, int, int]:
    return span.file, span.line, span.column, span.line, span.column
