"""Matrix instructions of NVIDIA's and Apple's GPUs, emulated from the layouts of their rows: values, barriers, and what the compiler makes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.kernel import Kernel

CALLS = {"cuda_shim": r"mma_m\d+n\d+k\d+_\w+\(", "metal_shim": r"simdgroup_8x8\("}
CASES = [("cuda_shim", "bfloat16", shapes) for shapes in ("shared", "padded", "one warp")]
CASES += [("cuda_shim", dtype, "shared") for dtype in ("float16", "int8")]
CASES += [("metal_shim", "float32", shapes) for shapes in ("shared", "padded", "one warp")]
CASES += [("metal_shim", dtype, "one warp") for dtype in ("float16", "bfloat16")]
#: what products are in, of the programs of tests/compile/test_tensor_cores.py
PROGRAMS = ("batches", "bias, activation, factor", "convolution", "attention")
SHAPES: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {
    "shared": {"cuda_shim": ((128, 64), (64, 128)), "metal_shim": ((64, 32), (32, 128))},
    "padded": {"cuda_shim": ((200, 120), (120, 200)), "metal_shim": ((100, 30), (30, 110))},
    "one warp": {"cuda_shim": ((30, 60), (60, 24)), "metal_shim": ((20, 45), (45, 24))},
}


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product, of small integers as int32."""
    return a.cast("int32") @ b.cast("int32") if a.dtype == "int8" else a @ b


def pair(shapes: tuple[tuple[int, ...], ...], dtype: str, device: str) -> list[Tensor]:
    generator = np.random.default_rng(7)
    arrays = [generator.integers(-3, 4, shape).astype(np.int8) for shape in shapes]
    return [Tensor(array, device=device).cast(dtype).realize() for array in arrays]


@pytest.mark.parametrize(("name", "dtype", "shapes"), CASES)
def test_products(
    name: str, dtype: str, shapes: str, simulator: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = devices.get(simulator(name))
    wanted = product(*pair(SHAPES[shapes][name], dtype, "numpy")).cast("float32").numpy()
    for order in (0, 9):
        monkeypatch.setattr(device, "order", order)
        result = product(*pair(SHAPES[shapes][name], dtype, name))
        if order == 0:
            (kernel,) = compile_graph([result.uop], device.target)
            assert re.search(CALLS[name], kernel.source)
            assert ("barrier" in kernel.source or "__sync" in kernel.source) == (shapes != "one warp")
        np.testing.assert_array_equal(result.cast("float32").numpy(), wanted)


@pytest.mark.parametrize(("name", "dtype"), [("cuda_shim", "bfloat16"), ("metal_shim", "float32")])
def test_what_products_are_in(
    name: str, dtype: str, simulator: Callable[[str], str], tests_of: Callable[[str], Any]
) -> None:
    module = tests_of("compile/test_tensor_cores.py")
    simulator(name)
    for what in PROGRAMS:
        build, shapes = module.GRAPHS[what]
        found, wanted = (
            build(*(module.given(shape, dtype, device) for shape in shapes)).cast("float32").numpy()
            for device in (name, "numpy")
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-4, err_msg=what)


def test_a_barrier_left_out_shows(simulator: Callable[[str], str]) -> None:
    """The order of threads finds what a product needs: without the barriers, some order is wrong."""
    device: Any = devices.get(simulator("cuda_shim"))
    tensors = pair(SHAPES["shared"]["cuda_shim"], "float16", "cuda_shim")
    wanted = product(*pair(SHAPES["shared"]["cuda_shim"], "float32", "numpy")).numpy()
    (kernel,) = compile_graph([product(*tensors).uop], "cuda")
    source = kernel.source.replace("__syncthreads();", "")
    one = Kernel(kernel.name, kernel.graph, source, kernel.grid, kernel.local, kernel.slots)
    (executable,) = device.compile([one])
    handle, result = device.allocate(wanted.size * 2), np.zeros(wanted.shape, np.float16)
    wrong = 0
    for order in (0, 1, 9):
        device.order = order
        executable([handle, *(Buffer.numbered(tensor.uop.attrs["id"]).handle for tensor in tensors)])
        device.copy_out(handle, result)
        wrong += not np.array_equal(result, wanted)
    device.order = 0
    assert wrong > 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_registers_hold_the_fragments(arch: str) -> None:
    """No product has its fragments in memory: there is no stack and no spill."""
    package = backend("cuda").module.__package__
    programs, usage = (importlib.import_module(f"{package}.{part}") for part in ("programs", "usage"))
    kernels = {}
    for dtype in ("bfloat16", "float16", "int8"):
        for shapes in SHAPES.values():
            (kernel,) = compile_graph([product(*pair(shapes["cuda_shim"], dtype, "numpy")).uop], "cuda")
            kernels[kernel.source] = kernel
    try:
        _, log = programs.compile_text("\n".join(kernels), arch)
    except (ImportError, RuntimeError) as error:
        if isinstance(error, DeviceError):
            raise
        pytest.skip(f"NVRTC is not installed ({error})")
    found = usage.usages(log)
    assert len(found) == len(kernels)
    for one in found:
        assert (one.stack, one.spills) == (0, 0), one
        # where whole tiles are copied, two blocks of 256 threads fit into the registers of a multiprocessor
        assert one.registers <= (128 if "128x128" in one.name else 255), one
