"""The `cuda` backend: NVIDIA GPUs, through the CUDA driver and NVRTC (`pip install 'rulegrad[cuda]'`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.device import CudaKernel, Replay
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.selftest import add_number
from rulegrad.support import forks
from rulegrad.support.forks import ForkGuard

from .communication import CommunicationStream
from .driver import call, capability, cuda, discover, fingerprint, start
from .launches import program, queue
from .launching import UNASKED_BYTES, geometry
from .programs import architecture, build, target_for
from .staging import Staging
from .tensor_maps import TensorMaps

__all__ = ["Device", "discover", "fingerprint", "geometry", "self_test"]

_fork = ForkGuard("CUDA drivers")


class Device:
    """One GPU: its primary context, which other libraries share, and one stream. Handles are addresses.

    Memory is taken from and given back to the driver's pool in the order of the stream, so nothing waits for that.
    """

    interprets = False

    def __init__(self, number: int) -> None:
        start()
        self.target = target_for(*capability(number))
        self.name = f"cuda:{number}"
        self._device = call("cuDeviceGet", number)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._arch = architecture(*capability(number))
        self.memory: int = call("cuDeviceTotalMem", self._device)
        kinds = cuda().CUdevice_attribute
        self.compute_units: int = call(
            "cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, self._device
        )
        # One thread at a time hands work to the stream by Python; the engine does with the interpreter's lock.
        self.lock = forks.lock()
        with self.entered():
            self.stream = call("cuStreamCreate", cuda().CUstream_flags.CU_STREAM_NON_BLOCKING)
            self._staging = Staging(self.stream)
            self.queue = queue(self._context, self.stream, _fork)
            self._keep_memory_in_pool()

    def entered(self) -> forks.Lock:
        """The lock, with the device's context as that of this thread."""
        if _fork.forked:
            _fork.check()
        call("cuCtxSetCurrent", self._context)
        return self.lock

    def allocate(self, nbytes: int) -> int:
        try:
            with self.entered():
                return int(call("cuMemAllocAsync", nbytes, self.stream))
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"{self.name} cannot allocate {nbytes:,} bytes: of {self.memory:,} bytes not enough are free ({error})"
            ) from None

    def free(self, handle: int) -> None:
        if not _fork.forked:
            with self.entered():
                call("cuMemFreeAsync", handle, self.stream)

    def copy_in(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        with self.entered():
            self._staging.copy_in(handle, array.ctypes.data, array.nbytes)

    def copy_out(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        with self.entered():
            call("cuMemcpyDtoHAsync", array.ctypes.data, handle, array.nbytes, self.stream)
            call("cuStreamSynchronize", self.stream)

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        cubins = build(kernels, self._arch, self.name)
        with self.entered():
            modules = {cubin: call("cuModuleLoadData", cubin) for cubin in dict.fromkeys(cubins)}
            return [Executable(self, kernel, modules[cubin]) for kernel, cubin in zip(kernels, cubins, strict=True)]

    def record(
        self, launches: Sequence[tuple[Executable, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> Replay:
        """Launches on numbered buffers as one program: run again on the same buffers, it is one launch of a graph."""
        return program(self.queue, launches, bound, offsets)

    def synchronize(self) -> None:
        with self.entered():
            call("cuStreamSynchronize", self.stream)

    def communication_stream(self) -> CommunicationStream:
        """A stream for NCCL."""
        identity = bytes(call("cuDeviceGetUuid", self._device).bytes)
        return CommunicationStream(self, int(self.name.removeprefix("cuda:")), identity)

    def _keep_memory_in_pool(self) -> None:
        """Freed memory stays with the process: `rulegrad.runtime.allocator` decides what is returned."""
        pool = call("cuDeviceGetDefaultMemPool", self._device)
        kind = cuda().CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call("cuMemPoolSetAttribute", pool, kind, cuda().cuuint64_t(self.memory // 4))


class Executable:
    """A kernel of a module: how it is launched by the engine, alone or in a program with others."""

    __slots__ = ("_alone", "_device", "_module", "kernel")

    def __init__(self, device: Device, kernel: Kernel, module: Any) -> None:
        self._device, self._module = device, module
        description = f"kernel {kernel.name!r} on {device.name}"
        try:
            function = call("cuModuleGetFunction", module, kernel.name.encode())
        except DeviceError as error:
            raise DeviceError(f"the source of {kernel.name!r} defines no such kernel: {error}") from None
        if kernel.local_bytes > UNASKED_BYTES:
            _ask_for_local_memory(function, kernel.local_bytes, description)
        maps = TensorMaps(kernel.maps)
        kept = description, module, maps  # the module stays loaded with it
        blocks, threads = geometry(kernel)
        self.kernel = CudaKernel(int(function), blocks, threads, kernel.local_bytes, maps.described, kept)
        self._alone = program(device.queue, [(self, range(kernel.buffers))], kernel.buffers, ())

    def sized(self, kernel: Kernel) -> Executable:
        """The same for another grid."""
        with self._device.entered():
            return Executable(self._device, kernel, self._module)

    def __call__(self, handles: Sequence[int], wait: bool = False) -> float | None:
        with self._device.entered():
            if not wait:
                self._alone.run(handles, None)
                return None
            timed = cuda().CUevent_flags.CU_EVENT_DEFAULT
            before, after = call("cuEventCreate", timed), call("cuEventCreate", timed)
            try:
                call("cuEventRecord", before, self._device.stream)
                self._alone.run(handles, None)
                call("cuEventRecord", after, self._device.stream)
                call("cuEventSynchronize", after)
                return float(call("cuEventElapsedTime", before, after)) * 1e-3
            finally:
                call("cuEventDestroy", before)
                call("cuEventDestroy", after)


def _ask_for_local_memory(function: Any, nbytes: int, description: str) -> None:
    """More than a launch gets unasked has to be allowed for the function once."""
    kind = cuda().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    try:
        call("cuFuncSetAttribute", function, kind, nbytes)
    except DeviceError as error:
        raise DeviceError(
            f"{description} needs {nbytes:,} bytes of local memory in each block, more than the "
            f"GPU has ({error}): give the target's limit local_memory the GPU's number"
        ) from None


def self_test(number: int) -> None:
    """Builds and runs a kernel that no cache can know. Raises DeviceError when something is wrong."""
    add_number(Device(number), "rulegrad_self_test", _self_test_source)


def _self_test_source(number: int) -> str:
    return (
        'extern "C" __global__ void rulegrad_self_test(int* out, int* in)\n'
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 64) out[i] = in[i] + {number}; }}"
    )
