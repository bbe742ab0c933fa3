"""Rows that subgroups share, on whatever adapter of WebGPU has them: in CI, Mesa's driver for the CPU. The simulators of CUDA and Metal
run theirs in test_simulators.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.errors import DeviceError
from rulegrad.ir.dtype import DType
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend

NAME = "webgpu:0"
TARGET = "webgpu+f16+subgroups"


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    """The device, compiled for with everything that its adapter has."""
    try:
        opened: Any = devices.get(NAME)
    except DeviceError as error:
        if os.environ.get("WEBGPU_REQUIRED"):
            raise
        pytest.skip(str(error))
    if not {"shader-f16", "subgroup"} <= set(opened._device.features):
        pytest.skip(f"the adapter of {NAME} has no subgroups, or no halves")
    before, opened.target = opened.target, TARGET
    forget_kernels()
    yield NAME
    opened.target = before
    forget_kernels()


def both(build: Callable[[Tensor], Tensor], values: np.ndarray[Any, Any], device: str) -> tuple[Any, Any]:
    """The results there, and by the interpreter."""
    return build(Tensor(values, device=device)).numpy(), build(Tensor(values, device="numpy")).numpy()


def source_of(build: Callable[[Tensor], Tensor], values: np.ndarray[Any, Any], device: str) -> str:
    return "".join(kernel.source for kernel in compile_graph([build(Tensor(values, device=device)).uop], TARGET))


# 32 elements are shared by eight work-items; 70,001 are more turns than one work-item may make
@pytest.mark.parametrize("length", [32, 33, 70, 1000, 4096, 70_001])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int8", "uint16"])
def test_reductions(device: str, dtype: str, length: int) -> None:
    values = np.random.default_rng(length).integers(-100, 100, (3, length)).astype(dtype)
    for build in (lambda x: x.max(1), lambda x: x.min(1), lambda x: (x > 98).any(1), lambda x: (x < 98).all(1)):
        found, wanted = both(build, values, device)
        np.testing.assert_array_equal(found, wanted)
        assert "= subgroup" in source_of(build, values, device)
    if dtype in ("float32", "int32", "uint32"):
        build = lambda x: x.sum(1, dtype=dtype)  # noqa: E731
        assert "= subgroupAdd(" in source_of(build, values, device)
        np.testing.assert_array_equal(*both(build, values, device))  # exact, though in another order


def test_maxima_of_floats(device: str) -> None:
    """By the order of integers: infinities, both zeros, numbers of every size, and nan, which is in every maximum."""
    nan, inf = np.nan, np.inf
    generator = np.random.default_rng(0)
    for dtype in (np.float32, np.float16):
        bits = generator.integers(0, 1 << 32, (4, 8, 40), np.uint64).astype(f"uint{8 * np.dtype(dtype).itemsize}")
        rows = bits.view(dtype).reshape(32, 40)[:28]
        rows = np.where(np.isnan(rows), dtype(1), rows)
        for place, (number, other) in enumerate(
            [(nan, 0), (-nan, inf), (inf, -inf), (-inf, -inf), (-0.0, -0.0), (nan, nan)]
        ):
            rows[place] = other
            rows[place, place * 7] = number
        for build in (lambda x: x.max(1), lambda x: x.min(1), lambda x: (-x).max(1), lambda x: x.argmax(1)):
            np.testing.assert_array_equal(*both(build, rows, device))


def test_functions_of_rows(device: str) -> None:
    for shape in ((3, 70), (16, 4096), (2, 70_001)):
        values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        for build in (
            lambda x: x.softmax(1), lambda x: x.log_softmax(1), lambda x: x.layer_norm(x.shape[1:]), lambda x: x.mean(1),
            lambda x: x.std(1), lambda x: x.sum(),
        ):  # fmt: skip
            assert "= subgroupAdd(" in source_of(build, values, device)
            found, wanted = both(build, values, device)
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_sums_of_halves(device: str) -> None:
    values = np.random.default_rng(2).normal(size=(3, 500)).astype(np.float16)
    assert ": f32 = subgroupAdd(" in source_of(lambda x: x.sum(1), values, device)
    found = Tensor(values, device=device).sum(1).numpy()
    np.testing.assert_allclose(found, values.astype(np.float64).sum(1), rtol=2e-3, atol=0.05)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_every_op(device: str, dtype: str, tests_of: Callable[[str], Any]) -> None:
    tests_of("rules/test_ops_on_devices.py").test_every_op(device, DType(dtype))


def test_programs(device: str, tests_of: Callable[[str], Any]) -> None:
    tests_of("backends/programs.py").check_programs(device, lambda a: [*a[:, :6].sort(1), a > 0])


def test_a_cpu_is_not_asked_for_them() -> None:
    target_for = backend("webgpu").module.target_for
    everything = {"subgroup", "shader-f16", "timestamp-query"}
    assert target_for(everything) == TARGET and target_for({"subgroup"}) == "webgpu+subgroups"
    assert target_for(everything, is_cpu=True) == "webgpu+f16"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_warps_are_compiled(arch: str, compiled_for: Any) -> None:
    """Reductions of warps, of every dtype, by NVRTC for GPUs that are not here: no stack, no spill."""
    kernels = {}
    for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "uint16", "int32", "uint32", "int64", "uint64"):
        x = Tensor(np.ones((3, 1024), np.int8), device="numpy").cast(dtype).realize()
        for result in (x.sum(1), x.max(1), x.min(1), (x > 1).any(1), (x > 1).all(1)):
            (kernel,) = compile_graph([result.uop], "cuda")
            assert "= warp_" in kernel.source and kernel.source.count("__syncthreads") == 1
            kernels[kernel.source] = kernel
    found, _ = compiled_for(kernels, arch)
    assert len(found) == len(kernels) and all((one.stack, one.spills) == (0, 0) for one in found)
