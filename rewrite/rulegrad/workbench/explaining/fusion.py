"""Why a value is kept in memory, or computed where it is used: the rules that could store it, and their comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rulegrad import engine
from rulegrad.engine.selection import switched_off
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.walk import expressions_in
from rulegrad.workbench.explaining.conditions import Condition, conditions
from rulegrad.workbench.explaining.failing import Reader
from rulegrad.workbench.explaining.lookup import Found, all_rules
from rulegrad.workbench.explaining.naming import Namer
from rulegrad.workbench.explaining.question import Question, compiled
from rulegrad.workbench.explaining.runs import Attempt, Run, Subject

_STORES = "MATERIALIZE"  # the op that keeps its source in memory


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule's decision about the value, and at which node; conditions: its comparisons, as far as it came."""

    rule: str
    location: str
    pass_name: str
    at: str
    stores: bool
    conditions: tuple[Condition, ...]
    part: bool = False  # what is stored is a part of the value, which it is computed by

    def __str__(self) -> str:
        does = "parts of it are stored" if self.part else "stored" if self.stores else "not stored"
        lines = [f"{does} by {self.rule} ({self.location}) at {self.at}, in pass {self.pass_name}"]
        return "\n".join([*lines, *(f"    {condition}" for condition in self.conditions)])


@dataclass(frozen=True, slots=True)
class FusionExplanation:
    """The result for a value. gone: the pass after which it is not in the graph any more, or ""."""

    node: str
    target: str
    stored: bool
    decisions: tuple[Decision, ...]
    gone: str = ""
    graphs: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        said = "is kept in memory" if self.stored else "is computed where it is used"
        if self.gone:
            said = f"is not in the graph any more after pass {self.gone}"
        lines = [f"{self.node} {said}, for target {self.target}"]
        lines.extend(f"  {line}" for decision in self.decisions for line in str(decision).split("\n"))
        if not self.decisions and not self.gone:
            lines.append("  no rule that stores values compared costs of it: nothing repeats it or shares it")
        if any(condition.left for decision in self.decisions for condition in decision.conditions):
            lines.append("  costs are in nanoseconds, by the target's numbers")
        return "\n".join(lines)


def explain_fusion(graph: UOp, at: str | int | UOp, target: str) -> FusionExplanation:
    """Why the schedule keeps a node's value in memory or does not, and what the rules compared.

    at: a node of the graph, by its number in the printed text or as it is. Raises RewriteError for a node that the
    graph has not, RuleError for an unknown target.

    >>> from rulegrad import UOp
    >>> x = UOp("PARAM", (), "float32", slot=0, shape=(64, 1))
    >>> expanded = UOp("EXPAND", (UOp("SIN", (x,)),), shape=(64, 16))
    >>> found = explain_fusion(UOp("SINK", (UOp("NEG", (expanded,)),)), 1, "opencl")
    >>> found.stored, [decision.rule for decision in found.decisions]
    (False, ['materialize.repeated'])
    """
    graph = graph if graph.op == "SINK" else UOp("SINK", (graph,))
    namer = Namer(graph, compiled(target).library.table)
    value = _node(namer, at)
    asked, decisions, gone, stored = _Asked(target, namer), list[Decision](), "", False
    for name in engine.pipeline("schedule"):
        after, info = engine.run(graph, name, target, trace=True, follow=[value])
        result = info["followed"][0]
        if result is None:
            gone = name
            break
        final = _unstaged(result)
        decisions.extend(asked.decisions(graph, name, info["firings"], (value, final)))
        if kept := _stored_in(after):  # the last pass makes buffers of them
            stored = final in kept
        graph, value = after, final
    names = namer.node(_node(namer, at))
    return FusionExplanation(names, target, stored, tuple(dict.fromkeys(decisions)), gone)


def _node(namer: Namer, at: str | int | UOp) -> UOp:
    if isinstance(at, UOp) and at in namer.numbers:
        return at
    text = str(at).removeprefix("%")
    if not isinstance(at, UOp) and text.isdecimal() and int(text) < len(namer.nodes):
        return namer.nodes[int(text)]
    what = "the node that is asked about is not in the graph" if isinstance(at, UOp) else f"no node is called {at}"
    last = len(namer.nodes) - 1
    raise RewriteError(f"{what}; nodes are numbered as in the printed text, here from %0 to %{last}")


def _unstaged(node: UOp) -> UOp:
    return node.src[0] if node.op == _STORES else node


def _stored_in(node: UOp) -> set[UOp]:
    """The values that a graph keeps in memory."""
    return {inner.src[0] for inner in node.toposort() if inner.op == _STORES}


class _Asked:
    """Asks the rules of a pass that store values about one of them."""

    def __init__(self, target: str, namer: Namer) -> None:
        self.target = target
        self.namer = namer
        self.storing = _Storing()
        self._questions: dict[str, Question] = {}

    def decisions(
        self,
        graph: UOp,
        name: str,
        firings: Sequence[tuple[str, str, UOp, UOp]],
        values: tuple[UOp, UOp],
    ) -> Iterator[Decision]:
        """values: the one that is asked about, before and after the pass."""
        whole, part = set[tuple[str, UOp]](), set[tuple[str, UOp]]()
        for rule, _, before, after in firings:
            made = _stored_in(after) - _stored_in(before)
            if made & set(values):
                whole.add((rule, before))
            elif made and before in values:
                part.add((rule, before))
        near = {node.op for node in graph.toposort() if _is_near(node, values[:1])}
        for found in self.storing.rules_of(name):
            mine = {before for rule, before in whole | part if rule == found.name}
            op = _op_of(found.rule)
            if found.name in switched_off(engine.rules()) or not (mine or op in near or not op):
                continue
            for one, attempt in self._attempts(found, Subject(graph, name, self.target), values, mine):
                reader = self._reader(found, one, attempt)
                stores = attempt.node in mine or (bool(found.function) and self._gives(attempt, values))
                compared = conditions(reader, attempt.registers)
                costs = any(condition.left for condition in compared)
                if not stores and not (costs and self._about(found, reader, attempt, values)):
                    continue
                at = self.namer.node(one.history.origin(attempt.node)[0]) if not one.function else ""
                at = at or one.namer.node(attempt.node)
                is_part = (found.name, attempt.node) in part
                yield Decision(found.name, found.location, name, at, stores, compared, is_part)

    def _attempts(
        self, found: Found, subject: Subject, values: tuple[UOp, UOp], mine: set[UOp]
    ) -> Iterator[tuple[Run, Attempt]]:
        """The attempts of a rule at nodes near the value that came to a condition, with their registers."""
        if found.name not in self._questions:
            self._questions[found.name] = Question(found.name, None, None, 1)
        question = self._questions[found.name]
        if subject.pass_name not in question.passes:
            return
        tried = [attempt.node for one in question.run(subject, ()) for attempt in one.attempts]
        near = [node for node in dict.fromkeys(tried) if node in mine or _is_near(node, values)]
        for one in question.run(subject, near):
            for attempt in one.attempts:
                known = attempt.node in near and bool(attempt.registers)
                if known and (attempt.done or self._is_clause(found, one, attempt)):
                    yield one, attempt

    def _reader(self, found: Found, one: Run, attempt: Attempt) -> Reader:
        question = self._questions[found.name]
        return Reader(found.rule, one.watched.codes[attempt.alternative], one.watched, question.texts, one.namer)

    def _is_clause(self, found: Found, one: Run, attempt: Attempt) -> bool:
        reader = self._reader(found, one, attempt)
        return reader.read(attempt.place, attempt.registers, attempt.error).part == "clause"

    def _gives(self, attempt: Attempt, values: tuple[UOp, UOp]) -> bool:
        made = isinstance(attempt.result, UOp) and attempt.done
        return made and bool((_stored_in(attempt.result) - _stored_in(attempt.node)) & set(values))

    def _about(self, found: Found, reader: Reader, attempt: Attempt, values: tuple[UOp, UOp]) -> bool:
        """Whether what the rule did not store is the value: by the names that its template would store."""
        if attempt.done:
            return False
        bound = reader.code.instructions[attempt.place].names
        program = engine.program(self.target)
        for function, name in self.storing.names(found.rule):
            node = attempt.registers[bound[name].register] if name in bound else None
            if not isinstance(node, UOp):
                continue
            kept = program.call(function, node) if function else UOp(_STORES, (node,))
            if isinstance(kept, UOp) and _stored_in(kept) & set(values):
                return True
            made = any(clause.keyword == "let" and name in clause.names for clause in found.rule.clauses)
            if made and attempt.node in values:
                return True
        return False


def _is_near(node: UOp, values: Sequence[UOp]) -> bool:
    """Whether a node is one of the values, or reads one, through nodes that read nothing else."""
    waiting = [node]
    for inner in waiting:
        if inner in values:
            return True
        if inner is node or len(inner.src) == 1:
            waiting.extend(inner.src)
    return False


class _Storing:
    """The rules that keep values in memory: those whose templates have the op, by themselves or by functions."""

    def __init__(self) -> None:
        self.known = list(all_rules(engine.loaded().sources.files))
        self.functions = self._functions()
        self.making = [one for one in self.known if self._makes(one.rule, self.functions)]

    def _functions(self) -> set[str]:
        """The functions that give the op."""
        found: set[str] = set()
        while True:
            more = {one.function for one in self.known if one.function and self._makes(one.rule, found)} - found
            if not more:
                return found
            found |= more

    def _makes(self, rule: syntax.Rule, functions: set[str]) -> bool:
        if _op_of(rule) == _STORES:  # it is kept already
            return False
        parts = list(expressions_in(rule.template))
        calls = {x.function for x in parts if isinstance(x, syntax.Call)}
        return bool(calls & functions) or any(isinstance(x, syntax.OpCall) and x.op == _STORES for x in parts)

    def rules_of(self, name: str) -> list[Found]:
        """The rules of a pass that store something, and the cases of functions with conditions that they use."""
        own = [one for one in self.making if one.owner == name and not one.function]
        used = {
            x.function
            for one in own
            for x in expressions_in(one.rule.template)
            if isinstance(x, syntax.Call) and x.function in self.functions
        }
        return [*own, *(one for one in self.making if one.function in used and _has_condition(one.rule))]

    def names(self, rule: syntax.Rule) -> Iterator[tuple[str, str]]:
        """(function or "", name): what a template would store, as far as it has names."""
        for x in expressions_in(rule.template):
            is_function = isinstance(x, syntax.Call) and x.function in self.functions
            if is_function or (isinstance(x, syntax.OpCall) and x.op == _STORES):
                first = x.arguments[0] if isinstance(x, syntax.Call | syntax.OpCall) and x.arguments else None
                single = not isinstance(x, syntax.Call) or len(x.arguments) == 1
                if isinstance(first, syntax.Name) and single:
                    yield (x.function if isinstance(x, syntax.Call) else ""), first.name


def _op_of(rule: syntax.Rule) -> str:
    """The one op that a rule's pattern starts with, or ""."""
    inner = rule.pattern.pattern if isinstance(rule.pattern, syntax.Capture) else rule.pattern
    single = isinstance(inner, syntax.OpCall) and inner.op not in {generic.name for generic in rule.generics}
    return inner.op if isinstance(inner, syntax.OpCall) and single else ""


def _has_condition(rule: syntax.Rule) -> bool:
    return any(clause.keyword == "if" for clause in rule.clauses)
