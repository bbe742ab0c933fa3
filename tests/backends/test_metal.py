"""The `metal` backend without a Mac: its runtime with pretend classes of Metal whose GPU is the simulator."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph, forget_kernels
from rulegrad.errors import DeviceError, DtypeError, OutOfMemoryError
from rulegrad.ir import UOp
from rulegrad.runtime.backends import backend
from rulegrad.runtime.kernel import Kernel

METAL = backend("metal").module
API = importlib.import_module(f"{METAL.__package__}.api")
SOURCE = (
    "kernel void twice(device float* out [[buffer(0)]], device float* in [[buffer(1)]], "
    "uint3 item [[thread_position_in_grid]]) {\n  out[item.x] = in[item.x] * 2;\n}\n"
)


def kernel(name: str = "twice", source: str = SOURCE, grid: tuple[int, ...] = (64,)) -> Kernel:
    return Kernel(name, UOp("SINK", ()), source, grid, (), 2)


@pytest.fixture
def fake(
    simulator: Callable[[str], str],
    forget_devices: Callable[[Callable[[str], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    """Pretend classes in the place of Apple's, with one device."""
    simulator("metal_shim")
    path = Path(__file__).resolve().parents[1] / "shims" / "fake_metal.py"
    spec = importlib.util.spec_from_file_location("rulegrad_tests_fake_metal", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(API, "metal", lambda: module)
    monkeypatch.setattr(API, "is_here", lambda: True)
    monkeypatch.setattr(METAL, "fingerprint", lambda: None)
    API.raw_devices.cache_clear()
    forget_devices(lambda name: name.partition(":")[0] == "metal")
    yield module
    API.raw_devices.cache_clear()
    forget_kernels()


def test_elsewhere_than_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(API, "is_here", lambda: False)
    found = METAL.discover()
    assert found.devices == () and METAL.fingerprint() is None
    assert found.advice.startswith("Metal is on macOS only; this is ")


def test_a_mac_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'Metal'")

    monkeypatch.setattr(API, "is_here", lambda: True)
    monkeypatch.setattr(API, "metal", missing)
    assert "python -m pip install 'rulegrad[metal]'" in METAL.discover().advice


def test_devices_are_found(fake: Any) -> None:
    (found,) = METAL.discover().devices
    assert (found.description, found.kind, found.problem) == ("Pretend M1", "gpu", "")
    fake.DEVICE.modern = False
    assert "older than Apple4" in METAL.discover().devices[0].problem


def test_tensors(fake: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 30)).astype(np.float32), rng.normal(size=(30, 10)).astype(np.float32)
    found = (Tensor(a, device="metal") @ Tensor(b, device="metal:0")).softmax(axis=1).numpy()
    wanted = np.exp(a @ b)
    np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-4)


def test_a_schedule_is_one_command_buffer(fake: Any) -> None:
    device = METAL.Device(0)
    handles = [device.allocate(256) for _ in range(2)]
    device.copy_in(handles[0], np.arange(64, dtype=np.float32))
    (twice,) = device.compile([kernel()])
    program = device.record([(twice, (1, 0)), (twice, (2, 1)), (twice, (1, 2))], 2, [512])
    program.run(handles, device.allocate(768))
    result = np.zeros(64, np.float32)
    device.copy_out(handles[1], result)
    np.testing.assert_array_equal(result, np.arange(64) * 8.0)
    (buffer,) = fake.DEVICE.buffers
    assert len(buffer.commands) == 3 and buffer.waited


def test_command_buffers_are_waited_for_in_time(fake: Any) -> None:
    device = METAL.Device(0)
    handles = [device.allocate(256) for _ in range(2)]
    (twice,) = device.compile([kernel()])
    for _ in range(70):
        twice(handles)
    assert len(device._started) == 6


def test_timing(fake: Any) -> None:
    with rg.profile() as p:
        (Tensor(np.ones(8, np.float32), device="metal") * 3).realize()
    assert [record.seconds for record in p.kernels] == [pytest.approx(1e-3)]


def test_memory(fake: Any) -> None:
    with pytest.raises(
        OutOfMemoryError, match=r"metal:0 cannot allocate 536,870,912 bytes: its largest buffer is 268,435,456"
    ):
        METAL.Device(0).allocate(1 << 29)


def test_mistakes(fake: Any) -> None:
    device = METAL.Device(0)
    with pytest.raises(DeviceError, match=r"metal:0 cannot build this program(.|\n)*error: here(.|\n)*   1  #error"):
        device.compile([kernel("wrong", "#error\n")])
    with pytest.raises(DeviceError, match="the source of 'absent' defines no such kernel"):
        device.compile([kernel("absent")])
    with pytest.raises(DeviceError, match="two different kernels are called 'twice'"):
        device.compile([kernel(), kernel(source=SOURCE + "// other")])
    with pytest.raises(DeviceError, match="kernel 'f' needs groups of 1024 threads; at most 512 fit"):
        METAL.group_size(Kernel("f", UOp("SINK", ()), "", (1024,), (1024,), 1), 512)


def test_a_launch_that_fails(fake: Any) -> None:
    device = METAL.Device(0)
    (broken,) = device.compile([kernel(source=SOURCE.replace("* 2", "* missing"))])
    handles = [device.allocate(256) for _ in range(2)]
    broken(handles)
    with pytest.raises(DeviceError, match=r"metal:0 failed while it ran kernels: (.|\n)*missing"):
        device.synchronize()
    device.synchronize()


def test_self_test(fake: Any) -> None:
    METAL.self_test(0)


def test_there_is_no_float64() -> None:
    with pytest.raises(DtypeError, match="metal devices have no float64"):
        compile_graph([(Tensor(np.ones(3), device="numpy") * 2).uop], "metal")
