"""Trials of mutants: the test lines are run with the changed rule, and nothing else is loaded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rulegrad.lang import syntax
from rulegrad.workbench.mutation.function_trials import FunctionTrial
from rulegrad.workbench.mutation.mutants import Mutant, Subject
from rulegrad.workbench.mutation.rule_trials import RuleTrial
from rulegrad.workbench.mutation.verdicts import UNREACHED, Bench, Verdict


def verdicts(bench: Bench, subject: Subject, mutants: Sequence[Mutant]) -> Iterator[tuple[int, Verdict]]:
    """The verdicts on mutants of one rule or definition, each with the mutant's place among them.

    A mutant with the same results everywhere says nothing where nothing that was tried depends on the changed place:
    it survives.
    """
    loaded: dict[int, syntax.Rule] = {}
    for k, mutant in enumerate(mutants):
        if problem := bench.refused(subject, mutant):
            yield k, Verdict("load", problem)
        else:
            loaded[k] = mutant.rule
    if not loaded:
        return
    of_function = isinstance(subject.declaration, syntax.Function | syntax.Definition)
    trial = FunctionTrial(bench, subject) if of_function else RuleTrial(bench, subject)
    same = []
    for k, verdict in trial.verdicts(loaded):
        if verdict.kind == "same":
            same.append(k)
        else:
            yield k, verdict
    probes = bench.mutator.probes(subject) if same else {}
    probed = {k: probes[mutants[k].change] for k in same}
    unreached = {k for k, verdict in trial.verdicts(probed) if verdict.kind == "same"} if probed else set()
    yield from ((k, Verdict("survives", UNREACHED) if k in unreached else Verdict("same")) for k in same)
