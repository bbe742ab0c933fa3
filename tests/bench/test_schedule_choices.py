"""The model's choice of schedules, judged by the times on file: a worse formula is seen, and nothing is measured here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import schedule_choices
from rulegrad import load_rules

KERNELS = json.loads(schedule_choices.FILE.read_text())["kernels"]
#: What is reached; a change that gets beyond these makes choices worse.
MOST_REGRET, LEAST_CORRELATION, WORST_REGRET = 1.08, 0.78, 1.5


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, Any]]:
    with load_rules(schedule_choices.ONE_THREAD):
        yield schedule_choices.judged(KERNELS)


def test_the_first_choices_are_near_the_best(judged: dict[str, Any]) -> None:
    regret, correlation = schedule_choices.summed_up(judged)
    assert regret <= MOST_REGRET and correlation >= LEAST_CORRELATION


def test_no_first_choice_is_far_from_the_best(judged: dict[str, Any]) -> None:
    far = {name: one["regret"] for name, one in judged.items() if (one["regret"] or 0) > WORST_REGRET}
    assert not far


def test_first_choices_are_on_file(judged: dict[str, Any]) -> None:
    """Where tactics get other splits or numbers, their times are wanted: python bench/schedule_choices.py --record."""
    missing = [name for name, one in judged.items() if one["regret"] is None]
    assert len(missing) <= len(judged) // 2, f"measure again: --record --kernels '{'|'.join(missing)}'"


def test_all_kernels_are_on_file() -> None:
    assert list(KERNELS) == list(schedule_choices.CORPUS)


def test_a_model_that_has_it_the_wrong_way_round_is_seen() -> None:
    names = ["product 512", "product 64"]
    times = {name: KERNELS[name] for name in names}
    good = schedule_choices.judged(times)
    turned = {name: {text: 1e6 / us for text, us in found.items()} for name, found in times.items()}
    bad = schedule_choices.judged(turned)
    for name in names:
        assert good[name]["correlation"] == pytest.approx(-bad[name]["correlation"], abs=0.05)
        assert bad[name]["regret"] > good[name]["regret"]


@pytest.mark.long_run
def test_the_table() -> None:
    command = [sys.executable, schedule_choices.__file__, "--kernels", "^product 1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows = [name for name in KERNELS if name.startswith("product 1")]
    assert "geometric mean of the regrets" in done.stdout and done.stdout.count("\n| product") == len(rows) > 1
