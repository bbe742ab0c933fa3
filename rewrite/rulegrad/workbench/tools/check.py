"""Problems of rule files: mistakes, and what rules do to nodes and to each other.

Without FILES all loaded rules are looked at. FILES are added to them, as a user's, and only problems of these are told.
Exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad.engine.compiling import parsed_file, sound_files
from rulegrad.engine.sources import Sources, our_files, read_sources, read_text, shown, user_files
from rulegrad.errors import RuleError
from rulegrad.lang import syntax, targets
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import library_of
from rulegrad.lang.conflicts import conflicts, each_once
from rulegrad.lang.diagnostics import NOTE, Diagnostic, report
from rulegrad.lang.merging import edited, merge, with_bases
from rulegrad.lang.modules import resolved
from rulegrad.lang.parser import parse_what_can_be
from rulegrad.lang.partial import unknown_names
from rulegrad.support.garbage import uncollected
from rulegrad.workbench.analysis import analyse
from rulegrad.workbench.analysis.asked import Asked
from rulegrad.workbench.analysis.costs import Cost, as_table, costs
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.op_facts import check_op_facts
from rulegrad.workbench.diagnosis.afresh import again, in_force_too_late
from rulegrad.workbench.proof.test_lines import failing
from rulegrad.workbench.rule_tests import RuleTests


@uncollected()
def main(arguments: Sequence[str]) -> int:
    """Prints the problems; exit status 0 when there are none, 1 when there are, 2 when FILES or NAME is wrong."""
    parser = argparse.ArgumentParser("python -m rulegrad check", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="rule files of your own")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument("--target", metavar="NAME", help="analyse the rules for this target only")
    parser.add_argument("--costs", action="store_true", help="only print in how many ways each pattern may be tried")
    parser.add_argument("--verbose", action="store_true", help="also print findings that may be harmless")
    options = parser.parse_args(arguments)
    try:
        texts, user = _texts(options.files)
    except RuleError as error:
        print(f"rulegrad: {error}", file=sys.stderr)
        return 2
    if not options.costs and in_force_too_late(options.files):
        return again("check", arguments, options.files)
    files, found, mine = checked(texts, user, options.files)
    if files and options.target:
        try:
            targets.find((d for f in files for d in f.declarations), options.target)
        except RuleError as error:
            print(f"rulegrad: {error}", file=sys.stderr)
            return 2
    found, dear = _looked_into(files, found, mine, options) if files else (found, [])
    found = [d for d in found if options.verbose or d.severity != NOTE]
    found.sort(key=lambda d: (d.span.file, d.span.line, d.span.column))
    if options.json:
        print(json.dumps(as_data(found, dear), indent=2))
    else:
        print(as_text(found, dear))
    return 1 if any(d.severity != NOTE for d in found) else 0


def _looked_into(
    files: list[syntax.File], found: list[Diagnostic], mine: list[syntax.File], options: argparse.Namespace
) -> tuple[list[Diagnostic], list[Cost]]:
    """All problems, with those that analyses and test lines show; or in how many ways patterns may be tried."""
    try:
        if options.costs:
            return found, [cost for _, cost in costs(files, library_of(files))]
        tests = RuleTests(files, hosts=True, only={file.path for file in mine})
        asked = Asked.about(mine)
        found = [*found, *analyse(files, options.target, options.verbose, asked, tests)]
        if asked.ops or not asked.files:
            false = Findings(files)
            check_op_facts(false, files, asked.ops)
            found += false.diagnostics
        return [*found, *failing(files, tests, tests.cases)], []
    except RuleError as error:
        if not error.diagnostics:
            raise
        return [*found, *error.diagnostics], []


def _texts(paths: Sequence[Path]) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """(path, text) of the loaded files and these; and which of them are a user's. Raises RuleError."""
    sources = read_sources()
    texts, user = list(sources.texts), set(sources.user)
    known = {path.resolve() for path in (*our_files(), *user_files())}
    for path in paths:
        if path.resolve() in known:
            continue
        texts.append((str(path), read_text(path)))
        user.add(str(path))
    return texts, frozenset(user)


def checked(
    texts: Sequence[tuple[str, str]], user: frozenset[str] = frozenset(), paths: Sequence[Path] = ()
) -> tuple[list[syntax.File], list[Diagnostic], list[syntax.File]]:
    """The merged syntax trees, empty where there are errors; what the parser or the checker found; the trees of paths.

    Where there are paths, what was found stands in one of these, or keeps them from being looked at.
    """
    parsed: list[syntax.File] = []
    problems: dict[str, Sequence[Diagnostic]] = {}
    for path, text in texts:
        try:
            parsed.append(parsed_file(text, path))
        except RuleError as error:
            parsed.append(parse_what_can_be(text, path)[0])
            problems[path] = error.diagnostics
    are_ours_whole = problems.keys() <= user
    sound = sound_files(Sources(list(texts), user), parsed) if paths and are_ours_whole else []
    if problems:
        found = [d for of_file in problems.values() for d in of_file]
        return [], [*found, *unknown_names(parsed, problems, user, sound)], []
    parsed = resolved(parsed)
    names = {name for path in paths for name in (str(path), shown(path.resolve()))}
    mine = [file for file in parsed if file.path in names]
    merged = merge(parsed, user)
    found = each_once(conflicts(parsed, user), check(merged, sound=sound))
    if not any(d.is_error for d in found):
        return with_bases(edited(merged)), [d for d in found if not names or d.span.file in names], mine
    return [], found, mine


def as_data(found: Sequence[Diagnostic], dear: Sequence[Cost]) -> dict[str, Any]:
    """The same as plain data: what `--json` prints."""
    table = [
        {
            "rule": cost.name,
            "location": cost.location,
            "ways": cost.ways,
            "alternatives": cost.alternatives,
            "choices": cost.choices,
        }
        for cost in dear
    ]
    return {"diagnostics": [d.plain for d in found], "costs": table}


def as_text(found: Sequence[Diagnostic], dear: Sequence[Cost]) -> str:
    """The same for people."""
    parts = [as_table(dear)] if dear else []
    if found:
        parts.append(report(found))
    errors = sum(d.is_error for d in found)
    notes = sum(d.severity == NOTE for d in found)
    warnings = len(found) - errors - notes
    parts.append(f"{errors} errors, {warnings} warnings" if errors or warnings else "no problems")
    parts[-1] += f", {notes} notes" if notes else ""
    return "\n".join(parts)
