"""The limits of this machine, measured by bench/limits.c: what the times of bench/schedule.py are held against.

    python bench/limits.py

Rates of multiply-adds by dtype, bytes a second from each level of memory, and the time to hand work to all threads and
back. They are the best of many short runs.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import common  # noqa: F401  # finds rulegrad

SECONDS, QUICK_SECONDS = 0.4, 0.05  # of each figure
_FLOAT32, _INT8, _BFLOAT16, _READ, _ADD, _LAUNCH = range(6)
_PRODUCTS = {"float32": _FLOAT32, "int8": _INT8, "bfloat16": _BFLOAT16}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 16 << 20}  # where the system does not list them
_MEMORY = 4  # the level behind the caches


@dataclass
class Level:
    """A level of memory: how much all threads have of it, and GB/s of reading and of adding two arrays to a third."""

    name: str
    nbytes: int
    read_one: float
    read: float
    add_one: float
    add: float


@dataclass
class Limits:
    """GFLOP/s by dtype on one thread and on all, the levels of memory, microseconds of an empty launch."""

    threads: int
    one: dict[str, float]
    all: dict[str, float]
    levels: list[Level]
    launch: float
    has_amx: bool = False

    def seconds(self, operations: float, dtype: str, reads: float, writes: float) -> float | None:
        """The least time for so many operations on a dtype, and bytes read and written; None: not known."""
        if self.has_amx and dtype != "float32":
            return None
        rate = max(self.all["float32"], self.all.get(dtype, 0.0))
        level = next((level for level in self.levels[1:] if reads + writes <= level.nbytes), self.levels[-1])
        bandwidth = level.add if writes > reads / 4 else level.read
        return max(operations / rate, (reads + writes) / bandwidth) * 1e-9

    def better(self, other: Limits) -> Limits:
        """The better figure of two measurements, each."""

        def best(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
            return {name: max(a[name], b[name]) for name in a}

        rates = [field.name for field in fields(Level) if field.type == "float"]
        levels = [
            Level(a.name, a.nbytes, **{name: max(getattr(a, name), getattr(b, name)) for name in rates})
            for a, b in zip(self.levels, other.levels, strict=True)
        ]
        launch = min(self.launch, other.launch)
        return Limits(self.threads, best(self.one, other.one), best(self.all, other.all), levels, launch, self.has_amx)

    def as_object(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        def rate(one: float, all_threads: float) -> str:
            return f"{one:.0f}" if self.threads == 1 else f"{one:.0f} / {all_threads:.0f}"

        products = ", ".join(f"{name} {rate(self.one[name], self.all[name])} GFLOP/s" for name in self.one)
        levels = "; ".join(
            f"{level.name} {rate(level.read_one, level.read)} read, {rate(level.add_one, level.add)} added"
            for level in self.levels
        )
        head = f"Limits of one thread{'' if self.threads == 1 else f' / {self.threads} threads'}"
        launch = "" if self.threads == 1 else f" Work is handed over and back in {self.launch:.2f} µs."
        return f"{head}: {products}. GB/s: {levels}.{launch}"


def measure_limits(threads: int, seconds: float = SECONDS) -> Limits:
    """The limits of this machine; `seconds` of each figure. Raises DeviceError where there is no C compiler."""
    from rulegrad.errors import DeviceError
    from rulegrad.runtime.backends import backend

    backend_of_c = backend("c").module
    compiler = backend_of_c.compilers.find()
    if compiler is None:
        raise DeviceError(f"bench/limits.c needs a C compiler. {backend_of_c.discover().advice}")
    library = _loaded(compiler.compile((Path(__file__).parent / "limits.c").read_text(encoding="utf-8")))
    has_amx = "-mamx-int8" in compiler.flags() and backend_of_c.processor.may_use_amx()
    known = {name: kind for name, kind in _PRODUCTS.items() if library.operations(kind)}

    def products(count: int) -> dict[str, float]:
        return {
            name: count * library.operations(kind) / _least(library, kind, count, seconds) * 1e-9
            for name, kind in known.items()
        }

    launch = _least(library, _LAUNCH, threads, seconds) * 1e6
    levels = [_level(library, number, size, threads, seconds) for number, size in _caches().items()]
    levels.append(_level(library, _MEMORY, 4 * levels[-1].nbytes, threads, seconds))
    return Limits(threads, products(1), products(threads), levels, launch, has_amx)


def _caches() -> dict[int, int]:
    """Bytes of each level's cache."""
    found: dict[int, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            found[int(level)] = int(size.removesuffix("K")) << 10
    return found or _DEFAULT_CACHES


def _level(library: Any, number: int, size: int, threads: int, seconds: float) -> Level:
    """The rates of a level; the first two are each thread's own. A cache is filled to the half."""
    own = threads if number <= 2 else 1

    def rate(kind: int, count: int) -> float:
        floats = size // 8 * (count if number <= 2 else 1)
        memory = _aligned(floats)
        per_turn = 4 * (floats if kind == _READ else floats // 3 * 3)
        return per_turn / _least(library, kind, count, seconds, memory) * 1e-9

    name = "memory" if number == _MEMORY else f"L{number}"
    return Level(name, size * own, rate(_READ, 1), rate(_READ, threads), rate(_ADD, 1), rate(_ADD, threads))


def _least(library: Any, kind: int, threads: int, seconds: float, memory: Any = None) -> float:
    """Seconds of one turn in the fastest of many runs, each of about two milliseconds."""
    pointer, floats = (None, 0) if memory is None else (memory.ctypes.data, memory.size)

    def run(turns: int) -> float:
        taken = float(library.measure(kind, threads, turns, pointer, floats))
        if taken < 0:
            raise OSError(f"{threads} threads could not be started")
        return taken

    turns = 1
    while run(turns) < 2e-3:
        turns *= 2
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, run(turns))
    return best / turns


def _aligned(floats: int) -> Any:
    """Ones, at the start of a page."""
    page = 4096
    raw = np.empty(4 * floats + page, np.uint8)
    start = -raw.ctypes.data % page
    memory = raw[start : start + 4 * floats].view(np.float32)
    memory[...] = 1.0
    return memory


def _loaded(code: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "limits.so"
        path.write_bytes(code)
        library = ctypes.CDLL(str(path))  # stays loaded when the file is gone
    library.operations.restype, library.operations.argtypes = ctypes.c_long, [ctypes.c_int]
    library.measure.restype = ctypes.c_double
    library.measure.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]
    return library


def main() -> None:
    from rulegrad.runtime.backends import backend

    measure: Callable[[int], Limits] = measure_limits
    print(measure(backend("c").module.processor.core_count()))


if __name__ == "__main__":
    main()
