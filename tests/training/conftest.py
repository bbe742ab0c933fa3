"""The tests of training run on the reference interpreter, which compiles nothing, unless they name a device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad import config

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def on_numpy() -> Iterator[None]:
    with config(device="numpy"):
        yield
