"""A pretend CUDA driver and NVRTC, in the place of `cuda.bindings`: its GPU is the simulator `cuda_shim`.

What they do not know is an error, as is everything that a driver refuses: copies and launches on memory that was not allocated,
use of what was freed, a context that is not current, another device's memory or stream. A cubin is the text that it was made of.

With `is_lazy` a stream does nothing before somebody waits for it, and then no more than that needs: who forgets to wait gets wrong values.
"""

# ruff: noqa: N802

from __future__ import annotations

import ctypes
import enum
import importlib
import re
import runpy
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


OK = CUresult.CUDA_SUCCESS
tensor_maps = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("tensor_maps.py"))))
_ENCODE_TILED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_uint64)] * 2,
    *[ctypes.POINTER(ctypes.c_uint32)] * 2, *[ctypes.c_int] * 4,
)  # fmt: skip
#: Those that the engine calls by their addresses, without cuTensorMapEncodeTiled.
_POINTER, _NUMBER = ctypes.c_size_t, ctypes.c_uint32
_NATIVE = {
    "cuCtxSetCurrent": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER),
    "cuLaunchKernel": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, *[_NUMBER] * 7, *[_POINTER] * 3),
    "cuStreamBeginCapture": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int),
    "cuStreamEndCapture": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER),
    "cuGraphInstantiateWithFlags": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_ulonglong),
    "cuGraphLaunch": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER),
    "cuGraphExecDestroy": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER),
    "cuGraphDestroy": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER),
}
_KINDS = SimpleNamespace(
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="units",
)


class Named:
    """An object of the driver that is known by a number: a context, a function of a module, a graph."""

    def __init__(self, driver: FakeDriver, what: Any) -> None:
        self.what, self.number = what, driver.number_of(self)

    def __int__(self) -> int:
        return self.number


class Stream:
    """The work that a device was asked for, in order."""

    def __init__(self, device: int, number: int, handle: int = 0) -> None:
        self.device, self.number, self.handle = device, number, handle
        self.waiting: deque[Callable[[], None]] = deque()
        self.asked = self.done = 0

    def __int__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"stream {self.number}"

    def put(self, work: Callable[[], None], is_lazy: bool) -> int:
        """Adds work; its number."""
        self.waiting.append(work)
        self.asked += 1
        if not is_lazy:
            self.run_to(self.asked)
        return self.asked

    def run_to(self, number: int) -> None:
        """Works up to this number, and no further."""
        while self.done < number:
            self.done += 1  # before: work of streams that wait for each other comes here again
            self.waiting.popleft()()


class Event:
    """A place in a stream."""

    def __init__(self) -> None:
        self.time = 0.0
        self.stream: Stream | None = None
        self.number = 0

    def wait(self) -> None:
        if self.stream is not None:
            self.stream.run_to(self.number)


class FakeDriver:
    """The functions of `cuda.bindings.driver` that the backend calls."""

    CUresult = CUresult
    CUdevice_attribute = _KINDS
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="local bytes")
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0, CU_EVENT_DISABLE_TIMING=2)
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD="threshold")
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapSwizzle = SimpleNamespace(CU_TENSOR_MAP_SWIZZLE_128B=3)
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_128B=2)
    CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0)
    CUtensorMapDataType = SimpleNamespace(CU_TENSOR_MAP_DATA_TYPE_UINT8=0, CU_TENSOR_MAP_DATA_TYPE_UINT16=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL="thread")
    cuuint64_t = int

    _all: ClassVar[list[Any]] = []  # whose functions somebody may still call by their addresses

    def __init__(self, memory: int = 1 << 30, capability: tuple[int, int] = (9, 0)) -> None:
        self._all.append(self)
        self.capability, self.total = capability, memory
        self.count = 1
        self.is_lazy = False
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.device_of: dict[int, int] = {}  # by address
        self.streams: dict[int, Stream] = {}
        self.order: list[tuple[Any, ...]] = []  # what streams were asked for
        self._thread = threading.local()
        self.allowed: dict[str, int] = {}  # local memory of a block, by the function's name
        self.most_local_bytes = 232448
        self.captured: list[Callable[[], None]] | None = None
        self.called: list[str] = []
        self.has_tensor_maps = True
        self.maps_made = 0
        self._objects: list[Any] = [None]  # whose numbers are handles
        self._native = {name: self._by_address(name, kind) for name, kind in _NATIVE.items()}
        self._native["cuTensorMapEncodeTiled"] = _ENCODE_TILED(self._encoded)
        self.clock = 0.0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu") and name[2:3].isupper():
            object.__getattribute__(self, "called").append(name)
        return object.__getattribute__(self, name)

    @property
    def current(self) -> int | None:
        """The device whose context is this thread's."""
        return getattr(self._thread, "device", None)

    def put(self, stream: Stream, work: Callable[[], None]) -> int:
        assert stream.device == self.current, f"{stream!r} is another device's than {self.current}"
        return stream.put(work, self.is_lazy)

    def cuInit(self, flags: int) -> tuple[CUresult]:
        return (OK,)

    def cuDeviceGetCount(self) -> tuple[CUresult, int]:
        return OK, self.count

    def cuDeviceGet(self, number: int) -> tuple[CUresult, int]:
        return (OK, number) if number < self.count else (CUresult.CUDA_ERROR_NO_DEVICE, 0)

    def cuDeviceGetUuid(self, device: int) -> tuple[CUresult, Any]:
        return OK, SimpleNamespace(bytes=bytes([device]) * 16)

    def cuDeviceGetName(self, length: int, device: int) -> tuple[CUresult, bytes]:
        return OK, b"Pretend GPU\0".ljust(length, b"\0")

    def cuDeviceGetAttribute(self, kind: str, device: int) -> tuple[CUresult, int]:
        return OK, {"major": self.capability[0], "minor": self.capability[1], "units": 114}[kind]

    def cuDeviceTotalMem(self, device: int) -> tuple[CUresult, int]:
        return OK, self.total

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[CUresult, Named]:
        return OK, Named(self, device)

    def cuCtxSetCurrent(self, context: Named) -> tuple[CUresult]:
        self._thread.device = context.what
        return (OK,)

    def cuStreamCreate(self, flags: int) -> tuple[CUresult, Stream | None]:
        if self.current is None:
            return CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        stream = Stream(self.current, 100 + len(self.streams))
        stream.handle = self.number_of(stream)
        self.streams[stream.number] = stream
        return OK, stream

    def cuDeviceGetDefaultMemPool(self, device: int) -> tuple[CUresult, str]:
        return OK, "pool"

    def cuMemPoolSetAttribute(self, pool: str, kind: str, value: int) -> tuple[CUresult]:
        return (OK,)

    # ---- memory ----

    def cuMemAllocAsync(self, nbytes: int, stream: Stream) -> tuple[CUresult, int]:
        here = [array.nbytes for address, array in self.memory.items() if self.device_of[address] == stream.device]
        if sum(here) + nbytes > self.total:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0
        array = np.full(nbytes, 0xA5, np.uint8)
        self.memory[array.ctypes.data] = array
        self.device_of[array.ctypes.data] = stream.device
        self.put(stream, lambda: None)
        return OK, array.ctypes.data

    def cuMemFreeAsync(self, address: int, stream: Stream) -> tuple[CUresult]:
        if not self._has(address, 1):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        kept = self.memory.pop(address)  # until what comes before is done
        self.put(stream, lambda: kept.fill(0x5A))
        return (OK,)

    def cuMemAllocHost(self, nbytes: int) -> tuple[CUresult, int]:
        self.page_locked = [*getattr(self, "page_locked", []), np.empty(nbytes, np.uint8)]
        return OK, self.page_locked[-1].ctypes.data

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: Stream) -> tuple[CUresult]:
        if not self._has(target, nbytes):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.put(stream, lambda: ctypes.memmove(target, source, nbytes))
        return (OK,)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Stream) -> tuple[CUresult]:
        if not self._has(source, nbytes):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.put(stream, lambda: ctypes.memmove(target, source, nbytes))
        return (OK,)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: Stream) -> tuple[CUresult]:
        if not self._has(source, nbytes) or not self._has(target, nbytes):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.put(stream, lambda: ctypes.memmove(target, source, nbytes))
        return (OK,)

    # ---- events ----

    def cuStreamSynchronize(self, stream: Stream) -> tuple[CUresult]:
        stream.run_to(stream.asked)
        return (OK,)

    def cuStreamWaitEvent(self, stream: Stream, event: Event, flags: int) -> tuple[CUresult]:
        recorded, number = event.stream, event.number  # a later record of the event is another place
        self.order.append(("wait", stream.number, None if recorded is None else recorded.number))
        self.put(stream, lambda: None if recorded is None else recorded.run_to(number))
        return (OK,)

    def cuEventCreate(self, flags: int) -> tuple[CUresult, Event]:
        return OK, Event()

    def cuEventRecord(self, event: Event, stream: Stream) -> tuple[CUresult]:
        self.clock += 0.25
        event.time, event.stream = self.clock, stream
        event.number = self.put(stream, lambda: None)
        return (OK,)

    def cuEventQuery(self, event: Event) -> tuple[CUresult]:
        if event.stream is None or event.stream.done >= event.number:
            return (OK,)
        event.stream.run_to(event.stream.done + 1)  # time goes on
        return (CUresult.CUDA_ERROR_NOT_READY,)

    def cuEventSynchronize(self, event: Event) -> tuple[CUresult]:
        event.wait()
        return (OK,)

    def cuEventElapsedTime(self, before: Event, after: Event) -> tuple[CUresult, float]:
        return OK, after.time - before.time

    def cuEventDestroy(self, event: Event) -> tuple[CUresult]:
        return (OK,)

    # ---- programs and launches ----

    def cuModuleLoadData(self, cubin: bytes) -> tuple[CUresult, str]:
        return OK, cubin.decode()

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[CUresult, Any]:
        found = re.search(rf"\b{name.decode()}\((.*)\)", module)
        if found is None:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        parameters = ["tensor_map" in one for one in found.group(1).split(",")]
        return OK, Named(self, (name.decode(), module[module.index('extern "C"') :], parameters))

    def cuFuncSetAttribute(self, function: Any, kind: str, value: int) -> tuple[CUresult]:
        if self.current is None or kind != "local bytes" or value > self.most_local_bytes:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.allowed[function.what[0]] = value
        return (OK,)

    def cuLaunchKernel(self, function: Any, *rest: Any) -> tuple[CUresult]:
        *sizes, local_bytes, stream, arguments, _extra = rest
        name, source, are_maps = function.what
        if local_bytes > self.allowed.get(name, 48 << 10):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        places = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
        given = [ctypes.string_at(places[k] or 0, tensor_maps.BYTES if one else 8) for k, one in enumerate(are_maps)]
        addresses = [int.from_bytes(text, "little") for text, is_map in zip(given, are_maps, strict=True) if not is_map]
        maps = [text for text, is_map in zip(given, are_maps, strict=True) if is_map]
        places_are_there = all(self._has(address, 1) for address in addresses)
        if self.current is None or not places_are_there or not all(map(self._is_in_memory, maps)):
            return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)

        def launch() -> None:
            device: Any = devices.get("cuda_shim")
            kernel = Kernel(name, None, source, (1,), (), len(addresses), local_bytes=local_bytes)  # type: ignore[arg-type]
            (executable,) = device.compile([kernel])
            executable._grid[:], executable._block[:] = sizes[:3], sizes[3:]
            executable.launch(addresses, maps)

        if self.captured is not None:
            self.captured.append(launch)
        else:
            self.order.append(("launch", stream.number, name))
            self.put(stream, launch)
        return (OK,)

    # ---- tensor maps ----

    def cuGetProcAddress(self, symbol: bytes, version: int, flags: int) -> tuple[CUresult, int, int]:
        found = self._native.get(symbol.decode())
        if found is None or version < 12000 or (symbol == b"cuTensorMapEncodeTiled" and not self.has_tensor_maps):
            return OK, 0, 1
        return OK, ctypes.cast(found, ctypes.c_void_p).value or 0, 0

    def _by_address(self, name: str, kind: Any) -> Any:
        """The function of this name for who calls it by its address: handles are numbers."""

        def run(*given: int) -> int:
            function = getattr(self, name)
            if name == "cuStreamEndCapture":
                stream, place = given
                status, graph = function(self._objects[stream])
                ctypes.c_uint64.from_address(place).value = self.number_of(graph)
            elif name == "cuGraphInstantiateWithFlags":
                place, graph, flags = given
                status, made = function(self._objects[graph], flags)
                ctypes.c_uint64.from_address(place).value = self.number_of(made)
            elif name == "cuLaunchKernel":
                kernel, *sizes, stream, arguments, extra = given
                (status,) = function(self._objects[kernel], *sizes, self._objects[stream], arguments, extra)
            elif name == "cuStreamBeginCapture":
                (status,) = function(self._objects[given[0]], given[1])
            else:
                (status,) = function(*(self._objects[one] for one in given))
            return int(status)

        return kind(run)

    def number_of(self, one: Any) -> int:
        """A number for an object."""
        self._objects.append(one)
        return len(self._objects) - 1

    def _encoded(self, target: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        sizes, strides, box, steps, interleave, swizzle, _promotion, fill = rest
        try:
            if target % tensor_maps.ALIGNMENT or (interleave, swizzle, fill) != (0, 3, 0) or kind not in (0, 1):
                return int(CUresult.CUDA_ERROR_INVALID_VALUE)
            text = tensor_maps.encoded(
                address, 1 << kind, sizes[:rank], strides[: rank - 1], box[:rank], steps[:rank]
            )  # fmt: skip
        except ValueError:
            return int(CUresult.CUDA_ERROR_INVALID_VALUE)
        ctypes.memmove(target, text, len(text))
        self.maps_made += 1
        return 0

    def _is_in_memory(self, text: bytes) -> bool:
        return self._has(*tensor_maps.reach(text))

    def _has(self, address: int, nbytes: int) -> bool:
        """Whether so many bytes from there are in one allocation of the current device."""
        return any(
            a <= address and address + nbytes <= a + array.nbytes and self.device_of[a] == self.current
            for a, array in self.memory.items()
        )

    # ---- graphs ----

    def cuStreamBeginCapture(self, stream: Stream, mode: str) -> tuple[CUresult]:
        self.captured = []
        return (OK,)

    def cuStreamEndCapture(self, stream: Stream) -> tuple[CUresult, Any]:
        found, self.captured = self.captured, None
        return OK, found

    def cuGraphInstantiateWithFlags(self, graph: Any, flags: int) -> tuple[CUresult, Any]:
        return OK, tuple(graph)

    def cuGraphDestroy(self, graph: Any) -> tuple[CUresult]:
        return (OK,)

    def cuGraphExecDestroy(self, graph: Any) -> tuple[CUresult]:
        return (OK,)

    def cuGraphLaunch(self, graph: Any, stream: Stream) -> tuple[CUresult]:
        for launch in graph:
            self.put(stream, launch)
        return (OK,)


class FakeCompiler:
    """The functions of `cuda.bindings.nvrtc` that the backend calls: a program stays text."""

    def __init__(self) -> None:
        self.compiled = 0

    def nvrtcVersion(self) -> tuple[int, int, int]:
        return 0, 13, 0

    def nvrtcGetSupportedArchs(self) -> tuple[int, list[int]]:
        return 0, [75, 80, 86, 89, 90, 100]

    def nvrtcCreateProgram(self, text: bytes, name: bytes, count: int, headers: Any, names: Any) -> tuple[int, bytes]:
        return 0, text

    def nvrtcCompileProgram(self, program: bytes, count: int, options: list[bytes]) -> tuple[int]:
        self.compiled += 1
        return (6,) if b"#error" in program else (0,)

    def nvrtcGetProgramLogSize(self, program: bytes) -> tuple[int, int]:
        return 0, 40

    def nvrtcGetProgramLog(self, program: bytes, buffer: bytes) -> tuple[int]:
        ctypes.memmove(buffer, b"kernels.cu(1): error: #error here", 33)
        return (0,)

    def nvrtcGetCUBINSize(self, program: bytes) -> tuple[int, int]:
        return 0, len(program)

    def nvrtcGetCUBIN(self, program: bytes, buffer: bytes) -> tuple[int]:
        ctypes.memmove(buffer, program, len(program))
        return (0,)

    def nvrtcDestroyProgram(self, program: bytes) -> tuple[int]:
        return (0,)


def replacements(cuda: Any, driver: Any, compiler: Any) -> Iterator[tuple[Any, str, Any]]:
    """The replacements in the backend `cuda`, a module: modules, names in them, and what they become."""
    for name in ("driver", "programs", "launches", "staging", "tensor_maps", "device", "communication"):
        part = importlib.import_module(f"{cuda.__package__}.{name}")
        for function, answer in (("cuda", driver), ("nvrtc", compiler)):
            if hasattr(part, function):
                yield part, function, lambda answer=answer: answer
    yield importlib.import_module(f"{cuda.__package__}.driver"), "library_problem", str
    yield cuda, "fingerprint", lambda: None
