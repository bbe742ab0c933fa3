"""The webgpu backend, on whatever adapter there is: in CI, Mesa's driver for the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.errors import DeviceError, DtypeError, OutOfMemoryError
from rulegrad.ir.dtype import DType
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel

NAME = "webgpu:0"
DTYPES = ("bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")


@pytest.fixture(scope="module")
def device() -> str:
    try:
        devices.get(NAME)
    except DeviceError as error:
        if os.environ.get("WEBGPU_REQUIRED"):
            raise
        pytest.skip(str(error))
    return NAME


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op(device: str, dtype: str, tests_of: Callable[[str], Any]) -> None:
    tests_of("rules/test_ops_on_devices.py").test_every_op(device, DType(dtype))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64", "int8", "bfloat16"])
def test_casts(device: str, dtype: str, tests_of: Callable[[str], Any]) -> None:
    tests_of("rules/test_ops_on_devices.py").test_every_cast(device, "CAST", DType(dtype))


@pytest.fixture
def without_halves(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The device, compiled for as if its adapter had no `shader-f16`."""
    with monkeypatch.context() as patch:
        patch.setattr(devices.get(device), "target", "webgpu")
        forget_kernels()
        yield device
    forget_kernels()


@pytest.fixture
def with_halves(device: str) -> str:
    target = devices.target_of(device)
    if "f16" not in target.split("+"):
        pytest.skip(f"the adapter of {device} has no shader-f16; it is compiled for as {target}")
    return device


def test_halves_without_the_feature(without_halves: str, tests_of: Callable[[str], Any]) -> None:
    ops = tests_of("rules/test_ops_on_devices.py")
    ops.test_every_op(without_halves, DType("float16"))
    values = Tensor(np.arange(5, dtype=np.float16), device=without_halves)
    assert "f16" not in compile_graph([(values + 1).uop], "webgpu")[0].source


def test_every_half(with_halves: str) -> None:
    """Native results are the interpreter's, for all values: sums, products, comparisons, conversions, bits."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    other = np.random.default_rng(0).permutation(halves)
    floats = np.random.default_rng(1).integers(0, 1 << 32, 1 << 16).astype(np.uint32).view(np.float32)
    wide = np.concatenate([halves.astype(np.float32), floats])
    integers = np.arange(-(1 << 15), 1 << 15) * 5
    found = {}
    for name in (with_halves, "numpy"):
        x, y, z, i = (Tensor(values, device=name) for values in (halves, other, wide, integers))
        results = [x + y, x * y, x - 1.5, -x, x.abs(), x.maximum(y), x < y, x == y, x != x, x.cast("float32")]
        results += [x.cast("int32"), x.bitcast("uint16"), x.bitcast("int16"), x.bitcast("uint16").bitcast("float16")]
        results += [z.cast("float16"), i.cast("float16"), i.cast("int32").cast("float16"), (x < y).cast("float16")]
        found[name] = [result.numpy() for result in results]
    for here, there in zip(found[with_halves], found["numpy"], strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_infinities_nan_and_both_zeros(with_halves: str, dtype: str) -> None:
    """Drivers that simplify as if there were none of these are kept from it."""
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2], dtype)
    left, right = (side.ravel() for side in np.meshgrid(special, special, indexing="ij"))
    found = {}
    for name in (with_halves, "numpy"):
        x, y = Tensor(left, device=name), Tensor(right, device=name)
        results = [x * 0, x * -0.0, x - x, x + 0, x + -0.0, 0 - x, x * 0 + y, x // y, x.nextafter(y), x * float("inf")]
        results += [
            x.isinf(),
            x.isfinite(),
            x == float("-inf"),
            y.reshape(7, 7).cummax(1)[0],
            y.reshape(7, 7).cummin(1)[0],
            y.reshape(7, 7)[:, 3:].cummax(1)[0],
            y.reshape(7, 7)[:, 3:5].cummin(1)[0],
        ]
        results += [(x - y) + y, (x + y) - y] if dtype == "float32" else []
        results[0].realize(*results[1:])
        found[name] = [result.numpy() for result in results]
    for here, there in zip(found[with_halves], found["numpy"], strict=True):
        np.testing.assert_array_equal(here, there)
        np.testing.assert_array_equal(np.signbit(here) & ~np.isnan(here), np.signbit(there) & ~np.isnan(there))


@pytest.mark.parametrize("source", ["float16", "int64", "int32", "uint16", "bool"])
def test_casts_with_halves(with_halves: str, source: str, tests_of: Callable[[str], Any]) -> None:
    for op in ("CAST", "BITCAST") if source in ("float16", "uint16") else ("CAST",):
        tests_of("rules/test_ops_on_devices.py").test_every_cast(with_halves, op, DType(source))


def test_halves_are_computed_with(with_halves: str) -> None:
    """As they are in memory, in half the bytes; elements of one word are written by different work-items."""
    x = Tensor(np.arange(10_001, dtype=np.float16) % 251, device=with_halves)
    graph = (x.flip(0) * 2).contiguous()
    source = compile_graph([graph.uop], devices.target_of(with_halves))[0].source
    assert source.startswith("enable f16;") and "array<f16>" in source and "atomic" not in source
    np.testing.assert_array_equal(graph.numpy(), (np.arange(10_001, dtype=np.float16) % 251)[::-1] * 2)


def test_rows_that_work_groups_share(device: str) -> None:
    """Few long rows: a work-group has each, its work-items meet in local memory; more turns than one work-item may make."""
    values = np.random.default_rng(0).normal(size=(3, 70_001)).astype(np.float32)
    x = Tensor(values, device=device)
    (kernel,) = compile_graph([x.sum(1).uop], devices.target_of(device))
    assert kernel.local == (8,) and kernel.source.count("workgroupBarrier();") == 2
    assert kernel.source.count("var<workgroup>") == 2
    np.testing.assert_allclose(x.sum(1).numpy(), values.sum(1, dtype=np.float64), rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(x.max(1).numpy(), values.max(1))
    np.testing.assert_array_equal(x.argmax(1).numpy(), values.argmax(1))
    powers = np.exp(values - values.max(1, keepdims=True).astype(np.float64))
    np.testing.assert_allclose(x.softmax(1).numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-9)
    integers = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, (5, 300))
    for dtype in ("int64", "uint16", "int8", "bool"):
        y = integers.astype(dtype)
        np.testing.assert_array_equal(Tensor(y, device=device).max(1).numpy(), y.max(1))
    np.testing.assert_array_equal(Tensor(integers, device=device).sum(1).numpy(), integers.sum(1))
    halves = values[:, :500].astype(np.float16)
    np.testing.assert_allclose(
        Tensor(halves, device=device).sum(1).numpy(), halves.astype(np.float64).sum(1), rtol=2e-3, atol=0.05
    )


def test_programs(device: str, tests_of: Callable[[str], Any]) -> None:
    tests_of("backends/programs.py").check_programs(device, lambda a: [*a[:, :6].sort(1), a > 0])


def test_integers_of_64_bits(device: str) -> None:
    """Quotients of numbers of all sizes: they are computed from estimates in float32."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**64, (2, 4000), np.uint64)
    a, b = bits >> generator.integers(0, 64, (2, 4000)).astype(np.uint64)
    b = np.maximum(b, 1)
    # just below and at multiples of the divisor
    a[:1000] = (a[:1000] // b[:1000]) * b[:1000] - (np.arange(1000) % 2).astype(np.uint64)
    for dtype in (np.uint64, np.int64):
        x, y = a.astype(dtype), b.astype(dtype)
        u, v = Tensor(x, device=device), Tensor(y, device=device)
        np.testing.assert_array_equal((u // v).numpy(), x // y)
        np.testing.assert_array_equal((u % v).numpy(), x % y)
        np.testing.assert_array_equal(u.cast("float32").numpy(), x.astype(np.float32))


def test_loops_counted_in_64_bits(device: str) -> None:
    """A scatter's index has any int64, so its kernel counts in them."""
    places = np.array([3, 0, 6, 3], np.int64)
    there = Tensor.zeros(7, 5, device=device).scatter_add(
        0, Tensor(places, device=device).reshape(4, 1).expand(4, 5), Tensor.ones(4, 5, device=device)
    )
    np.testing.assert_array_equal(there.numpy()[:, 0], np.bincount(places, minlength=7))


def test_neighbours_in_a_word(device: str) -> None:
    """Work-items that write elements of one word leave each other's alone."""
    for dtype in ("uint8", "int16", "bool"):
        values = (np.arange(10_001) * 7 % 251).astype(dtype)
        there = Tensor(values, device=device)
        np.testing.assert_array_equal(there.flip(0).contiguous().numpy(), values[::-1])


def test_a_grid_of_more_groups_than_an_axis_has(device: str) -> None:
    values = np.arange(4_400_000, dtype=np.float32)
    np.testing.assert_array_equal((Tensor(values, device=device) + 1).numpy(), values + 1)


def test_launches_wait_for_results(device: str) -> None:
    x = Tensor(np.ones(64, np.float32), device=device)
    for _ in range(200):
        x = (x * 1.0 + 1.0).realize()
    with rg.profile() as profile:
        (x + 1).realize()
    assert x.numpy().tolist() == [201.0] * 64
    assert all(kernel.seconds > 0 for kernel in profile.kernels)


def test_buffers_of_odd_sizes(device: str) -> None:
    for count in (1, 3, 5, 130):
        values = np.arange(count, dtype=np.uint8)
        np.testing.assert_array_equal(Tensor(values, device=device).contiguous().numpy(), values)


def test_float64_is_refused(device: str) -> None:
    there = Tensor(np.ones(3), device=device)  # memory may hold it
    assert there.dtype == "float64" and there.numpy().tolist() == [1.0] * 3
    with pytest.raises(DtypeError, match=r"webgpu[\w+]* devices have no float64, which this kernel computes with"):
        (there + 1).realize()


def test_what_does_not_compile(device: str) -> None:
    source = "@compute @workgroup_size(64)\nfn wrong() {\n  let x: f32 = 1u;\n}\n"
    with pytest.raises(
        DeviceError, match=r"cannot build this program; the compiler says:(?s:.*)   3    let x: f32 = 1u"
    ):
        devices.get(device).compile([Kernel("wrong", None, source, (1,), (), 1)])  # type: ignore[arg-type]


def test_too_large(device: str) -> None:
    with pytest.raises(
        OutOfMemoryError, match=r"webgpu:0 cannot allocate 1,099,511,627,776 bytes: its largest buffer is"
    ):
        devices.get(device).allocate(1 << 40)
    source = "@compute @workgroup_size(64)\nfn many() { }\n"
    with pytest.raises(DeviceError, match="takes 100000 buffers; webgpu:0 binds"):
        devices.get(device).compile([Kernel("many", None, source, (1,), (), 100_000)])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="has 4,294,967,296 work-items"):
        devices.get(device).compile([Kernel("many", None, source, (1 << 16, 1 << 16), (), 1)])  # type: ignore[arg-type]


def test_is_never_the_default_on_a_cpu(device: str) -> None:
    if "llvmpipe" in devices.report(rg.runtime.backends.backend("webgpu")).discovery.devices[0].description:
        assert devices.kind_of(device) == "simulator"


def test_indices_are_checked(device: str, index_check: str, tests_of: Callable[[str], Any]) -> None:
    """An index that is out of range is an IndexError with the user's line; counters beside 64-bit labels are compared too."""
    with rg.config(device=device):
        getattr(tests_of("tensor/test_index_checks.py"), index_check)(device)


@pytest.mark.parametrize("ends_loops", [False, True])
def test_sizes_that_vary(
    device: str, ends_loops: bool, cache_with_rules: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One set of kernels serves all sizes; a driver that ends long loops has those with no loops that sizes make."""
    opened = devices.get(device)
    monkeypatch.setattr(opened._pipelines, "_ends_loops", ends_loops)  # type: ignore[attr-defined]
    built: list[str] = []
    compile_all = type(opened).compile

    def counted(self: Any, kernels: Sequence[Kernel]) -> Any:
        built.extend(kernel.name for kernel in kernels)
        return compile_all(self, kernels)

    monkeypatch.setattr(type(opened), "compile", counted)
    with rg.config(general_plans=1, cache=cache_with_rules()):
        forget_kernels()
        for n in (9, 14, 23, 40):
            built.clear()
            x = np.random.default_rng(n).standard_normal((n, 16 + ends_loops)).astype(np.float32)
            found = [(Tensor(x, device=device) * 2 + 1).numpy(), Tensor(x, device=device).sum(0).numpy()]
            np.testing.assert_allclose(found[0], x * 2 + 1, rtol=1e-6)
            np.testing.assert_allclose(found[1], x.sum(0), rtol=1e-4, atol=1e-5)
        assert [name.partition("_")[0] for name in built] == (["reduce"] if ends_loops else [])
    forget_kernels()
