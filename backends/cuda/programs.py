"""Building CUDA programs by NVRTC: one for each kernel, on all cores; cubins are kept on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import Kernel, not_built, sources_of
from rulegrad.support.diskcache import shared

from .driver import nvrtc

_HEADERS = ("primitives.cuh", "halves.cuh", "warps.cuh", "matrix.cuh", "wgmma.cuh", "tma.cuh")
_OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--disable-warnings")
_MOST_RECENT = 64
_recent: dict[str, bytes] = {}  # cubins, by the key of the cache on disk
_OWN_FEATURES = ("90", "100", "103", "110", "120", "121")  # architectures with features of their own, as sm_90a


@cache
def prelude() -> str:
    """The beginning of every program."""
    return "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in _HEADERS)


def architecture(major: int, minor: int) -> str:
    """The architecture to compile for: the device's own, or the newest that this NVRTC knows below it.

    A cubin runs on devices of its own major number. Raises DeviceError when NVRTC is too old for the device.
    """
    known = _checked(nvrtc().nvrtcGetSupportedArchs(), "nvrtcGetSupportedArchs")
    fitting = [number for number in known if number // 10 == major and number % 10 <= minor]
    if not fitting:
        raise DeviceError(
            f"this NVRTC compiles for {', '.join(map(str, known))}, not for compute capability {major}.{minor}: "
            "python -m pip install --upgrade nvidia-cuda-nvrtc"
        )
    best = max(fitting)
    exact = best == 10 * major + minor and str(best) in _OWN_FEATURES
    return f"sm_{best}{'a' if exact else ''}"


def target_for(major: int, minor: int) -> str:
    """The target, of those in variants.rules, that says the most of what this compute capability has."""
    if (major, minor) == (9, 0):
        return "cuda_sm90a"
    return "cuda_sm89" if (major, minor) >= (8, 9) else "cuda"


def build(kernels: Sequence[Kernel], arch: str, name: str) -> list[bytes]:
    """The cubin of each kernel. Raises DeviceError, with the compiler's message and the source.

    The last ones stay in memory: the other GPUs of a mesh ask for the same.
    """
    version = _checked(nvrtc().nvrtcVersion(), "nvrtcVersion")
    start = "\0".join((arch, str(version), *_OPTIONS, prelude()))
    keys = {source: hashlib.sha256(f"{start}\0{source}".encode()).hexdigest() for source in sources_of(kernels)}
    cubins = {source: _recent.get(key) or shared().get("cuda cubin", key) for source, key in keys.items()}
    missing = [source for source, cubin in cubins.items() if cubin is None]
    for source, cubin in zip(missing, _compiled(missing, arch, name), strict=True):
        shared().put("cuda cubin", keys[source], cubin)
        cubins[source] = cubin
    for source, cubin in cubins.items():
        _recent.pop(keys[source], None)  # the last ones are kept
        _recent[keys[source]] = cubin
    while len(_recent) > _MOST_RECENT:
        _recent.pop(next(iter(_recent), ""), None)
    return [cubins[kernel.source] for kernel in kernels]


def _compiled(sources: Sequence[str], arch: str, name: str) -> list[bytes]:
    """The cubins, made by as many threads as there are cores; a single one by this thread."""
    if len(sources) < 2:
        return [compile_text(source, arch, name)[0] for source in sources]
    with ThreadPoolExecutor(min(len(sources), os.cpu_count() or 1), thread_name_prefix="rulegrad-nvrtc") as pool:
        return list(pool.map(lambda source: compile_text(source, arch, name)[0], sources))


def compile_text(source: str, arch: str, name: str = "cuda") -> tuple[bytes, str]:
    """The cubin of kernels, and the compiler's log: registers and spills of each. Raises DeviceError."""
    compiler = nvrtc()
    text = f'{prelude()}#line 1 "kernels.cu"\n{source}'
    program = _checked(compiler.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], []), "nvrtcCreateProgram")
    try:
        options = [option.encode() for option in (f"--gpu-architecture={arch}", *_OPTIONS)]
        (status,) = compiler.nvrtcCompileProgram(program, len(options), options)
        log = _text_of(program, "ProgramLog").decode(errors="replace").strip("\0\n ")
        if int(status):
            raise not_built(name, log or getattr(status, "name", str(status)), source)
        return _text_of(program, "CUBIN"), log
    finally:
        compiler.nvrtcDestroyProgram(program)


def _text_of(program: Any, what: str) -> bytes:
    compiler = nvrtc()
    size = _checked(getattr(compiler, f"nvrtcGet{what}Size")(program), f"nvrtcGet{what}Size")
    buffer = bytes(size)  # the bindings write into it
    _checked(getattr(compiler, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer


def _checked(result: tuple[Any, ...], function: str) -> Any:
    status, *values = result
    if int(status):
        raise DeviceError(f"{function} failed: {getattr(status, 'name', status)}")
    return values[0] if len(values) == 1 else tuple(values)
