"""The C compiler: finding one, the flags that it gets, running it."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import not_built
from rulegrad.support.diskcache import file_stamp, shared
from rulegrad.support.paths import cache_folder

from .processor import compiler_flags

_NEWEST_CLANG, _OLDEST_CLANG = 25, 12
_FLAGS = [
    "-std=gnu11", "-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-w",
    # The rules define a program's meaning: memory has no types, functions set no errno, and nobody asks for
    # floating point exceptions. Nothing here changes a value, inf and nan included; a * b + c in one step, as on
    # other devices, is asked for below.
    "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math",
]  # fmt: skip

_MOST_SECONDS = 120  # for a program that tries the compiler

NOT_LOADED = (
    "the system does not load what its compiler made; does the file system of the cache folder allow no programs "
    "(noexec)? Set RULEGRAD_CACHE to another folder"
)

#: Some versions of gcc (12.2 is one) mix up the lanes of loads that a condition chooses, in a loop over pairs
#: (their bug 114375).
_SELECTED = 64
_SELECT = f"""
#pragma GCC visibility push(default)
void chosen(long pairs, double *restrict to, unsigned char *restrict which, double *restrict a, double *restrict b) {{
  for (long i = 0; i < pairs; i++)
    for (int j = 0; j < 2; j++) to[i * 2 + j] = which[i * 2 + j] ? a[i * 2 + j] : b[i * 2 + j];
}}
int wrong(int count) {{
  double to[{2 * _SELECTED}], a[{2 * _SELECTED}], b[{2 * _SELECTED}];
  unsigned char which[{2 * _SELECTED}];
  for (int i = 0; i < count; i++) a[i] = i, b[i] = -1 - i, which[i] = i * i % 7 > 2;
  chosen(count / 2, to, which, a, b);
  int found = 0;
  for (int i = 0; i < count; i++) found += to[i] != (which[i] ? a[i] : b[i]);
  return found;
}}
"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that compiles C: the program and its first arguments."""

    command: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Changes when the compiler does."""
        return f"{' '.join(self.command)}|{file_stamp(Path(self.command[0]).resolve())}"

    @property
    def is_clang(self) -> bool:
        return "clang" in Path(self.command[0]).resolve().name

    def flags(self) -> list[str]:
        """All that this compiler knows of the flags for this processor; found out once, and kept on disk."""
        # gcc has only `fast` and `off`; `on`, as in OpenCL, joins what stands in one expression
        own = ["-ffp-contract=on"] if self.is_clang else ["-ffp-contract=fast"]
        wanted = compiler_flags()
        key = f"{self.identity}|{wanted}|{_SELECT}"
        kept = shared().get("c flags", key)
        if kept is None:
            with shared().making("c flags", key):
                kept = shared().get("c flags", key) or self._find_flags(wanted, own)
                shared().put("c flags", key, kept)
        return [*_FLAGS, *own, *json.loads(kept)]

    def _find_flags(self, wanted: list[str], own: list[str]) -> bytes:
        known = wanted if self._accepts(wanted) else [flag for flag in wanted if self._accepts([flag])]
        if not self.is_clang and not self._selects_right([*_FLAGS, *own, *known]):
            known.append("-fno-tree-loop-if-convert")
        return json.dumps(known).encode()

    def _accepts(self, flags: list[str]) -> bool:
        command = [*self.command, "-Werror", *flags, "-fsyntax-only", "-x", "c", os.devnull]
        return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0

    def _selects_right(self, flags: list[str]) -> bool:
        """Whether loads that a condition chooses are right with these flags, found out by running some."""
        handle, path = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._begin(_SELECT, flags).finish())
            return int(ctypes.CDLL(path).wrong(2 * _SELECTED)) == 0
        finally:
            os.unlink(path)

    def start(self, source: str) -> _Job:
        """Begins to compile a source into a shared object."""
        return self._begin(source, self.flags())

    def start_program(self, source: str) -> _Job:
        """Begins to compile a source with a `main` into a program, by the flags that shared objects get."""
        return self._begin(source, [flag for flag in self.flags() if flag != "-shared"])

    def _begin(self, source: str, flags: list[str]) -> _Job:
        handle, target = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
        os.close(handle)
        command = [*self.command, *flags, "-o", target, "-x", "c", "-", "-lm"]
        # from a file, so that it works before anybody waits for it
        with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
            given.write(source)
            given.seek(0)
            try:
                process = subprocess.Popen(
                    command, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
                )
            except OSError as error:
                os.unlink(target)
                raise DeviceError(f"the C compiler {self.command[0]} cannot be run: {error}") from None
        return _Job(process, Path(target), source)

    def compile(self, source: str) -> bytes:
        """A source as a shared object. Raises DeviceError with the compiler's message and the source."""
        return self.start(source).finish()


@dataclass(slots=True)
class _Job:
    """A compiler that runs."""

    process: subprocess.Popen[str]
    target: Path
    source: str

    def finish(self) -> bytes:
        """Waits for it. Raises DeviceError with the compiler's message and the source."""
        try:
            self._wait()
            return self.target.read_bytes()
        finally:
            self.target.unlink(missing_ok=True)

    def run(self) -> int:
        """Waits for it, runs the program, and returns its exit status: of a signal the negative number.

        Raises DeviceError where it cannot be compiled or run.
        """
        try:
            self._wait()
            done = subprocess.run(
                [self.target], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=_MOST_SECONDS
            )
            return done.returncode
        except OSError as error:
            raise DeviceError(f"c: a program of its compiler cannot be run ({error}); {NOT_LOADED}") from None
        except subprocess.TimeoutExpired:
            raise DeviceError(f"c: a program of its compiler did not end within {_MOST_SECONDS} seconds") from None
        finally:
            self.target.unlink(missing_ok=True)

    def _wait(self) -> None:
        _, message = self.process.communicate()
        if self.process.returncode:
            raise not_built("c", f"{message.strip()}\n(exit status {self.process.returncode})", self.source)


def candidates() -> list[str]:
    """The commands that are looked for, the best first; the setting CC alone where there is one."""
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        return [chosen]
    numbered = [f"clang-{version}" for version in range(_NEWEST_CLANG, _OLDEST_CLANG - 1, -1)]
    return ["clang", *numbered, "gcc", "cc"]


@cache
def _find(names: tuple[str, ...], path: str) -> Compiler | None:
    for name in names:
        first, *rest = shlex.split(name)
        found = shutil.which(first)
        if found:
            return Compiler((found, *rest))
    return None


def find() -> Compiler | None:
    """The C compiler to use; None where there is none."""
    return _find(tuple(candidates()), os.environ.get("PATH", ""))
