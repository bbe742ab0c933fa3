"""Kernels as functions of shared objects: built several at a time, kept on disk, loaded until the process ends."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import Kernel, sources_of
from rulegrad.support import forks
from rulegrad.support.diskcache import shared
from rulegrad.support.paths import cache_folder

from .compilers import NOT_LOADED, Compiler
from .processor import core_count

_SHORT = 1 << 17  # operations and bytes of a launch that takes no longer than waking a thread
_PER_THREAD = 1 << 16  # operations and bytes that are worth a thread
_PER_UNIT = 4  # kernels in one run of the compiler, where more than one core can run it
_FORMAT = 2  # of what is kept on disk

_PROLOGUE = (Path(__file__).parent / "vectors.h").read_text(encoding="utf-8")


class Function(NamedTuple):
    """A function of a shared object, `void launch(void **buffers)`: it launches one kernel."""

    address: int
    call: Callable[..., None]
    is_short: bool


class Programs:
    """The programs of one compiler."""

    def __init__(self, compiler: Compiler, run: int, prologue: str = "") -> None:
        self._compiler = compiler
        self._prologue = _PROLOGUE + prologue
        self._run = run  # the address of the function that shares work among threads
        self.identity = f"{_FORMAT}|{compiler.identity}|{compiler.flags()}"
        self._units: dict[str, ctypes.CDLL] = {}  # by key
        self._functions: dict[str, Function] = {}  # by text
        self._lock = forks.lock()

    def build(self, kernels: Sequence[Kernel]) -> list[Function]:
        """The function that launches each kernel: it takes an array of the buffers' addresses.

        Raises DeviceError, with the compiler's message and the source.
        """
        sources_of(kernels)  # which a program of all of them could have
        texts = [text_of(kernel) for kernel in kernels]
        with self._lock:
            missing = {t: k for t, k in zip(texts, kernels, strict=True) if t not in self._functions}
            missing = {text: kernel for text, kernel in missing.items() if not self._load_kept(text, kernel)}
            if missing:
                with shared().making("c program", "".join(missing)):  # other ranks need the same kernels now
                    self._make({t: k for t, k in missing.items() if not self._load_kept(t, k)})
            return [self._functions[text] for text in texts]

    def kept(self, kernels: Sequence[Kernel]) -> list[tuple[str, str, bytes]]:
        """The entries of the cache on disk that have kernels: kind, key and bytes."""
        found: dict[tuple[str, str], bytes] = {}
        for key in (self._key(text_of(kernel)) for kernel in kernels):
            unit = shared().get("c kernel", key)
            code = None if unit is None else shared().get("c program", unit.decode())
            if unit is not None and code is not None:
                found["c kernel", key], found["c program", unit.decode()] = unit, code
        return [(*key, value) for key, value in found.items()]

    def _load_kept(self, text: str, kernel: Kernel) -> bool:
        """Loads the kernel from the shared object on disk that has it, if there is one."""
        unit = shared().get("c kernel", self._key(text))
        if unit is None:
            return False
        key = unit.decode()
        if key not in self._units:
            code = shared().get("c program", key)
            library = self._load(code) if code is not None else None
            if library is None:
                return False
            self._units[key] = library
        return self._take(self._units[key], text, kernel)

    def _make(self, missing: dict[str, Kernel]) -> None:
        """Compiles kernels, as many units at a time as there are cores."""
        if not missing:
            return
        units = _shared_out(missing, max(1, min(core_count(), len(missing) // _PER_UNIT)))
        sources = [self._prologue + "".join(unit) for unit in units]
        jobs = [self._compiler.start(source) for source in sources[1:]]
        codes = [self._compiler.start(sources[0]), *jobs]
        for unit, source, code in zip(units, sources, [job.finish() for job in codes], strict=True):
            library = self._load(code)
            if library is None:
                raise DeviceError(f"c: {NOT_LOADED}")
            key = self._key(source)
            self._units[key] = library
            shared().put("c program", key, code)
            for text in unit:
                if not self._take(library, text, missing[text]):
                    raise DeviceError(f"the source of {missing[text].name!r} defines no such kernel")
                shared().put("c kernel", self._key(text), key.encode())

    def _take(self, library: ctypes.CDLL, text: str, kernel: Kernel) -> bool:
        name = f"launch_{kernel.name}"
        if not hasattr(library, name):
            return False
        # A short launch keeps the interpreter's lock: letting go of it and taking it again costs as much.
        kind = ctypes.PYFUNCTYPE if is_short(kernel) else ctypes.CFUNCTYPE
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None  # a function that was found has one
        self._functions[text] = Function(address, kind(None, ctypes.c_void_p)(address), is_short(kernel))
        return True

    def _load(self, code: bytes) -> ctypes.CDLL | None:
        library = load(code)
        if library is not None:
            library.rulegrad_connect(ctypes.c_void_p(self._run))
        return library

    def _key(self, text: str) -> str:
        return hashlib.sha256(f"{self.identity}\0{self._prologue}\0{text}".encode()).hexdigest()


def _shared_out(texts: Iterable[str], count: int) -> list[list[str]]:
    """Texts as units that take about as long to compile: the longest first, each to the unit with the least so far."""
    units: list[list[str]] = [[] for _ in range(count)]
    for text in sorted(texts, key=len, reverse=True):
        min(units, key=lambda unit: sum(map(len, unit))).append(text)
    return units


def load(code: bytes) -> Any:
    """A shared object, loaded for good; None where the system does not load it. The file is gone afterwards."""
    handle, name = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.CDLL(name)
    except OSError:
        return None
    finally:
        Path(name).unlink(missing_ok=True)


def is_short(kernel: Kernel) -> bool:
    """Whether a launch ends before another thread would have woken up; not one that does not say what it does."""
    return not kernel.sizes and 0 < kernel.flops + kernel.nbytes <= _SHORT


def text_of(kernel: Kernel) -> str:
    """A kernel's source with the function that launches it on all of its work."""
    name = kernel.name
    size = kernel.grid[0] if kernel.grid else 1
    work = kernel.flops + kernel.nbytes
    if kernel.sizes:
        return _text_of_sizes(kernel, work / max(size, 1))
    most = work // _PER_THREAD if work else 1 << 20
    passed = "".join(f", buffers[{k}]" for k in range(kernel.slots))
    start = (
        f"part_{name}(buffers, 0, {size})"
        if is_short(kernel) or size == 1
        else f"rulegrad_run(part_{name}, buffers, {size}, {most})"
    )
    return (
        f"{kernel.source}\n"
        f"static void part_{name}(void **buffers, long long first, long long last) {{\n"
        f"  ALIGNED_STACK();\n  {name}(first, last{passed});{_fence(kernel)}\n}}\n"
        f'__attribute__((visibility("default"))) void launch_{name}(void **buffers) {{ {start}; }}\n'
    )


def _fence(kernel: Kernel) -> str:
    """A fence that waits for the stores of a part that go past the caches, or ""."""
    return " AFTER_STREAMS();" if "STREAM" in kernel.source else ""


def _text_of_sizes(kernel: Kernel, work_of_item: float) -> str:
    """The same of a kernel whose work-items depend on sizes: these are in a buffer behind the others."""
    name = kernel.name
    sizes = f"const long long *sizes = buffers[{kernel.slots}];"
    numbers = "".join(f", sizes[{k}]" for k in range(kernel.sizes))
    passed = "".join(f", buffers[{k}]" for k in range(kernel.slots)) + numbers
    return (
        f"{kernel.source}\n"
        f"static void part_{name}(void **buffers, long long first, long long last) {{\n"
        f"  ALIGNED_STACK();\n  {sizes}\n  {name}(first, last{passed});{_fence(kernel)}\n}}\n"
        f'__attribute__((visibility("default"))) void launch_{name}(void **buffers) {{\n'
        f"  {sizes}\n  long long items;\n  items_{name}(0, 1, &items{numbers});\n"
        f"  const double work = items * {work_of_item:.1f};\n"
        f"  if (work <= {_SHORT}) part_{name}(buffers, 0, items);\n"
        f"  else rulegrad_run(part_{name}, buffers, items, (long long)(work / {_PER_THREAD}));\n"
        "}\n"
    )
