"""Whether the test lines of rules hold: those of a file, a rule set, a rule; without RULES, of all rules.

Exit status 0 when they do, 1 when one fails.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rulegrad import engine
from rulegrad.engine.sources import shown
from rulegrad.lang.diagnostics import Diagnostic, report
from rulegrad.workbench.diagnosis.afresh import again, in_force_too_late
from rulegrad.workbench.proof.test_lines import failing
from rulegrad.workbench.rule_tests import OwnedRule, RuleTests, externs, owners, selected


class Result(NamedTuple):
    """How many rules were asked about, how many lines they have, the rules without one, and the lines that fail."""

    rules: int
    lines: int
    without: tuple[str, ...]
    failing: tuple[Diagnostic, ...]


def main(arguments: Sequence[str]) -> int:
    """Runs test lines, and prints those that fail with their places."""
    parser = argparse.ArgumentParser("python -m rulegrad test", description=__doc__)
    parser.add_argument("rules", nargs="*", metavar="RULES", help="a file, a rule set, pass or function, or SET.RULE")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    options = parser.parse_args(arguments)
    paths = [Path(name) for name in options.rules if name.endswith(".rules")]
    if in_force_too_late(paths):
        return again("test", arguments, paths)
    result = tried([name for name in options.rules if not name.endswith(".rules")], paths)
    print(json.dumps(as_data(result), indent=2) if options.json else as_text(result))
    return 1 if result.failing else 0


def tried(names: Sequence[str], paths: Sequence[Path]) -> Result:
    """Runs the test lines of the rules of these names and files; of all, where neither is given. Raises RuleError."""
    known = {path for path, _ in engine.loaded().sources.texts}
    wanted = {shown(path.resolve()) for path in paths}
    with engine.load_rules(*(path for path in paths if shown(path.resolve()) not in known)):
        engine.install_op_table()
        files = engine.loaded().sources.files
        everything = (*owners(files), *externs(files))
        rules = selected([OwnedRule(owner, rule) for owner, _, rules in everything for rule in rules], names, wanted)
        chosen = {owned.location for owned in rules}
        tests = RuleTests(files, hosts=True, only={owned.rule.span.file for owned in rules})
        lines = [case for case in tests.cases if f"{case.rule.span.file}:{case.rule.span.line}" in chosen]
        failed = failing(files, tests, lines)
    without = tuple(owned.name for owned in rules if not owned.rule.tests)
    return Result(len(rules), len(lines), without, tuple(failed))


def as_data(result: Result) -> dict[str, Any]:
    """Plain data: what `--json` prints."""
    return {
        "rules": result.rules,
        "lines": result.lines,
        "failed": len(result.failing),
        "without": list(result.without),
        "diagnostics": [diagnostic.plain for diagnostic in result.failing],
    }


def as_text(result: Result) -> str:
    """The same for people."""
    held = result.lines - len(result.failing)
    counted = f"{held} of {result.lines} test lines of {result.rules} rules hold"
    without = f"; {len(result.without)} rules have none" if result.without else ""
    return "\n".join([*([report(result.failing)] if result.failing else []), counted + without])
