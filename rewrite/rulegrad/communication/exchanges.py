"""Collectives that programs start again and again in the engine, by requests of MPI that are made once."""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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
    """What an exchange is, for messages and for those who wait for it."""

    collective: Collective
    text: str
    group: tuple[int, ...]  # ranks
    nbytes: int  # of its memory
    result: int  # where the result begins
    theirs: np.ndarray[Any, Any] = field(compare=False)  # what the neighbour before says that it has started


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

    def make(
        self, of: Collective, sent: Sequence[tuple[int, int]], received: Sequence[tuple[int, int]]
    ) -> Exchange | None:
        """A collective on buffers of a program: the numbers of those that it sends one after the other, and bytes.

        None where it is not one request that can be started again.
        """
        if not is_persistent(of):
            return None
        group, member = place_of(of.mesh, of.axes, self._world.rank)
        nbytes = of.count * DType(of.dtype).itemsize
        end = -(-nbytes // _PLACES) * _PLACES
        result = {"all_reduce": 0, "part": member * (nbytes // len(group))}.get(of.kind, end)
        theirs = np.zeros(self._description, np.uint8)
        about = About(of, str(of), group, end + of.result_count * DType(of.dtype).itemsize, result, theirs)
        copies = _places(sent, 0), _places(received, result)
        return Exchange(self.carrier, tally_of(of), about, *copies)

    def _settle(self, exchanges: Sequence[Exchange]) -> None:
        """Before a program: ends what is under way, and makes requests where there are none yet."""
        self._world.finish()
        for exchange in exchanges:
            if not exchange.is_connected:
                self._connect(exchange)

    def _connect(self, exchange: Exchange) -> None:
        about: About = exchange.about
        of = about.collective
        self._world.agree(f"preparation of {about.text}", about.group)
        memory = np.zeros(about.nbytes, np.uint8)
        dtype = DType(of.dtype).numpy
        source = memory[: of.count * DType(of.dtype).itemsize].view(dtype)
        result = memory[about.result :][: of.result_count * DType(of.dtype).itemsize].view(dtype)
        requests = persistent(self._world.group(of.mesh, of.axes), of, source, result)
        own = np.zeros_like(about.theirs)
        text = _shown(of)[: self._description].encode()
        own[: len(text)] = np.frombuffer(text, np.uint8)
        checks: list[MPI.Request] = []
        if len(about.group) > 1:
            mine = about.group.index(self._world.rank)
            checks.append(self._checks.Recv_init(about.theirs, about.group[mine - 1]))
            checks.append(self._checks.Send_init(own, about.group[(mine + 1) % len(about.group)]))
        kept = [memory, own, about]
        exchange.connect(
            _handles(checks), _handles(requests), memory.ctypes.data, own.ctypes.data,
            [about.theirs.ctypes.data] if checks else [], self._description,
        )  # fmt: skip
        weakref.finalize(exchange, _free, [*checks, *requests], kept, self._is_over)

    def _is_over(self) -> bool:
        """Whether requests may be under way for good, or MPI has ended."""
        from mpi4py import MPI  # late: an optional library

        return not self.carrier.is_clear or MPI.Is_finalized()

    def _wait(self, exchange: Exchange) -> None:
        """Waits for an exchange that takes long. Raises CommunicationError where it has failed."""
        about: About = exchange.about
        begin = time.monotonic()
        self.waits_for = about
        while not exchange.advance():
            time.sleep(_NAP_SECONDS)
            self._world.check_others(about, time.monotonic() - begin)
        self.waits_for = None
        if exchange.differs:
            mine = about.group.index(self._world.rank)
            theirs = about.theirs.tobytes().rstrip(b"\0").decode(errors="replace")
            self._world.fail(different(self._world.rank, _shown(about.collective), about.group[mine - 1], theirs))
        if exchange.failed:
            self._world.fail(CommunicationError(f"{about.text} failed in MPI"))


def _shown(of: Collective) -> str:
    """What neighbours are told: an exchange does not meet a collective that is started once."""
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


def _free(requests: Sequence[MPI.Request], kept: object, is_over: Callable[[], bool]) -> None:
    """Gives the requests of an exchange back that nobody has any more, and lets go of their memory."""
    if not is_over():
        for request in requests:
            request.Free()


def exchanges_of(world: MpiWorld, checks: MPI.Comm, description: int) -> Exchanges | None:
    """None where the MPI has no collectives that are started again (before version 4), or one rank is alone."""
    from mpi4py import MPI  # late: an optional library

    if world.size == 1 or MPI.Get_version() < (4, 0):
        return None
    try:
        return Exchanges(world, checks, description)
    except (OSError, AttributeError):  # the library's functions are not where they are looked for
        return None
