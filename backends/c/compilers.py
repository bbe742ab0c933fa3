"""The C compiler: finding one, the flags that it gets, running it."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import not_built
from rulegrad.support.diskcache import file_stamp, shared
from rulegrad.support.paths import cache_folder

from .processor import compiler_flags

_NEWEST_CLANG, _OLDEST_CLANG = 25, 12
_FLAGS = [
    "-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-w",
    # The rules define a program's meaning: memory has no types, functions set no errno, and nobody asks for
    # floating point exceptions. Nothing here changes a value, inf and nan included; a * b + c in one step, as on
    # other devices, is asked for below.
    "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math",
]  # fmt: skip

# Optimizations that are left out. Of clang: loop strength reduction, as that of clang 19 makes wrong places of some
# gathers (test_places_of_a_permuted_product), and gathers, as it would read rows that are compared, say, by an
# instruction that takes longer than one load after the other. Of gcc: vectors of straight lines of code, as 12.2 mixes
# up the lanes of two maxima there (test_maxima_of_places). The rules make the vectors: its own add nothing.
_LEFT_OUT_OF_CLANG = (["-mllvm", "-disable-lsr"], ["-mno-gather"])
_LEFT_OUT_OF_GCC = (["-fno-tree-slp-vectorize"],)
# The message of gcc about a mistake of its own, and the flag that leaves out the passes in which most of them are.
_CRASHED, _WITHOUT_VECTORS = "internal compiler error", "-fno-tree-vectorize"
_MOST_SECONDS = 120  # for a program that tries the compiler

NOT_LOADED = (
    "the system does not load what its compiler made; does the file system of the cache folder allow no programs "
    "(noexec)? Set RULEGRAD_CACHE to another folder"
)

#: Uses functions of the system's library for mathematics and of the compiler's own library.
#: Some versions of gcc (12.2 is one) mix up the lanes of loads that a condition chooses, in a loop over pairs
#: (their bug 114375).
_SELECTED = 64
_TRIAL = f"""
double fmod(double, double);
#pragma GCC visibility push(default)
double remainder_of(double a, double b) {{ return fmod(a, b); }}
#ifdef __SIZEOF_INT128__
__int128 quotient(__int128 a, __int128 b) {{ return a / b; }}
#else
int quotient(int a, int b) {{ return a / b; }}
#endif
void chosen(long pairs, double *restrict to, unsigned char *restrict which, double *restrict a, double *restrict b) {{
  for (long i = 0; i < pairs; i++)
    for (int j = 0; j < 2; j++) to[i * 2 + j] = which[i * 2 + j] ? a[i * 2 + j] : b[i * 2 + j];
}}
int wrong(int count) {{
  double to[{2 * _SELECTED}], a[{2 * _SELECTED}], b[{2 * _SELECTED}];
  unsigned char which[{2 * _SELECTED}];
  for (int i = 0; i < count; i++) a[i] = i, b[i] = -1 - i, which[i] = i * i % 7 > 2;
  chosen(count / 2, to, which, a, b);
  int found = remainder_of(count + 1, count) != 1 || quotient(count, count) != 1;
  for (int i = 0; i < count; i++) found += to[i] != (which[i] ? a[i] : b[i]);
  return found;
}}
"""


class _Findings(NamedTuple):
    """The flags and the linker that a compiler takes for this processor.

    One that also links starts itself twice, which is half of a small kernel's time, so the linker is called by itself.
    """

    flags: list[str]
    linker: list[str]  # what makes shared objects of its object files, and libraries; empty: the compiler itself


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

    @property
    def _left_out(self) -> tuple[list[str], ...]:
        return _LEFT_OUT_OF_CLANG if self.is_clang else _LEFT_OUT_OF_GCC

    def flags(self) -> list[str]:
        """All that this compiler knows of the flags for this processor."""
        return self._found().flags

    def _found(self) -> _Findings:
        """Found out once, and kept on disk."""
        wanted = compiler_flags()
        key = f"{self.identity}|{shutil.which('ld')}|{_FLAGS}|{self._left_out}|{wanted}|{_TRIAL}"
        kept = shared().get("c compiler", key)
        if kept is None:
            with shared().making("c compiler", key):
                kept = shared().get("c compiler", key) or json.dumps(self._find(wanted)).encode()
                shared().put("c compiler", key, kept)
        return _Findings(*json.loads(kept))

    def _find(self, wanted: list[str]) -> _Findings:
        # gcc has only `fast` and `off`; `on`, as in OpenCL, joins what stands in one expression
        flags = [*_FLAGS, "-ffp-contract=on" if self.is_clang else "-ffp-contract=fast"]
        flags += [flag for part in self._left_out if self._accepts(part) for flag in part]
        linker: list[str] = []
        wrong = None
        program = shutil.which("ld")
        if sys.platform.startswith("linux") and program is not None:
            strict = ["-c", "-Werror", *(flag for flag in flags if flag != "-w"), *wanted]
            trial = self._run(_TRIAL, strict, linker=[program])
            linker = [program, *self._libraries()]  # which the compiler is asked for while it runs
            trial.linker = linker
            wrong = self._wrong_values(trial)
        if wrong is None:  # it does not know a flag, or there is no linker that can do it
            wanted = wanted if self._accepts(wanted) else [flag for flag in wanted if self._accepts([flag])]
            ways = [linker, []] if linker else [linker]
            for linker in ways:
                wrong = self._wrong_values(self._begin(_TRIAL, [*flags, *wanted], linker))
                if wrong is not None:
                    break
        return _Findings([*flags, *wanted, *(["-fno-tree-loop-if-convert"] if wrong else [])], linker)

    def _accepts(self, flags: list[str]) -> bool:
        return self._asked(["-Werror", *flags, "-fsyntax-only", "-x", "c", os.devnull]).returncode == 0

    def _libraries(self) -> list[str]:
        """The libraries that the linker needs beside object files: that of mathematics, and the compiler's."""
        return ["-l:libm.so.6", self._asked(["-print-libgcc-file-name"]).stdout.strip()]

    def _asked(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        """The compiler's answer. Raises DeviceError where it cannot be run."""
        command = [*self.command, *arguments]
        try:
            return subprocess.run(
                command, capture_output=True, check=False, text=True, errors="replace", stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise _gone(self.command[0], error) from None

    def _wrong_values(self, trial: _Job) -> int | None:
        """How many wrong values the program that tries a compiler has; None where it cannot be made or loaded."""
        handle, path = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(trial.finish())
            return int(ctypes.CDLL(path).wrong(2 * _SELECTED))
        except (DeviceError, OSError):  # what is wrong with the compiler is said where it builds kernels
            return None
        finally:
            os.unlink(path)

    def start(self, source: str) -> _Job:
        """Begins to compile a source into a shared object."""
        found = self._found()
        return self._begin(source, found.flags, found.linker)

    def start_program(self, source: str) -> _Job:
        """Begins to compile a source with a `main` into a program, by the flags that shared objects get."""
        return self._run(source, self.flags(), ["-lm"])

    def _begin(self, source: str, flags: list[str], linker: list[str]) -> _Job:
        if linker:
            return self._run(source, ["-c", *flags], linker=linker)
        return self._run(source, ["-shared", *flags], ["-lm"])

    def _run(
        self, source: str, flags: Sequence[str], libraries: Sequence[str] = (), linker: Sequence[str] = ()
    ) -> _Job:
        handle, target = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
        os.close(handle)
        result = Path(target).with_suffix(".o") if linker else target
        command = [*self.command, *flags, "-o", result, "-x", "c", "-", *libraries]
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
                raise _gone(self.command[0], error) from None
        return _Job(process, Path(target), source, linker)

    def compile(self, source: str) -> bytes:
        """A source as a shared object. Raises DeviceError with the compiler's message and the source."""
        return self.start(source).finish()


@dataclass(slots=True)
class _Job:
    """A compiler that runs."""

    process: subprocess.Popen[str]
    target: Path
    source: str
    linker: Sequence[str]  # where it makes an object file only

    def finish(self) -> bytes:
        """Waits for it. Raises DeviceError with the compiler's message and the source."""
        try:
            self._wait()
            if self.linker:
                self._link()
            return self.target.read_bytes()
        finally:
            self.target.unlink(missing_ok=True)
            self.target.with_suffix(".o").unlink(missing_ok=True)

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
        status = self.process.returncode
        if status and _CRASHED in message:
            command = [*cast("list[str]", self.process.args), _WITHOUT_VECTORS]
            again = subprocess.run(
                command, input=self.source, capture_output=True, check=False, text=True, errors="replace"
            )
            status, message = again.returncode, again.stderr
        self._check(status, message)

    def _link(self) -> None:
        program, *libraries = self.linker
        command = [program, "-shared", "-o", self.target, self.target.with_suffix(".o"), *libraries]
        try:
            done = subprocess.run(
                command, capture_output=True, check=False, text=True, errors="replace", stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise DeviceError(f"the linker {program} cannot be run: {error}") from None
        self._check(done.returncode, done.stderr)

    def _check(self, status: int, message: str) -> None:
        if status:
            raise not_built("c", f"{message.strip()}\n(exit status {status})", self.source)


def _gone(program: str, error: OSError) -> DeviceError:
    """What is said of a compiler that was found, and cannot be run any more."""
    return DeviceError(
        f"the C compiler {program} cannot be run: {error}; set CC to one that can, or start again, which looks for "
        "another one"
    )


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
