"""Finding WebGPU: the adapters of this machine, what each can do, and what they depend on."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.hardware import may_have_accelerator
from rulegrad.support.diskcache import file_stamp
from rulegrad.support.installed import version

_DRIVERS = (Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d"))
_SETTINGS = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "WGPU_BACKEND_TYPE", "WGPU_LIB_PATH")
_KINDS = {"DiscreteGPU": "gpu", "IntegratedGPU": "gpu"}  # a CPU that draws is a simulator of one: never the default
_BUFFERS = 16  # `limit arguments` of the target
_NEEDED = {"max-storage-buffers-per-shader-stage": _BUFFERS, "max-compute-invocations-per-workgroup": 64}

#: What a device is asked for where its adapter has it, and how with_features.rules calls that.
FEATURES = {"shader-f16": "f16", "subgroup": "subgroups"}
_SLOWER_ON_CPUS = ("subgroup",)  # long rows take up to 13 % longer on Mesa's driver for the CPU: docs/decisions.md


@cache
def wgpu() -> Any:
    """The module wgpu, imported when WebGPU is first used. Raises ImportError."""
    # Without a display the driver's library complains about this folder, which only windows need.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    import wgpu

    return wgpu


@cache
def adapters() -> list[Any]:
    """All adapters, the best first: the position is the number in `webgpu:NUMBER`."""
    found, names = [], set()
    everything = wgpu().gpu.enumerate_adapters_sync()
    # OpenGL shows the devices once more, with less.
    for adapter in sorted(everything, key=lambda a: a.info["backend_type"].startswith("OpenGL")):
        if adapter.info["device"] not in names:
            names.add(adapter.info["device"])
            found.append(adapter)
    order = ("gpu", "simulator")
    return sorted(found, key=lambda adapter: order.index(_adapter_kind(adapter)))


def best_kind() -> str:
    return "gpu" if may_have_accelerator() else "simulator"


def discover() -> Discovery:
    """The devices, without compiling anything."""
    looked = ("Python package wgpu", *map(str, _DRIVERS))
    try:
        wgpu()
    except (ImportError, OSError) as error:
        return Discovery((), looked, f"install wgpu: python -m pip install 'rulegrad[webgpu]' ({error})")
    try:
        listed = adapters()
    except RuntimeError as error:
        return Discovery((), looked, f"wgpu cannot list adapters: {error}")
    found = tuple(Found(k, _describe(a), _adapter_kind(a), _problem(a)) for k, a in enumerate(listed))
    advice = "install the driver of your GPU, or Mesa's for the CPU (Debian: apt-get install mesa-vulkan-drivers)"
    return Discovery(found, looked, "" if found else advice)


def fingerprint() -> str:
    """Changes with the package, with the drivers, and with the settings of both."""
    parts = [version("wgpu") if importlib.util.find_spec("wgpu") is not None else ""]
    parts += [file_stamp(path) for place in _DRIVERS for path in sorted(place.glob("*.json"))]
    return "|".join([*parts, *(f"{name}={os.environ.get(name, '')}" for name in _SETTINGS)])


def target_for(features: Collection[str], is_cpu: bool = False) -> str:
    """The target with what with_features.rules adds for an adapter with these features.

    >>> from rulegrad.runtime.backends import backend
    >>> module = backend("webgpu").module
    >>> module.target_for({"shader-f16", "subgroup", "timestamp-query"}), module.target_for({"subgroup"}, is_cpu=True)
    ('webgpu+f16+subgroups', 'webgpu')
    """
    unused = _SLOWER_ON_CPUS if is_cpu else ()
    return "+".join(["webgpu", *(name for one, name in FEATURES.items() if one in features and one not in unused)])


def _adapter_kind(adapter: Any) -> str:
    return _KINDS.get(adapter.info["adapter_type"], "simulator")


def _describe(adapter: Any) -> str:
    info = adapter.info
    return f"{info['device']} by {info['backend_type']} ({info['description']})"


def _problem(adapter: Any) -> str:
    few = [
        f"{name} is {adapter.limits[name]}, needed are {n}" for name, n in _NEEDED.items() if adapter.limits[name] < n
    ]
    return "; ".join(few)
