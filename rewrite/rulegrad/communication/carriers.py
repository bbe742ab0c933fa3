"""Transport of values between the GPUs of ranks without the host: NCCL, where all ranks can use it."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import NamedTuple

from rulegrad.communication.meshes import world_of
from rulegrad.communication.nccl import NcclWorld
from rulegrad.communication.worlds import bytes_of_all
from rulegrad.runtime import devices
from rulegrad.runtime.device import CommunicationStream

_BYTES = 16  # of the identity of a GPU


class Carrier(NamedTuple):
    """The ranks as NCCL connects them, and the stream on which it moves values."""

    world: NcclWorld
    stream: CommunicationStream


@cache
def carrier_of(device: str) -> Carrier | None:
    """The carrier of a device of this rank; None where a rank has no GPU of its own, or no NCCL. All ranks ask.

    >>> carrier_of("numpy") is None
    True
    """
    ranks = world_of(device)
    if ranks.size == 1 or len(ranks.local) != 1:
        return None
    make = getattr(devices.get(device), "communication_stream", None)
    stream: CommunicationStream | None = make() if make is not None and _is_installed() else None
    known = bytes_of_all(ranks, bytes(_BYTES) if stream is None else stream.identity)
    if stream is None or len(set(known)) < ranks.size or bytes(_BYTES) in known:
        return None
    return Carrier(NcclWorld(ranks, stream.number, stream.handle), stream)


def _is_installed() -> bool:
    return importlib.util.find_spec("nccl") is not None
