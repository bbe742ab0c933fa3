"""A pretend nccl4py: the modules that NcclWorld imports, around a communicator that a test brings. A GPU's memory is the host's."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

UNIQUE_ID = bytes(range(128))


def memory(array: Any) -> np.ndarray[Any, Any]:
    """The memory of an array that the library is given, by CUDA's interface."""
    found = array.__cuda_array_interface__
    dtype = np.dtype(found["typestr"])
    text = (ctypes.c_char * (found["shape"][0] * dtype.itemsize)).from_address(found["data"][0])
    return np.frombuffer(text, dtype)


class Group(threading.local):
    """nccl.core.group. Real NCCL makes what is split inside a group at its end, so no collective inside can use it."""

    depth = 0

    def __call__(self) -> Group:
        return self

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.depth -= 1


def modules(communicator: Any, operations: Sequence[Any]) -> dict[str, ModuleType]:
    """The modules by name; operations: what the library calls its sum, product, maximum and minimum."""
    core: Any = ModuleType("nccl.core")
    core.group = Group()

    class Communicator(communicator):  # type: ignore[misc]
        def split(self, color: int, key: int) -> Any:
            assert not core.group.depth, "a communicator that is split inside a group is not initialized"
            return super().split(color, key)

    core.Communicator = Communicator
    core.SUM, core.PROD, core.MAX, core.MIN = operations
    core.get_unique_id = lambda empty: SimpleNamespace(as_bytes=bytes(128) if empty else UNIQUE_ID)
    core.UniqueId = SimpleNamespace(from_bytes=lambda text: text)
    package: Any = ModuleType("nccl")
    package.core, package.__spec__ = core, SimpleNamespace()  # it is found, as an installed one is
    devices: Any = ModuleType("cuda.core")
    devices.Device = lambda number: SimpleNamespace(set_current=lambda: None)
    cuda: Any = ModuleType("cuda")
    cuda.core = devices
    return {"nccl": package, "nccl.core": core, "cuda": cuda, "cuda.core": devices}
