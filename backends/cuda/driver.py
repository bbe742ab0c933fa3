"""The CUDA driver through `cuda-bindings`: finding it, its devices, and its errors as ours."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime.device import Discovery, Found
from rulegrad.support.installed import version

#: What NVIDIA's driver installs. It comes with the driver of the graphics card, not with the toolkit or a wheel.
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_PACKAGES = ("cuda-bindings", "nvidia-cuda-nvrtc")
_INSTALL = "python -m pip install 'rulegrad[cuda]'"
_FATAL = ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_MISALIGNED_ADDRESS")
_LEAST_CAPABILITY = (8, 0)  # conversions and sums of bfloat16


def discover() -> Discovery:
    """The GPUs. Without a driver this loads no package."""
    problem = library_problem()
    if problem:
        return Discovery((), (LIBRARY,), f"no {LIBRARY} ({problem}): install NVIDIA's driver for your GPU")
    looked = (LIBRARY, *_PACKAGES)
    try:
        cuda()
        nvrtc().nvrtcVersion()
    except (ImportError, RuntimeError) as error:  # no bindings; no library
        return Discovery((), looked, f"a driver is there, but not what calls it ({error}): {_INSTALL}")
    try:
        start()
        found = tuple(_found(k) for k in range(call("cuDeviceGetCount")))
    except DeviceError as error:
        return Discovery((), looked, f"the driver gives no devices: {error}")
    return Discovery(found, looked, "" if found else "the driver knows no GPU: is CUDA_VISIBLE_DEVICES empty?")


def fingerprint() -> str | None:
    """Changes with the driver, the packages and the settings; None without a driver, when there is nothing to try."""
    if library_problem():
        return None
    about = Path("/proc/driver/nvidia/version")
    parts = [about.read_text(encoding="utf-8", errors="replace") if about.is_file() else LIBRARY]
    parts += [f"{name}={version(name)}" for name in _PACKAGES]
    return "|".join([*parts, f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}"])


@cache
def library_problem() -> str:
    """Why the driver's library cannot be loaded; empty when it can."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        return str(error).splitlines()[0]
    return ""


@cache
def cuda() -> Any:
    """The module of the driver's functions. Raises ImportError."""
    from cuda.bindings import driver

    return driver


@cache
def nvrtc() -> Any:
    """The module of the run-time compiler's functions. Raises ImportError."""
    from cuda.bindings import nvrtc as module

    return module


def start() -> None:
    """Makes the driver ready; may be called often. Raises DeviceError."""
    try:
        call("cuInit", 0)
    except (ImportError, RuntimeError) as error:  # the bindings' own, where a library is missing
        raise DeviceError(f"CUDA cannot be used: {error}. {_INSTALL}") from None


def call(function: str, *arguments: Any) -> Any:
    """The results of a function of the driver: a value, a tuple, or None. Raises DeviceError, OutOfMemoryError."""
    status, *values = getattr(cuda(), function)(*arguments)
    if int(status):
        raise failure(function, status)
    return values[0] if len(values) == 1 else tuple(values) or None


def failure(function: str, status: Any) -> DeviceError:
    """The error for a status that is not success."""
    name = getattr(status, "name", str(status))
    text = f"{function} failed: {name}"
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        return OutOfMemoryError(text)
    if name in _FATAL:
        return DeviceError(
            f"{text}: an earlier kernel accessed memory that is not its own, and the GPU serves this process no more. "
            "Start it again with the setting CHECK=2, which names the rule, or under compute-sanitizer"
        )
    return DeviceError(text)


def capability(number: int) -> tuple[int, int]:
    """The compute capability of a device, such as (9, 0)."""
    device = call("cuDeviceGet", number)
    kinds = cuda().CUdevice_attribute
    major = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    minor = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    return major, minor


def _found(number: int) -> Found:
    name = call("cuDeviceGetName", 128, call("cuDeviceGet", number)).split(b"\0")[0].decode(errors="replace")
    major, minor = capability(number)
    problem = ""
    if (major, minor) < _LEAST_CAPABILITY:
        problem = f"kernels need compute capability {'.'.join(map(str, _LEAST_CAPABILITY))}, it has {major}.{minor}"
    return Found(number, f"{name}, compute capability {major}.{minor}", "gpu", problem)
