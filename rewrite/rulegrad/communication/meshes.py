"""Which ranks the devices of a mesh are: by the name of a device, those in this process, or those of many processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from rulegrad.communication.current import world
from rulegrad.communication.in_process import InProcess
from rulegrad.communication.worlds import World
from rulegrad.errors import CommunicationError
from rulegrad.runtime.several import count_of


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


def check_mesh(mesh: Sequence[int], device: str) -> None:
    """Raises CommunicationError unless there are as many ranks as a mesh has places.

    >>> check_mesh((2, 2), "numpy*4")
    """
    size = world_of(device).size
    if math.prod(mesh) != size:
        shown = " x ".join(map(str, mesh))
        raise CommunicationError(
            f"a mesh of {shown} needs {math.prod(mesh)} devices, and there are {size} on {device!r}; start as many "
            f"ranks (`python -m rulegrad launch -n {math.prod(mesh)} SCRIPT`), or name a device of several parts, as "
            f"{device.partition('*')[0] + '*' + str(math.prod(mesh))!r}"
        )
