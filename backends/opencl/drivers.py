"""Finding OpenCL: making installed drivers visible, listing devices, and what they depend on."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.hardware import may_have_accelerator
from rulegrad.support.diskcache import file_stamp
from rulegrad.support.paths import cache_folder

_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_SIMULATORS = ("oclgrind",)
_FOR_CPUS = ("libintelocl", "intelocl64", "libpocl", "liboclgrind")  # PoCL's can have GPUs where the machine has
# Intel's driver for processors makes vectors of neighbouring work-items. Its vectorizer crashes on some kernels of
# several parts, and takes the process with it; most kernels that gain by vectors have their own.
_INTEL_VECTORIZER, _NO_VECTORS = "CL_CONFIG_CPU_VECTORIZER_MODE", "1"
# Settings of drivers, and of pyopencl, that change what is made of a source.
_SETTINGS = (_INTEL_VECTORIZER, "POCL_EXTRA_BUILD_FLAGS", "PYOPENCL_BUILD_OPTIONS")


@cache
def opencl() -> Any:
    """The module pyopencl, imported when OpenCL is first used. Raises ImportError."""
    _show_intel_driver()
    os.environ.setdefault(_INTEL_VECTORIZER, _NO_VECTORS)
    import pyopencl

    return pyopencl


@cache
def raw_devices() -> list[Any]:
    """All OpenCL devices, the best first: the position is the number in `opencl:NUMBER`."""
    cl = opencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # no driver at all
        return []
    seen, devices = set(), []
    for platform in platforms:
        # A driver that is registered twice (in the system and in a wheel) shows its platform twice.
        if (platform.name, platform.version) in seen:
            continue
        seen.add((platform.name, platform.version))
        try:
            devices.extend(platform.get_devices())
        except cl.Error:
            continue
    order = ("gpu", "accelerator", "cpu", "simulator")

    def place(device: Any) -> tuple[int, bool, list[int]]:
        # PoCL comes with the install, so that any other driver was asked for; of two PoCLs the newer knows more.
        is_pocl = _is_pocl(device.platform.name)
        return order.index(_device_kind(device)), is_pocl, [-number for number in _release(device)] if is_pocl else []

    return sorted(devices, key=place)


def best_kind() -> str:
    """The CPU's, where all drivers are for that alone, as far as this machine has nothing else."""
    # a name without a folder is one that the loader looks for
    places = [place for place in _vendor_places() if place.exists() or not place.is_absolute()]
    libraries = [path for place in places for path in _libraries(place) if path.suffix != ".icd"]
    are_for_cpus = all(path.name.startswith(_FOR_CPUS) for path in libraries)
    return "cpu" if are_for_cpus and not may_have_accelerator() else "gpu"


def discover() -> Discovery:
    """The devices, without compiling anything."""
    looked = [str(place) for place in _vendor_places()]
    try:
        opencl()
    except ImportError as error:
        return Discovery((), tuple(looked), f"install pyopencl: python -m pip install pyopencl ({error})")
    found = tuple(Found(k, _describe(d), _device_kind(d)) for k, d in enumerate(raw_devices()))
    return Discovery(found, tuple(looked), _advice(found))


def identity(device: Any) -> str:
    """Changes with what a device's driver makes of a source."""
    known = (device.platform.name, device.platform.version, device.name, device.driver_version)
    return "|".join((*known, *(os.environ.get(name, "") for name in _SETTINGS)))


def fingerprint() -> str:
    """Changes with the drivers, with the linker that PoCL runs, and with the settings of both."""
    libraries = [path for place in _vendor_places() for path in _libraries(place)]
    linker = shutil.which("ld")
    needed = [*libraries, *([Path(linker)] if linker else []), *_compiler_libraries()]
    settings = [f"{name}={os.environ.get(name, '')}" for name in ("OCL_ICD_VENDORS", "POCL_DEVICES")]
    return "|".join([*map(file_stamp, needed), f"ld={linker}", *settings])


def _device_kind(device: Any) -> str:
    kinds = opencl().device_type
    if any(name in device.platform.name.lower() for name in _SIMULATORS):
        return "simulator"
    if device.type & kinds.GPU:
        return "gpu"
    return "accelerator" if device.type & kinds.ACCELERATOR else "cpu"


def _is_pocl(name: str) -> bool:
    return name.startswith("Portable Computing Language")


def _release(device: Any) -> list[int]:
    """The release of a PoCL by its version string, `OpenCL 3.0 PoCL 3.1 ...`; [] when it names none."""
    found = re.search(r"pocl (\d+(?:\.\d+)*)", device.platform.version, re.IGNORECASE)
    return [int(part) for part in found.group(1).split(".")] if found else []


def _describe(device: Any) -> str:
    return f"{device.platform.name}, {device.name.strip()}"


def remedy(number: int, problem: str) -> str:
    """The remedy for a device that failed its test, as the end of a message; empty where nothing is known."""
    if not (_is_pocl(raw_devices()[number].platform.name) and "unknown target CPU" in problem):
        return ""
    return (
        "\nthis PoCL is older than the processor; install another driver: python -m pip install 'rulegrad[intel]' "
        "(Intel's, which runs on AMD too), or a newer PoCL (Debian: apt-get install pocl-opencl-icd)"
    )


def _advice(found: tuple[Found, ...]) -> str:
    if not found:
        return (
            "install a driver: python -m pip install 'pyopencl[pocl]' (CPU, Linux x86-64), or "
            "rulegrad[intel], or the driver of your GPU"
        )
    if any(_is_pocl(device.description) for device in found) and not (shutil.which("ld") and _compiler_libraries()):
        return (
            "PoCL needs a linker: install gcc (Debian: apt-get install gcc), or another driver, or set "
            "RULEGRAD_DEVICE=numpy to choose it without this message"
        )
    return ""


# ---- where drivers register themselves ----


def _pyopencl_folder() -> Path | None:
    spec = importlib.util.find_spec("pyopencl")
    return Path(spec.origin).parent if spec and spec.origin else None


def _vendor_places() -> list[Path]:
    """Where the OpenCL loader looks: folders of .icd files, or what OCL_ICD_VENDORS names."""
    setting = os.environ.get("OCL_ICD_VENDORS")
    # The loader passes over a folder that has no .icd files.
    if setting and (not Path(setting).is_dir() or _libraries(Path(setting))):
        return [Path(setting)]
    places = [_SYSTEM_VENDORS]
    folder = _pyopencl_folder()
    if folder is not None:
        places.append(folder / ".libs")
    intel = _intel_library()
    return [*places, intel] if intel else places


def _libraries(place: Path) -> list[Path]:
    """The driver libraries that a folder, an .icd file, or a library itself stands for."""
    if place.is_dir():
        return [library for icd in sorted(place.glob("*.icd")) for library in _libraries(icd)]
    if place.suffix != ".icd":
        return [place]
    try:
        named = Path(place.read_text(encoding="utf-8").strip())
    except OSError:
        return []
    return [place, named if named.is_absolute() else place.parent / named.name]


def _compiler_libraries() -> list[Path]:
    """gcc's support libraries, which PoCL links kernels with."""
    return sorted(Path("/usr/lib/gcc").glob("*/*/libgcc.a")) if sys.platform == "linux" else []


# ---- Intel's wheel, which registers itself under a path that does not exist ----


def _intel_library() -> Path | None:
    name = "Library/bin/intelocl64.dll" if sys.platform == "win32" else "lib/libintelocl.so"
    library = Path(sys.prefix) / name
    return library if library.is_file() else None


def _show_intel_driver() -> None:
    """Points the OpenCL loader at a folder with all drivers, Intel's with its real path."""
    intel, folder = _intel_library(), cache_folder()
    if intel is None or folder is None or os.environ.get("OCL_ICD_VENDORS") or sys.platform == "win32":
        return
    vendors = folder / "opencl-vendors"
    vendors.mkdir(exist_ok=True)
    registered = [lib for place in _vendor_places() for lib in _libraries(place) if lib.suffix != ".icd"]
    for library in dict.fromkeys([*registered, intel]):
        icd = vendors / f"{library.name}.icd"
        text = f"{library}\n"
        if library.is_file() and not (icd.is_file() and icd.read_text(encoding="utf-8") == text):
            temporary = icd.with_suffix(f".{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(icd)  # at once: another process may be reading it
    os.environ["OCL_ICD_VENDORS"] = str(vendors)
