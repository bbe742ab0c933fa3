"""Tensor maps: what a launch says of arrays whose boxes a kernel copies by TMA."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import TensorMap

from .driver import call, cuda, failure

BYTES = 128
_ALIGNMENT = 64
_SINCE = 12000  # the version of CUDA that has the function
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, *[ctypes.c_void_p] * 4,
    *[ctypes.c_int] * 4,
)  # fmt: skip


class TensorMaps:
    """The maps of one kernel, where a launch finds them: each is made for a buffer, and again when that has moved."""

    def __init__(self, maps: Sequence[TensorMap], description: str) -> None:
        self._maps = maps
        self._description = description
        self._made_for: list[int | None] = [None] * len(maps)
        self._memory = ctypes.create_string_buffer(BYTES * len(maps) + _ALIGNMENT)
        first = ctypes.addressof(self._memory)
        first += -first % _ALIGNMENT
        #: Where each map is.
        self.addresses = [first + BYTES * k for k in range(len(maps))]
        self._encode = _encoder() if maps else None

    def update(self, handles: Sequence[int]) -> None:
        """Makes the maps of buffers that are not where they were. Raises DeviceError."""
        for place, one in enumerate(self._maps):
            handle = handles[one.slot]
            if self._made_for[place] != handle:
                self._made_for[place] = None
                self._make(self.addresses[place], one, handle)
                self._made_for[place] = handle

    def _make(self, address: int, one: TensorMap, handle: int) -> None:
        driver: Any = cuda()
        rank = len(one.shape)
        # the innermost axis comes first; it has no stride
        sizes = (ctypes.c_uint64 * rank)(*reversed(one.sizes))
        strides = (ctypes.c_uint64 * rank)(*(math.prod(one.shape[-k:]) * one.itemsize for k in range(1, rank)))
        box, steps = (ctypes.c_uint32 * rank)(*reversed(one.box)), (ctypes.c_uint32 * rank)(*[1] * rank)
        settings = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        # bits are copied, whatever they say
        kind = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_UINT{8 * one.itemsize}")
        assert self._encode is not None
        status = self._encode(address, int(kind), rank, handle, sizes, strides, box, steps, *map(int, settings))
        if status:
            problem = failure("cuTensorMapEncodeTiled", driver.CUresult(status))
            raise DeviceError(
                f"{self._description} cannot copy boxes {one.box} of an array {one.shape} at {handle:#x} ({problem}): "
                "with the target's limit box_lines 0 threads copy it"
            )


def _encoder() -> Any:
    """The driver's cuTensorMapEncodeTiled, by its address.

    The bindings' function of that name writes into an object of its own, which is at a multiple of 16 bytes only; the
    driver asks for 64. Raises DeviceError.
    """
    address, _ = call("cuGetProcAddress", b"cuTensorMapEncodeTiled", _SINCE, 0)
    if not address:
        raise DeviceError(
            "this driver has no cuTensorMapEncodeTiled: install a newer one, of CUDA 12 at least, or set the target's "
            "limit box_lines to 0"
        )
    return _ENCODE(int(address))
