"""The `webgpu` backend: every GPU that WebGPU reaches, through wgpu."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.kernel import Kernel
from rulegrad.runtime.selftest import add_number
from rulegrad.support import forks
from rulegrad.support.forks import ForkGuard

from .adapters import FEATURES, adapters, best_kind, discover, fingerprint, target_for, wgpu
from .pipelines import Pipeline, Pipelines

__all__ = ["Device", "best_kind", "discover", "fingerprint", "self_test"]

_MOST_WAITING = 64  # launches
_LIMITS = (
    "max-storage-buffers-per-shader-stage", "max-buffer-size", "max-storage-buffer-binding-size",
    "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
    "max-compute-workgroups-per-dimension", "max-bindings-per-bind-group",
)  # fmt: skip

_fork = ForkGuard("WebGPU drivers")


class Device:
    """One adapter with one queue. Handles are numbers, of the buffers that it holds.

    (Python's garbage collector ends a `GPUBuffer` in a cycle of garbage before a tensor of the cycle gives it back.)

    Launches wait, up to 64, for others or for somebody who needs their results: handing one list of commands to the
    driver takes about 0.4 ms, whatever is in it.
    """

    interprets = False

    def __init__(self, number: int) -> None:
        self.name = f"webgpu:{number}"
        self.memory = 0
        adapter = adapters()[number]
        self.target = target_for(adapter.features, adapter.info["adapter_type"] == "CPU")
        self.limits = {name: adapter.limits[name] for name in _LIMITS}
        with self._translated("cannot be opened"):
            self._device = adapter.request_device_sync(
                required_features=[name for name in FEATURES if name in adapter.features], required_limits=self.limits
            )
        self._queue = self._device.queue
        self._pipelines = Pipelines(self._device, self.name, self.limits, adapter.info["device"].startswith("llvmpipe"))
        self._largest = min(self.limits["max-buffer-size"], self.limits["max-storage-buffer-binding-size"])
        self._buffers: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._sign = self.allocate(4)
        self._encoder: Any = None
        self._pass: Any = None
        self._waiting = 0
        self._released: list[Any] = []
        # A buffer may be freed by the garbage collector while a launch is made.
        self._lock = forks.lock()

    def allocate(self, nbytes: int) -> int:
        _fork.check()
        size = _whole_words(nbytes)
        problem = f"its largest buffer is {self._largest:,} bytes"
        if size <= self._largest:
            flags = wgpu().BufferUsage
            try:
                buffer = self._device.create_buffer(size=size, usage=flags.STORAGE | flags.COPY_SRC | flags.COPY_DST)
                handle = next(self._numbers)
                self._buffers[handle] = buffer
                return handle
            except (wgpu().GPUError, RuntimeError) as error:
                problem = _first_line(error)
        raise OutOfMemoryError(f"{self.name} cannot allocate {nbytes:,} bytes: {problem}")

    def free(self, handle: int) -> None:
        if _fork.forked:
            return
        with self._lock:
            self._released.append(self._buffers.pop(handle))
            if not self._waiting:
                self._start_waiting()

    def copy_in(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        data = array.reshape(-1).view(np.uint8)
        if data.nbytes % 4:
            data = np.concatenate([data, np.zeros(-data.nbytes % 4, np.uint8)])
        with self._lock, self._translated("cannot copy"):
            self._start_waiting()
            self._queue.write_buffer(self._buffers[handle], 0, data)

    def copy_out(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        target = array.reshape(-1).view(np.uint8)
        with self._lock, self._translated("cannot copy"):
            self._start_waiting()
            data = self._queue.read_buffer(self._buffers[handle], 0, _whole_words(target.nbytes))
        target[...] = np.frombuffer(data, np.uint8)[: target.nbytes]

    def compile(self, kernels: Sequence[Kernel]) -> list[_Executable]:
        _fork.check()
        return [self.executable(kernel) for kernel in kernels]

    def executable(self, kernel: Kernel) -> _Executable:
        return _Executable(self, kernel, self._pipelines.get(kernel))

    def synchronize(self) -> None:
        with self._lock, self._translated("failed while it ran kernels"):
            self._start_waiting()
            # wgpu 0.32 cannot wait for the queue itself, but a copy comes after all that was asked for before.
            self._queue.read_buffer(self._buffers[self._sign], 0, 4)

    def launch(self, pipeline: Pipeline, group: Any) -> None:
        """Adds a launch to the list of commands. The lock is held."""
        if self._pass is None:
            self._encoder = self._device.create_command_encoder()
            self._pass = self._encoder.begin_compute_pass()
        self._pass.set_pipeline(pipeline.native)
        self._pass.set_bind_group(0, group)
        self._pass.dispatch_workgroups(*pipeline.groups)
        self._waiting += 1
        if self._waiting >= _MOST_WAITING:
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Hands the launches that wait to the driver. The lock is held."""
        if self._pass is not None:
            commands, encoder = self._pass, self._encoder
            self._pass = self._encoder = None
            self._waiting = 0
            commands.end()
            self._queue.submit([encoder.finish()])
        while self._released:
            self._released.pop().destroy()

    def _translated(self, what: str) -> _Translated:
        _fork.check()
        return _Translated(f"{self.name} {what}")


class _Executable:
    """A kernel's pipeline. The buffers of the launch before are not bound again."""

    __slots__ = ("_description", "_device", "_group", "_handles", "_pipeline")

    def __init__(self, device: Device, kernel: Kernel, pipeline: Pipeline) -> None:
        self._device = device
        self._pipeline = pipeline
        self._description = f"cannot run kernel {kernel.name!r}"
        self._handles: list[int] = []
        self._group: Any = None

    def sized(self, kernel: Kernel) -> _Executable:
        """The same for another grid, whose sizes are constants of a pipeline."""
        return self._device.executable(kernel)

    def __call__(self, handles: Sequence[int], wait: bool = False) -> float | None:
        device = self._device
        with device._lock, device._translated(self._description):
            if self._handles != list(handles):
                self._handles = list(handles)
                self._group = self._pipeline.bound([device._buffers[handle] for handle in handles])
            if not wait:
                device.launch(self._pipeline, self._group)
                return None
            device.synchronize()
            start = time.perf_counter()
            device.launch(self._pipeline, self._group)
            device.synchronize()
            return time.perf_counter() - start


class _Translated:
    """A context in which wgpu's errors become ours."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        module = wgpu()
        if isinstance(error, module.GPUOutOfMemoryError):
            raise OutOfMemoryError(f"{self._what}: {_first_line(error)}") from None
        if isinstance(error, (module.GPUError, module.GPUPipelineError, RuntimeError)):
            raise DeviceError(f"{self._what}: {error}") from None


def self_test(number: int) -> None:
    """Builds and runs a kernel that no cache can know. Raises DeviceError when something is wrong."""
    add_number(Device(number), "rulegrad_self_test", _self_test_source, 100, np.uint32)


def _self_test_source(number: int) -> str:
    return (
        "override size0: u32; override size1: u32; override size2: u32; override block: u32;\n"
        "@group(0) @binding(0) var<storage, read_write> result: array<u32>;\n"
        "@group(0) @binding(1) var<storage, read_write> given: array<u32>;\n"
        "@compute @workgroup_size(block)\n"
        "fn rulegrad_self_test(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        f"  if (id.x < size0 * size1 * size2) {{ result[id.x] = given[id.x] + {number}u; }}\n}}"
    )


def _whole_words(nbytes: int) -> int:
    return math.ceil(nbytes / 4) * 4


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
