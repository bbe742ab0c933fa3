"""Apple's Metal through PyObjC: finding it, its devices, its compiler."""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.kernel import not_built

_LIBRARY = "/System/Library/Frameworks/Metal.framework"
_INSTALL = "python -m pip install 'rulegrad[metal]'"
_NONUNIFORM = 1004  # MTLGPUFamilyApple4: grids that are not multiples of their groups


@cache
def metal() -> Any:
    """The module of Metal's classes and functions. Raises ImportError."""
    import Metal

    return Metal


@cache
def raw_devices() -> list[Any]:
    """All GPUs, the system's first choice first."""
    first = metal().MTLCreateSystemDefaultDevice()
    others = [device for device in metal().MTLCopyAllDevices() if device != first]
    return ([first] if first is not None else []) + others


def is_here() -> bool:
    """Whether this system may have Metal."""
    return sys.platform == "darwin"


def discover() -> Discovery:
    """The GPUs. Elsewhere than on a Mac this imports nothing."""
    if not is_here():
        return Discovery((), (_LIBRARY,), f"Metal is on macOS only; this is {platform.system()}")
    try:
        metal()
    except ImportError as error:
        return Discovery((), (_LIBRARY, "PyObjC"), f"what calls Metal is not installed ({error}): {_INSTALL}")
    found = tuple(Found(k, str(device.name()), "gpu", _problem(device)) for k, device in enumerate(raw_devices()))
    return Discovery(
        found, (_LIBRARY, "PyObjC"), "" if found else "Metal knows no GPU here: is this a virtual machine?"
    )


def _problem(device: Any) -> str:
    if device.supportsFamily_(_NONUNIFORM):
        return ""
    return "its family is older than Apple4: it takes no grids that are not multiples of their groups"


@cache
def prelude() -> str:
    """The beginning of every program."""
    headers = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing namespace metal;\n"
    return headers + Path(__file__).with_name("matrix.metal").read_text(encoding="utf-8")


def build(device: Any, name: str, source: str) -> Any:
    """The library of a source. Raises DeviceError, with the compiler's message and the source."""
    options = metal().MTLCompileOptions.new()
    options.setFastMathEnabled_(False)
    text = f"{prelude()}#line 1\n{source}"
    library, error = device.newLibraryWithSource_options_error_(text, options, None)
    if library is None:
        raise not_built(name, _text(error), source)
    return library


def pipeline(device: Any, library: Any, name: str) -> Any:
    """The pipeline state of a kernel of a library. Raises DeviceError."""
    function = library.newFunctionWithName_(name)
    if function is None:
        raise DeviceError(f"the source of {name!r} defines no such kernel")
    state, error = device.newComputePipelineStateWithFunction_error_(function, None)
    if state is None:
        raise DeviceError(f"kernel {name!r} cannot be made ready: {_text(error)}")
    return state


def failure(buffer: Any) -> str:
    """Why the commands of a buffer that has ended failed; empty when they did not."""
    error = buffer.error()
    return "" if error is None else _text(error)


def _text(error: Any) -> str:
    return str(error.localizedDescription()) if error is not None else "no reason was given"
