"""Collectives as calls of MPI: each a generator of requests, so that kernels go on beside one of several calls.

MPI moves bytes and reduces what it has an operation for. What it has none for with the values that tensors have (small
floats, bools, a maximum with nans) is exchanged, reduced here in the order of the members, and gathered: as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.communication.collective import Collective
from rulegrad.communication.reductions import reduce_into
from rulegrad.ir.dtype import DType

if TYPE_CHECKING:
    from mpi4py import MPI

_TYPES: Final = {
    "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T",
    "uint8": "UINT8_T", "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T",
    "float32": "FLOAT", "float64": "DOUBLE", "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip


def is_native(of: Collective) -> bool:
    """Whether MPI has the reduction with the values of tensors; its maximum of floats loses nans.

    >>> is_native(Collective("all_reduce", (2,), (0,), "max", 4, "float32"))
    False
    """
    return of.dtype in _TYPES and (of.operation in ("sum", "prod") or DType(of.dtype).is_integer)


def requests(group: MPI.Comm, of: Collective, source: np.ndarray, result: np.ndarray) -> Iterator[MPI.Request]:
    """Yields the requests of a collective, each to be completed before the next is asked for."""
    if of.kind == "part":
        result[:] = source.reshape(group.size, -1)[group.rank]
    elif group.size == 1 or (of.kind == "shift" and of.by % group.size == 0):
        result[:] = source
    elif of.kind == "all_gather":
        yield group.Iallgather(_bytes(source), _bytes(result))
    elif of.kind == "all_to_all":
        yield group.Ialltoall(_bytes(_apart(source, result)), _bytes(result))
    elif of.kind == "shift":
        to, origin = (group.rank + of.by) % group.size, (group.rank - of.by) % group.size
        yield group.Isendrecv(_bytes(_apart(source, result)), to, 0, _bytes(result), origin, 0)
    elif is_native(of):
        yield _native(group, of, source, result)
    elif of.kind == "reduce_scatter":
        yield from _exchanged(group, of, source, result)
    else:
        mine = np.empty(_counts(of.count, group.size)[group.rank], source.dtype)
        yield from _exchanged(group, of, source, mine)
        sizes = [count * source.itemsize for count in _counts(of.count, group.size)]
        yield group.Iallgatherv(_bytes(mine), [_bytes(result), sizes])


def is_persistent(of: Collective) -> bool:
    """Whether the collective is requests that can be started again, with nothing to compute between them.

    >>> is_persistent(Collective("all_reduce", (2,), (0,), "sum", 4, "bfloat16"))
    False
    """
    return not of.operation or is_native(of)


def persistent(group: MPI.Comm, of: Collective, source: np.ndarray, result: np.ndarray) -> list[MPI.Request]:
    """The requests of such a collective, inactive. The result of an `all_reduce` or `part` is in the source's memory.

    All ranks of the group make them together.
    """
    if of.kind == "part":
        return []
    if of.kind == "all_gather":
        return [group.Allgather_init(_bytes(source), _bytes(result))]
    if of.kind == "all_to_all":
        return [group.Alltoall_init(_bytes(source), _bytes(result))]
    if of.kind == "shift":
        to, origin = (group.rank + of.by) % group.size, (group.rank - of.by) % group.size
        return [group.Recv_init(_bytes(result), origin), group.Send_init(_bytes(source), to)]
    from mpi4py import MPI  # late: an optional library

    kind, operation = _kind_and_operation(of)
    if of.kind == "all_reduce":
        return [group.Allreduce_init(MPI.IN_PLACE, [result, kind], operation)]
    return [group.Reduce_scatter_block_init([source, kind], [result, kind], operation)]


def _kind_and_operation(of: Collective) -> tuple[Any, MPI.Op]:
    from mpi4py import MPI  # late: an optional library

    return getattr(MPI, _TYPES[of.dtype]), getattr(MPI, of.operation.upper())


def _native(group: MPI.Comm, of: Collective, source: np.ndarray, result: np.ndarray) -> MPI.Request:
    from mpi4py import MPI  # late: an optional library

    kind, operation = _kind_and_operation(of)
    given: Any = MPI.IN_PLACE if source is result else [source, kind]
    if of.kind == "all_reduce":
        return group.Iallreduce(given, [result, kind], operation)
    return group.Ireduce_scatter_block(given, [result, kind], operation)


def _exchanged(group: MPI.Comm, of: Collective, source: np.ndarray, mine: np.ndarray) -> Iterator[MPI.Request]:
    """The member's block of a reduction, from the blocks that all members send it."""
    counts = [count * source.itemsize for count in _counts(len(source), group.size)]
    received = np.empty((group.size, len(mine)), source.dtype)
    from_each = [mine.nbytes] * group.size
    yield group.Ialltoallv([_bytes(source), counts], [_bytes(received.reshape(-1)), from_each])
    reduce_into(mine, list(received), of.operation, of.dtype)


def _counts(count: int, members: int) -> list[int]:
    """Elements of the block of each member; they differ by one where they are not equally many."""
    return [count * (member + 1) // members - count * member // members for member in range(members)]


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8)


def _apart(source: np.ndarray, result: np.ndarray) -> np.ndarray:
    """The source in memory of its own, which MPI asks for."""
    return source.copy() if np.may_share_memory(source, result) else source
