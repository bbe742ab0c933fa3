"""Many devices as one: meshes, and tensors and modules that are placed on them.

    mesh = Mesh({"data": 2})
    x = shard(images, mesh, data=0)     # each device has half of the batch
    loss = model(x).mean()              # is the same number on all of them

A program is written for whole tensors. Each device runs it on its parts of them, and what has to be sent is found by
rules (`rules/sharding`). Tensors that nobody placed are the same on all devices.
"""

from __future__ import annotations

import importlib
from typing import Any

from rulegrad.distributed._attention import context_parallel, ring_attention
from rulegrad.distributed._checkpoint import StoredTensor, load_parts, save_parts
from rulegrad.distributed._mesh import Mesh, from_parts, placement, shard
from rulegrad.distributed._modules import (
    FullySharded,
    column_parallel,
    data_parallel,
    fully_sharded,
    row_parallel,
    shard_parameters,
    vocabulary_parallel,
)  # fmt: skip
from rulegrad.distributed._pipeline import Pipeline, load_unstacked_state_dict, pipeline, unstacked_state_dict
from rulegrad.support.torch_modules import modules_below

__all__ = [
    "FullySharded",
    "Mesh",
    "Pipeline",
    "StoredTensor",
    "column_parallel",
    "context_parallel",
    "data_parallel",
    "from_parts",
    "fully_sharded",
    "load_parts",
    "load_unstacked_state_dict",
    "pipeline",
    "placement",
    "ring_attention",
    "row_parallel",
    "save_parts",
    "shard",
    "shard_parameters",
    "unstacked_state_dict",
    "vocabulary_parallel",
]


def __getattr__(name: str) -> Any:
    # late: what few programs ask, in a package above this one
    processes = importlib.import_module("rulegrad.pytorch.processes")
    return getattr(processes, name) if hasattr(processes, name) else modules_below("distributed")(name)


def __dir__() -> list[str]:
    return __all__
