"""CUDA and Metal kernels on the CPU: what they compute is right, in whatever order the threads run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError, IndexRangeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL, DType
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel

Simulator = Callable[[str], str]
DTYPES = [d for d in ALL if d.kind not in ("void", "index", "complex")]
SIMULATORS = ("cuda_shim", "metal_shim")
LACKING = {"cuda_shim": (), "metal_shim": ("float64",)}


@pytest.fixture(params=SIMULATORS)
def device(request: pytest.FixtureRequest, simulator: Simulator) -> str:
    return simulator(request.param)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op(device: str, dtype: DType, tests_of: Callable[[str], Any]) -> None:
    if dtype in LACKING[device]:
        pytest.skip(f"the target of {device} has no {dtype}")
    tests_of("rules/test_ops_on_devices.py").test_every_op(device, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float64", "int8"])
@pytest.mark.parametrize("op", ["CAST", "BITCAST"])
def test_casts(
    device: str, op: str, dtype: str, tests_of: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if dtype in LACKING[device]:
        pytest.skip(f"the target of {device} has no {dtype}")
    module = tests_of("rules/test_ops_on_devices.py")
    monkeypatch.setattr(module, "DTYPES", [d for d in DTYPES if d not in LACKING[device]])
    module.test_every_cast(device, op, DType(dtype))


def test_sums_of_small_floats(device: str, tests_of: Callable[[str], Any]) -> None:
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        tests_of("rules/test_ops_on_devices.py").test_sums_of_small_floats(device, dtype)


@pytest.mark.parametrize("order", [0, 1, 77])
def test_programs(device: str, order: int, tests_of: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.get(device), "order", order)

    def halves(a: Tensor) -> list[Tensor]:
        return [(a.cast("bfloat16") * 1.5 + 2).cast("float32")]

    tests_of("backends/programs.py").check_programs(device, halves)


# a part of a warp, one, and four
@pytest.mark.each_value
@pytest.mark.parametrize(("items", "order"), [(16, 77), (32, 77), (128, 0), (128, 1), (128, 77)])
def test_rows_that_blocks_share(
    device: str, items: int, order: int, written: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Any = devices.get(device)
    monkeypatch.setattr(found, "order", order)
    values = np.random.default_rng(0).normal(size=(3, 701)).astype(np.float32)
    wanted = [x.numpy() for x in _of_rows(Tensor(values, device="numpy"))]
    with rg.load_rules(written(f"target {found.target}:\n    limit row_items {items}\n")):
        results = _of_rows(Tensor(values, device=device))
        kernels = compile_graph([x.uop for x in results], found.target)
        assert all(kernel.local[0] == items for kernel in kernels)
        together = "warp_sum(" if "cuda" in device else "simd_sum("
        assert any(together in kernel.source for kernel in kernels) == (items % 32 == 0)
        Tensor.realize(*results)
        for result, there in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result.numpy(), there, rtol=1e-5, atol=1e-5)


def _of_rows(x: Tensor) -> list[Tensor]:
    small = (x * 9).cast("int8")
    floats = [x.softmax(1), x.sum(1), x.argmax(1), x.cast("bfloat16").max(1).cast("float32"), x.cast("float16").min(1)]
    return [
        *floats,
        small.max(1),
        small.cast("uint16").min(1),
        small.cast("int64").sum(1),
        (x > 3).any(1),
        x.sqrt().max(1),
    ]


def kernel(name: str, body: str, threads: int, slots: int = 1, blocks: int = 2) -> Kernel:
    parameters = ", ".join(f"float* data{k}" for k in range(slots))
    source = f'extern "C" __global__ void {name}({parameters}) {{\n{body}\n}}\n'
    return Kernel(name, UOp("SINK", ()), source, (threads * blocks,), (threads,), slots)


REVERSED = """
    __shared__ float part[64];
    const int t = threadIdx.x;
    part[t] = blockIdx.x * 64 + t;
    {barrier}
    data0[blockIdx.x * 64 + t] = part[63 - t];
"""


def run(device: str, one: Kernel, order: int) -> np.ndarray[Any, Any]:
    found: Any = devices.get(device)
    before, found.order = found.order, order
    try:
        handle, result = found.allocate(4 * one.grid[0]), np.zeros(one.grid, np.float32)
        found.compile([one])[0]([handle])
        found.copy_out(handle, result)
    finally:
        found.order = before
    return result


def test_threads_wait_at_a_barrier(simulator: Simulator) -> None:
    cuda = simulator("cuda_shim")
    right = np.concatenate([np.arange(64)[::-1], 64 + np.arange(64)[::-1]])
    for order in (0, 1, 5, 6):
        one = kernel("reversed", REVERSED.format(barrier="__syncthreads();"), 64)
        np.testing.assert_array_equal(run(cuda, one, order), right)


def test_a_missing_barrier_shows(simulator: Simulator) -> None:
    cuda = simulator("cuda_shim")
    one = kernel("unordered", REVERSED.format(barrier=""), 64)
    found = [run(cuda, one, order).tolist() for order in (0, 1, 5)]
    assert found[0] != found[1]


def test_memory_behind_a_block_s_own_is_nobody_s(simulator: Simulator) -> None:
    cuda = simulator("cuda_shim")
    body = "((float*)local_memory_0)[threadIdx.x] = 1; data0[blockIdx.x * 64 + threadIdx.x] = 2;"
    one = kernel("outside", body, 64)._replace(local_bytes=256)
    assert run(cuda, one, 0).tolist() == [2.0] * 128
    with pytest.raises(DeviceError, match="written behind the 192 bytes of local memory"):
        run(cuda, one._replace(local_bytes=192), 0)
    with pytest.raises(DeviceError, match="232449 bytes of local memory are more than a block has"):
        run(cuda, one._replace(local_bytes=232449), 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (threadIdx.x < 7) __syncthreads();", "of 64 threads 57 have ended and 7 wait, at line 2"),
        ("if (threadIdx.x < 7) __syncthreads();\nelse __syncthreads();", "0 have ended and 64 wait, at line .* and others"),
    ],
)  # fmt: skip
def test_a_divergent_barrier_is_an_error(simulator: Simulator, body: str, message: str) -> None:
    cuda = simulator("cuda_shim")
    with pytest.raises(DeviceError, match=rf"kernel 'diverges' on cuda_shim cannot run: divergent barrier .*{message}"):
        run(cuda, kernel("diverges", "#line 2\n" + body, 64), 0)


def test_a_source_that_does_not_compile(simulator: Simulator) -> None:
    with pytest.raises(DeviceError, match="cannot build this program(.|\n)*missing"):
        run(simulator("cuda_shim"), kernel("wrong", "data0[0] = missing;", 1), 0)


def test_simulators_are_never_chosen(device: str) -> None:
    assert devices.kind_of(device) == "simulator"
    assert not devices.default().startswith(device)
    assert Tensor([1.0, 2.0], device=device).sum().item() == 3.0
    assert rg.load_backend(devices.backend(device).folder).name == device


@pytest.mark.each_value
def test_indices_are_checked(
    device: str, index_check: str, tests_of: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is out of range is an IndexError with the user's line; in whatever order the threads run."""
    monkeypatch.setattr(devices.get(device), "order", 77)
    with rg.config(device=device):
        getattr(tests_of("tensor/test_index_checks.py"), index_check)(device)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("shape", "build", "tactic"),
    [
        ((64, 96), lambda x: (x * 2 + x[:1]).relu(), "vectors"),
        ((64, 96), lambda x: x.T.contiguous(), "across"),
        ((64, 1024), lambda x: x.softmax(1), "groups"),
        ((64, 1000), lambda x: x.sum(1), "groups"),
        ((20, 96), lambda x: x[0] * x[:, 0].sum(), "groups"),  # a short sum, which all compute
        ((4, 64, 24), lambda x: (x * (x - 1)).sum(2), "short_rows"),
        ((4, 32, 16), lambda x: (x.sum(2) + x.max(2) * x[:, :, 3]).T, "short_rows"),
        ((300, 70), lambda x: x.sum(0), "shared_columns"),
        ((300, 3, 64), lambda x: x.max(0), "shared_columns"),
        ((2, 200, 64), lambda x: x - x.mean(1, keepdim=True), "shared_columns"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_tactics_of_grids(
    shape: tuple[int, ...], build: Callable[[Tensor], Tensor], tactic: str, dtype: str, simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch, written: Callable[[str], Path],
) -> None:  # fmt: skip
    """In several orders of the threads, with as few work-items as are enough for the tactic."""
    name = simulator("cuda_shim")
    values = np.random.default_rng(0).integers(-8, 9, shape)
    wanted = build(Tensor(values, device="numpy").cast(dtype)).cast("float64").numpy()
    with rg.load_rules(written("target cuda:\n    limit occupancy 16\n")):
        x = Tensor(values.astype(DType(dtype).numpy), device=name).realize()
        assert tactic in [kernel.tactic for kernel in compile_graph([build(x).uop], devices.get(name).target)]
        for order in (0, 1, 77):
            monkeypatch.setattr(devices.get(name), "order", order)
            found = build(x).numpy().astype(np.float64)
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype != "float16" else 2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("cuda_shim", "elements of rows"),
        ("cuda_shim", "sum of columns"),
        ("cuda_shim", "softmax"),
        ("cuda_shim", "product, depth"),
        ("cuda_shim", "attention, one query"),
        ("metal_shim", "joined"),
        ("metal_shim", "layer norm of t rows"),
    ],
)
def test_sizes_that_vary(device: str, name: str, simulator: Simulator, tests_of: Callable[[str], Any]) -> None:
    tests_of("compile/test_varying.py").serves_all_sizes(name, simulator(device))


@pytest.mark.each_value
@pytest.mark.parametrize("device", ["cuda_shim", "metal_shim"])
@pytest.mark.parametrize(
    "build",
    [
        lambda x: x.cumsum(1),
        lambda x: x.reshape(-1).cumsum(0),
        lambda x: x.cummax(0)[0],
        lambda x: (1 + x / 100).cumprod(0).flip(0),
        lambda x: x.sort(1)[0],
        lambda x: x.zeros(7, 150, device=x.device).index_add(0, (x[:, 0] * x[:, 0]).cast("int64") % 7, x),
        lambda x: x.zeros(200, 200, device=x.device).index_add(0, (x @ x.T).argmin(1), x @ x.T),
        lambda x: (x.reshape(25, 150, 8) @ x[:25, :8, None])[..., 0],
    ],
)
def test_what_is_done_in_parts(device: str, build: Callable[[Tensor], Tensor], simulator: Simulator) -> None:
    """Running reductions, sorts, additions by index: with ends that no part fills."""
    array = np.random.default_rng(0).integers(-8, 9, (200, 150)).astype(np.float32)
    found, wanted = (build(Tensor(array, device=name)).numpy() for name in (simulator(device), "numpy"))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_vectors_are_read_before_they_are_overwritten(simulator: Simulator, tests_of: Callable[[str], Any]) -> None:
    """A copy to registers loads: it was taken for a store of what it copies."""
    module = tests_of("tensor/test_updates_by_index.py")
    for case in ("of both kinds", "a slice", "a corner"):
        x, expected = module.updated(case, simulator("cuda_shim"))
        np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("tactic", ["vectors", "groups"])
def test_what_writes_over_an_input_has_the_same_schedule(
    tactic: str, simulator: Simulator, monkeypatch: pytest.MonkeyPatch, written: Callable[[str], Path]
) -> None:
    """Work-items read elements by accesses of several, and their own of the memory that they write."""
    name = simulator("cuda_shim")
    generator = np.random.default_rng(0)
    values, others = (generator.integers(-8, 9, (64, 1024)).astype(np.float32) for _ in range(2))
    with rg.load_rules(written("target cuda:\n    limit occupancy 16\n")):
        other = Tensor(others, device=name).realize()
        for order in (0, 1, 77):
            monkeypatch.setattr(devices.get(name), "order", order)
            x = Tensor(values, device=name).clone().realize()
            with rg.profile() as profile:
                x += (other * other).sum(1, keepdim=True) if tactic == "groups" else other * 3
                x.realize()
            (record,) = profile.kernels
            assert record.schedule.startswith(f"{tactic}: ") and record.source.count("float* __restrict__") == 2
            added = (others**2).sum(1, keepdims=True) if tactic == "groups" else others * 3
            np.testing.assert_array_equal(x.numpy(), values + added)


@pytest.mark.each_value
@pytest.mark.parametrize(("dtype", "call"), [("float32", "outer_m32n64_float32("), ("bfloat16", "mma_m16n8k16_")])
@pytest.mark.parametrize(
    ("images", "weights", "options"),
    [
        ((2, 32, 14, 14), (64, 32, 3, 3), {"padding": 1}),
        ((5, 16, 7, 7), (64, 16, 3, 3), {"padding": 1}),  # the places of all images
        ((2, 3, 20, 20), (64, 3, 5, 5), {"padding": 2, "stride": 2}),  # channels and windows
    ],
)
def test_convolutions_are_products(
    images: tuple[int, ...], weights: tuple[int, ...], options: dict[str, int], dtype: str, call: str,
    simulator: Simulator,
) -> None:  # fmt: skip
    name = simulator("cuda_shim")
    generator = np.random.default_rng(0)
    values = generator.integers(-2, 3, images), generator.integers(-2, 3, weights)

    def build(device: str, dtype: str) -> Tensor:
        x, w = (Tensor(array.astype(DType(dtype).numpy), device=device).realize() for array in values)
        return x.conv2d(w, **options)

    (kernel,) = compile_graph([build(name, dtype).uop], devices.get(name).target)
    assert call in kernel.source
    wanted = build("numpy", "float32").numpy()
    np.testing.assert_array_equal(build(name, dtype).numpy(), wanted.astype(DType(dtype).numpy))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stride", [1, 2])
def test_large_convolutions_and_their_gradients(
    dtype: str, stride: int, simulator: Simulator, written: Callable[[str], Path]
) -> None:
    """Their images and weights are stored with channels as neighbours, and deep sums in parts, as if launches took no time."""
    name = simulator("cuda_shim")
    generator = np.random.default_rng(0)
    values = [generator.integers(-2, 3, shape) for shape in ((4, 16, 16, 16), (32, 16, 3, 3))]
    upstream = generator.integers(-1, 2, (4, 32, 16 // stride, 16 // stride))

    def build(device: str, dtype: str) -> list[Tensor]:
        x, w = (Tensor(array.astype(DType(dtype).numpy), device=device).realize() for array in values)
        x.requires_grad = w.requires_grad = True
        y = x.conv2d(w, padding=1, stride=stride)
        y.backward(Tensor(upstream.astype(DType(dtype).numpy), device=device).realize())
        return [y, x.grad, w.grad]

    wanted = [tensor.numpy() for tensor in build("numpy", "float32")]
    with rg.load_rules(written("target cuda:\n    limit launch 1, bandwidth 1000000000, rate 1000\n")):
        results = build(name, dtype)
        kernels = compile_graph([tensor.uop for tensor in results], devices.get(name).target)
        # 4 images of 18 lines, whose channels lie together
        assert any(kernel.name.startswith("map_72x18x16") for kernel in kernels)
        for found, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found.numpy(), expected.astype(DType(dtype).numpy))


def test_many_updates_are_added_up_in_parts(simulator: Simulator, written: Callable[[str], Path]) -> None:
    """As in the gradient of an embedding: several work-items have parts of the updates."""
    name = simulator("cuda_shim")
    generator = np.random.default_rng(0)
    places, values = generator.integers(-9, 9, 128), generator.integers(-3, 4, (128, 5)).astype(np.float32)

    def added(device: str, places: np.ndarray[Any, Any]) -> Tensor:
        table = Tensor(np.ones((9, 5), np.float32), device=device).realize()
        table.requires_grad = True
        rows = table[Tensor(places, device=device).realize()]
        rows.backward(Tensor(values, device=device).realize())
        return table.grad

    with rg.load_rules(written("target cuda:\n    limit launch 1\n")):
        kernels = compile_graph([added(name, places).uop], devices.get(name).target)
        assert any(kernel.name.startswith("map_128x5_") for kernel in kernels)  # parts by columns
        found = added(name, places)
        np.testing.assert_array_equal(found.numpy(), added("numpy", places).numpy())
        with pytest.raises(IndexRangeError, match="9"):
            added(name, np.full(128, 9)).numpy()


@pytest.mark.parametrize("sizes", [(64, 64, 64), (64, 40, 128), (192, 33, 320), (70, 64, 120), (3, 128, 64, 96)])
def test_products_of_float32(sizes: tuple[int, ...], simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tiles of several sizes; in several orders of the threads."""
    name = simulator("cuda_shim")
    *batch, rows, depth, columns = sizes
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (*batch, *each)) for each in ((rows, depth), (depth, columns)))
    x, y = (Tensor(array.astype(np.float32), device=name).realize() for array in (a, b))
    (kernel,) = compile_graph([(x @ y).uop], devices.get(name).target)
    assert "outer_m32n64_float32(" in kernel.source
    for order in (0, 1, 9):
        monkeypatch.setattr(devices.get(name), "order", order)
        np.testing.assert_array_equal((x @ y).numpy(), a @ b)


@pytest.mark.parametrize("target", ["cuda", "metal"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_reductions_of_columns_fit_into_local_memory(target: str, dtype: str) -> None:
    if (target, dtype) == ("metal", "float64"):
        pytest.skip("the target has no float64")
    x = Tensor(np.ones((200, 96)), device="numpy").cast(dtype).realize()
    several = [x.sum(0), x.max(0), x.min(0), x.prod(0), (x * 2 + 1).max(0), (x * 3 - 1).min(0), (x + 1).prod(0)]
    for count in (1, 4, 7):
        kernels = compile_graph([one.uop for one in several[:count]], target)
        assert count > 1 or [kernel.tactic for kernel in kernels] == ["shared_columns"]
        for kernel in kernels:
            arrays = re.findall(r"(?:__shared__ __align__\(16\)|threadgroup) ([\w ]+) \w+\[(\d+)\];", kernel.source)
            bytes_of = {"float": 4, "int": 4, "double": 8, "long long": 8, "long": 8, "uint": 4, "unsigned int": 4}
            used = sum(bytes_of[type] * int(number) for type, number in arrays)
            assert used <= engine.target(target).limits["local_memory"]
