"""The OpenCL device with kernels written by hand."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.config import config
from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.ir import UOp
from rulegrad.runtime import backends, devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.kernel import Kernel
from rulegrad.support.diskcache import shared

try:
    devices.get("opencl:0")
except DeviceError as problem:
    pytest.skip(str(problem), allow_module_level=True)

GRAPH = UOp("SINK", ())


def scale(name: str, factor: float, size: int, local: tuple[int, ...] = (1,)) -> Kernel:
    """out[i] = in[i] * factor"""
    source = (
        f"__kernel void {name}(__global float* out, __global const float* in)\n"
        f"{{ int i = get_global_id(0); out[i] = in[i] * {factor!r}f; }}"
    )
    return Kernel(name, GRAPH, source, (size,), local, 2, size, 8 * size)


def buffers(size: int) -> tuple[Buffer, Buffer]:
    out, given = Buffer((size,), "float32", "opencl"), Buffer((size,), "float32", "opencl:0")
    given.copy_in(np.arange(size, dtype=np.float32))
    return out, given


def test_a_pocl_that_does_not_know_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every build fails; the problem is told without the test's source, and with a remedy."""
    module = backends.backend("opencl").module
    drivers = sys.modules[module.remedy.__module__]
    pocl = SimpleNamespace(platform=SimpleNamespace(name="Portable Computing Language"))
    other = SimpleNamespace(platform=SimpleNamespace(name="Another"))
    monkeypatch.setattr(drivers, "raw_devices", lambda: [pocl, other])
    message = "opencl:0 cannot build this program; the compiler says:\nerror: unknown target CPU 'generic'"

    def fails(*arguments: object) -> None:
        raise DeviceError(f"{message}\nthe source:\n   1  __kernel")

    monkeypatch.setattr(module, "add_number", fails)
    monkeypatch.setattr(module, "Device", lambda number: None)
    with pytest.raises(DeviceError) as caught:
        module.self_test(0)
    assert str(caught.value).startswith(f"{message}\nthis PoCL is older than the processor; install another driver: ")
    assert "rulegrad[intel]" in str(caught.value) and "pocl-opencl-icd" in str(caught.value)
    with pytest.raises(DeviceError) as caught:
        module.self_test(1)
    assert str(caught.value) == message


def test_of_two_pocls_the_newer_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = sys.modules["pyopencl"]
    drivers = sys.modules[backends.backend("opencl").module.remedy.__module__]

    def platform(name: str, version: str) -> SimpleNamespace:
        made = SimpleNamespace(name=name, version=version)
        made.get_devices = lambda: [SimpleNamespace(type=cl.device_type.CPU, platform=made, name=version)]
        return made

    names = ("Portable Computing Language", "Intel(R) OpenCL")
    versions = ("OpenCL 3.0 PoCL 3.0-rc2  Linux", "OpenCL 3.0 PoCL 3.1+debian", "OpenCL 3.0 PoCL 10.0")
    platforms = [*(platform(names[0], version) for version in versions), platform(names[1], "OpenCL 3.1 LINUX")]
    monkeypatch.setattr(cl, "get_platforms", lambda: platforms)
    found = [device.name for device in drivers.raw_devices.__wrapped__()]
    assert found == ["OpenCL 3.1 LINUX", *reversed(versions)]


def test_functions_that_only_the_driver_has_are_called_with_vectors_it_knows(device: str) -> None:
    """Each of them ended the process where PoCL does not know the processor."""
    if "opencl" not in device:
        pytest.skip("only on OpenCL")
    values = np.linspace(-30, 30, 4096)
    for name in ("sin", "cos", "tan"):
        found = getattr(Tensor(values, device=device), name)().numpy()
        np.testing.assert_allclose(found, getattr(np, name)(values), rtol=1e-12, atol=1e-14)


# A condition that is known after a loop is unrolled, in one of several parts of a kernel.
_PARTS = """
__kernel void parts(__global float* restrict out, __global const int* restrict in) {
  const int gid0 = get_global_id(0);
  { const int i0 = gid0; if (0 <= i0 && i0 < 1) { for (int i1 = 0; i1 < 19; i1++) { } } }
  { const int i2 = gid0 - 1; if (0 <= i2 && i2 < 1) {
    const int last = in[48] * 2;
    for (int i3 = 0; i3 < 5; i3++) {
      const uchar far = 3 < i3;
      for (int i4 = 0; i4 < 12; i4++) {
        const float x = (float)(far & i4 < 1 ? last : in[i3 * 12 + i4]);
        out[i3 * 12 + i4] = 0.0f < x ? 1.0f : (x < 0.0f ? -1.0f : (x != x ? x : 0.0f));
      }
    }
  } }
  { const int i5 = gid0 - 2; if (0 <= i5 && i5 < 12) { for (int i6 = 0; i6 < 5; i6++) { } } }
  { const int i8 = gid0 - 14; if (0 <= i8 && i8 < 1) { for (int i9 = 0; i9 < 9; i9++) { } } }
}
"""


def test_intels_compiler_makes_no_vectors_of_work_items() -> None:
    """Its vectorizer ended the process on such a kernel."""
    assert os.environ["CL_CONFIG_CPU_VECTORIZER_MODE"]
    known = devices.report(backends.backend("opencl"))
    intel = [f for f in known.discovery.devices if not f.problem and f.description.startswith("Intel(R) OpenCL")]
    if not intel:
        pytest.skip("Intel's driver is not here")
    name = known.name(intel[0])
    out, given = Buffer((60,), "float32", name), Buffer((60,), "int32", name)
    given.copy_in(np.arange(-30, 30, dtype=np.int32))
    (executable,) = devices.get(name).compile([Kernel("parts", GRAPH, _PARTS, (15,), (1,), 2, 60, 480)])
    executable([out.handle, given.handle])
    np.testing.assert_array_equal(out.numpy(), np.sign(np.arange(-30, 30)))


def compile_here(kernels: Sequence[Kernel]) -> list[Any]:
    return list(devices.get("opencl:0").compile(kernels))


@pytest.mark.parametrize("local", [(), (1,), (8,)])
def test_compile_launch_and_read(local: tuple[int, ...]) -> None:
    out, given = buffers(64)
    (executable,) = compile_here([scale("scale", 2.5, 64, local)])
    assert executable([out.handle, given.handle]) is None
    np.testing.assert_array_equal(out.numpy(), np.arange(64) * 2.5)


def test_time() -> None:
    out, given = buffers(1 << 16)
    (executable,) = compile_here([scale("timed", 1.5, 1 << 16)])
    seconds = executable([out.handle, given.handle], wait=True)
    assert 0 < seconds < 10
    devices.get("opencl:0").synchronize()


def test_several_kernels_in_one_program() -> None:
    out, given = buffers(8)
    kernels = [scale(f"several_{k}", k + 0.5, 8) for k in range(3)]
    for k, executable in enumerate(compile_here([*kernels, kernels[0]])[:3]):
        executable([out.handle, given.handle])
        np.testing.assert_array_equal(out.numpy(), np.arange(8) * (k + 0.5))
    with pytest.raises(DeviceError, match="two different kernels are called 'several_0'"):
        compile_here([kernels[0], scale("several_0", 9.0, 8)])


def test_launches_run_in_order_and_arguments_change() -> None:
    a, b = buffers(4)
    twice = compile_here([scale("twice", 2.0, 4)])[0]
    for source, target in ((b, a), (a, b), (b, a)):
        twice([target.handle, source.handle])
    np.testing.assert_array_equal(a.numpy(), np.arange(4) * 8)
    np.testing.assert_array_equal(b.numpy(), np.arange(4) * 4)


def test_short_launches_wait_until_somebody_needs_them() -> None:
    device: Any = devices.get("opencl:0")
    if not device._short:
        pytest.skip("only on a CPU")
    device.synchronize()
    a, b = buffers(4)
    twice = compile_here([scale("waits", 2.0, 4)])[0]
    started: list[bool] = []
    for source, target in ((b, a), (a, b), (b, a)):
        twice([target.handle, source.handle])
        started.append(not device._waiting)
    assert started == [True, False, False]
    spare = device.allocate(16)
    device.free(spare)  # nothing is given back while a launch may use it
    assert device._released == [spare]
    np.testing.assert_array_equal(a.numpy(), np.arange(4) * 8)
    assert not device._waiting and not device._released
    twice([b.handle, a.handle])
    b.copy_in(np.ones(4, np.float32))
    np.testing.assert_array_equal(b.numpy(), np.ones(4))
    for _ in range(20):
        twice([a.handle, b.handle])
    assert len(device._waiting) < 16
    assert twice([a.handle, b.handle], wait=True) > 0 and not device._waiting


def test_long_launches_do_not_wait() -> None:
    device: Any = devices.get("opencl:0")
    out, given = buffers(1 << 16)
    (executable,) = compile_here([scale("takes_long", 2.0, 1 << 16)])
    for _ in range(2):
        executable([out.handle, given.handle])
        assert not device._waiting


def test_a_launch_that_waited_and_is_refused() -> None:
    device: Any = devices.get("opencl:0")
    if not device._short:
        pytest.skip("only on a CPU")
    out, given = buffers(4)
    first, second = compile_here([scale("goes_wrong", 2.0, 4), scale("goes_on", 3.0, 4)])
    for executable in (first, second):
        executable([out.handle, given.handle])
    first._local = (3,)
    first([out.handle, given.handle])
    second([out.handle, given.handle])
    with pytest.raises(DeviceError, match="kernel 'goes_wrong' on opencl:0 cannot run"):
        device.synchronize()
    np.testing.assert_array_equal(out.numpy(), np.arange(4) * 3)


def test_threads_share_an_executable() -> None:
    (executable,) = compile_here([scale("shared", 3.0, 16)])
    failures: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            out, given = Buffer((16,), "float32", "opencl:0"), Buffer((16,), "float32", "opencl:0")
            given.copy_in(np.full(16, number, np.float32))
            executable([out.handle, given.handle])
            if not (out.numpy() == 3 * number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_programs_are_kept_as_binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was built often enough is not built from its source any more."""
    device: Any = devices.get("opencl:0")
    built: list[str] = []
    original = device._programs._from_source
    monkeypatch.setattr(device._programs, "_from_source", lambda s: built.append(s) or original(s))
    kernel = scale("kept", 4.0, 8)
    with config(cache=tmp_path):
        for attempt in range(12):
            device._programs._built.clear()
            out, given = buffers(8)
            compile_here([kernel])[0]([out.handle, given.handle])
            np.testing.assert_array_equal(out.numpy(), np.arange(8) * 4)
            if len(built) <= attempt:
                break
        assert 1 <= len(built) < 12
        assert {kind for kind, *_ in shared().entries()} >= {"opencl binary"}


def test_a_binary_that_the_driver_refuses_is_built_again(tmp_path: Path) -> None:
    device: Any = devices.get("opencl:0")
    kernel = scale("refused", 5.0, 8)
    with config(cache=tmp_path):
        for _ in range(12):
            device._programs._built.clear()
            compile_here([kernel])
        for kind, key, *_ in shared().entries():
            if kind == "opencl binary":
                shared().put(kind, key, b"no program at all")
        device._programs._built.clear()
        out, given = buffers(8)
        compile_here([kernel])[0]([out.handle, given.handle])
        np.testing.assert_array_equal(out.numpy(), np.arange(8) * 5)


def test_no_warning_from_the_compiler_reaches_the_user() -> None:
    source = "__kernel void unused(__global float* out) { int nothing; out[0] = 1; }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_here([Kernel("unused", GRAPH, source, (1,), (1,), 1)])


def test_a_source_that_does_not_compile() -> None:
    source = "__kernel void wrong(__global float* out)\n{ out[0] = missing; }"
    with pytest.raises(DeviceError) as caught:
        compile_here([Kernel("wrong", GRAPH, source, (1,), (1,), 1)])
    text = str(caught.value)
    assert "undeclared identifier 'missing'" in text and "   2  { out[0] = missing; }" in text


@pytest.fixture
def pocl() -> Any:
    """The programs of a device of PoCL, anew."""
    module = backends.backend("opencl").module
    for number, found in enumerate(sys.modules[module.remedy.__module__].raw_devices()):
        if found.platform.name == "Portable Computing Language":
            with contextlib.suppress(DeviceError):  # of a PoCL that is older than the processor
                programs = module.Device(number)._programs
                if programs._declarations:
                    return programs
    pytest.skip("PoCL does not work here")


GOLDEN = sorted((Path(__file__).parents[1] / "backends" / "golden").glob("opencl*/*.txt"))


def test_our_sources_use_what_is_declared(pocl: Any) -> None:
    """PoCL is asked for its own declarations, which take most of a build, by those sources alone that need others."""
    lines = [path.read_text(encoding="utf-8").splitlines() for path in GOLDEN]
    sources = ["\n".join(line for line in text if not line.startswith("grid ")) for text in lines]
    for path, source in zip(GOLDEN, sources, strict=True):
        if "half" not in source:  # which PoCL does not have on a CPU
            assert pocl._compiled(source, pocl._declarations, "-D_OPENCL_H_"), path


@pytest.mark.parametrize("was_enough", [False, True])
def test_other_functions_are_found_in_the_driver_s_declarations(was_enough: bool, pocl: Any) -> None:
    pocl._declares_enough = was_enough
    with pytest.raises(DeviceError, match="undeclared identifier 'missing'"):
        pocl._from_source("__kernel void wrong(__global float* a) { a[0] = missing; }")
    assert pocl._declarations  # it says nothing about them
    hypotenuse = "__kernel void long_side(__global float* a) { a[0] = hypot(a[0], a[1]); }"
    assert pocl._from_source(hypotenuse).kernel_names == "long_side"
    assert bool(pocl._declarations) == was_enough  # which were wrong for this driver, unless they were right before


def test_a_kernel_that_the_source_does_not_have() -> None:
    kernel = scale("present", 1.0, 8)
    with pytest.raises(DeviceError, match="'absent' defines no such kernel"):
        compile_here([Kernel("absent", GRAPH, kernel.source, (8,), (), 2)])
    with pytest.raises(DeviceError, match="has 2 parameters in its source, but 3 buffers"):
        compile_here([Kernel("present", GRAPH, kernel.source, (8,), (), 3)])


def test_a_launch_that_the_driver_refuses() -> None:
    out, given = buffers(10)
    (executable,) = compile_here([scale("uneven", 1.0, 10, (3,))])
    with pytest.raises(DeviceError, match="kernel 'uneven' on opencl:0 cannot run"):
        executable([out.handle, given.handle])


def test_more_memory_than_there_is() -> None:
    with pytest.raises(OutOfMemoryError, match=r"out of memory: .*smaller batches") as found:
        _ = Buffer((1 << 50,), "float32", "opencl:0").handle
    assert "4,503,599,627,370,496 bytes  float32 1125899906842624 test_opencl.py:" in str(found.value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_there_is_an_error_and_no_hang() -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    out, given = buffers(8)
    (executable,) = compile_here([scale("forked", 1.0, 8)])

    def work() -> None:
        for attempt in (lambda: executable([out.handle, given.handle]), given.numpy):
            try:
                attempt()
            except DeviceError as error:
                answers.put(str(error))

    process = context.Process(target=work)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    for _ in range(2):
        assert "do not survive a fork" in answers.get()
