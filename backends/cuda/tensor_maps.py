"""Tensor maps: what a launch says of arrays whose boxes a kernel copies by TMA."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import TensorMap

from .driver import cuda
from .launches import address

BYTES = 128
_ALIGNMENT = 64


class TensorMaps:
    """The maps of one kernel: where a launch finds them, and what the driver's cuTensorMapEncodeTiled is told.

    The engine makes each for the buffer of its slot, and again when that has moved. (The bindings' function of that
    name writes into an object of its own, which is at a multiple of 16 bytes only; the driver asks for 64.)
    """

    def __init__(self, maps: Sequence[TensorMap]) -> None:
        """Raises DeviceError, where the driver makes no maps."""
        if maps and not address("cuTensorMapEncodeTiled"):
            raise DeviceError(
                "this driver has no cuTensorMapEncodeTiled: install a newer one, of CUDA 12 at least, or set the "
                "target's limit box_lines to 0"
            )
        self._memory = ctypes.create_string_buffer(BYTES * len(maps) + _ALIGNMENT)
        self._arrays: list[ctypes.Array[Any]] = []  # as long as the driver is given their addresses
        first = ctypes.addressof(self._memory)
        first += -first % _ALIGNMENT
        #: Of each map the numbers that `CudaKernel` asks for.
        self.described = [self._describe(first + BYTES * k, one) for k, one in enumerate(maps)]
        #: What they copy, for errors.
        self.boxes = ", ".join(f"{one.box} of an array {one.shape}" for one in maps)

    def _describe(self, place: int, one: TensorMap) -> tuple[int, ...]:
        driver: Any = cuda()
        rank = len(one.shape)
        # the innermost axis comes first; it has no stride
        strides = [math.prod(one.shape[-k:]) * one.itemsize for k in range(1, rank)]
        arrays = [
            (ctypes.c_uint64 * rank)(*reversed(one.sizes)),
            (ctypes.c_uint64 * rank)(*strides),
            (ctypes.c_uint32 * rank)(*reversed(one.box)),
            (ctypes.c_uint32 * rank)(*[1] * rank),
        ]
        self._arrays += arrays
        settings = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        # bits are copied, whatever they say
        kind = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_UINT{8 * one.itemsize}")
        return place, one.slot, rank, int(kind), *map(ctypes.addressof, arrays), *map(int, settings)
