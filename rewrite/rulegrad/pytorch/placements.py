"""`torch.distributed.tensor` and `.fsdp`: names by which programs ask whether a tensor or module is of PyTorch's kind.

Nothing is: `rulegrad.distributed` places whole tensors, and modules by `fully_sharded`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from rulegrad.pytorch.processes import ProcessGroup, init_process_group

__all__ = [
    "DTensor", "FSDPModule", "FullyShardedDataParallel", "Partial", "Placement", "Replicate", "Shard",
    "distribute_module", "distribute_tensor", "fully_shard", "implicit_replication",
]  # fmt: skip


class DTensor(ProcessGroup):
    """A part of a tensor in PyTorch's groups of processes: nothing is one, so `isinstance(x, DTensor)` is False."""


class Placement(ProcessGroup):
    """Where such a part is: nothing is one."""


class Shard(Placement):
    """One of the parts along an axis: nothing is one."""


class Replicate(Placement):
    """The whole: nothing is one."""


class Partial(Placement):
    """A term of a sum: nothing is one."""


class FullyShardedDataParallel(ProcessGroup):
    """A module whose parameters are parts in such processes: nothing is one."""


class FSDPModule(ProcessGroup):
    """The same by `fully_shard`: nothing is one."""


distribute_tensor = distribute_module = fully_shard = init_process_group


def implicit_replication() -> Any:
    """A block that changes nothing: no tensor is a part."""
    return nullcontext()
