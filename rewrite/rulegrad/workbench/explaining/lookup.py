"""Finding the rule that is asked about: where it stands, which passes have it, and why a target may lack it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rulegrad import engine
from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.compiler.rules import RuleCompiler
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.parser import parse_file
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.rule_tests import OwnedRule


@dataclass(frozen=True, slots=True)
class Found(OwnedRule):
    """A rule that was found.

    function: what it is a line of, if not of a set: a function (with its further parameters), a fact or a state.
    """

    function: str = ""
    parameters: tuple[str, ...] = ()
    in_pass: bool = False


def all_rules(files: Sequence[syntax.File]) -> Iterator[Found]:
    """Every rule of rule sets, passes and functions; `fact` and `send` lines too."""
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.Ruleset | syntax.Pass):
            yield from (Found(declaration.name, rule) for rule in declaration.rules)
        if isinstance(declaration, syntax.Pass):
            name = declaration.name
            yield from (Found(name, fact.rule, fact.name, in_pass=True) for fact in declaration.facts)
            for send in declaration.sends:
                yield Found(name, send.rule, send.state or declaration.states[0].name, in_pass=True)
        if isinstance(declaration, syntax.Function):
            for rule in declaration.rules:
                yield Found(declaration.name, rule, declaration.name, declaration.parameters[1:])


def find_rule(files: Sequence[syntax.File], name: str) -> Found:
    """The rule of that name, `SET.RULE` or `RULE`. Raises RuleError when there is none, or more than one."""
    known = list(all_rules(files))
    matching = [found for found in known if name in (found.name, found.rule.name)]
    if not matching and (by := switched_off_by(name)):
        raise RuleError(f"the rule `{name}` is switched off by the line `off` at {by.file}:{by.line}")
    if not matching:
        hint = did_you_mean(name, [found.name if "." in name else found.rule.name for found in known])
        raise RuleError(f"no rule is called `{name}`" + (f"; {hint}" if hint else ""))
    if len({found.name for found in matching}) > 1:
        names = ", ".join(f"{found.name} ({found.location})" for found in matching)
        raise RuleError(f"several rules are called `{name}`: {names}; give the name with its set")
    return matching[-1]


def switched_off_by(name: str) -> syntax.Span | None:
    """The line of a user's file that takes a rule out."""
    sources = engine.loaded().sources
    files = [parse_file(text, path) for path, text in sources.texts if path in sources.user]
    for declaration in (d for f in files for d in f.declarations):
        if isinstance(declaration, syntax.RulesOff) and any(
            name in (known, known.partition(".")[2]) for known in declaration.names
        ):
            return declaration.span
    return None


#: The rule sets that rules of a pass ask for, by its name, until the rules in force change.
_rewritten: dict[str, list[str]] = {}
engine.on_change(_rewritten.clear)


def passes_with(compiler: ProgramCompiler, found: Found) -> list[syntax.Pass]:
    """The passes that try a rule; every pass, for a rule of a function."""
    if found.in_pass:
        return [d for d in compiler.passes if d.name == found.owner]
    if found.function:
        return [d for d in compiler.passes if d.kind != "reverse" or found.function in d.uses]
    return [d for d in compiler.passes if _has(compiler, d, found)]


def _has(compiler: ProgramCompiler, d: syntax.Pass, found: Found) -> bool:
    return d.kind != "reverse" and bool(trying_passes(compiler, d, found))


def trying_passes(compiler: ProgramCompiler, d: syntax.Pass, found: Found) -> list[str]:
    """The compiled passes that try a rule while a pass runs: it, what normalises candidates, what `rewritten` runs."""
    own = found.rule in d.rules and d.name == found.owner
    names = [d.name] if own or (d.kind != "choose" and _in_sets(compiler, d, d.uses, found)) else []
    if d.kind == "choose" and _in_sets(compiler, d, d.uses, found):
        names.append(f"rules {' + '.join(d.uses)}")
    if d.name not in _rewritten:
        _rewritten[d.name] = sorted(_rewritten_sets(compiler, d))
    for name in _rewritten[d.name]:
        if name in compiler.rulesets and _in_sets(compiler, d, (name,), found):
            names.append(f"rules {name}")
    return list(dict.fromkeys(names))


def _in_sets(compiler: ProgramCompiler, d: syntax.Pass, sets: Sequence[str], found: Found) -> bool:
    return any((found.owner, found.rule) in compiler.rules_of(name, d.span) for name in sets)


def _rewritten_sets(compiler: ProgramCompiler, d: syntax.Pass) -> set[str]:
    """The rule sets that rules of a pass ask for, themselves or by functions and definitions."""
    rules = [*d.rules, *(rule for name in d.uses if d.kind != "reverse" for _, rule in compiler.rules_of(name, d.span))]
    waiting: list[syntax.Expression] = [x for rule in rules for x in _expressions(rule)]
    sets: set[str] = set()
    seen: set[str] = set()
    while waiting:
        for call in expressions_in(waiting.pop()):
            if not isinstance(call, syntax.Call):
                continue
            name = call.function
            if name == "rewritten" and isinstance(call.arguments[-1], syntax.Name):
                sets.add(call.arguments[-1].name)
            elif name not in seen:
                seen.add(name)
                if name in compiler.library.functions:
                    waiting.extend(x for rule in compiler.library.functions[name].rules for x in _expressions(rule))
                if name in compiler.library.definitions:
                    found = compiler.library.definitions[name]
                    waiting.extend([found.body, *(c.expression for c in found.lets if c.expression is not None)])
    return sets


def _expressions(rule: syntax.Rule) -> list[syntax.Expression]:
    return [rule.template, *(c.expression for c in rule.clauses if c.expression is not None)]


def unmet_need(rules: RuleCompiler, rule: syntax.Rule) -> syntax.Clause | None:
    """The first `needs` that leaves a rule out; None when it is not left out."""
    needs = [clause for clause in rule.clauses if clause.keyword == "needs"]
    for count, clause in enumerate(needs, 1):
        if rules.generics(replace(rule, clauses=tuple(needs[:count]))) is None:
            return clause
    return None
