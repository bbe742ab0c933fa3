"""The functions and rules that use a function or a definition, also through others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.lang.walk import dataflow_rules, expressions_in


@dataclass(slots=True)
class Uses:
    """Who names whom, among the functions, definitions, views and rule sets of some files."""

    files: Sequence[syntax.File]
    _named: dict[str, frozenset[str]] = field(default_factory=dict)  # a name to what its rules or body name
    _users: dict[str, frozenset[str]] = field(default_factory=dict)
    _sets: frozenset[str] = frozenset()  # rule sets, which `rewritten` names

    def __post_init__(self) -> None:
        self._sets = frozenset(d.name for f in self.files for d in f.declarations if isinstance(d, syntax.Ruleset))
        for d in (d for f in self.files for d in f.declarations):
            if isinstance(d, syntax.Definition | syntax.Function | syntax.View | syntax.Ruleset | syntax.Pass):
                found = frozenset(name for x in _roots(d) for name in self._names(x))
                self._named[d.name] = self._named.get(d.name, frozenset()) | found

    def users(self, name: str) -> frozenset[str]:
        """The names of the declarations that use one, it among them."""
        if name not in self._users:
            found, waiting = {name}, [name]
            while waiting:
                one = waiting.pop()
                for user, named in self._named.items():
                    if one in named and user not in found:
                        found.add(user)
                        waiting.append(user)
            self._users[name] = frozenset(found)
        return self._users[name]

    def asks(self, rule: syntax.Rule, names: frozenset[str]) -> bool:
        """Whether a rule names one of these."""
        return any(name in names for x in _parts(rule) for name in self._names(x))

    def _names(self, x: syntax.Expression) -> Iterator[str]:
        for y in expressions_in(x):
            if isinstance(y, syntax.Call):
                yield y.function
            elif isinstance(y, syntax.Name) and y.name in self._sets:
                yield y.name


def _roots(d: syntax.Declaration) -> Iterator[syntax.Expression]:
    match d:
        case syntax.Definition():
            yield d.body
            yield from (c.expression for c in d.lets if c.expression is not None)
        case syntax.View():
            for case in d.cases:
                yield case.expression
                yield from (x for _, x in case.values)
        case syntax.Function() | syntax.Ruleset() | syntax.Pass():
            for rule in (*d.rules, *dataflow_rules(d)):
                yield from _parts(rule)


def _parts(rule: syntax.Rule) -> Iterator[syntax.Expression]:
    yield rule.pattern
    yield from (c.expression for c in rule.clauses if c.expression is not None)
    if not isinstance(rule.template, syntax.Text):
        yield rule.template
