"""The work of a program's passes and rules, and the share that is not rule text: the figures of `stats`."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

from rulegrad import engine
from rulegrad.compile import HOST_STEPS
from rulegrad.errors import RulegradError
from rulegrad.lang import syntax
from rulegrad.lang.externs import rules_that_call
from rulegrad.lang.modules import plain
from rulegrad.runtime import devices
from rulegrad.workbench.diagnosis.corpus import PROGRAMS, answers

#: Built-in functions that rewrite whole sums in C++: docs/architecture.md says why they are not rules.
STRUCTURAL: Final = frozenset({"ordered_sum", "joined_sum", "quotient_sum", "split_sum", "split_sum_below", "residue"})


class PassCount(NamedTuple):
    """The work of a pass in all its runs."""

    name: str
    seconds: float
    runs: int
    visited: int
    fired: int


class RuleCount(NamedTuple):
    """The work of a rule, or a case of a function; seconds are those of its own tests and template."""

    name: str
    location: str
    seconds: float
    tried: int
    fired: int
    optional: bool  # it may be left out
    ours: bool  # not of a user's file


class Counts(NamedTuple):
    """Passes and rules, those that took longest first."""

    passes: tuple[PassCount, ...]
    rules: tuple[RuleCount, ...]


class Census(NamedTuple):
    """The share of rule text, and the steps that are Python."""

    files: dict[str, tuple[int, int]]  # path: lines, rules
    externs: dict[str, str]  # name: module.function
    fired: int
    fired_with_extern: int
    fired_structural: int  # through one of STRUCTURAL
    host_steps: dict[str, tuple[str, str]]  # file under compile/: what it does, why it is not a rule

    @property
    def rules(self) -> int:
        """Rules in all files, cases of functions included."""
        return sum(rules for _, rules in self.files.values())

    @property
    def extern_share(self) -> float:
        """The share of the firings that an extern had a part in."""
        return self.fired_with_extern / self.fired if self.fired else 0.0

    @property
    def structural_share(self) -> float:
        """The share of the firings that a built-in function for whole sums had a part in."""
        return self.fired_structural / self.fired if self.fired else 0.0


@contextmanager
def counted() -> Iterator[list[Counts]]:
    """Counts while the block runs; the list has the counts when it has ended."""
    engine.statistics()
    engine.count_rules(True)
    found: list[Counts] = []
    try:
        yield found
    finally:
        statistics = engine.statistics()
        engine.count_rules(False)
        found.append(_counts(statistics))


def _counts(statistics: dict[str, dict[str, dict[str, float]]]) -> Counts:
    facts, user = engine.rules(), engine.loaded().sources.user
    passes = [
        PassCount(name, d["seconds"], int(d["count"]), int(d["visited"]), int(d["fired"]))
        for name, d in statistics["passes"].items()
    ]
    rules = []
    for name, d in statistics["rules"].items():
        known = facts.get(name)  # none for a rule whose file is not in force any more
        location = known.location if known else ""
        optional, ours = known is None or known.optional, bool(known) and location.rpartition(":")[0] not in user
        rules.append(RuleCount(name, location, d["seconds"], int(d["tried"]), int(d["count"]), optional, ours))
    return Counts(tuple(sorted(passes, key=lambda p: -p.seconds)), tuple(sorted(rules, key=lambda r: -r.seconds)))


def run_corpus(device: str | None = None) -> None:
    """Runs the programs of the corpus; on the default device, when none is named."""
    for program in PROGRAMS:
        for _ in answers(program, device or devices.default()):
            pass


def run_script(path: Path, arguments: Sequence[str]) -> int:
    """Runs a program as Python would, its output and an exception on stderr; its exit status."""
    if not path.is_file():
        raise RulegradError(f"there is no script {path}")
    before = sys.argv, sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # of the program: what it did until then is counted
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def census(counts: Counts) -> Census:
    """The census of the rule files in force, with the firings that were counted."""
    files: dict[str, tuple[int, int]] = {}
    for file in engine.loaded().sources.files:
        owners = [d for d in file.declarations if isinstance(d, syntax.Ruleset | syntax.Pass | syntax.Function)]
        files[file.path] = (len(file.text.splitlines()), sum(len(owner.rules) for owner in owners))
    facts = engine.rules()
    fired = {rule.name: rule.fired for rule in counts.rules}
    external = sum(number for name, number in fired.items() if name in facts and facts[name].has_extern)
    externs: dict[str, str] = {name: function for name, (function, _) in engine.summary()["externs"].items()}
    through_sums = set(map(plain, rules_that_call(STRUCTURAL, engine.loaded().sources.declarations())))
    structural = sum(number for name, number in fired.items() if name in through_sums)
    return Census(files, externs, sum(fired.values()), external, structural, HOST_STEPS)


def as_data(counts: Counts, found: Census | None) -> dict[str, Any]:
    """Plain data: what `--json` prints."""
    data: dict[str, Any] = {
        "passes": [one._asdict() for one in counts.passes],
        "rules": [one._asdict() for one in counts.rules],
    }
    if found is not None:
        data["census"] = {
            "rules": found.rules,
            "files": [{"path": p, "lines": n, "rules": r} for p, (n, r) in found.files.items()],
            "externs": found.externs,
            "fired": found.fired,
            "fired_with_extern": found.fired_with_extern,
            "extern_share": found.extern_share,
            "fired_structural": found.fired_structural,
            "structural_share": found.structural_share,
            "host_steps": [{"file": f, "does": d, "why": w} for f, (d, w) in found.host_steps.items()],
        }
    return data
