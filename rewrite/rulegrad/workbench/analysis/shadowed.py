"""Rules that an earlier one of the same pass leaves nothing to match: it is as general, and its guards are theirs."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import location
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.analysis.candidates import Candidates
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.generality import canonical, conditions, covers
from rulegrad.workbench.analysis.laboratory import Key, Laboratory, PassRules, Subject


class Shadows:
    """Collects, over several targets, which rules are shadowed wherever they are active."""

    def __init__(self) -> None:
        self._shadowed: dict[tuple[str, syntax.Span], dict[syntax.Span, Subject]] = {}
        self._subjects: dict[tuple[str, syntax.Span], Subject] = {}
        #: by the list of rules and one of these, the others that do not shadow it, for a target that has both
        self._apart: dict[tuple[str, Key], set[Key]] = {}

    def add(self, laboratory: Laboratory) -> None:
        """Looks at the passes, rule sets, functions, actions and what passes gather, of one target."""
        known: dict[tuple[int, int], bool] = {}
        for of in (*laboratory.passes, *laboratory.sets, *laboratory.lists):
            if not any(subject.rule in laboratory.asked for subject in of.subjects):
                continue
            candidates = Candidates([subject.cell for subject in of.subjects])
            for place, later in enumerate(of.subjects):
                if later.rule in laboratory.asked:
                    self._add(laboratory, of, later, _before(laboratory, of, candidates, place), known)

    def _add(
        self,
        laboratory: Laboratory,
        of: PassRules,
        later: Subject,
        before: Sequence[Subject],
        known: dict[tuple[int, int], bool],
    ) -> None:
        """Notes which of the rules before a rule shadow it."""
        shadows = {}
        apart = self._apart.setdefault((of.name, later.key), set())
        for earlier in before:
            if earlier.key in apart:
                continue
            pair = (earlier.number, later.number)
            if pair not in known:
                known[pair] = _shadows(laboratory, of, earlier, later)
            if known[pair]:
                shadows[earlier.rule.span] = earlier
            else:
                apart.add(earlier.key)
        key = (of.name, later.rule.span)
        if key in self._shadowed:
            shadows = {span: s for span, s in self._shadowed[key].items() if span in shadows}
        self._shadowed[key] = shadows
        self._subjects[key] = later

    def report(self, findings: Findings) -> None:
        """Reports what was shadowed for every target that has the rule."""
        for key, shadows in self._shadowed.items():
            if shadows:
                _report(findings, key[0], next(iter(shadows.values())), self._subjects[key])


def _before(laboratory: Laboratory, of: PassRules, candidates: Candidates, place: int) -> list[Subject]:
    """The rules before one that may match all that it does; ours may come after a user's that says the same."""
    later = of.subjects[place]
    found = ((other, of.subjects[other]) for other in candidates.of(place) if other != place)
    return [s for at, s in found if at < place or (s.rule not in laboratory.asked and _alike(s, later))]


def _shadows(laboratory: Laboratory, of: PassRules, earlier: Subject, later: Subject) -> bool:
    a, b = earlier.cell, later.cell
    if a is None or b is None or earlier.sketch is None or later.sketch is None or not earlier.sketch.whole:
        return False
    if a.ops is not None and (b.ops is None or not b.ops.root().names <= a.ops.root().names):
        return False
    if of.direction == "list" and _may_fail(earlier.rule.template):
        return False
    for binding in covers(laboratory.table, a, b):
        wanted = conditions(later.rule, later.sketch.tokens())
        tokens = {name: binding.meaning(token) for name, token in earlier.sketch.tokens().items()}
        if of.direction == "choose":
            if conditions(earlier.rule, tokens) == wanted and _text(earlier) == _text(later):
                return True
        elif conditions(earlier.rule, tokens) <= wanted:
            if of.direction == "list":
                return True
            return bool(later.instances) and all(laboratory.fires(earlier, node) for node in later.instances)
    return False


def _may_fail(template: syntax.Expression) -> bool:
    """Whether a template computes something that may have no value: anything but names, literals and sequences."""
    computed = [item.inner for item in expressions_in(template) if isinstance(item, syntax.Compute)]
    plain = (syntax.Name, syntax.Literal, syntax.Sequence)
    return any(not isinstance(item, plain) for inner in computed for item in expressions_in(inner))


def _report(findings: Findings, name: str, earlier: Subject, later: Subject) -> None:
    notes = (f"{earlier.name} is at {location(earlier.rule.span)}",)
    same = _text(earlier) == _text(later)
    if same:
        message = f"`{later.rule.name}` says the same as {earlier.name}"
        findings.report("same-rule", message, later.rule.name_span, "delete one of them", notes)
        return
    message = (
        f"`{later.rule.name}` never fires in {name}: {earlier.name}, which is tried before it, matches all that it does"
    )
    hint = f"write `before {earlier.name}`, if it is a special case; or delete it"
    findings.report("shadowed-rule", message, later.rule.name_span, hint, notes)


def _alike(one: Subject, other: Subject) -> bool:
    return one.sketch is not None and other.sketch is not None and _text(one) == _text(other)


def _text(subject: Subject) -> str:
    """The rule with its names numbered in the order in which the pattern has them."""
    assert subject.sketch is not None
    numbers: dict[int, str] = {}
    tokens = {
        name: numbers.setdefault(id(token), f"name {len(numbers)}") for name, token in subject.sketch.tokens().items()
    }
    return canonical(subject.rule.template, tokens)
