"""The device `c` with kernels written by hand."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.config import config
from rulegrad.errors import ConfigError, DeviceError, OutOfMemoryError
from rulegrad.ir import UOp
from rulegrad.runtime import devices, probe
from rulegrad.runtime.backends import backend
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.kernel import Kernel
from rulegrad.support.diskcache import shared

try:
    devices.get("c")
except DeviceError as problem:
    pytest.skip(str(problem), allow_module_level=True)

GRAPH = UOp("SINK", ())
LARGE = 1 << 18  # elements: work for several threads


def scale(name: str, factor: float, size: int, flops: int | None = None) -> Kernel:
    """out[i] = in[i] * factor"""
    source = (
        f"static void {name}(long long first, long long last, float* restrict out, float* restrict in) {{\n"
        f"  for (long long i = first; i < last; i++) out[i] = in[i] * {factor!r}f;\n}}\n"
    )
    return Kernel(name, GRAPH, source, (size,), (), 2, size if flops is None else flops, 8 * size)


def buffers(size: int) -> tuple[Buffer, Buffer]:
    out, given = Buffer((size,), "float32", "c"), Buffer((size,), "float32", "c")
    given.copy_in(np.arange(size, dtype=np.float32))
    return out, given


def compile_here(kernels: Sequence[Kernel]) -> list[Any]:
    return list(devices.get("c").compile(kernels))


@pytest.mark.parametrize("size", [1, 64, 1000, LARGE, LARGE + 1])
def test_compile_launch_and_read(size: int) -> None:
    out, given = buffers(size)
    (executable,) = compile_here([scale(f"scale_{size}", 2.5, size)])
    assert executable([out.handle, given.handle]) is None
    np.testing.assert_array_equal(out.numpy(), np.arange(size, dtype=np.float32) * np.float32(2.5))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_is_done_once_whatever_the_number_of_threads(threads: int) -> None:
    source = (
        "static void count_up(long long first, long long last, int* restrict data0) {\n"
        "  for (long long i = first; i < last; i++) data0[i] += 1;\n}\n"
    )
    (executable,) = compile_here([Kernel("count_up", GRAPH, source, (LARGE + 7,), (), 1, LARGE, 4 * LARGE)])
    counts = Buffer((LARGE + 7,), "int32", "c")
    counts.copy_in(np.zeros(LARGE + 7, np.int32))
    with config(threads=threads):
        for _ in range(200):
            executable([counts.handle])
    np.testing.assert_array_equal(counts.numpy(), 200)


@pytest.mark.parametrize("threads", [2, 4])
def test_launches_of_a_program_follow_each_other(threads: int) -> None:
    """Shared launches with a short one between them; before the second half all threads have gone to sleep."""
    device: Any = devices.get("c")
    out, given = buffers(LARGE)
    double, short = compile_here([scale("doubled", 2.0, LARGE), scale("negated", -1.0, 8)])
    launches = [(double, (0, 1)), (short, (0, 0)), (double, (2, 0)), (double, (0, 2))]
    program = device.record(launches, 2, [256])
    arena = device.allocate(4 * LARGE + 256)
    expected = given.numpy() * 8
    expected[:8] *= -1
    with config(threads=threads):
        for run in range(100):
            if run == 50:
                time.sleep(0.05)
            program.run([out.handle, given.handle], arena)
            np.testing.assert_array_equal(out.numpy(), expected)


def test_number_of_threads() -> None:
    with pytest.raises(ConfigError, match="it takes a number of threads"):
        config(threads=-1)


def test_time() -> None:
    out, given = buffers(LARGE)
    (executable,) = compile_here([scale("timed", 1.5, LARGE)])
    seconds = executable([out.handle, given.handle], wait=True)
    assert 0 < seconds < 10
    devices.get("c").synchronize()


def test_several_kernels_in_one_program() -> None:
    out, given = buffers(8)
    kernels = [scale(f"several_{k}", k + 0.5, 8) for k in range(20)]
    for k, executable in enumerate(compile_here([*kernels, kernels[0]])[:20]):
        executable([out.handle, given.handle])
        np.testing.assert_array_equal(out.numpy(), np.arange(8) * (k + 0.5))
    with pytest.raises(DeviceError, match="two different kernels are called 'several_0'"):
        compile_here([kernels[0], scale("several_0", 9.0, 8)])


def test_wrong_number_of_buffers() -> None:
    out, _ = buffers(8)
    (executable,) = compile_here([scale("counted", 1.5, 8)])
    with pytest.raises(DeviceError, match="'counted' takes 2 buffers, but was given 1"):
        executable([out.handle])


def test_compiler_message_and_source_are_in_the_error() -> None:
    kernel = Kernel("broken", GRAPH, "static void broken(long long first, long long last) {\n  oops;\n}\n", (1,), (), 1)
    with pytest.raises(DeviceError, match=r"(?s)cannot build this program.*oops.*\n +\d+    oops;"):
        compile_here([kernel])


def test_programs_are_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [scale(f"kept_{os.getpid()}_{k}", 3.0, 16) for k in range(2)]
    compile_here(kernels)
    module = backend("c").module
    compiler = type(module.compilers.find())
    monkeypatch.setattr(compiler, "start", lambda *_: pytest.fail("it was compiled again"))
    out, given = buffers(16)
    module.Device(0).compile(kernels[:1])[0]([out.handle, given.handle])
    np.testing.assert_array_equal(out.numpy(), np.arange(16) * 3)


def test_damaged_program_on_disk_is_made_again() -> None:
    kernel = scale(f"damaged_{os.getpid()}", 4.0, 16)
    compile_here([kernel])
    for kind, key, _, _ in shared().entries():
        if kind == "c program":
            shared().put(kind, key, b"no shared object")
    out, given = buffers(16)
    backend("c").module.Device(0).compile([kernel])[0]([out.handle, given.handle])
    np.testing.assert_array_equal(out.numpy(), np.arange(16) * 4)


def test_memory_is_aligned_and_shared_with_arrays() -> None:
    for nbytes in (1, 100, 4096):
        assert devices.get("c").allocate(nbytes) % 64 == 0
    given = np.arange(10, dtype=np.float32)[1:]  # no better aligned than floats are
    shared_buffer = Buffer.around(given, "c")
    assert shared_buffer is not None
    out, _ = buffers(9)
    compile_here([scale("of_an_array", 2.0, 9)])[0]([out.handle, shared_buffer.handle])
    view = out.host_view()
    assert view is not None
    np.testing.assert_array_equal(view, given * 2)


def test_too_much_memory() -> None:
    with pytest.raises(OutOfMemoryError, match="cannot allocate 1,152,921,504,606,846,976 bytes"):
        devices.get("c").allocate(1 << 60)


def test_threads_of_the_program_launch_at_the_same_time() -> None:
    (executable,) = compile_here([scale("from_threads", 2.0, LARGE)])
    wrong: list[int] = []

    def work(number: int) -> None:
        out, given = buffers(LARGE)
        for _ in range(20):
            executable([out.handle, given.handle])
        if not np.array_equal(out.numpy(), given.numpy() * 2):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _in_a_child(answers: Any) -> None:
    x = Tensor(np.ones((512, 512), np.float32), device="c")
    answers.put(float((x * 2).sum().item()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_works_in_a_child_made_by_fork() -> None:
    out, given = buffers(LARGE)
    compile_here([scale("before_fork", 2.0, LARGE)])[0]([out.handle, given.handle])
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_a_child, args=(answers,))
    child.start()
    assert answers.get(timeout=60) == 512 * 512 * 2
    child.join(60)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    module = backend("c").module
    monkeypatch.setenv("CC", "no-such-compiler -O1")
    found = module.discover()
    assert not found.devices and found.looked == ("no-such-compiler -O1",)
    assert "install a C compiler" in found.advice
    with pytest.raises(DeviceError, match="no C compiler was found"):
        module.Device(0)


@pytest.mark.parametrize(
    ("main", "problem"),
    [
        ("{ return 1; }", "it computes wrong results in a test of adding integers"),
        ("{ abort(); }", "a program that adds integers ended with SIGABRT"),
    ],
)
def test_a_compiler_whose_programs_fail(
    main: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = backend("c").module
    module.self_test(0)
    (tmp_path / "other_main.h").write_text(f"void abort(void);\nint main(void) {main}\n#define main tried_main\n")
    monkeypatch.setenv("CC", f"{module.compilers.find().command[0]} -include {tmp_path / 'other_main.h'}")
    with pytest.raises(DeviceError, match=problem):
        module.self_test(0)
    assert [found.problem for found in probe.discover(backend("c")).devices] == [problem]


def test_compilers_run_side_by_side() -> None:
    """Each is given its source at once, not when somebody waits for it."""
    compiler = backend("c").module.compilers.find()
    jobs = [compiler.start(f"int value_{k}(void) {{ return {k}; }}") for k in range(3)]
    assert [job.process.wait(timeout=60) for job in jobs] == [0, 0, 0]
    assert all(f"value_{k}".encode() in job.finish() for k, job in enumerate(jobs))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the compiler links")
@pytest.mark.parametrize("linker", ["ld", "false", "no-such-linker"])
def test_programs_are_linked_by_the_linker_or_by_the_compiler(linker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = backend("c").module
    command = module.compilers.find().command
    which = shutil.which
    monkeypatch.setattr(module.compilers.shutil, "which", lambda name: which(linker if name == "ld" else name))
    compiler = module.compilers.Compiler((*command, "-g0", f"-DLINKER={linker}"))  # one that was not tried before
    assert bool(compiler._found().linker) == (linker == "ld")
    out, given = buffers(8)
    kernel = scale(f"linked_by_{linker.replace('-', '_')}", 2.5, 8)
    module.Device(0, compiler).compile([kernel])[0]([out.handle, given.handle])
    np.testing.assert_array_equal(out.numpy(), np.arange(8) * 2.5)


def test_a_linker_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is looked for by the next program; this one says what it misses."""
    module = backend("c").module
    compiler = module.compilers.find()
    job = compiler.start("int value(void) { return 1; }")
    job.linker = ["/no/such/ld"]
    with pytest.raises(DeviceError, match="the linker /no/such/ld cannot be run"):
        job.finish()
    monkeypatch.setattr(module.compilers.shutil, "which", lambda name: None)
    assert compiler._found().linker == []


def test_a_compiler_that_has_vanished_is_named(tmp_path: Path) -> None:
    gone = backend("c").module.compilers.Compiler((str(tmp_path / "cc"),))
    for attempt in (gone.flags, lambda: gone.compile("int x;")):
        with pytest.raises(DeviceError, match=r"the C compiler .*cc cannot be run: .*; set CC to one"):
            attempt()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a script stands for the compiler")
def test_a_compiler_that_crashes_gets_the_program_again_without_vectorizers(tmp_path: Path) -> None:
    module = backend("c").module
    real, crashing = module.compilers.find().command[0], tmp_path / "crashing-gcc"
    crashing.write_text(
        f"""#!/bin/sh
case " $* " in
  *" -fno-tree-vectorize "* | *" -fsyntax-only "* | *" -print-"*) exec {real} "$@" ;;
esac
echo "<stdin>:1:1: internal compiler error: Segmentation fault" >&2
exit 1
""",
        encoding="utf-8",
    )
    crashing.chmod(0o755)
    out, given = buffers(8)
    compiler = module.compilers.Compiler((str(crashing),))
    module.Device(0, compiler).compile([scale("after_a_crash", 2.5, 8)])[0]([out.handle, given.handle])
    np.testing.assert_array_equal(out.numpy(), np.arange(8) * 2.5)
    with pytest.raises(DeviceError, match="error: unknown type name 'nonsense'|error: .*nonsense"):
        compiler.compile("nonsense value(void);")


def test_features_become_flags() -> None:
    flags = backend("c").module.processor.compiler_flags
    assert flags(frozenset()) in ([], ["-march=armv8-a"], ["-mcpu=native"])
    if "-mavx2" in flags():
        assert flags(frozenset({"avx2", "fma"})) == ["-mavx2", "-mfma"]
        assert flags(frozenset({"avx512f"})) == ["-mavx512f", "-mprefer-vector-width=512"]


def test_the_compiler_of_the_setting_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = backend("c").module
    for name in ("gcc", "clang", "cc"):
        monkeypatch.setenv("CC", f"{name} -g0")
        compiler = module.compilers.find()
        if compiler is None:
            continue
        assert compiler.command[1:] == ("-g0",)
        out, given = buffers(8)
        module.Device(0).compile([scale("with_setting", 2.5, 8)])[0]([out.handle, given.handle])
        np.testing.assert_array_equal(out.numpy(), np.arange(8) * 2.5)


@pytest.mark.parametrize("name", ["gcc", "clang"])
@pytest.mark.parametrize("element", ["double", "float", "signed char"])
def test_loads_that_a_condition_chooses(name: str, element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc 12.2 mixes up their lanes in a loop over pairs."""
    module = backend("c").module
    monkeypatch.setenv("CC", name)
    if module.compilers.find() is None:
        pytest.skip(f"there is no {name}")
    source = f"""static void pairs(long long first, long long last, {element}* restrict to, unsigned char* restrict which,
                       {element}* restrict a, {element}* restrict b) {{
      for (int i = (int)first; i < (int)last; i++)
        for (int k = 0; k < 9; k++)
          for (int j = 0; j < 2; j++) {{
            const int at = i * 18 + k * 2 + j;
            to[at] = which[at] ? a[at] : b[at];
          }}
    }}"""
    kernel = Kernel("pairs", GRAPH, source, (4096,), (), 4)
    dtype = {"double": np.float64, "float": np.float32, "signed char": np.int8}[element]
    r = np.random.default_rng(1)
    which, a, b = r.integers(0, 2, 4096 * 18, np.uint8), *r.integers(-100, 100, (2, 4096 * 18)).astype(dtype)
    given = [Buffer.around(array, "c") for array in (np.zeros_like(a), which, a, b)]
    module.Device(0).compile([kernel])[0]([buffer.handle for buffer in given if buffer])
    assert given[0]
    np.testing.assert_array_equal(given[0].numpy(), np.where(which, a, b))


@pytest.mark.parametrize("name", ["gcc", "clang", ""])
def test_lanes_of_floats_that_are_compared_as_doubles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc 12 has an internal error at 16 of them."""
    module = backend("c").module
    if name:
        monkeypatch.setenv("CC", name)
    if module.compilers.find() is None:
        pytest.skip(f"there is no {name}")
    x = np.random.default_rng(1).standard_normal(33).astype(np.float32) * 300
    (kernel,) = compile_graph([Tensor(x).cast("float64").exp().uop], devices.target_of("c"))
    given = [Buffer.around(array, "c") for array in (np.zeros(33), x)]
    module.Device(0).compile([kernel])[0]([buffer.handle for buffer in given if buffer])
    assert given[0]
    np.testing.assert_allclose(given[0].numpy(), np.exp(x.astype(np.float64)), rtol=1e-15)


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_vectors_lie_aligned_in_the_stack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc 12.2 lays them elsewhere in functions that call no others, and the process ends."""
    module = backend("c").module
    monkeypatch.setenv("CC", name)
    if module.compilers.find() is None:
        pytest.skip(f"there is no {name}")
    r = np.random.default_rng(0)
    x, y = r.integers(0, 9, (11, 99), np.uint8), r.integers(0, 9, 49, np.uint8)
    places = r.integers(0, 11, 19)
    a, b, i = (Tensor(array, device="numpy") for array in (x, y, places))
    kernels = compile_graph([(a[:, :98:2] - a[:, 1::2] * b)[i].uop], devices.target_of("c"))
    given = [Buffer.around(array, "c") for array in (np.zeros((19, 49), np.uint8), x, y, places, np.zeros(1, np.int32))]
    module.Device(0).compile(kernels)[0]([buffer.handle for buffer in given if buffer])
    assert given[0]
    np.testing.assert_array_equal(given[0].numpy(), (x[:, :98:2] - x[:, 1::2] * y)[places])


def test_copies_of_a_product_need_no_large_stack() -> None:
    """A thread of a user may have one of 256 KiB; what is copied for a tile is larger."""
    a, b = (np.arange(s[0] * s[1], dtype=np.float32).reshape(s) % 5 for s in ((64, 4096), (4096, 64)))
    found = []
    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append((Tensor(a, device="c") @ Tensor(b, device="c")).numpy()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    np.testing.assert_array_equal(found[0], a @ b)
