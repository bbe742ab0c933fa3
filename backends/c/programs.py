"""Kernels as functions of shared objects: built several at a time, kept on disk, loaded until the process ends."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import Kernel, sources_of
from rulegrad.support import forks
from rulegrad.support.diskcache import shared
from rulegrad.support.paths import cache_folder

from .compilers import NOT_LOADED, Compiler
from .processor import core_count

_SHORT = 1 << 17  # operations and bytes of a launch that takes no longer than waking a thread
_PER_THREAD = 1 << 16  # operations and bytes that are worth a thread
_PER_UNIT = 4  # kernels in one run of the compiler, where more than one core can run it
_FORMAT = 2  # of what is kept on disk

_PROLOGUE = """\
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#define VECTORIZED _Pragma("clang loop vectorize(enable)")
#else
#define UNROLLED _Pragma("GCC unroll 64")
#define VECTORIZED
#endif
void *aligned_alloc(__SIZE_TYPE__ alignment, __SIZE_TYPE__ size);
void free(void *memory);
_Noreturn void abort(void);
static inline void *memory_for(__SIZE_TYPE__ bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) abort();
  return memory;
}
static inline void free_at(void **variable) { free(*variable); }
#define FREED __attribute__((cleanup(free_at)))
#define IS_FLOAT(T) ((T)0.5 != 0)
/* Vectors are the compilers' own types, which gcc and clang share. In memory only their elements are aligned. */
#define VECTOR(T, N) T __attribute__((vector_size((N) * sizeof(T))))
#define VECTOR_AT(T, N, p) (((struct __attribute__((packed, may_alias)) { VECTOR(T, N) v; } *)(p))->v)
#define HALF(T, N, v, k) (((union { VECTOR(T, 2 * (N)) whole; VECTOR(T, N) halves[2]; }){v}).halves[k])
/* gcc 12 has an internal error where it would compare these lanes before they are widened. */
#ifdef __clang__
#define DOUBLES(N, x) __builtin_convertvector(x, VECTOR(double, N))
#else
#define DOUBLES(N, x) ({ \\
  VECTOR(double, N) d_ = __builtin_convertvector(x, VECTOR(double, N)); __asm__("" : "+m"(d_)); d_; })
#endif
/* The lanes first <= k < last of 16 with four bytes each are read and written by one instruction where there is one:
   integers by that of integers, as clang 19 cannot widen those that were loaded as floats. */
#ifdef __AVX512F__
#define IS_MASKED(T, N) (sizeof(T) == 4 && (N) == 16)
static inline unsigned below(int count) { return count <= 0 ? 0 : count >= 16 ? 0xffff : (1u << count) - 1; }
static inline __attribute__((always_inline)) void load_masked(void *v, const void *p, int first, int last, int floats) {
  unsigned lanes = below(last) & ~below(first);
  if (floats) *(VECTOR(float, 16) *)v = __builtin_ia32_loadups512_mask(p, *(VECTOR(float, 16) *)v, lanes);
  else *(VECTOR(int, 16) *)v = __builtin_ia32_loaddqusi512_mask(p, *(VECTOR(int, 16) *)v, lanes);
}
static inline __attribute__((always_inline)) void store_masked(void *p, const void *v, int last, int floats) {
  if (floats) __builtin_ia32_storeups512_mask(p, *(VECTOR(float, 16) *)v, below(last));
  else __builtin_ia32_storedqusi512_mask(p, *(VECTOR(int, 16) *)v, below(last));
}
#else
#define IS_MASKED(T, N) 0
static inline void load_masked(void *v, const void *p, int first, int last, int floats) {}
static inline void store_masked(void *p, const void *v, int last, int floats) {}
#endif
#define LOAD_FIRST(T, N, p, count) ({ \\
  const T *p_ = (p); int c_ = (count); VECTOR(T, N) v_; \\
  if (c_ >= N) v_ = VECTOR_AT(T, N, p_); \\
  else if (IS_MASKED(T, N)) { v_ = p_[c_ - 1] - (VECTOR(T, N)){}; load_masked(&v_, p_, 0, c_, IS_FLOAT(T)); } \\
  else for (int l_ = 0; l_ < N; l_++) v_[l_] = p_[l_ < c_ ? l_ : c_ - 1]; \\
  v_; })
#define LOAD_LANES(T, N, p, other, first, last, gate) ({ \\
  const T *p_ = (p); int f_ = (first), c_ = (gate) ? (last) : 0; VECTOR(T, N) v_ = (T)(other) - (VECTOR(T, N)){}; \\
  if (IS_MASKED(T, N)) load_masked(&v_, p_, f_, c_, IS_FLOAT(T)); \\
  else if (f_ <= 0 && c_ >= N) v_ = VECTOR_AT(T, N, p_); \\
  else for (int l_ = 0; l_ < N; l_++) if (f_ <= l_ && l_ < c_) v_[l_] = p_[l_]; \\
  v_; })
#define STORE_FIRST(T, N, p, v, count) ({ \\
  T *p_ = (p); VECTOR(T, N) v_ = (v) - (VECTOR(T, N)){}; int c_ = (count); \\
  if (c_ >= N) VECTOR_AT(T, N, p_) = v_; \\
  else if (IS_MASKED(T, N)) store_masked(p_, &v_, c_, IS_FLOAT(T)); \\
  else for (int l_ = 0; l_ < c_; l_++) p_[l_] = v_[l_]; })
/* A line of 64 bytes past the caches, if it is one. Who stores so waits for these stores at the end of its part. */
#if defined(__clang__)
#define STREAMED(T, N, p, v) __builtin_nontemporal_store(v, (VECTOR(T, N) *)(p))
#elif defined(__AVX512F__)
#define STREAMED(T, N, p, v) __builtin_ia32_movntps512((float *)(p), (VECTOR(float, 16))(v))
#endif
#define STREAM(T, N, p, v) ({ \\
  T *p_ = (p); VECTOR(T, N) v_ = (v); \\
  if ((unsigned long long)p_ % 64) VECTOR_AT(T, N, p_) = v_; else STREAMED(T, N, p_, v_); })
#define STREAM_FIRST(T, N, p, v, count) ({ \\
  T *f_ = (p); VECTOR(T, N) w_ = (v); int n_ = (count); \\
  if (n_ < N) STORE_FIRST(T, N, f_, w_, n_); else STREAM(T, N, f_, w_); })
#if defined(__x86_64__)
#define AFTER_STREAMS() __builtin_ia32_sfence()
#else
#define AFTER_STREAMS() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
/* Its sum is a lane's own, the words of x and y are not changed. */
#define DOT(T, instruction, c, x, y) ({ \\
  VECTOR(T, 16) c_ = (c) - (VECTOR(T, 16)){}; \\
  VECTOR(unsigned, 16) x_ = (x) - (VECTOR(unsigned, 16)){}, y_ = (y) - (VECTOR(unsigned, 16)){}; \\
  __asm__(#instruction " %2, %1, %0" : "+v"(c_) : "v"(x_), "v"(y_)); c_; })
/* y * 2**n, by parts of a register. */
#define SCALED(T, instruction, y, n) ({ \\
  T y_ = (y), n_ = (n), s_; __asm__(#instruction " %2, %1, %0" : "=v"(s_) : "v"(y_), "v"(n_)); s_; })
#define SCALED_VECTOR(T, M, N, instruction, y, n) ({ \\
  enum { B_ = N * sizeof(T), P_ = (B_ > 64 ? 64 : B_ < 16 ? 16 : B_) / sizeof(T), C_ = (N + P_ - 1) / P_ }; \\
  union { VECTOR(T, N) all; VECTOR(T, P_) parts[C_]; } y_, n_; \\
  y_.all = (y) - (VECTOR(T, N)){}; \\
  n_.all = __builtin_convertvector((n) - (VECTOR(M, N)){}, VECTOR(T, N)); \\
  for (int p_ = 0; p_ < C_; p_++) \\
    __asm__(#instruction " %1, %0, %0" : "+v"(y_.parts[p_]) : "v"(n_.parts[p_])); \\
  y_.all; })
#define TRUTHS(N, m) (__builtin_convertvector(m, VECTOR(unsigned char, N)) & 1)
#define EACH(T, N, f, x) ({ \\
  VECTOR(T, N) x_ = (x), r_; for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_]); r_; })
#define EACH_PAIR(T, N, f, x, y) ({ \\
  VECTOR(T, N) x_ = (x) - (VECTOR(T, N)){}, y_ = (y) - (VECTOR(T, N)){}, r_; \\
  for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_], y_[l_]); r_; })
#define SELECT(T, M, N, m, a, b) ({ \\
  VECTOR(M, N) m_ = __builtin_convertvector(m, VECTOR(M, N)); \\
  VECTOR(T, N) a_ = (a) - (VECTOR(T, N)){}, b_ = (b) - (VECTOR(T, N)){}; \\
  (VECTOR(T, N))(((VECTOR(M, N))a_ & m_) | ((VECTOR(M, N))b_ & ~m_)); })
typedef void (*part_function)(void **, long long, long long);
static void (*rulegrad_run)(part_function, void **, long long, long long);
__attribute__((visibility("default"))) void rulegrad_connect(void *run) { rulegrad_run = run; }
"""


class Function(NamedTuple):
    """A function of a shared object, `void launch(void **buffers)`: it launches one kernel."""

    address: int
    call: Callable[..., None]
    is_short: bool


class Programs:
    """The programs of one compiler."""

    def __init__(self, compiler: Compiler, run: int, prologue: str = "") -> None:
        self._compiler = compiler
        self._prologue = _PROLOGUE + prologue
        self._run = run  # the address of the function that shares work among threads
        self.identity = f"{_FORMAT}|{compiler.identity}|{compiler.flags()}"
        self._units: dict[str, ctypes.CDLL] = {}  # by key
        self._functions: dict[str, Function] = {}  # by text
        self._lock = forks.lock()

    def build(self, kernels: Sequence[Kernel]) -> list[Function]:
        """The function that launches each kernel: it takes an array of the buffers' addresses.

        Raises DeviceError, with the compiler's message and the source.
        """
        sources_of(kernels)  # which a program of all of them could have
        texts = [text_of(kernel) for kernel in kernels]
        with self._lock:
            missing = {t: k for t, k in zip(texts, kernels, strict=True) if t not in self._functions}
            missing = {text: kernel for text, kernel in missing.items() if not self._load_kept(text, kernel)}
            if missing:
                with shared().making("c program", "".join(missing)):  # other ranks need the same kernels now
                    self._make({t: k for t, k in missing.items() if not self._load_kept(t, k)})
            return [self._functions[text] for text in texts]

    def kept(self, kernels: Sequence[Kernel]) -> list[tuple[str, str, bytes]]:
        """The entries of the cache on disk that have kernels: kind, key and bytes."""
        found: dict[tuple[str, str], bytes] = {}
        for key in (self._key(text_of(kernel)) for kernel in kernels):
            unit = shared().get("c kernel", key)
            code = None if unit is None else shared().get("c program", unit.decode())
            if unit is not None and code is not None:
                found["c kernel", key], found["c program", unit.decode()] = unit, code
        return [(*key, value) for key, value in found.items()]

    def _load_kept(self, text: str, kernel: Kernel) -> bool:
        """Loads the kernel from the shared object on disk that has it, if there is one."""
        unit = shared().get("c kernel", self._key(text))
        if unit is None:
            return False
        key = unit.decode()
        if key not in self._units:
            code = shared().get("c program", key)
            library = self._load(code) if code is not None else None
            if library is None:
                return False
            self._units[key] = library
        return self._take(self._units[key], text, kernel)

    def _make(self, missing: dict[str, Kernel]) -> None:
        """Compiles kernels, as many units at a time as there are cores."""
        if not missing:
            return
        units = _shared_out(missing, max(1, min(core_count(), len(missing) // _PER_UNIT)))
        sources = [self._prologue + "".join(unit) for unit in units]
        jobs = [self._compiler.start(source) for source in sources[1:]]
        codes = [self._compiler.start(sources[0]), *jobs]
        for unit, source, code in zip(units, sources, [job.finish() for job in codes], strict=True):
            library = self._load(code)
            if library is None:
                raise DeviceError(f"c: {NOT_LOADED}")
            key = self._key(source)
            self._units[key] = library
            shared().put("c program", key, code)
            for text in unit:
                if not self._take(library, text, missing[text]):
                    raise DeviceError(f"the source of {missing[text].name!r} defines no such kernel")
                shared().put("c kernel", self._key(text), key.encode())

    def _take(self, library: ctypes.CDLL, text: str, kernel: Kernel) -> bool:
        name = f"launch_{kernel.name}"
        if not hasattr(library, name):
            return False
        # A short launch keeps the interpreter's lock: letting go of it and taking it again costs as much.
        kind = ctypes.PYFUNCTYPE if is_short(kernel) else ctypes.CFUNCTYPE
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None  # a function that was found has one
        self._functions[text] = Function(address, kind(None, ctypes.c_void_p)(address), is_short(kernel))
        return True

    def _load(self, code: bytes) -> ctypes.CDLL | None:
        library = load(code)
        if library is not None:
            library.rulegrad_connect(ctypes.c_void_p(self._run))
        return library

    def _key(self, text: str) -> str:
        return hashlib.sha256(f"{self.identity}\0{self._prologue}\0{text}".encode()).hexdigest()


def _shared_out(texts: Iterable[str], count: int) -> list[list[str]]:
    """Texts as units that take about as long to compile: the longest first, each to the unit with the least so far."""
    units: list[list[str]] = [[] for _ in range(count)]
    for text in sorted(texts, key=len, reverse=True):
        min(units, key=lambda unit: sum(map(len, unit))).append(text)
    return units


def load(code: bytes) -> Any:
    """A shared object, loaded for good; None where the system does not load it. The file is gone afterwards."""
    handle, name = tempfile.mkstemp(prefix="rulegrad-", suffix=".so", dir=cache_folder())
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.CDLL(name)
    except OSError:
        return None
    finally:
        Path(name).unlink(missing_ok=True)


def is_short(kernel: Kernel) -> bool:
    """Whether a launch ends before another thread would have woken up; not one that does not say what it does."""
    return not kernel.sizes and 0 < kernel.flops + kernel.nbytes <= _SHORT


def arguments_of(kernel: Kernel) -> int:
    """How many buffers the launch of a kernel takes: the last may be its sizes."""
    return kernel.slots + bool(kernel.sizes)


def text_of(kernel: Kernel) -> str:
    """A kernel's source with the function that launches it on all of its work."""
    name = kernel.name
    size = kernel.grid[0] if kernel.grid else 1
    work = kernel.flops + kernel.nbytes
    if kernel.sizes:
        return _text_of_sizes(kernel, work / max(size, 1))
    most = work // _PER_THREAD if work else 1 << 20
    passed = "".join(f", buffers[{k}]" for k in range(kernel.slots))
    start = (
        f"part_{name}(buffers, 0, {size})"
        if is_short(kernel) or size == 1
        else f"rulegrad_run(part_{name}, buffers, {size}, {most})"
    )
    return (
        f"{kernel.source}\n"
        f"static void part_{name}(void **buffers, long long first, long long last) {{\n"
        f"  {name}(first, last{passed});{_fence(kernel)}\n}}\n"
        f'__attribute__((visibility("default"))) void launch_{name}(void **buffers) {{ {start}; }}\n'
    )


def _fence(kernel: Kernel) -> str:
    """What waits for the stores of a part that go past the caches."""
    return " AFTER_STREAMS();" if "STREAM" in kernel.source else ""


def _text_of_sizes(kernel: Kernel, work_of_item: float) -> str:
    """The same of a kernel whose work-items depend on sizes: these are in a buffer behind the others."""
    name = kernel.name
    sizes = f"const long long *sizes = buffers[{kernel.slots}];"
    numbers = "".join(f", sizes[{k}]" for k in range(kernel.sizes))
    passed = "".join(f", buffers[{k}]" for k in range(kernel.slots)) + numbers
    return (
        f"{kernel.source}\n"
        f"static void part_{name}(void **buffers, long long first, long long last) {{\n"
        f"  {sizes}\n  {name}(first, last{passed});{_fence(kernel)}\n}}\n"
        f'__attribute__((visibility("default"))) void launch_{name}(void **buffers) {{\n'
        f"  {sizes}\n  long long items;\n  items_{name}(0, 1, &items{numbers});\n"
        f"  const double work = items * {work_of_item:.1f};\n"
        f"  if (work <= {_SHORT}) part_{name}(buffers, 0, items);\n"
        f"  else rulegrad_run(part_{name}, buffers, items, (long long)(work / {_PER_THREAD}));\n"
        "}\n"
    )
