"""Conformance to the Python array API standard: functions present and tests passed, by family, rulegrad beside NumPy.

    python bench/conformance.py                       our tests (tests/array_api), the same bodies for both libraries
    python bench/conformance.py --device opencl       rulegrad on another device than the interpreter

--quick leaves out the tests that draw their shapes and values. --failed lists the tests that did not pass.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from common import BENCH, DEVELOPED, arguments, note

TESTS = BENCH.parent / "tests" / "array_api"
LIBRARIES = {"rulegrad": "rulegrad.array_api", "numpy": "numpy"}
# A program's output is shown when it cannot even start.
LONGEST = 3600


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="numpy", help="the device of rulegrad's arrays (default: %(default)s)")
    parser.add_argument("--failed", action="store_true", help="list the tests that did not pass")
    options = parser.parse_args()
    present = {library: functions_present(module) for library, module in LIBRARIES.items()}
    ours = {library: run(library, options) for library in LIBRARIES}
    rows = [row(family, "functions present", {k: v[family] for k, v in present.items()}) for family in present["numpy"]]
    rows += compared("tests passed", ours)
    show(rows, options)


def functions_present(module: str) -> dict[str, tuple[int, int]]:
    """For each family of functions, how many a namespace has, and how many there are."""
    spec = importlib.util.spec_from_file_location("signatures", TESTS / "test_signatures.py")
    assert spec is not None and spec.loader is not None
    signatures: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(signatures)
    namespace = importlib.import_module(module)
    found = {}
    for family, text in signatures.FAMILIES.items():
        names = [line.strip().partition("(")[0] for line in text.strip().splitlines()]
        found[family] = (sum(has(namespace, name) for name in names), len(names))
    return found


def has(namespace: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(namespace, part):
            return False
        namespace = getattr(namespace, part)
    return True


def run(library: str, options: argparse.Namespace) -> Counter[tuple[str, str]]:
    """Run our tests on a library: how many tests of each file passed, failed or were skipped."""
    module = LIBRARIES[library]
    environment = dict(os.environ, ARRAY_API_MODULE=module)
    environment |= {"ARRAY_API_DEVICE": options.device, "RULEGRAD_DEVICE": options.device}
    places = [*DEVELOPED, *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "."]
        if options.quick:
            command += ["-k", "not test_any"]
        note(f"{library} …")
        done = subprocess.run(
            command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        if not report.exists():
            sys.exit(f"the tests did not run on {library}:\n{(done.stdout + done.stderr)[-2000:]}")
        return outcomes(report, library, options.failed)


def outcomes(report: Path, library: str, list_failed: bool) -> Counter[tuple[str, str]]:
    """(file, outcome) counted."""
    found: Counter[tuple[str, str]] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        family = case.get("classname", "").rpartition(".test_")[2].partition(".")[0].replace("_", " ")
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        # A failure that the tests expect is a failure all the same.
        if any(child.get("type") == "pytest.xfail" for child in case):
            kinds = {"failure"}
        outcome = "passed" if not kinds else "skipped" if kinds == {"skipped"} else "failed"
        found[family, outcome] += 1
        if list_failed and outcome == "failed":
            note(f"{library}: {family}: {case.get('name')}")
    return found


def compared(unit: str, results: dict[str, Counter[tuple[str, str]]]) -> list[dict[str, Any]]:
    """A row for each file of tests, and one for all."""
    families = sorted({family for counts in results.values() for family, _ in counts})

    def figures(family: str | None) -> dict[str, tuple[int, int]]:
        found = {}
        for library, counts in results.items():
            chosen = {key: n for key, n in counts.items() if family in (None, key[0]) and key[1] != "skipped"}
            found[library] = (sum(n for key, n in chosen.items() if key[1] == "passed"), sum(chosen.values()))
        return found

    return [*(row(family, unit, figures(family)) for family in families), row("all", unit, figures(None))]


def row(name: str, unit: str, figures: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Shares of what there is, with the numbers behind them; the ratio is rulegrad's share over NumPy's."""
    shares = {library: passed / total if total else 1.0 for library, (passed, total) in figures.items()}
    return {
        "name": name,
        "unit": unit,
        "rulegrad": figures["rulegrad"][0],
        "peers": {"numpy": figures["numpy"][0]},
        "of": figures["rulegrad"][1],
        "ratio": shares["rulegrad"] / shares["numpy"] if shares["numpy"] else None,
        "shares": shares,
    }


def show(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"| {'family':16} | {'':17} | {'of':>5} | {'rulegrad':>16} | {'numpy':>16} |")
    print(f"|{'-' * 18}|{'-' * 19}|{'-' * 7}|{'-' * 18}|{'-' * 18}|")
    for one in rows:
        figures = {"rulegrad": one["rulegrad"], "numpy": one["peers"]["numpy"]}
        cells = [f"{figures[library]:>7} {100 * one['shares'][library]:6.1f} %" for library in LIBRARIES]
        print(f"| {one['name']:16} | {one['unit']:17} | {one['of']:>5} | {cells[0]:>16} | {cells[1]:>16} |")


if __name__ == "__main__":
    main()
