"""The device of the tests of `jit`: the interpreter, unless a test asks for each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad import config

sys.path.insert(0, str(Path(__file__).parent))  # for capture_contract, which these tests share


@pytest.fixture
def device(device: str) -> Iterator[str]:
    """Each device in turn is the default one."""
    with config(device=device):
        yield device


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """The contract does not depend on a device."""
    with config(device="numpy"):
        yield
