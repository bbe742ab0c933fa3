"""Collectives that programs of the engine start by themselves: their values, and what is said when a rank fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad._core import Carrier, Exchange, Replay, Tally
from rulegrad.communication.mpi import INSTALL
from rulegrad.errors import GraphError

PROGRAM = Path(__file__).with_name("rank_exchanges.py")
needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason=INSTALL)


def launched(what: str, ranks: int = 3) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rulegrad", "launch", "-n", str(ranks), str(PROGRAM), what]
    own = {**os.environ, "RULEGRAD_DEVICE": "c"}
    return subprocess.run(line, env=own, capture_output=True, text=True, timeout=120, check=False)


@needs_mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long_run), 3])
def test_every_collective_in_every_dtype(ranks: int) -> None:
    done = launched("every", ranks)
    assert done.returncode == 0 and not done.stderr, done.stderr


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_what_is_under_way_at_one_time_is_not_mixed_up(ranks: int) -> None:
    done = launched("order", ranks)
    assert done.returncode == 0 and not done.stderr, done.stderr


@needs_mpi
@pytest.mark.parametrize("what", ["fine", "fork"])
def test_programs_and_other_collectives_take_turns(what: str) -> None:
    done = launched(what)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert sorted(done.stdout.splitlines()) == ["fine 0", "fine 1", "fine 2"]


#: What rank 1 of 3 does, the exit status, and what is said.
FAILURES = {
    "raise": (1, "rank 1 of 3 failed; all ranks are ended:\nTraceback", "ValueError: no data\n"),
    "kill": (137, "rank 1 (process ", "was killed by signal 9 (SIGKILL)"),
    "end": (1, "CommunicationError: all_reduce (sum) of 1 float32", "rank 1 ended before it"),
    "once": (1, "ranks do not do the same", "of a program\n"),
    "late": (1, "it has not ended within 1 s", "waits for all_reduce (sum) of 1 float32 on a mesh of 3, at rank_ex"),
    "shape": (1, "told ranks do not do the same", "of 4 float32 on a mesh"),
}


@needs_mpi
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long_run if what == "raise" else ()) for what in FAILURES]
)
def test_a_rank_that_fails_ends_all(what: str) -> None:
    status, *texts = FAILURES[what]
    done = launched(what)
    assert done.returncode == status, done.stderr
    assert all(text in done.stderr for text in texts), done.stderr


def test_parts_that_do_not_fit_are_refused() -> None:
    def nothing(_: object) -> None: ...

    with pytest.raises(ValueError, match="a carrier needs functions"):
        Carrier(0, 1, 4, 20, nothing, nothing)
    exchange = Exchange(Carrier(1, 1, 4, 20, nothing, nothing), Tally(), "one", [(2, 0, 4)], [(0, 0, 4)])
    with pytest.raises(ValueError, match="whole requests"):
        exchange.connect(b"123", b"", 64, 64, [], 8)
    with pytest.raises(GraphError, match="a buffer that its plan has not"):
        Replay([Replay([], 2, [], True), (exchange, True), (exchange, False)])
    with pytest.raises(GraphError, match="on the same buffers"):
        Replay([Replay([], 2, [], True), Replay([], 3, [], True)])
