"""One answer: a rule at a node, from the run that was watched."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.ir import UOp
from rulegrad.workbench.explaining.candidates import judgement
from rulegrad.workbench.explaining.explanation import Answer, Spot
from rulegrad.workbench.explaining.failing import Reader, Reason
from rulegrad.workbench.explaining.history import Step
from rulegrad.workbench.explaining.lookup import Found
from rulegrad.workbench.explaining.runs import Attempt, Run


class Teller:
    """Puts answers about one rule into words."""

    def __init__(self, found: Found, readers: Sequence[Reader], texts: dict[str, str]) -> None:
        self.found = found
        self.readers = readers
        self.texts = texts

    def answer(self, run: Run, attempt: Attempt) -> Answer:
        """The result of an attempt with registers."""
        node = attempt.node
        namer = run.namer
        origin, made = (node, None) if run.function else run.history.origin(node)
        at = namer.name(origin)
        step = run.history.at.get(node)
        fires = attempt.done and not attempt.error and self._fired(run, attempt, step)
        reason = None
        if not attempt.done:
            reason = self.readers[attempt.alternative].read(attempt.place, attempt.registers, attempt.error)
        return Answer(
            at=at,
            node=self._node(run, node, origin, made),
            passes=(run.subject.pass_name,),
            target=run.subject.target,
            graph=0,
            fires=fires,
            message=reason.message if reason else self._done(run, attempt, step, fires),
            made=namer.value(attempt.result) if attempt.done else "",
            step=step.number if fires and step else 0,
            part=reason.part if reason else "",
            spot=Spot.of(reason.span, self.texts.get(reason.span.file, "")) if reason else None,
            names=reason.names if reason else {},
            matched=reason.matched if reason else 0,
            total=reason.total if reason else 0,
            notes=tuple(self._notes(run, attempt, step, fires, reason)),
            inside=self._inside(run),
        )

    def _inside(self, run: Run) -> str:
        """The origin of a run's rewriting."""
        if run.entered is None or run.outer is None:
            return ""
        kind, _, runs = run.entered.name.partition(" ")
        at = run.entered.at
        what = {"": "the candidate", "rewritten": f"rewritten(…, {runs.removeprefix('rules ')})"}.get(
            kind, f"{kind}(…)"
        )
        asked = f" of {run.entered.rule} ({run.entered.location})" if run.entered.rule else ""
        node = f" at {run.namer.node(at)}" if at is not None else ""
        around = self._inside(run.outer)
        return f"{what}{asked}{node}" + (f", in {around}" if around else "")

    def _fired(self, run: Run, attempt: Attempt, step: Step | None) -> bool:
        if run.function:
            return True
        return step is not None and step.rule == self.found.name

    def _node(self, run: Run, node: UOp, origin: UOp, made: Step | None) -> str:
        namer = run.namer
        text = namer.node(node)
        at = namer.name(origin)
        if node == origin or not at:
            return text
        if made is None:
            return f"{at}, by then {text}"
        return f"{text}, which {_rule(made)} made at step {made.number} from {at}"

    def _done(self, run: Run, attempt: Attempt, step: Step | None, fires: bool) -> str:
        made = run.namer.value(attempt.result)
        if run.rounds and (judged := judgement(self.found, run, attempt.node)):
            return judged
        if fires:
            where = f" at step {step.number}" if step and not run.function else ""
            return f"it fires{where} and gives {made}"
        if attempt.result == attempt.node:
            return "it matches, but its template gives the matched node itself: that is not a firing"
        if run.direction == "choose" and step is None:
            return f"it matches and gives {made}, but that graph was examined before, or the search ended before it"
        if step is None:
            return f"it matches and gives {made}, but the pass ended before it fired"
        return f"it matches and would give {made}, but another rule fires here"

    # ---- notes ----

    def _notes(self, run: Run, attempt: Attempt, step: Step | None, fires: bool, reason: Reason | None) -> list[str]:
        notes = []
        if reason and reason.path is not None:
            notes.extend(self._rewritten_source(run, attempt.node, reason.path))
        if step is not None and not fires and not run.function:
            notes.append(f"the node was taken at step {step.number} by {_rule(step)}{self._order(run, step)}")
        return notes

    def _order(self, run: Run, step: Step) -> str:
        """Whether the rule that took the node is tried before this one."""
        compiled = next((p for p in run.watched.assembler.passes if p.name == run.subject.pass_name), None)
        if compiled is None:
            return ""
        order = [run.watched.assembler.rules[a.rule][0] for a in compiled.alternatives]
        if step.rule not in order or self.found.name not in order:
            return ""
        earlier = order.index(step.rule) < order.index(self.found.name)
        return ", which is tried before this one" if earlier else ", which is tried after this one"

    def _rewritten_source(self, run: Run, node: UOp, path: tuple[int, ...]) -> list[str]:
        """The firings that changed a node on the way to the one that did not match."""
        before = run.history.found.get(node, node)
        where = ""
        for k in path:
            if not -len(before.src) <= k < len(before.src):
                return []
            where = f"source {k}" + (f" of {where}" if where else "")
            before, node = before.src[k], node.src[k]
            steps = run.history.steps_of(before)
            if steps and node != before:
                return [f"{where} was {run.namer.node(before)} before {_step(steps[0])}"] + [
                    f"then {_step(step)}" for step in steps[1:]
                ]
        return []


def _rule(step: Step) -> str:
    return f"{step.rule} ({step.location})"


def _step(step: Step) -> str:
    return f"step {step.number}, when {_rule(step)} rewrote it"
