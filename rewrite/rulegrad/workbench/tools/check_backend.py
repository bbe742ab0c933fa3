"""Whether a backend keeps the contract: a ladder of tests, which says what is missing at each rung.

python -m rulegrad check-backend ./my_accelerator    a folder with device.py and my_accelerator.rules
python -m rulegrad check-backend opencl              a backend that is known by its name

The rungs are load, copy, add, reduce, matmul, ops (every op on every dtype that the target declares, compared with the
interpreter) and suite. Exit status 0 when all pass, 1 when one does not, 2 when there is no such backend.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad.workbench.conformance.child import climbed
from rulegrad.workbench.conformance.report import PASSED, RUNGS

_SHOWN = 12  # findings of a rung
_NAMED = 6  # ops and dtypes with one problem


def main(arguments: Sequence[str]) -> int:
    """Prints the table; the exit status as above."""
    parser = argparse.ArgumentParser(
        "python -m rulegrad check-backend", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("backend", metavar="PATH|NAME", help="a backend's folder, or its name")
    parser.add_argument("--device", type=int, default=0, metavar="NUMBER", help="which of its devices (0)")
    parser.add_argument("--seconds", type=float, default=300, help="how long it may take (300)")
    parser.add_argument(
        "--to", choices=list(RUNGS), default="suite", metavar="RUNG", help="the last rung to try (suite)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument("--all", action="store_true", help=f"print all findings, not {_SHOWN} of a rung")
    options = parser.parse_args(arguments)
    is_path = os.sep in options.backend or Path(options.backend).is_dir()
    if is_path and not Path(options.backend).expanduser().is_dir():
        print(f"rulegrad: there is no folder {options.backend}", file=sys.stderr)
        return 2
    place = str(Path(options.backend).expanduser().resolve()) if is_path else options.backend
    rungs: list[dict[str, Any]] = []
    for rung in climbed(place, is_path, options.device, options.seconds, options.to):
        rungs.append(rung)
        if not options.json:
            print(as_text(rung, None if options.all else _SHOWN), flush=True)
    passed = all(rung["status"] == PASSED for rung in rungs)
    if options.json:
        print(json.dumps({"backend": place, "device": options.device, "passed": passed, "rungs": rungs}, indent=2))
    else:
        highest = [rung["rung"] for rung in rungs if rung["status"] == PASSED]
        print("all rungs passed" if passed else f"passed: {', '.join(highest) or 'none'}")
    return 0 if passed else 1


def as_text(rung: dict[str, Any], most: int | None = None) -> str:
    """A rung for people; `most` findings of it, or all.

    >>> print(as_text({"rung": "add", "status": "passed", "tried": 9, "seconds": 0.5, "findings": [], "notes": []}))
    add      passed      9 of 9       0.5 s  sums of two tensors
    """
    findings = rung["findings"]
    good = max(0, rung["tried"] - len(findings))
    lines = [f"{rung['rung']:<8} {rung['status']:<7} {good:>5,} of {rung['tried']:<5,} {rung['seconds']:>5.1f} s  "
             f"{rung.get('skipped') or RUNGS[rung['rung']]}"]  # fmt: skip
    for same in _joined(findings)[:most]:
        lines.append(textwrap.indent(same, "    "))
    hidden = len(_joined(findings)) - (most or len(findings))
    if hidden > 0:
        lines.append(f"    and {hidden} more; --all prints them")
    lines.extend(f"    note: {note}" for note in rung["notes"])
    return "\n".join(lines)


def _joined(findings: Sequence[dict[str, str]]) -> list[str]:
    """The findings as text; those with one problem and one hint as one."""
    about: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        about.setdefault((finding["problem"], finding["hint"]), []).append(finding["about"])
    texts = []
    for (problem, hint), names in about.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        texts.append(f"{'; '.join(names[:_NAMED])}{more}: {problem}" + (f"\n  -> {hint}" if hint else ""))
    return texts
