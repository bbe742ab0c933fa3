"""The `c` backend: the processor itself, by its C compiler."""

from __future__ import annotations

import ctypes
import itertools
import operator
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad.config import config, on_change
from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.device import Discovery, Found, Replay
from rulegrad.runtime.hardware import host_memory
from rulegrad.runtime.kernel import Kernel
from rulegrad.support.diskcache import shared

from . import compilers, processor
from .compilers import NOT_LOADED
from .programs import Function, Programs, load

__all__ = ["ENDS_NO_PROCESS", "ONE_DEVICE", "Device", "best_kind", "discover", "fingerprint", "self_test"]

ONE_DEVICE = True
ENDS_NO_PROCESS = True  # the compiler and what it makes are processes of their own in a test

_ALIGNMENT = 64  # bytes: a line of the cache, and the widest vector
_FEW = 4  # short launches: together they end before another thread would have had its turn

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def best_kind() -> str:
    return "cpu"


def discover() -> Discovery:
    looked = tuple(compilers.candidates())
    compiler = compilers.find()
    if sys.platform == "win32":
        return Discovery((), looked, "the device c needs a system with POSIX threads, such as Linux or macOS")
    if compiler is None:
        return Discovery(
            (), looked, "install a C compiler (Debian: apt-get install clang, or gcc), or name one in the setting CC"
        )
    return Discovery((Found(0, f"{processor.describe()}; {' '.join(compiler.command)}", "cpu"),), looked)


def best_target(compiler: compilers.Compiler) -> str:
    """The target, of those in variants.rules, that says the most of what the processor and the compiler can do."""
    flags = compiler.flags()
    if "-mamx-int8" in flags and "-mamx-bf16" in flags and processor.may_use_amx():
        return "c_amx"
    # vectors of 16 and 32 bytes are scaled by an instruction of AVX512VL
    wider = {"c_avx512": "-mavx512vl", "c_avx512_vnni": "-mavx512vnni", "c_avx512_bf16": "-mavx512bf16"}
    has = list(itertools.takewhile(lambda target: wider[target] in flags, wider))
    return has[-1] if has else "c_avx2" if "-mavx2" in flags else "c"


def fingerprint() -> str:
    """Changes with the compiler and the processor."""
    compiler = compilers.find()
    identity = compiler.identity if compiler is not None else f"none of {compilers.candidates()}"
    return f"{identity}|{processor.describe()}|{sorted(processor.features())}"


class Memory(int):
    """An address, and the array whose memory is there."""

    array: Bytes

    @classmethod
    def of(cls, array: Bytes) -> Memory:
        memory = cls(array.ctypes.data)
        memory.array = array
        return memory


class Device:
    """The processor. Handles are addresses. A launch returns when it has ended, so that launches are in order."""

    name = "c"
    interprets = False
    in_host_memory = True
    launches_wait = True

    def __init__(self, number: int = 0, compiler: compilers.Compiler | None = None, target: str | None = None) -> None:
        compiler = compiler or compilers.find()
        if compiler is None:
            raise DeviceError(f"c: no C compiler was found. {discover().advice}")
        self._pool = _load_pool(compiler)
        self.target = best_target(compiler) if target is None else target
        prologue = _text("amx.h") if self.target == "c_amx" else ""
        self._programs = Programs(compiler, _address(self._pool.rulegrad_run), prologue)
        self.memory = host_memory()
        self._set_threads()
        on_change(lambda names: self._set_threads() if "threads" in names else None)

    def allocate(self, nbytes: int) -> Memory:
        try:
            array = np.empty(nbytes + _ALIGNMENT, np.uint8)
        except MemoryError:
            raise OutOfMemoryError(f"c cannot allocate {nbytes:,} bytes: not enough memory is free") from None
        start = -array.ctypes.data % _ALIGNMENT
        return Memory.of(array[start : start + nbytes])

    def free(self, handle: Memory) -> None:
        """Nothing to do: the last one who holds the address lets the memory go, and no launch outlives its call."""

    def copy_in(self, handle: Memory, array: np.ndarray[Any, Any]) -> None:
        handle.array[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Memory, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[...] = handle.array[: array.nbytes]

    def share(self, array: Bytes) -> Memory:
        """The memory of any array: kernels need it no better aligned than its elements are."""
        return Memory.of(array)

    def memory_of(self, handle: Memory, nbytes: int) -> Bytes:
        return handle.array[:nbytes]

    def compile(self, kernels: Sequence[Kernel]) -> list[_Executable]:
        functions = self._programs.build(kernels)
        return [_Executable(kernel, function) for kernel, function in zip(kernels, functions, strict=True)]

    @property
    def identity(self) -> str:
        """Of the compiler and its flags: programs of another one are not used."""
        return self._programs.identity

    def kept_programs(self, kernels: Sequence[Kernel]) -> list[tuple[str, str, bytes]]:
        """The entries of the cache on disk from which another process has these kernels."""
        return self._programs.kept(kernels)

    def record(
        self, launches: Sequence[tuple[_Executable, Sequence[int]]], bound: int, offsets: Sequence[int]
    ) -> Replay:
        """Launches on numbered buffers as one program, which runs in the engine."""
        is_short = len(launches) <= _FEW and all(executable.is_short for executable, _ in launches)
        functions = [(executable.address, numbers, executable.offsets) for executable, numbers in launches]
        shared = sum(not executable.is_short for executable, _ in launches)
        # between launches that are shared, threads wait for the next without sleeping
        around = (self._pool.rulegrad_begin, self._pool.rulegrad_end) if shared > 1 else ()
        return Replay(functions, bound, offsets, is_short, *map(_address, around))

    @property
    def beside(self) -> int:
        """The address of the function that runs programs of parts of this device, each on its share of the threads."""
        return _address(self._pool.rulegrad_beside)

    def synchronize(self) -> None:
        """Nothing to do: a launch returns when it has ended."""

    def _set_threads(self) -> None:
        self._pool.rulegrad_set_threads(config.threads or processor.core_count())


class _Executable:
    """A function of a shared object, which takes an array of the addresses of buffers, or of places in them."""

    __slots__ = ("_array", "_function", "_name", "_slots", "address", "is_short", "offsets")

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.address, self._function, self.is_short = function
        self.offsets = kernel.offsets
        self._name = kernel.name
        self._slots = kernel.buffers
        self._array = ctypes.c_void_p * self._slots

    def __call__(self, handles: Sequence[Memory], wait: bool = False) -> float | None:
        if len(handles) != self._slots:
            raise DeviceError(f"kernel {self._name!r} takes {self._slots} buffers, but was given {len(handles)}")
        places = map(operator.add, handles, self.offsets) if self.offsets else handles
        buffers = self._array(*places)
        start = time.perf_counter()
        self._function(buffers)
        return time.perf_counter() - start if wait else None


def self_test(number: int) -> None:
    """Builds and runs a program of the threads and a loop that they share. Raises DeviceError when something is wrong.

    Meanwhile the threads' shared object is made, which the first kernel needs.
    """
    compiler = compilers.find()
    if compiler is None:
        raise DeviceError(f"c: no C compiler was found. {discover().advice}")
    from rulegrad.runtime import probe  # late: who runs this has imported it

    job = compiler.start_program(_text("pool.c") + _text("self_test.c"))
    try:
        _load_pool(compiler)
    finally:
        status = job.run()
    if status > 0:
        raise DeviceError("it computes wrong results in a test of adding integers")
    if status < 0:
        raise DeviceError(f"a program that adds integers ended with {probe.status(status)}")


def _load_pool(compiler: compilers.Compiler) -> ctypes.CDLL:
    """The threads' shared object, compiled when it is not on disk. Raises DeviceError."""
    source = _text("pool.c")
    key = f"{compiler.identity}|{compiler.flags()}|{source}"
    code = shared().get("c pool", key)
    library = load(code) if code is not None else None
    if library is None:
        code = compiler.compile(source)
        shared().put("c pool", key, code)
        library = load(code)
    if library is None:
        raise DeviceError(f"c: {NOT_LOADED}")
    return library


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
