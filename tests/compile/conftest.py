"""So that the tests of this folder can share graphs.py and varied_sizes.py, and let sizes vary."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rulegrad as rg

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def sizes_vary() -> Iterator[None]:
    """Plans for all sizes are made."""
    with rg.config(general_plans=1):
        yield
