"""A device that compiles a GPU's kernels for the CPU and runs them: what `cuda_shim` and `metal_shim` have in common.

A simulator is loaded by tests with `rulegrad.load_backend(folder)`, and is never chosen by itself. It needs a C++ compiler.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad import engine
from rulegrad.engine import kept
from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.lang.compiler import library_of
from rulegrad.lang.compiler.forms import rows_of_table
from rulegrad.runtime.device import Discovery, Found
from rulegrad.runtime.kernel import Kernel, TensorMap, not_built
from rulegrad.support.paths import cache_folder

CORE = Path(__file__).with_name("core.hpp")
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_MAP_BYTES = 128
_OPTIONS = ("-std=c++17", "-O0", "-shared", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off", "-fwrapv", "-w")
_VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]  # of what is made of rows


def compiler() -> str | None:
    """The C++ compiler: the environment's SHIM_COMPILER, else g++ or clang++; None where there is none."""
    names = (os.environ.get("SHIM_COMPILER", ""), "g++", "clang++", "clang++-19")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def discovery(target: str) -> Discovery:
    """The one simulator of a target."""
    found = compiler()
    problem = "" if found else "no C++ compiler was found"
    text = f"kernels of target {target} on the CPU, compiled by {found or 'a C++ compiler'}"
    return Discovery((Found(0, text, "simulator", problem),), ("g++", "clang++"), "" if found else "install g++")


def matrix_instructions(target: str) -> dict[str, str]:
    """C++ functions for the matrix instructions of a warp and for its loads of lines, by name: emulated from the layouts of their rows.

    Kept on disk, for ranks and other processes whose compiled rules are: only these rows would make them parse all rules.
    """
    kind, key = kept.name("simulated instructions", _VERSION, target), engine.loaded().sources.key
    found = kept.cache.get(kind, key)
    if found is None:
        found = kept.to_bytes(_of_rows(target))
        kept.cache.put(kind, key, found)
    functions: dict[str, str] = kept.from_bytes(found)
    return functions


def _of_rows(target: str) -> dict[str, str]:
    library = library_of(engine.loaded().sources.files, engine.target_declaration(target).rows)
    found: dict[str, str] = {}
    for row in (record.values for record in rows_of_table(library, "matrix_instructions") or ()):
        name, _, columns, depth, operand, _, threads, *_ = row
        if threads != 32:
            continue
        made = [_layout(word, numbers) for word, numbers in zip(("left", "right", "result"), row[7:10], strict=True)]
        value = f"shim::{operand.name}_value(x)" if operand.name.startswith("float8") else "shim::value_of<Result>(x)"
        found[name] = (
            f"template <class Result, class Operand>\nvoid {name}(Result* c, const Operand* a, const Operand* b) {{\n"
            f"  {' '.join(made)}\n"
            f"  shim::matrix_mulacc(c, a, b, {columns}, {depth}, left, right, result, __LINE__, "
            f"[](const Operand& x) {{ return {value}; }});\n}}"
        )
    loads: dict[str, list[str]] = {}
    for name, bits, _, line, layout in (record.values for record in rows_of_table(library, "line_loads") or ()):
        loads.setdefault(name, []).append(
            f"  if constexpr (sizeof(T) == {bits // 8}) {{\n    {_layout('layout', layout)}\n"
            f"    shim::load_lines(to, from, {line}, layout, __LINE__);\n  }}\n"
        )
    for name, cases in loads.items():
        found[name] = f"template <class T>\nvoid {name}(T* to, const T* from) {{\n{''.join(cases)}}}"
    return found


def _layout(name: str, numbers: Sequence[int]) -> str:
    """A C++ constant."""
    text = f"static const int n[] = {{{', '.join(map(str, numbers))}}};"
    return f"static const shim::Layout {name}([] {{ {text} return shim::Layout(n, {len(numbers)}); }}());"


class Simulator:
    """The host's memory and processor. Handles are arrays of bytes. Subclasses say how a source becomes C++."""

    name: str
    target: str
    interprets = False
    memory = 0

    def __init__(self, number: int = 0) -> None:
        #: The order in which threads run: 0 forwards, 1 backwards, else a seed.
        self.order = int(os.environ.get("SHIM_ORDER", "0"))

    def allocate(self, nbytes: int) -> Bytes:
        try:
            memory = np.empty(nbytes + 255, np.uint8)
            start = -memory.ctypes.data % 256  # as drivers align what they give
            return memory[start : start + nbytes]
        except MemoryError:
            raise OutOfMemoryError(f"{self.name} cannot allocate {nbytes:,} bytes") from None

    def free(self, handle: Bytes) -> None:
        """Nothing to do: the last one who holds the array lets it go."""

    def copy_in(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        handle[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Bytes, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[...] = handle[: array.nbytes]

    def synchronize(self) -> None:
        """Nothing to do: a launch returns when it has ended."""

    def compile(self, kernels: Sequence[Kernel]) -> list[Executable]:
        different = {kernel.source: kernel for kernel in kernels}
        library = self._library(self.program([*different.values()]))
        return [Executable(self, kernel, library) for kernel in kernels]

    def program(self, kernels: Sequence[Kernel]) -> str:
        """C++ text with a launcher `launch_NAME` for each kernel; `common` stands before it."""
        lines = [kernel.source for kernel in kernels]
        parameters = (
            "void** a, const unsigned* grid, const unsigned* block, unsigned seed, int fibers, unsigned local_bytes"
        )
        launchers = [f"int launch_{k.name}({parameters}) {{ return {self.launch(k)}; }}" for k in kernels]
        return "\n".join([*lines, 'extern "C" {', "char shim_message[400];", *launchers, "}", ""])

    def common(self) -> str:
        """C++ text that all programs begin with."""
        lines = [f'#include "{path}"' for path in (CORE, *self.headers())]
        lines += matrix_instructions(self.target).values()
        lines += [f'#include "{path}"' for path in self.later_headers()]
        return "\n".join([*lines, ""])

    def headers(self) -> Sequence[Path]:
        """The files that programs include first, after `core.hpp`."""
        raise NotImplementedError

    def later_headers(self) -> Sequence[Path]:
        """Those that use matrix instructions, or what the threads of a warp have together."""
        return ()

    def launch(self, kernel: Kernel) -> str:
        """The expression that runs a kernel; the launcher's parameters are `a`, `grid`, `block`, `seed`, `fibers` and `local_bytes`."""
        raise NotImplementedError

    def geometry(self, kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Blocks along each axis, and threads of a block."""
        raise NotImplementedError

    def has_barriers(self, kernel: Kernel) -> bool:
        """Whether threads of a block wait for each other."""
        raise NotImplementedError

    def tensor_map(self, one: TensorMap, address: int) -> bytes:
        """A launch's description of an array at an address whose boxes are copied. Raises ValueError."""
        raise NotImplementedError

    def _library(self, text: str) -> ctypes.CDLL:
        folder, command = cache_folder(), compiler()
        if folder is None or command is None:
            raise DeviceError(f"{self.name} needs a C++ compiler and a cache folder that can be written to")
        read = [path.read_text(encoding="utf-8") for path in (CORE, *self.headers(), *self.later_headers())]
        shims = folder / "shims"
        shims.mkdir(exist_ok=True)
        # the compiler looks for NAME.hpp.gch, what it made of the text that all programs begin with, beside NAME.hpp
        begin = self.common()
        common = shims / f"{_digest(command, *_OPTIONS, begin, *read)}.hpp"
        compiled = common.with_name(f"{common.name}.gch")
        path = shims / f"{_digest(common.name, text)}.so"
        if not compiled.exists():
            _write(common, begin)
            self._compile([command, *_OPTIONS, "-x", "c++-header", str(common)], compiled, begin)
        if not path.exists():
            source = path.with_suffix(f".{os.getpid()}.cpp")
            source.write_text(text, encoding="utf-8")
            try:
                self._compile([command, *_OPTIONS, "-include", str(common), str(source)], path, text)
            finally:
                source.unlink()
        return ctypes.CDLL(str(path))

    def _compile(self, command: Sequence[str], path: Path, text: str) -> None:
        """Compiles a text to a file, which other processes see when it is whole. Raises DeviceError."""
        made = path.with_name(f"{os.getpid()}.{path.name}")
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise not_built(self.name, done.stderr, text)
        made.replace(path)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def _write(path: Path, text: str) -> None:
    """Writes a file, which other processes see when it is whole."""
    made = path.with_name(f"{os.getpid()}.{path.name}")
    made.write_text(text, encoding="utf-8")
    made.replace(path)


class Executable:
    """A kernel of a library."""

    def __init__(self, device: Simulator, kernel: Kernel, library: ctypes.CDLL) -> None:
        self._device = device
        self._name = kernel.name
        self._launch = getattr(library, f"launch_{kernel.name}")
        self._message = (ctypes.c_char * 400).in_dll(library, "shim_message")
        self._set_grid(kernel)
        self._fibers = device.has_barriers(kernel)
        self._maps = kernel.maps
        self._local_bytes = kernel.local_bytes

    def __call__(self, handles: Sequence[Bytes], wait: bool = False) -> float | None:
        start = time.perf_counter()
        addresses = [handle.ctypes.data for handle in handles]
        self.launch(addresses, [self._device.tensor_map(one, addresses[one.slot]) for one in self._maps])
        return time.perf_counter() - start if wait else None

    def sized(self, kernel: Kernel) -> Executable:
        """The same for another grid."""
        found = copy.copy(self)
        found._set_grid(kernel)
        return found

    def _set_grid(self, kernel: Kernel) -> None:
        grid, block = ((*sizes, 1, 1, 1)[:3] for sizes in self._device.geometry(kernel))
        self._grid, self._block = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)

    def launch(self, addresses: Sequence[int], maps: Sequence[bytes]) -> None:
        """Runs it with buffers at these addresses, and these tensor maps. Raises DeviceError."""
        held, start = _aligned(b"".join(maps))
        places = [*addresses, *(start + _MAP_BYTES * k for k in range(len(maps)))]
        arguments = (ctypes.c_void_p * len(places))(*places)
        if self._launch(arguments, self._grid, self._block, self._device.order, self._fibers, self._local_bytes):
            raise DeviceError(
                f"kernel {self._name!r} on {self._device.name} cannot run: {self._message.value.decode()}"
            )
        del held


def _aligned(text: bytes) -> tuple[Any, int]:
    """Memory with these bytes, and where they begin: at a multiple of 64."""
    memory = ctypes.create_string_buffer(len(text) + 64)
    start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    ctypes.memmove(start, text, len(text))
    return memory, start
