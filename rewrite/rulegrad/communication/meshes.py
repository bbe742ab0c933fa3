"""The ranks of a mesh's devices: by the name of a device, those in this process, or those of many processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rulegrad.communication.collective import Collective, place_of
from rulegrad.communication.current import world
from rulegrad.communication.in_process import InProcess
from rulegrad.communication.worlds import World
from rulegrad.errors import CommunicationError
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.runtime.several import count_of, parts_of


@cache
def _in_process(size: int) -> World:
    return InProcess(size)


def world_of(device: str) -> World:
    """The ranks that compute together on a device: its parts, or this rank with those of other processes.

    >>> world_of("numpy*4").size
    4
    """
    parts = count_of(device)
    return world() if parts == 1 else _in_process(parts)


def part_of(array: np.ndarray[Any, Any], parts: Parts, rank: int) -> np.ndarray[Any, Any]:
    """The part of an array that a rank has, with zeros behind its end.

    >>> part_of(np.arange(5), Parts((5,), (2,), (0,)), 1)
    array([3, 4, 0])
    """
    for axis, bounds in enumerate(bounds_of(parts, rank)):
        if bounds != (0, parts.shape[axis]):
            array = np.take(array, np.arange(*bounds), axis)
            missing = parts.local_shape[axis] - array.shape[axis]
            array = np.pad(array, [(0, missing if k == axis else 0) for k in range(array.ndim)])
    return array


def bounds_of(parts: Parts, rank: int) -> tuple[tuple[int, int], ...]:
    """Where the part of a rank begins and ends, on each axis of the tensor.

    >>> bounds_of(Parts((5, 4), (2,), (0,)), 1)
    ((3, 5), (0, 4))
    """
    found = []
    for axis, (extent, length) in enumerate(zip(parts.shape, parts.local_shape, strict=True)):
        along = tuple(k for k, place in enumerate(parts.placement) if place == axis)
        first = place_of(parts.mesh, along, rank)[1] * length if along else 0
        found.append((min(first, extent), min(first + length, extent)))
    return tuple(found)


def own_parts(buffer: Buffer) -> list[tuple[int, tuple[tuple[int, int], ...], np.ndarray[Any, Any]]]:
    """The parts of a buffer that this process has: ranks, where their parts begin and end, and the values.

    >>> [values.tolist() for _, _, values in own_parts(upload_parts(np.arange(3), Parts((3,), (2,), (0,)), "numpy*2"))]
    [[0, 1], [2]]
    """
    parts, found = buffer.parts, []
    assert parts is not None  # of a buffer in parts
    for rank, array in zip(world_of(buffer.device).local, buffer.arrays_of_parts(), strict=True):
        bounds = bounds_of(parts, rank)
        found.append((rank, bounds, array[tuple(slice(0, last - first) for first, last in bounds)]))
    return found


def on_any_rank(holds: bool, device: str) -> bool:
    """Whether something holds on one of the ranks that compute together on a device; all of them ask.

    >>> on_any_rank(False, "numpy*2")
    False
    """
    ranks = world_of(device)
    if len(ranks.local) == ranks.size:
        return holds
    own, found = np.array([holds], np.int32), np.empty(1, np.int32)
    ranks.start(Collective("all_reduce", (ranks.size,), (0,), "max", 1, "int32"), [own], [found]).wait()
    return bool(found[0])


def upload_parts(array: np.ndarray[Any, Any], parts: Parts, device: str) -> Buffer:
    """A buffer in parts with the values of an array, of which only those of this process are copied.

    >>> upload_parts(np.arange(5), Parts((5,), (2,), (0,)), "numpy*2").nbytes
    24
    """
    buffer = Buffer(parts.shape, array.dtype, device, parts)
    buffer.copy_in_parts([part_of(array, parts, rank) for rank in world_of(device).local])
    return buffer


def check_mesh(mesh: Sequence[int], device: str) -> None:
    """Raises CommunicationError unless there are as many ranks as a mesh has places.

    >>> check_mesh((2, 2), "numpy*4")
    """
    size = world_of(device).size
    if math.prod(mesh) != size:
        shown, first = " x ".join(map(str, mesh)), parts_of(device)[0]
        raise CommunicationError(
            f"a mesh of {shown} needs {math.prod(mesh)} devices, and there are {size} on {device!r}; start as many "
            f"ranks (`python -m rulegrad launch -n {math.prod(mesh)} SCRIPT`), or name a device of several parts, as "
            f"{first + '*' + str(math.prod(mesh))!r}"
        )
