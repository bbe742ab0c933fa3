"""Proofs of mutants: whether `prove` finds a changed rule wrong."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from rulegrad.lang import syntax
from rulegrad.workbench.mutation.mutants import Subject
from rulegrad.workbench.mutation.verdicts import Bench
from rulegrad.workbench.proof.programs import Entry
from rulegrad.workbench.proof.prover import PROBLEMS, Workbench
from rulegrad.workbench.proof.testing import Tester
from rulegrad.workbench.rule_tests import WHOLE


@dataclass(slots=True)
class Proofs:
    """Proves changed rules of rule sets and of passes; what functions and definitions give is not proved."""

    bench: Bench
    _workbench: Workbench = field(init=False)

    def __post_init__(self) -> None:
        self._workbench = Workbench(self.bench.files)

    def problem(self, subject: Subject, rule: syntax.Rule) -> str:
        """Why `prove` refuses a rule in the place of another; empty where it does not."""
        d = subject.declaration
        if isinstance(d, syntax.Definition | syntax.Function) or (isinstance(d, syntax.Pass) and d.kind in WHOLE):
            return ""
        if subject.has("assumes") or subject.has("unsound"):
            return ""
        entry = Entry(subject.owner, rule)
        loader = self.bench.loader("")
        compiler = loader.compiler()
        entry.add_alone(compiler, entry.number)
        workbench = copy.copy(self._workbench)
        workbench.rules = copy.copy(workbench.rules)
        workbench.rules.program = loader.load(compiler, ())
        workbench.tester = Tester(workbench.rules)
        outcome = workbench.outcome(entry)
        return f"{outcome.kind}: {outcome.how}" if outcome.kind in PROBLEMS else ""
