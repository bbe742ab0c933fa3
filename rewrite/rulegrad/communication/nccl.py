"""Ranks with a GPU of NVIDIA each, between which NCCL moves values, by its own binding nccl4py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from rulegrad.communication.collective import Collective, groups_of, place_of
from rulegrad.communication.counting import tally_of
from rulegrad.communication.worlds import Work, World, bytes_of_all
from rulegrad.errors import CommunicationError
from rulegrad.ir.dtype import DType

_INSTALL: Final = 'pip install "rulegrad[nccl]"'
_IN_PROGRESS: Final = 7  # ncclInProgress
_INTEGERS: Final = ("int8", "uint8", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class DeviceArray:
    """Flat memory of a GPU: its address, as CUDA's driver gives it, and the elements there.

    >>> DeviceArray(4096, 3, "float32").__cuda_array_interface__["typestr"]
    '<f4'
    """

    address: int
    count: int
    dtype: str

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = np.dtype(DType(self.dtype).numpy).str
        return {"shape": (self.count,), "typestr": kind, "data": (self.address, False), "version": 3}

    def bytes(self, first: int = 0, count: int | None = None) -> DeviceArray:
        """The bytes of some of the elements.

        >>> DeviceArray(4096, 3, "bfloat16").bytes(1)
        DeviceArray(address=4098, count=4, dtype='uint8')
        """
        size = DType(self.dtype).itemsize
        return DeviceArray(
            self.address + first * size, (self.count - first if count is None else count) * size, "uint8"
        )


class NcclWorld:
    """The ranks of another world, which carries what NCCL needs to begin, with a GPU each.

    `start` takes a `DeviceArray` of this GPU and puts the collective on a stream of CUDA (its handle): on that of the
    kernels, so that each waits for the other. Values move in every dtype. NCCL reduces as tensors do:
    integers of 8, 32 and 64 bits, sums and products of float32 and float64, sums of complex numbers. It rounds small
    floats after each addition, and may lose nans in a maximum; these are a CommunicationError, as is a missing nccl4py.
    """

    def __init__(self, ranks: World, device: int, stream: int) -> None:
        if len(ranks.local) != 1:
            raise CommunicationError("NcclWorld: each rank is a process of its own, with one GPU")
        self._nccl = _library()
        self.size, self.local = ranks.size, ranks.local
        self.rank = ranks.local[0]
        self._ranks, self._stream = ranks, stream
        _set_device(device)
        self._everyone = self._nccl.Communicator.init(self.size, self.rank, self._shared_id())
        self._groups: dict[tuple[tuple[int, ...], tuple[int, ...]], Any] = {}

    def start(self, collective: Collective, sources: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> Work:
        """Puts a collective on the stream. All ranks of the mesh call it, in one order.

        Raises CommunicationError where arrays do not fit, or NCCL has no such reduction.
        """
        source, result = self._checked(collective, sources, results)
        reduced = _reducible(collective) if collective.operation else ""
        tally_of(collective).start()
        group = self._group(collective.mesh, collective.axes)
        self._put(group, collective, source, result, reduced)
        return _OnStream(group, collective)

    def together(self, collectives: Sequence[Collective]) -> AbstractContextManager[Any]:
        """These, which are started inside, are put on the stream as one, at its end."""
        for of in collectives:
            self._group(of.mesh, of.axes)  # a communicator that is made inside cannot be used there
        group: AbstractContextManager[Any] = self._nccl.group()
        return group

    def check_same(self, label: str, value: str) -> None:
        """Raises CommunicationError, naming the ranks, where they do not all give the same value; all call it."""
        self._ranks.check_same(label, value)

    def expect_same(self, what: str) -> None:
        """All ranks call it, and go on: where they do not all give the same, what follows is a CommunicationError."""
        self._ranks.expect_same(what)

    def _checked(
        self, of: Collective, sources: Sequence[Any], results: Sequence[Any]
    ) -> tuple[DeviceArray, DeviceArray]:
        if len(of.groups()) * of.members != self.size:
            raise CommunicationError(f"{of}: its mesh has other ranks than the {self.size} there are")
        for what, arrays, wanted in (("source", sources, of.count), ("result", results, of.result_count)):
            if len(arrays) != 1 or (arrays[0].count, arrays[0].dtype) != (wanted, of.dtype):
                raise CommunicationError(f"{of}: the {what} is one array of {wanted} {of.dtype}, not {arrays!r}")
        if of.kind in ("all_to_all", "shift", "part") and sources[0].address == results[0].address:
            raise CommunicationError(f"{of}: NCCL needs the result in other memory than the source")
        return sources[0], results[0]

    def _put(self, group: Any, of: Collective, source: DeviceArray, result: DeviceArray, reduced: str) -> None:
        stream, _, member = self._stream, *place_of(of.mesh, of.axes, self.rank)
        if reduced:
            operation = getattr(self._nccl, of.operation.upper())
            reduce = group.allreduce if of.kind == "all_reduce" else group.reduce_scatter
            reduce(_seen_as(source, reduced), _seen_as(result, reduced), operation, stream=stream)
        elif of.kind == "all_gather":
            group.allgather(source.bytes(), result.bytes(), stream=stream)
        elif of.kind == "all_to_all":
            group.alltoall(source.bytes(), result.bytes(), stream=stream)
        else:  # a shift; a part is sent to this rank itself
            to, origin = (member + of.by) % of.members, (member - of.by) % of.members
            first = member * of.result_count if of.kind == "part" else 0
            with self._nccl.group():
                group.send(source.bytes(first, of.result_count), to, stream=stream)
                group.recv(result.bytes(), origin, stream=stream)

    def _group(self, mesh: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        """The communicator of this rank's group; all ranks of the mesh make theirs together."""
        if (mesh, axes) not in self._groups:
            members, place = place_of(mesh, axes, self.rank)
            number = groups_of(mesh, axes).index(members)
            self._groups[mesh, axes] = self._everyone.split(number, place)
        return self._groups[mesh, axes]

    def _shared_id(self) -> Any:
        """The identifier that rank 0 makes, on all ranks."""
        own = bytes(self._nccl.get_unique_id(empty=self.rank != 0).as_bytes)
        return self._nccl.UniqueId.from_bytes(bytes_of_all(self._ranks, own)[0])


class _OnStream:
    """A collective on the stream: what the stream runs after it has its result."""

    def __init__(self, group: Any, of: Collective) -> None:
        self._group, self._of = group, of

    def wait(self) -> None:
        """Raises CommunicationError where NCCL knows of an error; the host waits for nothing else."""
        status = self._group.get_async_error()
        if int(status) not in (0, _IN_PROGRESS):
            raise CommunicationError(f"{self._of} failed in NCCL: {self._group.get_last_error()} ({status!r})")


def is_carried(of: Collective) -> bool:
    """Whether NCCL computes a collective with the values that tensors have.

    >>> is_carried(Collective("all_reduce", (2,), (0,), "sum", 4, "bfloat16"))
    False
    """
    return not of.operation or bool(_reduced_as(of))


def _reducible(of: Collective) -> str:
    found = _reduced_as(of)
    if not found:
        raise CommunicationError(
            f"{of}: NCCL does not reduce {of.dtype} to the values that tensors have; reduce float32, or on the host by "
            "MPI"
        )
    return found


def _reduced_as(of: Collective) -> str:
    """The dtype that NCCL reduces with the values of tensors; "" where it has none."""
    if of.dtype in _INTEGERS or (of.dtype in ("float32", "float64") and of.operation in ("sum", "prod")):
        return of.dtype
    if DType(of.dtype).is_complex and of.operation == "sum":
        return "float32" if of.dtype == "complex64" else "float64"
    return ""


def _seen_as(array: DeviceArray, dtype: str) -> DeviceArray:
    factor = DType(array.dtype).itemsize // DType(dtype).itemsize
    return replace(array, count=array.count * factor, dtype=dtype)


def _library() -> Any:
    try:
        import nccl.core  # late: an optional library
    except (ImportError, RuntimeError) as error:
        raise CommunicationError(f"NCCL cannot be used ({error}); {_INSTALL} installs it") from None
    return nccl.core


def _set_device(number: int) -> None:
    import cuda.core  # late: it comes with nccl4py

    cuda.core.Device(number).set_current()
