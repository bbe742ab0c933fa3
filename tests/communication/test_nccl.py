"""Collectives by NCCL, on a pretend library whose GPU is this process: each rank is a thread, an address one of the host."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import collective_cases as cases
import numpy as np
import pytest

from rulegrad.communication import Collective
from rulegrad.communication.in_process import run
from rulegrad.communication.nccl import DeviceArray, NcclWorld
from rulegrad.errors import CommunicationError
from rulegrad.ir.dtype import DType

fake_nccl = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[1] / "shims" / "fake_nccl.py")))
memory = fake_nccl.memory
MOVED = ("all_gather", "all_to_all", "part", "shift")


class Meeting:
    """Where the ranks of a communicator put what they have, until all have come."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier = size, threading.Barrier(size)
        self.given: dict[int, Any] = {}
        self.children: dict[Any, Meeting] = {}

    def all(self, rank: int, value: Any) -> dict[int, Any]:
        self.given[rank] = value
        self.barrier.wait(20)
        found = dict(self.given)
        self.barrier.wait(20)
        return found


class Communicator:
    """nccl.core.Communicator, as far as NcclWorld uses it."""

    meetings: dict[bytes, Meeting] = {}  # noqa: RUF012

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank
        self.error = 0

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: bytes) -> Communicator:
        return cls(cls.meetings.setdefault(unique_id, Meeting(nranks)), rank)

    def split(self, color: int, key: int) -> Communicator:
        asked = self._meeting.all(self._rank, (color, key))
        members = sorted(key for other, key in asked.values() if other == color)
        meeting = self._meeting.children.setdefault((color, len(members)), Meeting(len(members)))
        return Communicator(meeting, members.index(key))

    def _step(self, kind: str, source: DeviceArray, result: DeviceArray, operation: str = "") -> None:
        given, wanted = memory(source), memory(result)
        found = self._meeting.all(self._rank, (given.copy(), wanted))
        size = self._meeting.size
        results = [np.empty_like(found[rank][1]) for rank in range(size)]
        run(
            Collective(kind, (size,), (0,), operation, len(given), source.dtype),
            [found[r][0] for r in range(size)],
            results,
        )
        wanted[:] = results[self._rank]

    def allreduce(self, s: Any, r: Any, op: str, *, stream: int) -> None:
        self._step("all_reduce", s, r, op)

    def reduce_scatter(self, s: Any, r: Any, op: str, *, stream: int) -> None:
        self._step("reduce_scatter", s, r, op)

    def allgather(self, s: Any, r: Any, *, stream: int) -> None:
        self._step("all_gather", s, r)

    def alltoall(self, s: Any, r: Any, *, stream: int) -> None:
        self._step("all_to_all", s, r)

    def send(self, s: Any, peer: int, *, stream: int) -> None:
        self._sent = (peer, memory(s).copy())

    def recv(self, r: Any, peer: int, *, stream: int) -> None:
        to, values = self._meeting.all(self._rank, self._sent)[peer]
        assert to == self._rank
        memory(r)[:] = values

    def get_async_error(self) -> int:
        return self.error

    def get_last_error(self) -> str:
        return "a cable is loose"


class Together:
    """The world that carries the identifier, of a rank in a thread."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.size, self.local, self._meeting = meeting.size, (rank,), meeting

    def start(self, of: Collective, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> Any:
        given = self._meeting.all(self.local[0], sources[0])
        results[0][:] = np.concatenate([given[rank] for rank in range(self.size)])
        return SimpleNamespace(wait=lambda: None)

    def check_same(self, label: str, value: str) -> None:
        raise CommunicationError(f"{label}: {value}")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    modules = fake_nccl.modules(Communicator, ("sum", "prod", "max", "min"))
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield modules["nccl.core"]
    Communicator.meetings.clear()


def on_ranks(size: int, work: Callable[[NcclWorld, int], None]) -> None:
    """Runs a function on each rank, in a thread; raises the first error."""
    meeting, errors = Meeting(size), []

    def rank(number: int) -> None:
        try:
            work(NcclWorld(Together(meeting, number), 0, 7), number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def on_gpu(array: np.ndarray, dtype: str) -> DeviceArray:
    return DeviceArray(array.ctypes.data, len(array), dtype)


def is_reduced(of: Collective) -> bool:
    wide = of.dtype in ("float32", "float64") and of.operation in ("sum", "prod")
    whole = DType(of.dtype).is_integer and DType(of.dtype).bits != 16
    return whole or wide or (DType(of.dtype).is_complex and of.operation == "sum")


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_every_collective_that_it_has(library: ModuleType, dtype: str, size: int) -> None:
    def work(world: NcclWorld, rank: int) -> None:
        for of in cases.collectives(size, dtype):
            sources = [cases.values_of(dtype, of.count, other) for other in range(size)]
            result = np.zeros(of.result_count, sources[0].dtype)
            given = [on_gpu(sources[rank], dtype)], [on_gpu(result, dtype)]
            if of.kind in MOVED or is_reduced(of):
                world.start(of, *given).wait()
                np.testing.assert_array_equal(result, cases.expected(of, sources, rank), err_msg=str(of))
            else:
                with pytest.raises(CommunicationError, match="NCCL does not reduce"):
                    world.start(of, *given)

    on_ranks(size, work)


def test_groups_of_a_mesh(library: ModuleType) -> None:
    def work(world: NcclWorld, rank: int) -> None:
        for axes in ((0,), (1,), (1, 0)):
            of = Collective("all_gather", (2, 2), axes, "", 1, "int32")
            source, result = np.array([rank], np.int32), np.zeros(of.result_count, np.int32)
            world.start(of, [on_gpu(source, "int32")], [on_gpu(result, "int32")]).wait()
            assert result.tolist() in [list(group) for group in of.groups()]

    on_ranks(4, work)


def test_errors(library: ModuleType) -> None:
    def work(world: NcclWorld, rank: int) -> None:
        of = Collective("all_to_all", (1,), (0,), "", 2, "int32")
        values, more, found = np.zeros(2, np.int32), np.zeros(3, np.int32), np.zeros(2, np.int32)
        array, other = on_gpu(values, "int32"), on_gpu(more, "int32")
        with pytest.raises(CommunicationError, match="in other memory"):
            world.start(of, [array], [array])
        with pytest.raises(CommunicationError, match="the result is one array of 2 int32"):
            world.start(of, [array], [other])
        with pytest.raises(CommunicationError, match="other ranks than the 1"):
            world.start(Collective("part", (2,), (0,), "", 2, "int32"), [array], [other])
        with pytest.raises(CommunicationError, match="shape: 3"):
            world.check_same("shape", "3")
        begun = world.start(of, [array], [on_gpu(found, "int32")])
        begun._group.error = 3
        with pytest.raises(CommunicationError, match="failed in NCCL: a cable is loose"):
            begun.wait()

    on_ranks(1, work)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    with pytest.raises(CommunicationError, match=r"NCCL cannot be used .*; pip install"):
        NcclWorld(Together(Meeting(1), 0), 0, 0)
