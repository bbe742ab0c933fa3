"""A question about a rule, from the lookup of its name to the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rulegrad import engine
from rulegrad.config import config
from rulegrad.engine.selection import switched_off
from rulegrad.errors import RewriteError, RuleError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.workbench.explaining import explanation as words
from rulegrad.workbench.explaining.answers import Teller
from rulegrad.workbench.explaining.explanation import Answer, Explanation, Spot
from rulegrad.workbench.explaining.failing import Reader
from rulegrad.workbench.explaining.lookup import find_rule, passes_with, trying_passes, unmet_need
from rulegrad.workbench.explaining.naming import Namer
from rulegrad.workbench.explaining.runs import Attempt, Run, Subject, progress, run
from rulegrad.workbench.explaining.watched import WatchedProgram, watched_program

_REWRITING = ("rewrite", "reverse", "collect", "flow", "choose")  # kinds of passes that try rules on nodes
_MOST_NAMES = 8


class _Ranked(NamedTuple):
    """An attempt in one of the runs, and how good a match it is: fires, complete, ops that matched, place."""

    rank: tuple[bool, bool, int, int]
    run: int
    attempt: Attempt


class Question:
    """A rule, and where it is asked about: at one node or at all, in one pass or in all that have it."""

    def __init__(self, rule: str, at: str | int | UOp | None, pass_name: str | None, most: int) -> None:
        engine.install_op_table()
        self.files = engine.loaded().sources.files
        self.texts = {file.path: file.text for file in self.files}
        self.found = find_rule(self.files, rule)
        self.at = at
        self.most = most
        self.compiler = _compiler(None)
        self.passes = {d.name: d for d in passes_with(self.compiler, self.found)}
        self.pass_name = pass_name
        known = [d.name for d in self.compiler.passes]
        if pass_name is not None and pass_name not in known:
            hint = did_you_mean(pass_name, known) or f"there are: {', '.join(known)}"
            raise RuleError(f"no pass is called `{pass_name}`; {hint}")
        self._programs: dict[tuple[str | None, str], WatchedProgram] = {}

    def answered(self, subjects: Sequence[Subject]) -> Explanation:
        """The explanation. A subject without a pass goes through every pass that is asked about."""
        early = self._switched_off() or self._elsewhere()
        if early:
            return early
        asked = self._asked(subjects)
        for target in dict.fromkeys(subject.target for subject in asked):
            if left_out := self._left_out(target):
                return left_out
        return self._told(asked)

    def _said(self, status: str, summary: str, notes: tuple[str, ...] = (), spot: Spot | None = None) -> Explanation:
        return Explanation(self.found.name, self.found.location, status, summary, notes=notes, spot=spot)

    # ---- what keeps a rule from being tried at all ----

    def _switched_off(self) -> Explanation | None:
        if self.found.name not in switched_off(engine.rules()):
            return None
        return self._said(words.SWITCHED_OFF, f"is switched off by RULES_OFF={','.join(config.rules_off)}")

    def _elsewhere(self) -> Explanation | None:
        """The pass that is asked about has not the rule, or tries no rules on nodes."""
        chosen = [d for d in self.passes.values() if self.pass_name in (None, d.name)]
        names = ", ".join(self.passes)
        if not self.passes:
            return self._said(words.NOT_IN_PASS, "is in no pass: none uses the set that it stands in")
        if not chosen:
            return self._said(words.NOT_IN_PASS, f"is not in the pass {self.pass_name}; it is in {names}")
        if not any(d.kind in _REWRITING for d in chosen):
            kinds = " and ".join(sorted({d.kind for d in chosen}))
            what = f"a rule of the {kinds} pass {', '.join(d.name for d in chosen)}"
            raise RuleError(f"{self.found.name} is {what}, which does not rewrite")
        return None

    def _left_out(self, target: str | None) -> Explanation | None:
        unsound = next((c for c in self.found.rule.clauses if c.keyword == "unsound"), None)
        if unsound is not None and config.rules_strict:
            return self._said(words.LEFT_OUT, "is left out by RULES_STRICT=1: it is unsound", spot=self._spot(unsound))
        clause = unmet_need(_compiler(target).rules, self.found.rule)
        if clause is None:
            return None
        kept = [t for t in engine.summary()["targets"] if not unmet_need(_compiler(t).rules, self.found.rule)]
        where = f"for target {target}" if target else "without a target"
        return self._said(
            words.LEFT_OUT,
            f"is left out {where}: the target lacks what `needs` asks for",
            (f"it is kept for: {', '.join(sorted(kept)) or 'no target'}",),
            self._spot(clause),
        )

    def _spot(self, clause: syntax.Clause) -> Spot:
        return Spot.of(clause.span, self.texts[clause.span.file])

    # ---- running ----

    def _asked(self, subjects: Sequence[Subject]) -> list[Subject]:
        """The graphs with the passes that they go through, of those that have the rule."""
        names = [d.name for d in self.passes.values() if self.pass_name in (None, d.name) and d.kind in _REWRITING]
        asked: list[Subject] = []
        for subject in subjects:
            chosen = [subject.pass_name] if subject.pass_name else names
            asked.extend(subject._replace(pass_name=name) for name in chosen if name in names)
        return asked

    def _program(self, target: str | None, inside: syntax.Pass) -> WatchedProgram:
        """The rule as it is compiled for a target, and for a pass where that makes a difference."""
        key = (target, inside.name if inside.facts or inside.states else "")
        if key not in self._programs:
            found = self.found
            made = watched_program(compiled(target), found.owner, found.rule, found.parameters, inside)
            engine.prepare(made.program)
            self._programs[key] = made
        return self._programs[key]

    def run(self, subject: Subject, nodes: Sequence[UOp]) -> list[Run]:
        declaration = self.passes[subject.pass_name]
        program = self._program(subject.target, declaration)
        function = self.found.function
        inside = () if function else trying_passes(self.compiler, declaration, self.found)
        return run(subject, program, declaration, function, nodes, inside)

    def _readers(self, one: Run) -> list[Reader]:
        return [Reader(self.found.rule, code, one.watched, self.texts, one.namer) for code in one.watched.codes]

    def _told(self, asked: Sequence[Subject]) -> Explanation:
        runs = [one for subject in asked for one in self.run(subject, ())]
        if not runs:
            return self._said(words.NOT_TRIED, f"was not tried: no graph went through {', '.join(self.passes)}")
        if self.at is not None and not any(self._node(one.namer) for one in runs):
            raise RewriteError(self._no_node(runs))
        ranked = [item for number, one in enumerate(runs) for item in self._ranked(number, one)]
        ranked.sort(key=lambda item: item.rank, reverse=True)
        return self._summed_up(runs, self._answers(runs, ranked), len(ranked), sum(item.rank[0] for item in ranked))

    def _ranked(self, number: int, one: Run) -> list[_Ranked]:
        """The best attempt at each node that is asked about."""
        readers = self._readers(one)
        mine = {step.before for step in one.steps if step.rule == self.found.name}
        wanted = self._wanted(one)
        best: dict[UOp, _Ranked] = {}
        for attempt in one.attempts:
            if wanted is not None and attempt.node not in wanted:
                continue
            done, matched, place = progress(attempt, readers)
            fires = done if one.function else attempt.node in mine
            found = _Ranked((fires, done, matched, place), number, attempt)
            known = best.get(attempt.node)
            if known is None or found.rank > known.rank:
                best[attempt.node] = found
        return list(best.values())

    def _answers(self, runs: Sequence[Run], ranked: Sequence[_Ranked]) -> tuple[Answer, ...]:
        """The best attempts, made once more with their registers; the same in several passes is one answer."""
        same: dict[tuple[object, ...], list[_Ranked]] = defaultdict(list)
        for item in ranked:
            subject, attempt = runs[item.run].subject, item.attempt
            entered = runs[item.run].entered
            inside = entered and (entered.name, entered.rule, entered.at)
            same[subject.graph, subject.target, item.rank, attempt.node, attempt.alternative, inside].append(item)
        chosen = list(same.values())[: self.most]
        nodes: dict[Subject, list[UOp]] = defaultdict(list)
        for items in chosen:
            nodes[runs[items[0].run].subject].append(items[0].attempt.node)
        first = {one.subject: number for number, one in reversed(list(enumerate(runs)))}
        again = {subject: self.run(subject, wanted) for subject, wanted in nodes.items()}
        graphs = {graph: number for number, graph in enumerate(_graphs(runs), 1)}
        answers = []
        for items in chosen:
            subject, wanted = runs[items[0].run].subject, items[0].attempt
            one = again[subject][items[0].run - first[subject]]
            attempt = next(a for a in one.attempts if a.node == wanted.node and a.alternative == wanted.alternative)
            answer = Teller(self.found, self._readers(one), self.texts).answer(one, attempt)
            passes = tuple(dict.fromkeys(runs[item.run].subject.pass_name for item in items))
            number = graphs[one.subject.graph] if len(graphs) > 1 else 0
            answers.append(replace(answer, passes=passes, graph=number))
        return tuple(answers)

    def _wanted(self, one: Run) -> set[UOp] | None:
        """The nodes, as the rules saw them, that the node which is asked about became; None for all."""
        if self.at is None:
            return None
        node = self._node(one.namer)
        if node is None:
            return set()
        if one.outer is not None and one.entered is not None:
            around = self._wanted(one.outer)
            if around is None or one.entered.at in around:
                return None  # it was rewritten for that node
        wanted = {node, one.history.tried.get(node, node)}
        for step in one.history.steps_of(node):
            wanted |= {step.before, one.history.tried.get(step.after, step.after)}
        return wanted

    def _node(self, namer: Namer) -> UOp | None:
        """The node that is asked about; None when the graph has not got it."""
        if isinstance(self.at, UOp):
            return self.at if self.at in namer.numbers else None
        text = str(self.at).removeprefix("%")
        return namer.nodes[int(text)] if text.isdecimal() and int(text) < len(namer.nodes) else None

    def _no_node(self, runs: Sequence[Run]) -> str:
        largest = max(len(one.namer.nodes) for one in runs) - 1
        what = (
            "the node that is asked about is not in the graph"
            if isinstance(self.at, UOp)
            else f"no node is called {self.at}"
        )
        return f"{what}; nodes are numbered as in the printed text, here from %0 to %{largest}"

    # ---- the whole ----

    def _summed_up(self, runs: Sequence[Run], answers: tuple[Answer, ...], tried: int, fired: int) -> Explanation:
        passes, graphs = list(dict.fromkeys(one.subject.pass_name for one in runs)), _graphs(runs)
        where = f"in {'passes' if len(passes) > 1 else 'pass'} {', '.join(passes)}"
        notes = [
            f"pass {one.subject.pass_name} ended with an error: {one.problem}"
            for one in runs
            if one.error and one.outer is None
        ]
        others = [] if self.found.function else [name for name in self.passes if name not in passes]
        if others:
            notes.append(f"it is also in {'passes' if len(others) > 1 else 'pass'} {', '.join(others)}")
        if not answers:
            status, summary = words.NOT_TRIED, f"was not tried {where}: {self._untried(runs)}"
        else:
            status = words.FIRES if fired else words.DOES_NOT_FIRE
            summary = f"{status} {where}: it was tried on {tried} node{'s' * (tried != 1)} and fired on {fired}"
            if self.at is not None:
                summary = f"{status} there"
        return Explanation(
            self.found.name,
            self.found.location,
            status,
            summary,
            answers,
            tuple(dict.fromkeys(notes)),
            tried=tried,
            fired=fired,
            graphs={number: str(graphs[number - 1]) for number in {answer.graph or 1 for answer in answers}},
        )

    def _inner(self, one: Run) -> list[str]:
        """The expression that tries the rule inside a pass that does not try it itself, as rule text."""
        declaration = self.passes[one.subject.pass_name]
        tried = [] if self.found.function else trying_passes(self.compiler, declaration, self.found)
        sets = [name.removeprefix("rules ") for name in tried]
        if declaration.name in tried:
            return []
        return [f"`use {name}`" if declaration.kind == "choose" else f"`rewritten(…, {name})`" for name in sets]

    def _untried(self, runs: Sequence[Run]) -> str:
        """Why no attempt was made at the node that is asked about, or at any."""
        names = list(
            dict.fromkeys(name for one in runs for root in _roots(one) for name in one.watched.assembler.sets[root])
        )
        starts = f"{', '.join(names[:_MOST_NAMES])}{', …' if len(names) > _MOST_NAMES else ''}"
        inner = [name for one in runs for name in self._inner(one)]
        if inner and all(map(self._inner, runs)) and not any(one.times_entered for one in runs):
            return f"it is tried inside only, in {' and '.join(dict.fromkeys(inner))}, and nothing asked for that"
        if self.at is None:
            return f"no node has an op that its pattern starts with, {starts}"
        one = next(one for one in runs if self._node(one.namer) is not None)
        node = self._node(one.namer)
        assert node is not None
        if node.op in names:
            return "the pass did not get to that node"
        shown = one.namer.node(node).removeprefix(f"{one.namer.name(node)} = ")
        return f"{one.namer.name(node)} is {shown}, and its pattern starts with {starts}"


def _compiler(target: str | None) -> ProgramCompiler:
    """A compiler of the rules in force, as the settings choose them; it has compiled nothing yet."""
    declaration = engine.target_declaration(target) if target else None
    strict = bool(config.rules_strict)
    return ProgramCompiler(engine.loaded().sources.files, declaration, strict, config.rules_order)


_known: dict[str | None, ProgramCompiler] = {}
engine.on_change(_known.clear)


def compiled(target: str | None) -> ProgramCompiler:
    """The same when it has compiled everything, kept until the rules in force change."""
    if target not in _known:
        _known[target] = _compiler(target)
        _known[target].compile()
    return _known[target]


def _roots(one: Run) -> list[int]:
    """The op sets that the rule's alternatives start at."""
    return [alternative.root for alternative in one.watched.alternatives]


def _graphs(runs: Sequence[Run]) -> list[UOp]:
    return list(dict.fromkeys(one.subject.graph for one in runs))
