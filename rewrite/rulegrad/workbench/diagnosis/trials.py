"""Trials of `bisect`: a script, a command or a pass on a graph, run with rules left out; is the result right?"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rulegrad import engine
from rulegrad.config import config
from rulegrad.engine.selection import WHERE_THERE
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.workbench.diagnosis.bisecting import Trial
from rulegrad.workbench.diagnosis.blaming import Blame, blame, read_blame
from rulegrad.workbench.diagnosis.comparing import Comparison, unsound
from rulegrad.workbench.diagnosis.samples import KINDS

#: Relative (and absolute) difference of numbers that is not a difference.
TOLERANCE = 1e-3
ALL_OFF = "random:0:1"  # every rule that may be left out
_FIRING = re.compile(r"rulegrad: rule (\S+) \((.*?)\), firing \d+, in pass (\w+):\n((?:%.*\n|->\n)*)")
_SCHEDULE = re.compile(
    r"the kernels of the schedule do not compute what the graph does.*|pass number_buffers changes what .*"
)
_SKIPPED = re.compile(r"rulegrad: (CHECK=2 does not compare .*)")
_REFUSED = re.compile(r"^rulegrad\.errors\.ConfigError: (RULES_.*)$", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf\b|nan\b)")


class Firing(NamedTuple):
    """A firing as the engine tells it: where the rule is, in which pass, the node before and after."""

    location: str
    in_pass: str
    change: str


class Checked(NamedTuple):
    """The finding of a run under CHECK=2, where no rule that may be left out is to blame."""

    blame: Blame | None
    problem: str  # where only a pass can be named; empty when every pass that was compared is right
    skipped: tuple[str, ...]  # what was not compared, and why


class Commands:
    """A command, run in a process of its own for each trial."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.environment = dict(environment or {})

    def run(self, trial: Trial, **environment: str) -> subprocess.CompletedProcess[str]:
        """One run with the trial's rules left out."""
        settings = {**os.environ, **self.environment, **environment}
        if trial.off:
            off = [name if name == ALL_OFF else name + WHERE_THERE for name in trial.off]
            settings["RULES_OFF"] = ",".join(filter(None, (settings.get("RULES_OFF", ""), *off)))
        if trial.limit:
            settings["RULES_LIMIT"] = f"{trial.limit[0]}{WHERE_THERE}:{trial.limit[1]}"
        done = subprocess.run(self.command, capture_output=True, text=True, env=settings, check=False)
        refused = _REFUSED.search(done.stderr)
        if refused is not None:  # that says nothing of the rules
            raise RulegradError(f"the trial cannot be made: {refused.group(1)}")
        return done

    def right(self, trial: Trial) -> bool:
        """Whether the command succeeds."""
        return self.run(trial).returncode == 0

    def firing(self, trial: Trial) -> Firing | None:
        """The last firing that the trial's limit admits; None where the command hides its stderr."""
        told = _FIRING.search(self.run(trial, DEBUG="1").stderr)
        return Firing(told.group(2), told.group(3), told.group(4)) if told else None

    def checked(self) -> Checked:
        """One run under CHECK=2, which compares what each pass leaves with what it was given."""
        said = self.run(Trial(), CHECK="2", DEBUG="1").stderr
        problem = _SCHEDULE.search(said)
        return Checked(read_blame(said), problem.group() if problem else "", tuple(_SKIPPED.findall(said)))

    def suspects(self) -> list[str]:
        """The rules that may be left out; those of users last."""
        ours = engine.loaded().sources.user
        found = [
            (facts.location.rpartition(":")[0] in ours, name)
            for name, facts in engine.rules().items()
            if facts.optional
        ]
        return [name for _, name in sorted(found, key=lambda pair: pair[0])]


class Scripts(Commands):
    """A script, whose output is compared with that of the reference: the interpreter, without all rules that may go."""

    def __init__(self, script: Path, arguments: Sequence[str]) -> None:
        super().__init__([sys.executable, str(script), *arguments])
        self.arguments = [str(script), *arguments]
        self.reference = self.run(Trial((ALL_OFF,)), RULEGRAD_DEVICE="numpy", CHECK="0")
        if self.reference.returncode:
            message = f"{script} fails on the interpreter without all rules that may be left out"
            raise RulegradError(f"{message}; its last words:\n{self.reference.stderr[-2000:]}")

    def right(self, trial: Trial) -> bool:
        """Whether the output is that of the reference, up to the last digits of its numbers."""
        done = self.run(trial)
        return done.returncode == 0 and same_text(done.stdout, self.reference.stdout)

    def suspects(self) -> list[str]:
        """The rules that fire in the script and may be left out; those of users last."""
        tool = [sys.executable, "-m", "rulegrad", "stats", "--json", *self.arguments]
        done = subprocess.run(tool, capture_output=True, text=True, env=os.environ, check=False)
        try:
            rules = json.loads(done.stdout)["rules"]
        except ValueError:
            raise RulegradError(f"the script cannot be counted; its last words:\n{done.stderr[-2000:]}") from None
        fired = [rule for rule in rules if rule["fired"] and rule["optional"]]
        return [rule["name"] for rule in sorted(fired, key=lambda rule: not rule["ours"])]


class Graphs:
    """A pass on a graph, whose meaning is compared with that of the graph."""

    def __init__(self, graph: UOp, name: str, target: str | None) -> None:
        self.graph, self.name, self.target = graph, name, target
        self.comparison = Comparison(graph)
        self.wanted = self.comparison.meanings(graph)

    def right(self, trial: Trial) -> bool:
        """Whether the pass's graph means the same."""
        with config(rules_off=[*config.rules_off, *trial.off], rules_limit=trial.limit):
            after = engine.rewrite(self.graph, self.name, self.target)
        kind = self.comparison.different(self.wanted, after)
        return not kind or self.comparison.excused(self.wanted, self.graph, self.name, self.target, kind)

    def firing(self, trial: Trial) -> Firing | None:
        """The last firing that the trial's limit admits."""
        assert trial.limit is not None
        with config(rules_off=[*config.rules_off, *trial.off], rules_limit=trial.limit):
            _, firings = engine.rewrite(self.graph, self.name, self.target, trace=True)
        mine = [firing for firing in firings if firing.rule == trial.limit[0]]
        return Firing(mine[-1].location, self.name, f"{mine[-1].before}\n->\n{mine[-1].after}\n") if mine else None

    def checked(self) -> Checked:
        """The pass, stopped after each firing."""
        kind = self.comparison.different(self.wanted, engine.rewrite(self.graph, self.name, self.target))
        off = [*config.rules_off, *(unsound() if kind != KINDS[0] else ())]
        right = self.comparison.right(self.wanted, kind)
        return Checked(blame(self.name, self.graph, self.target, right, off), "", ())

    def suspects(self) -> list[str]:
        """The rules that fire in the pass and may be left out."""
        _, firings = engine.rewrite(self.graph, self.name, self.target, trace=True)
        facts = engine.rules()
        return [rule for rule in dict.fromkeys(f.rule for f in firings) if facts[rule].optional]


def same_text(found: str, wanted: str) -> bool:
    """Whether two outputs are the same, numbers up to the tolerance.

    >>> same_text("loss 0.50001", "loss 0.5"), same_text("loss 0.6", "loss 0.5"), same_text("lost 0.5", "loss 0.5")
    (True, False, False)
    """
    if _NUMBER.sub("#", found) != _NUMBER.sub("#", wanted):
        return False
    pairs = zip(_NUMBER.findall(found), _NUMBER.findall(wanted), strict=True)
    return all(_near(float(a), float(b)) for a, b in pairs)


def _near(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
