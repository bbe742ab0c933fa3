"""bench/array_api_suite.py runs a checkout of the public suite and counts what passed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

CONFTEST = """
def pytest_addoption(parser):
    for name in ("--disable-deadline", "--derandomize"):
        parser.addoption(name, action="store_true")
    parser.addoption("--max-examples", type=int)
"""
TESTS = """
import os
from importlib import import_module
import pytest
from hypothesis import settings

xp = import_module(os.environ["ARRAY_API_TESTS_MODULE"])

def test_sum():
    assert int(xp.sum(xp.asarray([1, 2]))) == 3

def test_namespace_of_arrays():
    assert xp.ones(1).__array_namespace__() is import_module("rulegrad.array_api")

@pytest.mark.skip
def test_skipped():
    assert False

def test_settings(pytestconfig):
    assert pytestconfig.getoption("--max-examples") == 7 and settings().suppress_health_check
"""


def test_a_checkout_is_run_on_every_library(tmp_path: Path) -> None:
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "array_api_tests" / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        str(BENCH / "array_api_suite.py"),
        str(tmp_path),
        "--json",
        "--failed",
        "--examples",
        "7",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rulegrad, numpy = json.loads(done.stdout)
    assert rulegrad == {"name": "rulegrad, numpy", "passed": 3, "failed": 0, "skipped": 1, "share": 1.0}
    assert (numpy["name"], numpy["passed"], numpy["failed"], numpy["skipped"]) == ("numpy", 2, 1, 1)
    assert "numpy: some: test_namespace_of_arrays" in done.stderr


def test_a_folder_without_the_suite_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / "array_api_suite.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode and "has no folder array_api_tests" in done.stderr
