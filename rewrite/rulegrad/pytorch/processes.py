"""The questions of `torch.distributed` before its use: there is no group of processes. Meshes are for that."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rulegrad.errors import ConfigError


def is_available() -> bool:
    """False: a program is written for whole tensors, and `rulegrad.distributed` places them on many devices."""
    return False


is_initialized = is_torchelastic_launched = is_available


def get_rank(group: Any = None) -> int:
    """0: the only process of PyTorch's kind."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1: the only process of PyTorch's kind."""
    return 1


def init_process_group(*arguments: Any, **more: Any) -> None:
    """Not supported: a ConfigError that says what to do."""
    raise ConfigError(
        "distributed: there are no groups of processes; write for whole tensors, and place them by "
        "rulegrad.distributed.Mesh, shard and data_parallel"
    )


all_reduce = all_gather = broadcast = barrier = init_process_group


class ProcessGroup:
    """A name for annotations: there are none, so it cannot be made."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        init_process_group()


class DeviceMesh(ProcessGroup):
    """A name for annotations; `rulegrad.distributed.Mesh` is the mesh that tensors are placed on."""


init_device_mesh = new_group = init_process_group


class ReduceOp(Enum):
    """How numbers of several processes would become one: names for default arguments."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
