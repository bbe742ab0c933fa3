"""Proofs: a rule's pattern made of symbols, its clauses as hypotheses, and z3 asked for a difference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import z3

from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import Library
from rulegrad.lang.walk import expressions_in, parts_of
from rulegrad.workbench.proof.dtypes import Choice, Dtypes
from rulegrad.workbench.proof.encoding import Encoding
from rulegrad.workbench.proof.evaluation import Constant, Evaluation
from rulegrad.workbench.proof.matching import Instances, NoInstanceError
from rulegrad.workbench.proof.meaning import Meaning
from rulegrad.workbench.proof.plain import plain_rules
from rulegrad.workbench.proof.questions import ask, contradiction
from rulegrad.workbench.proof.values import (
    CasesError,
    DtypeName,
    Exact,
    Node,
    OpName,
    StructuralError,
    UndefinedError,
    UntranslatableError,
)

EFFORT = 600_000
#: Why a rule is not proved where its formulas differ for some values.
DIFFERENCE = "z3 found a difference"
_MOST_CASES = 4096
_LEAST_TELLING = ("refuted", "unknown")
_PATIENCE = 4  # choices of ops and dtypes in a row that z3 gives up on before the others are not tried


class Found(NamedTuple):
    """The value of a variable for which both sides differ, and the interval that it has there."""

    value: int
    low: int
    high: int
    dtype: str


@dataclass(slots=True)
class Attempt:
    """The result of trying to prove a rule, for one choice of its ops and dtypes.

    verdict: proved, refuted (the values found may still not be a counterexample), unknown, never (it cannot fire).
    """

    verdict: str
    reason: str = ""
    bounded: bool = False
    asked: bool = False  # whether z3 gave up on it
    dropped: bool = False  # whether a guard was left out, so that a counterexample may not fire
    ops: Mapping[str, str] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    model: dict[str, int] = field(default_factory=dict)  # values of constants for which a difference was found
    variables: dict[str, Found] = field(default_factory=dict)  # the same of variables
    pattern: syntax.Expression | None = None  # with the dtypes that its parts have
    choice: tuple[Dtypes, Choice] | None = None

    @property
    def has_float(self) -> bool:
        return any(as_dtype(d).is_float for d in self.dtypes)


@dataclass(slots=True)
class Prover:
    """Proves the rules of a library of declarations. effort: the steps of z3 for one question, on every machine."""

    library: Library
    effort: int = EFFORT

    def attempts(self, rule: syntax.Rule) -> Iterator[Attempt]:
        """An attempt for each choice of ops and dtypes that the rule's pattern admits."""
        for plain in plain_rules(rule, self.library.views):
            yield from self._attempts(plain)

    def _attempts(self, rule: syntax.Rule) -> Iterator[Attempt]:
        table = self.library.table
        told_apart = _members_told_apart(rule)
        kinds = {g.name: table.resolve_generic(g.classes) for g in rule.generics}
        dtype_generics = {name: names for name, (kind, names) in kinds.items() if kind == "dtype"}
        pools = {name: table.declared_order(names) for name, (kind, names) in kinds.items() if kind == "op"}
        given_up = 0
        for chosen in itertools.product(*pools.values()):
            ops = dict(zip(pools, chosen, strict=True))
            dtypes = Dtypes(table, ops, dtype_generics)
            dtypes.infer(rule.pattern)
            for choice in sorted(dtypes.choices(), key=_has_float):
                try:
                    attempt = self._attempt(rule, ops, dtypes, choice)
                except StructuralError as reason:
                    yield Attempt("unknown", str(reason))
                    return
                if attempt.bounded and attempt.verdict == "proved" and told_apart:
                    attempt.verdict = "unknown"
                    attempt.reason = f"it tells the members of `{told_apart}` apart, and was proved for up to three"
                yield attempt
                given_up = given_up + 1 if attempt.verdict == "unknown" else 0
                if given_up == _PATIENCE:
                    return

    def _attempt(self, rule: syntax.Rule, ops: Mapping[str, str], dtypes: Dtypes, choice: Choice) -> Attempt:
        used = tuple(dict.fromkeys(choice.values()))
        if any(as_dtype(d).is_complex for d in used):
            return Attempt("unknown", "complex numbers have no meaning in logic here", ops=ops, dtypes=used)
        mixed = "index" in used and any(as_dtype(d).kind in ("int", "uint") for d in used)
        encodings = [Encoding(mixed, opaque=True), Encoding(mixed)] + ([] if mixed else [Encoding(True)])
        if "index" in used:
            encodings.append(Encoding(words=True))
        failed: list[Attempt] = []
        for encoding in encodings[: 2 if any(as_dtype(d).is_float for d in used) else None]:
            attempt = Attempt("never", ops=ops, dtypes=used, pattern=rule.pattern, choice=(dtypes, choice))
            try:
                self._cases(_Question(self, rule, ops, dtypes, choice, encoding, attempt), {}, 0)
            except StructuralError:
                raise
            except UntranslatableError as reason:
                attempt.verdict, attempt.reason = "unknown", str(reason)
            if attempt.verdict in ("proved", "never"):
                return attempt
            failed.append(attempt)
        return min(failed[1:], key=lambda attempt: _LEAST_TELLING.index(attempt.verdict) - attempt.asked)

    def _cases(self, question: _Question, cases: dict[str, Any], count: int) -> None:
        """Asks the question, by cases where that is wanted; the attempt has the worst verdict of all."""
        if count > _MOST_CASES:
            raise UntranslatableError("too many cases")
        try:
            question.ask(cases)
        except CasesError as split:
            if split.name in cases:
                raise UntranslatableError(f"two proofs by cases of {split.name}") from None
            for case in (*split.values, split.values):
                if question.attempt.verdict in ("never", "proved"):
                    self._cases(question, {**cases, split.name: case}, count + 1)


def _members_told_apart(rule: syntax.Rule) -> str:
    """The name of a chain's other members where a rule looks at their places or number; "" where it does not.

    A rule that gives all of them to another chain, or does the same with each, means the same for any number of them.
    """
    chains = [x for x in expressions_in(rule.pattern) if isinstance(x, syntax.Multiset)]
    others = [item.inner for x in chains for item in x.items if isinstance(item, syntax.Splice)]
    names = {x.name for x in others if isinstance(x, syntax.Name)}
    each = [(clause.keyword == "for", clause.expression) for clause in rule.clauses if clause.expression is not None]
    for is_of_each, root in [(False, rule.template), *each]:
        if isinstance(root, syntax.Name) and root.name in names and not is_of_each:
            return root.name
        for x in expressions_in(root):
            for part in parts_of(x):
                whole = part.inner if isinstance(part, syntax.Splice) else part
                is_uniform = isinstance(x, syntax.Multiset) if part is not whole else isinstance(x, syntax.Splice)
                is_uniform |= isinstance(x, syntax.Comprehension) and part is x.iterable
                if isinstance(whole, syntax.Name) and whole.name in names and not is_uniform:
                    return whole.name
    return ""


@dataclass(slots=True)
class _Question:
    """A rule for one choice of ops and dtypes."""

    prover: Prover
    rule: syntax.Rule
    ops: Mapping[str, str]
    dtypes: Dtypes
    choice: Choice
    encoding: Encoding
    attempt: Attempt

    def ask(self, cases: Mapping[str, Any]) -> None:
        library = self.prover.library
        self.encoding.axioms.clear()
        evaluation = Evaluation(library, Meaning(library.table, self.encoding))
        names: dict[str, Any] = {name: OpName(op) for name, op in self.ops.items()}
        names |= {name: DtypeName(self.choice[u.root()]) for name, u in self.dtypes.variables.items()}
        instances = Instances(evaluation, self.dtypes, self.choice, cases)
        try:
            made = list(instances.of(self.rule.pattern, names))
        except NoInstanceError:
            return
        self.attempt.bounded |= instances.bounded
        for root, bound in made:
            evaluation.like, evaluation.holds, evaluation.path = root.dtype, [], []
            try:
                self._compare(evaluation, root, bound)
            except UndefinedError:
                continue

    def _compare(self, e: Evaluation, root: Node, names: dict[str, Any]) -> None:
        for node, inner in names.pop(" computed", ()):
            e.require(e.operator("==", node.value, e.evaluate(inner, names, False), False))
        for clause in self.rule.clauses:
            if clause.keyword == "let":
                names = e.bind(clause, names)
            elif clause.keyword == "if" and clause.expression is not None:
                self._guard(e, clause.expression, names)
        result = e.lift(e.evaluate(self.rule.template, names, True), root.dtype)
        if result.dtype != root.dtype:
            raise UntranslatableError(f"the result is {result.dtype}, not {root.dtype}")
        self._solve(e, root, result, names)

    def _guard(self, e: Evaluation, x: syntax.Expression, names: Mapping[str, Any]) -> None:
        """A part of a guard that has no meaning in logic is left out: then more is proved than is needed."""
        if isinstance(x, syntax.Infix) and x.operator == "and":
            self._guard(e, x.left, names)
            self._guard(e, x.right, names)
            return
        try:
            e.require(e.evaluate(x, names, False))
        except UntranslatableError as reason:
            e.path.clear()
            self.attempt.dropped = True
            self.attempt.reason = self.attempt.reason or str(reason)

    def _solve(self, e: Evaluation, root: Node, result: Node, names: Mapping[str, Any]) -> None:
        valid = [z3.BoolVal(n.valid) if isinstance(n.valid, bool) else n.valid for n in (root, result)]
        different = z3.BoolVal(False) if root.term.eq(result.term) else root.term != result.term
        differs = z3.And(valid[0], z3.Or(z3.Not(valid[1]), different))
        hypotheses = [*e.meaning.facts, *e.meaning.encoding.axioms, *e.holds]
        answer, model = contradiction(hypotheses, differs, self.prover.effort)
        if answer == z3.unsat:
            if self.attempt.verdict == "never" and ask(hypotheses, self.prover.effort) != z3.unsat:
                self.attempt.verdict = "proved"
        elif answer == z3.sat:
            self.attempt.verdict = "refuted"
            self.attempt.reason = self.attempt.reason or DIFFERENCE
            self.attempt.model = _constants(model, names)
            self.attempt.variables = _variables(model, names, e)
        elif self.attempt.verdict != "refuted":
            self.attempt.verdict, self.attempt.asked = "unknown", True
            self.attempt.reason = f"z3 gave up after {self.prover.effort} steps"


def _has_float(choice: Choice) -> bool:
    return any(as_dtype(dtype).is_float for dtype in choice.values())


def _constants(model: Any, names: Mapping[str, Any]) -> dict[str, int]:
    """The values of the constants of a pattern in a model."""
    found: dict[str, int] = {}
    for name, bound in names.items():
        if isinstance(bound, Constant) and isinstance(bound.node, Node):
            term = bound.node.value.term if isinstance(bound.node.value, Exact) else bound.node.term
            value = _number(model.eval(term), is_signed=True)
            if value is not None:
                found[name] = value
    return found


def _variables(model: Any, names: Mapping[str, Any], e: Evaluation) -> dict[str, Found]:
    """The values of the variables of a pattern in a model; floats have none."""
    found: dict[str, Found] = {}
    for name, bound in names.items():
        if isinstance(bound, Node) and not bound.op:
            is_signed = as_dtype(bound.dtype).kind != "uint"
            value = _number(model.eval(bound.term, model_completion=True), is_signed)
            ends = (end.term for end in e.bounds.get(id(bound), ())[1:] if isinstance(end, Exact))
            bounds = [_number(model.eval(end, model_completion=True), True) for end in ends]
            if value is not None:
                known = [end for end in bounds if end is not None]
                low, high = known if len(known) == 2 else (value, value)
                found[name] = Found(value, min(low, value), max(high, value), bound.dtype)
    return found


def _number(value: Any, is_signed: bool) -> int | None:
    """A number of a model; None for what is no number."""
    if z3.is_bv_value(value):
        return int(value.as_signed_long() if is_signed else value.as_long())
    if z3.is_int_value(value):
        return int(value.as_long())
    return bool(z3.is_true(value)) if z3.is_true(value) or z3.is_false(value) else None
