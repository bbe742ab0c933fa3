"""Models of ONNX files: the node tests that come with the package `onnx`, and whole models beside onnxruntime.

    python bench/onnx_suite.py                     all node tests, on the interpreter
    python bench/onnx_suite.py --device c --only Conv --failed
    python bench/onnx_suite.py --models DIRECTORY  every .onnx file below: answers like those of onnxruntime, and times

A test is passed when shapes and dtypes are those that are expected, and values agree to the test's own tolerances.
Tests of random ops are compared by shape and dtype. Times of models are medians of ten calls.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path

import onnx_cases as node_tests
import onnx_models
import rulegrad as rg


def run_node_tests(device: str, only: str | None, failed_only: bool) -> float:
    """The table of ops with passed, failed and left out; returns the share that passed."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    failures, reasons = [], Counter[str]()
    for case in node_tests.cases():
        op = node_tests.op_of(case)
        if only and only.lower() not in f"{op} {case.name}".lower():
            continue
        reason = node_tests.left_out(case)
        if reason:
            table[op]["left out"] += 1
            reasons[reason] += 1
            continue
        try:
            problem = node_tests.run(case, device)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".partition("\n")[0]
        table[op]["failed" if problem else "passed"] += 1
        if problem:
            failures.append(f"{case.name}: {problem[:300]}")
    if not failed_only:
        print(f"{'op':32} {'passed':>7} {'failed':>7} {'left out':>9}")
        for op, counts in sorted(table.items()):
            print(f"{op:32} {counts['passed']:7} {counts['failed']:7} {counts['left out']:9}")
    print(*failures, sep="\n")
    total = sum(table.values(), Counter())
    share = 100 * total["passed"] / max(total["passed"] + total["failed"], 1)
    print(f"passed {total['passed']}, failed {total['failed']}, left out {total['left out']}: {share:.1f} %")
    for reason, count in reasons.items():
        print(f"  left out: {count} of {reason}")
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None, help="numpy for node tests, c for models unless given")
    parser.add_argument("--only", help="a part of the names of ops or tests, or of files")
    parser.add_argument("--failed", action="store_true", help="no table, only what failed")
    parser.add_argument("--models", metavar="DIRECTORY", help="compare the .onnx files there with onnxruntime")
    parser.add_argument("--threads", type=int, help="threads of both")
    options = parser.parse_args()
    if options.models:
        with rg.no_grad():
            onnx_models.compare(Path(options.models), options.device or "c", options.only, options.threads)
    else:
        run_node_tests(options.device or "numpy", options.only, options.failed)


if __name__ == "__main__":
    main()
