"""The public test suite of the Python array API standard, from a checkout, on rulegrad beside other libraries.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests; pip install ndindex hypothesis pytest
    python bench/array_api_suite.py array-api-tests                         rulegrad on the interpreter, and NumPy
    python bench/array_api_suite.py array-api-tests --device c --examples 5 --peers ""
    python bench/array_api_suite.py array-api-tests --peers numpy,array_api_compat.torch --failed

For each library: tests passed, failed and skipped, and the share of those run that passed. --quick draws 5 examples.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from common import BENCH, DEVELOPED, arguments, note
from conformance import outcomes

OUTCOMES = ("passed", "failed", "skipped")
# A run of all tests, with kernels compiled for every shape that is drawn.
LONGEST = 4 * 3600


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("checkout", type=Path, help="the folder of the suite, with its submodule")
    parser.add_argument("--device", default="numpy", help="the device of rulegrad's arrays (default: %(default)s)")
    parser.add_argument("--peers", default="numpy", help="modules beside rulegrad, with commas (default: %(default)s)")
    parser.add_argument("--examples", type=int, default=50, help="examples of a drawn test (default: %(default)s)")
    parser.add_argument("--only", nargs="*", default=["array_api_tests"], help="files or tests of the suite")
    parser.add_argument("--failed", action="store_true", help="list the tests that did not pass")
    options = parser.parse_args()
    if not (options.checkout / "array_api_tests").is_dir():
        sys.exit(f"{options.checkout} has no folder array_api_tests; give the root of a checkout of the suite")
    libraries = ["rulegrad.array_api", *filter(None, options.peers.split(","))]
    rows = [row(library, run(library, options), options.device) for library in libraries]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"| {'library':30} | passed | failed | skipped |   share |")
    print(f"|{'-' * 32}|{'-' * 8}|{'-' * 8}|{'-' * 9}|{'-' * 9}|")
    for one in rows:
        figures = f"{one['passed']:>6} | {one['failed']:>6} | {one['skipped']:>7} | {100 * one['share']:>5.1f} %"
        print(f"| {one['name']:30} | {figures} |")


def run(library: str, options: argparse.Namespace) -> Counter[str]:
    """Run the suite on a library: how many of its tests passed, failed and were skipped."""
    environment = dict(os.environ, ARRAY_API_TESTS_MODULE=library, RULEGRAD_DEVICE=options.device)
    places = [str(BENCH), *DEVELOPED, *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "array_api_suite"]
        command += [f"--junitxml={report}", "--disable-deadline", "--derandomize"]
        command += [f"--max-examples={5 if options.quick else options.examples}", *options.only]
        note(f"{library} …")
        done = subprocess.run(
            command, cwd=options.checkout, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        if not report.exists():
            sys.exit(f"the suite did not run on {library}:\n{(done.stdout + done.stderr)[-2000:]}")
        found: Counter[str] = Counter()
        for (_, outcome), count in outcomes(report, library, options.failed).items():
            found[outcome] += count
        return found


def row(library: str, found: Counter[str], device: str) -> dict[str, Any]:
    """The figures of one library."""
    ran = found["passed"] + found["failed"]
    name = f"rulegrad, {device}" if library.startswith("rulegrad") else library
    return {"name": name, **{one: found[one] for one in OUTCOMES}, "share": found["passed"] / ran if ran else 0.0}


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """This file is a plugin of the suite's run, too: arrays that are drawn on a device wait for its compiler."""
    settings.register_profile("patient", parent=settings(), suppress_health_check=list(HealthCheck))
    settings.load_profile("patient")


if __name__ == "__main__":
    main()
