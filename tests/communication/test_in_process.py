"""Collectives between ranks of one process, and what a collective may be."""

from __future__ import annotations

import os
import threading
from typing import Any

import collective_cases as cases
import numpy as np
import pytest

from rulegrad.communication import Collective, InProcess, counters, in_process, reset_counters
from rulegrad.communication.collective import groups_of, place_of
from rulegrad.errors import CommunicationError


def run(world: InProcess, of: Collective, sources: list[np.ndarray]) -> list[np.ndarray]:
    results = [np.zeros(of.result_count, source.dtype) for source in sources]
    world.start(of, sources, results).wait()
    return results


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_every_collective_in_every_dtype(dtype: str, size: int) -> None:
    world = InProcess(size)
    for of in cases.collectives(size, dtype):
        sources = [cases.values_of(dtype, of.count, rank) for rank in range(size)]
        for rank, result in enumerate(run(world, of, sources)):
            np.testing.assert_array_equal(result, cases.expected(of, sources, rank), err_msg=str(of))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 0), (2, 0), (0, 1, 2), ()])
def test_groups_of_a_mesh(axes: tuple[int, ...]) -> None:
    """By an array of ranks whose axes are moved to the back."""
    mesh = (2, 3, 2)
    ranks = np.arange(12).reshape(mesh)
    others = [axis for axis in range(3) if axis not in axes]
    groups = ranks.transpose(*others, *axes).reshape(-1, int(np.prod([mesh[axis] for axis in axes], dtype=int)))
    assert groups_of(mesh, axes) == tuple(map(tuple, groups.tolist()))
    for rank in range(12):
        group, member = place_of(mesh, axes, rank)
        assert group[member] == rank and group in groups_of(mesh, axes)


def test_groups_communicate_apart() -> None:
    of = Collective("all_gather", (2, 3), (1,), "", 1, "int32")
    sources = [np.array([rank], np.int32) for rank in range(6)]
    assert [result.tolist() for result in run(InProcess(6), of, sources)] == [[0, 1, 2]] * 3 + [[3, 4, 5]] * 3


def test_large_collectives_run_beside_the_caller_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, though it alone would have been done at once."""
    world, go, ran = InProcess(2), threading.Event(), []
    original = in_process.run

    def slow(of: Collective, sources: Any, results: Any) -> None:
        go.wait(10)
        ran.append(of.count)
        original(of, sources, results)

    monkeypatch.setattr(in_process, "run", slow)
    works, arrays = [], []
    for count in (1 << 16, 4):
        of = Collective("all_reduce", (2,), (0,), "sum", count, "float32")
        arrays.append([np.ones(count, np.float32), np.ones(count, np.float32)])
        works.append(world.start(of, arrays[-1], arrays[-1]))
    assert ran == []
    go.set()
    for work in works:
        work.wait()
    assert ran == [1 << 16, 4]
    assert all((array == 2).all() for pair in arrays for array in pair)


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all", "shift"])
def test_a_result_may_be_the_source(kind: str) -> None:
    operation = "sum" if kind == "all_reduce" else ""
    of = Collective(kind, (3,), (0,), operation, 6, "int64", by=kind == "shift")
    arrays = [cases.values_of("int64", 6, rank) for rank in range(3)]
    wanted = [cases.expected(of, [array.copy() for array in arrays], rank) for rank in range(3)]
    InProcess(3).start(of, arrays, arrays).wait()
    for array, value in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(array, value)


def test_bytes_are_the_textbooks() -> None:
    reset_counters()
    world = InProcess(4)
    for of in cases.collectives(4, "float32", blocks=8):
        run(world, of, [cases.values_of("float32", of.count, rank) for rank in range(4)])
    found = {kind: (calls, sent) for kind, (calls, sent, _) in counters().items()}
    assert found["all_reduce"] == (4, 4 * 2 * 3 * 8)  # 2 (p-1)/p of 8 elements of 4 bytes
    assert found["reduce_scatter"] == (4, 4 * 3 * 32)
    assert found["all_gather"] == (1, 3 * 32)
    assert found["all_to_all"] == (1, 3 * 32)
    assert found["part"] == (1, 0)
    assert found["shift"] == (3, 2 * 32)  # the third goes all the way round
    reset_counters()
    assert counters() == {}


WRONG = {
    "there is no such collective": ("broadcast", (2,), (0,), "", 1, "int8"),
    "have at least one rank": ("part", (2, 0), (0,), "", 1, "int8"),
    "different ones from 0 to 1": ("part", (2, 2), (2,), "", 4, "int8"),
    "different ones from 0 to 0": ("part", (2,), (0, 0), "", 4, "int8"),
    "its operation is one of": ("all_reduce", (2,), (0,), "mean", 1, "int8"),
    "only reductions have": ("part", (2,), (0,), "sum", 2, "int8"),
    "have no order": ("all_reduce", (2,), (0,), "max", 1, "complex64"),
    "only a shift": ("part", (2,), (0,), "", 2, "int8", 1),
    "a block for each of the 2": ("all_to_all", (2,), (0,), "", 3, "int8"),
    "are not in memory": ("part", (2,), (0,), "", 2, "index"),
}


@pytest.mark.parametrize("problem", WRONG)
def test_wrong_collectives_are_errors(problem: str) -> None:
    with pytest.raises(CommunicationError, match=problem):
        Collective(*WRONG[problem])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sources", "results", "problem"),
    [
        ([np.zeros(2, np.float32)], [np.zeros(2, np.float32)] * 2, "1 sources are given for 2 ranks"),
        ([np.zeros(2, np.float32)] * 2, [np.zeros(2, np.float32)], "1 results are given for 2 ranks"),
        ([np.zeros(3, np.float32)] * 2, [np.zeros(2, np.float32)] * 2, r"a source is .* shape \(2,\)"),
        ([np.zeros(2, np.float32)] * 2, [np.zeros(2, np.float64)] * 2, "a result is .* type float32"),
        ([np.zeros(4, np.float32)[::2]] * 2, [np.zeros(2, np.float32)] * 2, "a source is a contiguous"),
    ],
)
def test_arrays_that_do_not_fit(sources: list[np.ndarray], results: list[np.ndarray], problem: str) -> None:
    with pytest.raises(CommunicationError, match=problem):
        InProcess(2).start(Collective("all_reduce", (2,), (0,), "sum", 2, "float32"), sources, results)


def test_the_mesh_has_the_ranks_of_the_world() -> None:
    with pytest.raises(CommunicationError, match="has 4 ranks, there are 2"):
        InProcess(2).start(Collective("part", (2, 2), (0,), "", 2, "int8"), [], [])
    with pytest.raises(CommunicationError, match="at least one rank"):
        InProcess(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_made_by_fork_has_a_thread_of_its_own() -> None:
    world = InProcess(2)
    of = Collective("all_reduce", (2,), (0,), "sum", 1 << 16, "float32")
    ones = [np.ones(of.count, np.float32)] * 2
    assert (run(world, of, ones)[0] == 2).all()
    child = os.fork()
    if not child:
        os._exit(0 if (run(world, of, ones)[1] == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
