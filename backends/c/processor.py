"""The processor that this process runs on: what it can do, and what a compiler is told of it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path

# Linux's name of a feature of an x86 processor, and that of compilers. Linux lists only what processes may use.
_X86 = {
    "ssse3": "-mssse3", "sse4_1": "-msse4.1", "sse4_2": "-msse4.2", "popcnt": "-mpopcnt", "movbe": "-mmovbe",
    "avx": "-mavx", "avx2": "-mavx2", "fma": "-mfma", "f16c": "-mf16c", "bmi1": "-mbmi", "bmi2": "-mbmi2",
    "abm": "-mlzcnt", "avx512f": "-mavx512f", "avx512bw": "-mavx512bw", "avx512cd": "-mavx512cd",
    "avx512dq": "-mavx512dq", "avx512vl": "-mavx512vl", "avx512_vnni": "-mavx512vnni", "avx512_bf16": "-mavx512bf16",
    "avx512_fp16": "-mavx512fp16",
    "amx_tile": "-mamx-tile", "amx_bf16": "-mamx-bf16", "amx_int8": "-mamx-int8",
}  # fmt: skip
# the system call arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux on x86-64
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
# Of ARM's 64-bit processors: names after `-march=armv8-a`.
_ARM = {"asimdhp": "fp16", "asimddp": "dotprod", "bf16": "bf16", "i8mm": "i8mm", "sve": "sve"}


@cache
def features() -> frozenset[str]:
    """The processor's features, as Linux names them; empty where the system does not list them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def compiler_flags(has: frozenset[str] | None = None) -> list[str]:
    """Flags for what the processor has. Never -march=native: compilers guess by the model, which may be made up."""
    has = features() if has is None else has
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        flags = [flag for name, flag in _X86.items() if name in has]
        # models that once slowed down with wide vectors made compilers prefer narrow ones
        return [*flags, "-mprefer-vector-width=512"] if "avx512f" in has else flags
    if machine in ("aarch64", "arm64"):
        if sys.platform == "darwin":
            return ["-mcpu=native"]
        return ["-march=" + "+".join(["armv8-a", *(name for key, name in _ARM.items() if key in has)])]
    return []


@cache
def may_use_amx() -> bool:
    """Whether it has AMX for bfloat16 and int8, and Linux lets this process use it, which must be asked for."""
    if not {"amx_tile", "amx_bf16", "amx_int8"} <= features() or sys.platform != "linux":
        return False
    return int(ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)) == 0


def describe() -> str:
    """Its name and the vector instructions that count."""
    has = features()
    known = ("amx_tile", "avx512f", "avx2", "avx", "sve", "asimd")
    found = [name.upper().removesuffix("F").removesuffix("_TILE") for name in known if name in has]
    return f"{_model()}, {core_count()} cores" + (f", {' '.join(found)}" if found else "")


def core_count() -> int:
    """The cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
