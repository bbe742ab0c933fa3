"""Building OpenCL programs: all kernels of a list in one program, and binaries kept on disk."""

from __future__ import annotations

import hashlib
import time
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad.runtime.kernel import Kernel, not_built, sources_of
from rulegrad.support import forks
from rulegrad.support.diskcache import shared

from .drivers import identity, opencl

# PoCL keeps what it builds on disk itself, so that building again takes about 40 ms a program (2 ms from
# a binary). Asking it for a binary makes it compile every kernel once more, for any local size: 130 ms a
# kernel. That is paid only once as much has been lost to building again.
_POCL_SECONDS_PER_BINARY = 0.13


# On a PoCL that does not know the processor the compiler has fewer instructions than the device says. Drivers whose
# compiler is for no processor in particular define no such names.
_WIDE = """
#if !defined(__x86_64__) || defined(__AVX512F__)
__kernel void wide(void) {}
#endif
__kernel void any(void) {}
"""


class Programs:
    """The programs of one device, which its sub-devices in the same context run too."""

    def __init__(self, context: Any, device: Any, name: str) -> None:
        self.context = context
        self._device = device
        self._name = name
        self._built: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()  # by source
        self._lock = forks.lock()
        self._is_pocl = device.platform.name == "Portable Computing Language"
        self._identity = identity(device)
        self._prologue = ""  # what every source is compiled behind
        self._declarations = _header("declarations.h") if self._is_pocl else ""  # instead of the driver's
        self._declares_enough = False  # some program was built with them
        self.target = "opencl"
        if device.type & opencl().device_type.CPU:
            self.target = self._cpu_target()
            self._prologue = _header("vectors.h")

    def build(self, kernels: Sequence[Kernel]) -> list[Any]:
        """The program that has each kernel; those not built before are built together.

        Raises DeviceError, with the compiler's message and the source.
        """
        sources = sources_of(kernels)
        with self._lock:
            found = {source: self._built.get(source) for source in sources}
            missing = [source for source, program in found.items() if program is None]
            if missing:
                program = self._build("\n".join(missing), len(missing))
                for source in missing:
                    found[source] = self._built[source] = program
        return [found[kernel.source] for kernel in kernels]

    def _cpu_target(self) -> str:
        """The target, of those in processors.rules, whose vectors the device and its compiler have."""
        if self._device.native_vector_width_float < 16:
            return "opencl_cpu"
        key = f"{self._identity}|{_WIDE}"
        kept = shared().get("opencl target", key)
        if kept is not None:
            return kept.decode()
        names = self._from_source(_WIDE).kernel_names.split(";")
        target = "opencl_cpu_avx512" if "wide" in names else "opencl_cpu"
        shared().put("opencl target", key, target.encode())
        return target

    def _build(self, source: str, count: int) -> Any:
        key = hashlib.sha256(f"{self._identity}\0{self._declarations}{self._prologue}\0{source}".encode()).hexdigest()
        binary = shared().get("opencl binary", key)
        if binary is not None:
            program = self._from_binary(binary)
            if program is not None:
                return program
        start = time.perf_counter()
        program = self._from_source(source)
        self._keep_binary(key, program, count, time.perf_counter() - start)
        return program

    def _from_source(self, source: str) -> Any:
        cl = opencl()
        if self._declarations:
            try:
                program = self._compiled(source, self._declarations, "-D_OPENCL_H_")
                self._declares_enough = True
                return program
            except cl.Error:
                pass  # a user's rules call another function, or it is wrong: the driver's declarations tell
        try:
            program = self._compiled(source)
        except cl.Error as error:
            raise not_built(self._name, _log_of(error), source) from None
        if not self._declares_enough:
            self._declarations = ""
        return program

    def _compiled(self, source: str, declarations: str = "", *options: str) -> Any:
        cl = opencl()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler remarks about a program that it builds
            program = cl.Program(self.context, f"{declarations}{self._prologue}\n#line 1\n{source}")
            program.get_info(cl.program_info.NUM_DEVICES)  # keeps pyopencl's own cache out of it
            # without remarks on style, such as a & b | c without parentheses
            return program.build(["-w", *options], devices=[self._device])

    def _from_binary(self, binary: bytes) -> Any | None:
        cl = opencl()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cl.Program(self.context, [self._device], [binary]).build()
        except cl.Error:  # not of this driver after all: the source is at hand
            return None

    def _keep_binary(self, key: str, program: Any, count: int, seconds: float) -> None:
        if self._is_pocl:
            before = shared().get("opencl seconds", key)
            # The first build had to be: only the later ones are lost time.
            lost = 0.0 if before is None else float(before) + seconds
            if lost < _POCL_SECONDS_PER_BINARY * count:
                shared().put("opencl seconds", key, str(lost).encode())
                return
        binaries = program.get_info(opencl().program_info.BINARIES)
        if binaries and binaries[0]:
            shared().put("opencl binary", key, binaries[0])


def _header(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _log_of(error: Exception) -> str:
    """The compiler's text; pyopencl puts the device and its own options around it."""
    lines = str(error).split("Build on", 1)[-1].splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.startswith((" <", "<", "(options")))
