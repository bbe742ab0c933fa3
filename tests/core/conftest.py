"""So that the tests of this folder can share rule_programs.py and random_graphs.py."""

import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before_stays() -> None:
    """Tests that count nodes collect garbage: only their own, and not again what other files have left."""
    gc.collect()
    gc.freeze()
