"""Writes rule files, and rule blocks in Markdown files, in their one form; comments stay."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulegrad.engine.sources import not_utf8
from rulegrad.errors import RuleError
from rulegrad.support.paths import data_folder
from rulegrad.workbench.formatter import format_text
from rulegrad.workbench.formatter.documents import format_document


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one file; `problem` is why it could not be formatted."""

    path: str
    before: str
    after: str
    problem: str = ""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def diff(self) -> str:
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        return "".join(difflib.unified_diff(*lines, self.path, self.path + " (formatted)"))


def main(arguments: Sequence[str]) -> int:
    """Formats files in place; exit status 1 when one cannot be read, or one would change under --check or --diff."""
    parser = argparse.ArgumentParser("python -m rulegrad fmt", description=__doc__)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files and folders, `-` for the standard input; else all of ours"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; tell which files would change")
    parser.add_argument("--diff", action="store_true", help="write nothing; print what would change")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    options = parser.parse_args(arguments)
    if options.files == ["-"]:
        return _standard_input()
    try:
        paths = rule_files(options.files)
    except FileNotFoundError as error:
        parser.error(str(error))
    results = [format_file(path) for path in paths]
    dry = options.check or options.diff
    if not dry:
        for path, result in zip(paths, results, strict=True):
            if result.changed:
                path.write_text(result.after, encoding="utf-8", newline="\n")
    print(json.dumps(_as_json(results), indent=2) if options.json else _as_text(results, options.diff, dry))
    return int(any(result.problem or (dry and result.changed) for result in results))


def rule_files(named: Sequence[str]) -> list[Path]:
    """The rule files named, or in the folders named; without any, those of the distribution."""
    folders = [Path(name) for name in named] or [data_folder("rules"), data_folder("backends")]
    missing = [str(path) for path in folders if not path.exists()]
    if missing:
        raise FileNotFoundError(f"there is no file {', '.join(missing)}")
    found: list[Path] = []
    for path in folders:
        found.extend(sorted(path.rglob("*.rules")) if path.is_dir() else [path])
    return list(dict.fromkeys(found))


def format_file(path: Path) -> Result:
    """One file as it is and as it should be."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            before = file.read()
    except UnicodeDecodeError as error:
        return Result(str(path), "", "", not_utf8(path, error))
    except OSError as error:
        return Result(str(path), "", "", f"{path} cannot be read: {error}")
    try:
        form = format_document if path.suffix == ".md" else format_text
        return Result(str(path), before, form(before, str(path)))
    except RuleError as error:
        return Result(str(path), before, before, str(error))


def _standard_input() -> int:
    text = sys.stdin.read()
    try:
        print(format_text(text, "standard input"), end="")
    except RuleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _as_json(results: Sequence[Result]) -> dict[str, object]:
    files = [{"path": one.path, "changed": one.changed, "problem": one.problem, "diff": one.diff} for one in results]
    return {"files": files}


def _as_text(results: Sequence[Result], diff: bool, dry: bool) -> str:
    lines: list[str] = []
    for result in results:
        if result.problem:
            lines.append(result.problem)
        elif result.changed:
            lines.append(result.diff.rstrip() if diff else f"{'would change' if dry else 'changed'} {result.path}")
    changed = sum(result.changed for result in results)
    verb = "would change" if dry else "changed"
    lines.append(f"{changed} of {len(results)} {'file' if len(results) == 1 else 'files'} {verb}")
    return "\n".join(lines)
