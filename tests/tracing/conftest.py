"""So that the tests of this folder can share traces.py; and its traces, made once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rulegrad.workbench.tracing import Trace

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="package")
def small() -> Trace:
    from traces import traced_pass

    return traced_pass()


@pytest.fixture(scope="package")
def kernels() -> Trace:
    from traces import traced_kernels

    return traced_kernels()
