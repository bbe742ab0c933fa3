"""The rules of demo.rules, in force for all tests of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad import engine


@pytest.fixture(scope="module", autouse=True)
def demo() -> Iterator[None]:
    with engine.load_rules(Path(__file__).with_name("demo.rules")):
        yield
