"""Collectives that programs start again and again in the engine, by requests of MPI that are made once."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad._core import Carrier, Exchange
from rulegrad.communication.collective import Collective, place_of
from rulegrad.communication.counting import tally_of
from rulegrad.communication.mpi_steps import is_persistent, persistent
from rulegrad.communication.worlds import different
from rulegrad.errors import CommunicationError
from rulegrad.ir.dtype import DType

if TYPE_CHECKING:
    from mpi4py import MPI

    from rulegrad.communication.mpi import MpiWorld

_NAP_SECONDS: Final = 2e-5
_PLACES: Final = 64  # bytes between places in an exchange's memory


@dataclass(frozen=True)
class About:
    """The description of an exchange, for messages and for those who wait for it."""

    collective: Collective
    turn: int  # how many like it are before it in its program
    text: str
    group: tuple[int, ...]  # ranks


class _Requests(NamedTuple):
    """The requests of a collective, and the memory that they are on; programs, which run one at a time, share them."""

    checks: list[MPI.Request]  # tell a neighbour what is started, and receive what another one has started
    requests: list[MPI.Request]
    memory: np.ndarray[Any, Any]
    own: np.ndarray[Any, Any]
    theirs: np.ndarray[Any, Any]


class Exchanges:
    """Those of one world. They run on its communicators, when nothing else of it is under way."""

    def __init__(self, world: MpiWorld, checks: MPI.Comm, description: int) -> None:
        """checks: the communicator on which ranks compare what they start, by so many bytes."""
        from mpi4py import MPI  # late: an optional library

        self._world, self._checks, self._description = world, checks, description
        library = ctypes.CDLL(MPI.__file__)
        start, test = (_address(library, name) for name in ("MPI_Startall", "MPI_Test"))
        sizes = MPI._sizeof(MPI.Request), MPI._sizeof(MPI.Status)
        self.carrier = Carrier(start, test, *sizes, self._settle, self._wait)
        self.waits_for: About | None = None
        self._requests: dict[tuple[Collective, int], _Requests] = {}

    def make(
        self, of: Collective, turn: int, sent: Sequence[tuple[int, int]], received: Sequence[tuple[int, int]]
    ) -> Exchange | None:
        """A collective on buffers of a program: the numbers of those that it sends one after the other, and bytes.

        turn: how many like it the program has before it. None where it is not requests that can be started again.
        """
        if not is_persistent(of):
            return None
        group, _ = place_of(of.mesh, of.axes, self._world.rank)
        about = About(of, turn, str(of), group)
        copies = _places(sent, 0), _places(received, self._result(of))
        return Exchange(self.carrier, tally_of(of), about, *copies)

    def _result(self, of: Collective) -> int:
        """Where the result begins in the memory of an exchange."""
        nbytes = of.count * DType(of.dtype).itemsize
        if of.kind == "all_reduce":
            return 0
        if of.kind == "part":
            return place_of(of.mesh, of.axes, self._world.rank)[1] * (nbytes // of.members)
        return -(-nbytes // _PLACES) * _PLACES

    def _settle(self, exchanges: Sequence[Exchange]) -> None:
        """Before a program: ends what is under way, and makes requests where there are none yet."""
        self._world.finish()
        for exchange in exchanges:
            if not exchange.is_connected:
                about: About = exchange.about
                known = self._requests.get((about.collective, about.turn)) or self._made(about)
                exchange.connect(
                    _handles(known.checks), _handles(known.requests), known.memory.ctypes.data, known.own.ctypes.data,
                    [known.theirs.ctypes.data] if known.checks else [], self._description,
                )  # fmt: skip

    def _made(self, about: About) -> _Requests:
        """New requests, which all ranks of the group make together."""
        of, group = about.collective, about.group
        self._world.agree(f"preparation of {about.text}", group)
        first, size, dtype = self._result(of), DType(of.dtype).itemsize, DType(of.dtype).numpy
        memory = np.zeros(max(of.count * size, first + of.result_count * size), np.uint8)
        source = memory[: of.count * size].view(dtype)
        result = memory[first : first + of.result_count * size].view(dtype)
        requests = persistent(self._world.group(of.mesh, of.axes), of, source, result)
        own, theirs = np.zeros((2, self._description), np.uint8)
        text = _shown(of)[: self._description].encode()
        own[: len(text)] = np.frombuffer(text, np.uint8)
        checks: list[MPI.Request] = []
        if len(group) > 1:
            mine = group.index(self._world.rank)
            checks.append(self._checks.Recv_init(theirs, group[mine - 1]))
            checks.append(self._checks.Send_init(own, group[(mine + 1) % len(group)]))
        made = self._requests[of, about.turn] = _Requests(checks, requests, memory, own, theirs)
        return made

    def free(self) -> None:
        """Gives all requests back, before MPI ends; after an error some may be under way for good."""
        if self.carrier.is_clear:
            for one in self._requests.values():
                for request in (*one.checks, *one.requests):
                    request.Free()
            self._requests.clear()
        self.carrier.is_clear = False

    def _wait(self, exchange: Exchange) -> None:
        """Waits for an exchange that takes long. Raises CommunicationError where it has failed."""
        about: About = exchange.about
        begin = time.monotonic()
        self.waits_for = about
        while not exchange.advance():
            time.sleep(_NAP_SECONDS)
            self._world.check_others(about, time.monotonic() - begin)
        self.waits_for = None
        exchange = self.carrier.first or exchange  # what has failed, while others waited
        about = exchange.about
        if exchange.differs:
            mine = about.group.index(self._world.rank)
            theirs = (
                self._requests[about.collective, about.turn].theirs.tobytes().rstrip(b"\0").decode(errors="replace")
            )
            self._world.fail(different(self._world.rank, _shown(about.collective), about.group[mine - 1], theirs))
        if exchange.failed:
            self._world.fail(CommunicationError(f"{about.text} failed in MPI"))


def _shown(of: Collective) -> str:
    """The text that neighbours compare: an exchange does not meet a collective that is started once."""
    return f"{of!r}, of a program"


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _places(buffers: Sequence[tuple[int, int]], first: int) -> list[tuple[int, int, int]]:
    found = []
    for number, nbytes in buffers:
        found.append((number, first, nbytes))
        first += nbytes
    return found


def _handles(requests: Sequence[MPI.Request]) -> bytes:
    from mpi4py import MPI  # late: an optional library

    return b"".join(ctypes.string_at(MPI._addressof(request), MPI._sizeof(request)) for request in requests)


def exchanges_of(world: MpiWorld, checks: MPI.Comm, description: int) -> Exchanges | None:
    """None where the MPI has no collectives that are started again (before version 4), or one rank is alone."""
    from mpi4py import MPI  # late: an optional library

    if world.size == 1 or MPI.Get_version() < (4, 0):
        return None
    try:
        return Exchanges(world, checks, description)
    except (OSError, AttributeError):  # the library's functions are not where they are looked for
        return None
