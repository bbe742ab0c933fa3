"""The `cuda` backend without a GPU: its runtime against a pretend driver, its programs by NVRTC where that is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.runtime.kernel import Kernel

CUDA = backend("cuda").module


def part(name: str) -> Any:
    """A module of the backend."""
    return importlib.import_module(f"{CUDA.__package__}.{name}")


def kernel(name: str, source: str, grid: tuple[int, ...] = (64,), slots: int = 2) -> Kernel:
    return Kernel(name, UOp("SINK", ()), source, grid, (), slots)


TWICE = """extern "C" __global__ void twice(float* out, float* in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= 64) return;
  out[i] = in[i] * 2;
}
"""


# ---- finding it ----


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    part("driver").library_problem.cache_clear()
    monkeypatch.setattr(part("driver"), "LIBRARY", "libthere_is_none.so.1")
    found = CUDA.discover()
    assert found.devices == () and CUDA.fingerprint() is None
    assert found.advice.startswith("no libthere_is_none.so.1 (") and "install NVIDIA's driver" in found.advice
    part("driver").library_problem.cache_clear()


def test_a_driver_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(part("driver"), "library_problem", str)
    monkeypatch.setattr(part("driver"), "cuda", missing)
    assert "python -m pip install 'rulegrad[cuda]'" in CUDA.discover().advice


# ---- the shape of a launch ----


@pytest.mark.parametrize(
    ("grid", "blocks", "threads"),
    [
        ((), (1, 1, 1), (1, 1, 1)),
        ((1000,), (4, 1, 1), (256, 1, 1)),
        ((6, 500), (1, 12, 1), (6, 42, 1)),
        ((300,), (2, 1, 1), (160, 1, 1)),
        ((3, 5, 7), (1, 1, 1), (3, 5, 7)),
        ((1 << 31,), (1 << 23, 1, 1), (256, 1, 1)),
        ((512, 1 << 20), (4, 1 << 16 >> 1, 1), (128, 32, 1)),
    ],
)  # fmt: skip
def test_geometry(grid: tuple[int, ...], blocks: tuple[int, ...], threads: tuple[int, ...]) -> None:
    found, size = CUDA.geometry(kernel("f", "", grid))
    assert size[0] * size[1] * size[2] <= 1024
    for items, count, along in zip((*grid, 1, 1, 1), found, size, strict=False):
        assert count * along >= items > (count - 1) * along
    assert all(n <= most for n, most in zip(found, (2**31 - 1, 65535, 65535), strict=True))
    if grid != (512, 1 << 20):
        assert (found, size) == (blocks, threads)


def test_a_group_of_fixed_size() -> None:
    one = Kernel("f", UOp("SINK", ()), "", (1000, 4), (128, 2), 1)
    assert CUDA.geometry(one) == ((8, 2, 1), (128, 2, 1))


def test_a_grid_that_no_gpu_takes() -> None:
    with pytest.raises(DeviceError, match="kernel 'f' needs .* blocks; a GPU takes at most 2147483647×65535×65535"):
        CUDA.geometry(kernel("f", "", (1, 1, 1 << 30)))


# ---- the runtime, with a pretend driver whose GPU is a simulator ----


@pytest.mark.parametrize(("capability", "target"), [((8, 0), "cuda"), ((8, 9), "cuda_sm89"), ((9, 0), "cuda_sm90a")])
def test_a_device_has_the_target_of_its_capability(fake: Any, capability: tuple[int, int], target: str) -> None:
    fake.driver.capability = capability
    device = CUDA.Device(0)
    assert (device.target, device.compute_units) == (target, 114)


def test_devices_are_found(fake: Any) -> None:
    (found,) = CUDA.discover().devices
    assert (found.kind, found.problem) == ("gpu", "")
    assert found.description == "Pretend GPU, compute capability 9.0"
    fake.driver.capability = (7, 5)
    (found,) = CUDA.discover().devices
    assert found.problem == "kernels need compute capability 8.0, it has 7.5"


def test_tensors(fake: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 30)).astype(np.float32), rng.normal(size=(30, 10)).astype(np.float32)
    found = (Tensor(a, device="cuda") @ Tensor(b, device="cuda:0")).softmax(axis=1).numpy()
    wanted = np.exp(a @ b)
    np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-4)
    # what nobody needs is given back in the end
    devices.allocator("cuda:0").trim()
    assert not fake.driver.memory


def test_large_copies_go_through_two_blocks(fake: Any) -> None:
    array = np.random.default_rng(0).integers(0, 255, 20 << 20, dtype=np.uint8)
    np.testing.assert_array_equal(Tensor(array, device="cuda").numpy(), array)
    assert fake.driver.called.count("cuMemcpyHtoDAsync") == 3
    assert fake.driver.called.count("cuMemAllocHost") == 2


def test_a_schedule_that_is_run_again_is_one_launch(fake: Any) -> None:
    device: Any = devices.get("cuda")
    handles = [device.allocate(256) for _ in range(2)]
    device.copy_in(handles[0], np.arange(64, dtype=np.float32))
    (twice,) = device.compile([kernel("twice", TWICE)])
    program = device.record([(twice, (1, 0)), (twice, (2, 1)), (twice, (1, 2))], 2, [512])
    arena = device.allocate(768)
    result = np.zeros(64, np.float32)
    counts = []
    for _ in range(4):
        fake.driver.called.clear()
        program.run(handles, arena)
        device.copy_out(handles[1], result)
        np.testing.assert_array_equal(result, np.arange(64) * 8.0)
        counts.append((fake.driver.called.count("cuLaunchKernel"), fake.driver.called.count("cuGraphLaunch")))
    assert counts == [(3, 0), (3, 1), (0, 1), (0, 1)]
    # on other buffers it is another graph
    other = device.allocate(256)
    program.run([handles[1], other], arena)
    device.copy_out(other, result)
    np.testing.assert_array_equal(result, np.arange(64) * 64.0)
    program.run(handles, device.allocate(768))
    device.copy_out(handles[1], result)
    np.testing.assert_array_equal(result, np.arange(64) * 8.0)


def test_training_steps_are_replayed(fake: Any) -> None:
    w = Tensor(np.ones((4, 3), np.float32), device="cuda", requires_grad=True)
    x = Tensor(np.ones((5, 4), np.float32), device="cuda")
    optimizer = rg.optim.SGD([w], lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        ((x @ w).softmax(axis=1) ** 2).sum().backward()
        optimizer.step()
        w.realize()
    np.testing.assert_allclose(w.numpy(), np.ones((4, 3)), rtol=1e-6)


def test_timing(fake: Any) -> None:
    with rg.profile() as p:
        (Tensor(np.ones(8, np.float32), device="cuda") * 3).realize()
    assert [record.seconds for record in p.kernels] == [0.25e-3]


def test_more_memory_than_there_is(fake: Any) -> None:
    with pytest.raises(OutOfMemoryError, match=r"cuda:0 cannot allocate 2,147,483,648 bytes: of 1,073,741,824"):
        CUDA.Device(0).allocate(2 << 30)


def test_failures_of_the_driver(fake: Any) -> None:
    device = CUDA.Device(0)
    (twice,) = device.compile([kernel("twice", TWICE)])
    with pytest.raises(DeviceError, match=r"kernel 'twice' on cuda:0 cannot run: .*_ILLEGAL_ADDRESS.*not its own"):
        twice([1 << 20, 1 << 21])
    with pytest.raises(DeviceError, match="the source of 'absent' defines no such kernel"):
        device.compile([kernel("absent", TWICE)])
    with pytest.raises(DeviceError, match="two different kernels are called 'twice'"):
        device.compile([kernel("twice", TWICE), kernel("twice", TWICE + "// other")])
    with pytest.raises(DeviceError, match="cuMemFreeAsync failed: CUDA_ERROR_INVALID_VALUE"):
        device.free(77)


SHARED = """
extern "C" __global__ void shared(float* out) {
  float* const part = (float*)local_memory_0;
  part[threadIdx.x * 192] = threadIdx.x;
  out[threadIdx.x] = part[threadIdx.x * 192];
}
"""


def test_local_memory_is_asked_for(fake: Any) -> None:
    device: Any = devices.get("cuda")
    handle, result = device.allocate(256), np.zeros(64, np.float32)
    asked = []
    for size in (48 << 10, 64 << 10):
        fake.driver.called.clear()
        one = Kernel("shared", UOp("SINK", ()), SHARED, (64,), (64,), 1, local_bytes=size)
        (executable,) = device.compile([one])
        executable([handle])
        asked.append(fake.driver.called.count("cuFuncSetAttribute"))
    assert asked == [0, 1]
    device.copy_out(handle, result)
    np.testing.assert_array_equal(result, np.arange(64))
    fake.driver.most_local_bytes = 50_000
    with pytest.raises(DeviceError, match=r"needs 65,536 bytes of local memory .*INVALID_VALUE.* limit local_memory"):
        device.compile([one])


def product_of_boxes(device: Any, size: int = 128) -> tuple[Kernel, Callable[..., tuple[int, Any]]]:
    """A product whose operands are copied by TMA, and what makes a buffer: of numbers that are told, or of anything."""
    zeros = [Tensor(np.zeros((size, size), np.float16), device="numpy").realize() for _ in range(2)]
    (one,) = compile_graph([(zeros[0] @ zeros[1]).uop], device.target)
    assert len(one.maps) == 2

    def buffer(seed: int | None = None) -> tuple[int, Any]:
        numbers = np.random.default_rng(seed).integers(-3, 4, (size, size)).astype(np.float16)
        handle = device.allocate(numbers.nbytes)
        device.copy_in(handle, numbers)
        return handle, numbers

    return one, buffer


def read(device: Any, handle: int, size: int = 128) -> np.ndarray[Any, Any]:
    found = np.zeros((size, size), np.float16)
    device.copy_out(handle, found)
    return found


def test_tensor_maps_follow_their_buffers(fake: Any) -> None:
    """A map is made when a buffer is new or has moved, and not again while it stays where it is."""
    device: Any = devices.get("cuda")
    one, buffer = product_of_boxes(device)
    (executable,) = device.compile([one])
    (out, _), (left, a), (right, b), (other, c) = (buffer(seed) for seed in range(4))
    made = []
    for first, second, wanted in (
        (left, right, a @ b),
        (left, right, a @ b),
        (other, right, c @ b),
        (other, left, c @ a),
    ):
        executable([out, first, second])
        np.testing.assert_array_equal(read(device, out), wanted)
        made.append(fake.driver.maps_made)
    assert made == [2, 2, 3, 4]
    # a buffer that was freed, and one in another place instead
    device.free(left)
    moved, d = buffer(7)
    executable([out, moved, right])
    np.testing.assert_array_equal(read(device, out), d @ b)


def test_replayed_launches_have_the_maps_of_their_buffers(fake: Any) -> None:
    """The graph is captured with maps as they are then; the same kernel on other buffers changes none of them."""
    device: Any = devices.get("cuda")
    one, buffer = product_of_boxes(device)
    (executable,) = device.compile([one])
    (x, _), (y, _), (z, _), (a, first), (b, second) = (buffer(seed) for seed in range(5))
    program = device.record([(executable, (0, 3, 4)), (executable, (1, 4, 3)), (executable, (2, 3, 3))], 5, [])
    handles = [x, y, z, a, b]
    counts = []
    for _ in range(4):
        fake.driver.called.clear()
        program.run(handles, None)
        counts.append((fake.driver.called.count("cuLaunchKernel"), fake.driver.called.count("cuGraphLaunch")))
        for handle, wanted in ((x, first @ second), (y, second @ first), (z, first @ first)):
            np.testing.assert_array_equal(read(device, handle), wanted)
            device.copy_in(handle, np.zeros((128, 128), np.float16))
        executable([z, b, b])
        np.testing.assert_array_equal(read(device, z), second @ second)
    assert counts == [(3, 0), (3, 1), (0, 1), (0, 1)]
    # with other contents, and then with other buffers
    device.copy_in(a, 2 * first)
    program.run(handles, None)
    np.testing.assert_array_equal(read(device, z), 4 * (first @ first))
    (c, third) = buffer(9)
    program.run([x, y, z, a, c], None)
    np.testing.assert_array_equal(read(device, y), third @ (2 * first))


def test_products_on_tensors_that_move(fake: Any) -> None:
    """A step that is run again, whose operand is another buffer each time."""
    a, b = (Tensor(np.full((128, 128), k, np.float16), device="cuda") for k in (1, 2))
    for step in range(5):
        found = ((a + step).realize() @ b).numpy()
        assert (found == (1 + step) * 2 * 128).all()


def test_the_pretend_driver_numbers_maps_as_the_bindings_do(fake: Any) -> None:
    """The driver's function is called by its address, so only numbers tell it what is meant."""
    real = pytest.importorskip("cuda.bindings.driver")
    kinds = ("CUtensorMapInterleave", "CUtensorMapSwizzle", "CUtensorMapL2promotion", "CUtensorMapFloatOOBfill")
    for kind in (*kinds, "CUtensorMapDataType"):
        for name, number in vars(getattr(fake.driver, kind)).items():
            assert int(getattr(getattr(real, kind), name)) == number
    for status in fake.CUresult:
        assert real.CUresult(int(status)).name == status.name


def test_maps_that_the_driver_refuses(fake: Any) -> None:
    device: Any = devices.get("cuda")
    one, buffer = product_of_boxes(device)
    (executable,) = device.compile([one])
    (out, _), (left, _), (right, _) = (buffer() for _ in range(3))
    for _ in range(2):  # a map that was not made is not taken for one that was
        with pytest.raises(
            DeviceError, match=r"on cuda:0 cannot copy boxes \(64, 64\) of .* box_lines 0 threads copy it"
        ):
            executable([out, left + 8, right])
    with pytest.raises(DeviceError, match="kernel .* cannot run: .*_ILLEGAL_ADDRESS"):
        executable([out, left + 16, right])
    fake.driver.has_tensor_maps = False
    with pytest.raises(DeviceError, match="this driver has no cuTensorMapEncodeTiled: install a newer one, of CUDA 12"):
        device.compile([one])


def test_cubins_are_kept(fake: Any) -> None:
    importlib.import_module(f"{CUDA.__package__}.programs")._recent.clear()
    for _ in range(2):
        CUDA.Device(0).compile([kernel("twice", TWICE)])
    assert fake.compiler.compiled == 1
    with pytest.raises(
        DeviceError, match=r"cuda:0 cannot build this program(.|\n)*#error here(.|\n)*   1  #error"
    ) as found:
        CUDA.Device(0).compile([kernel("wrong", "#error here\n")])
    assert "primitives" not in str(found.value)


def test_architectures(fake: Any) -> None:
    choose = part("programs").architecture
    assert [choose(*c) for c in ((8, 0), (8, 7), (9, 0), (10, 0))] == ["sm_80", "sm_86", "sm_90a", "sm_100a"]
    with pytest.raises(DeviceError, match=r"not for compute capability 12\.0: python -m pip install --upgrade"):
        choose(12, 0)


def test_self_test(fake: Any) -> None:
    CUDA.self_test(0)


# ---- NVRTC, which needs no GPU ----


@pytest.fixture(scope="module")
def compile_text() -> Callable[[str, str], tuple[bytes, str]]:
    try:
        version = part("driver").nvrtc().nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"NVRTC is not installed ({error})")
    assert int(version[0]) == 0
    return part("programs").compile_text


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvrtc_builds_and_reports(compile_text: Callable[[str, str], tuple[bytes, str]], arch: str) -> None:
    cubin, log = compile_text(TWICE, arch)
    assert cubin[:4] == b"\x7fELF"
    assert "Compiling entry function 'twice'" in log and "0 bytes spill stores" in log


def test_nvrtc_names_the_line(compile_text: Callable[[str, str], tuple[bytes, str]]) -> None:
    with pytest.raises(DeviceError, match=r'kernels.cu\(3\): error: identifier "missing"(.|\n)*   3  .*missing'):
        compile_text(TWICE.replace("in[i] * 2", "missing"), "sm_80")


def test_memory_is_given_back_where_a_launch_fails(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor(np.ones((16, 16), np.float32), device="cuda:0").realize()

    def run() -> None:
        (x.softmax(1) @ x).sum(0).softmax(0).realize()

    run()
    run()
    before = devices.allocator("cuda:0").in_use
    for function in ("cuLaunchKernel", "cuGraphLaunch"):
        monkeypatch.setattr(fake.driver, function, lambda *given: (fake.CUresult.CUDA_ERROR_OUT_OF_MEMORY,))
    for _ in range(3):
        with pytest.raises(OutOfMemoryError):
            run()
    assert devices.allocator("cuda:0").in_use == before
