"""Matrix instructions of NVIDIA's and Apple's GPUs, emulated from the layouts of their rows: values, barriers, and what the compiler makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.config import config
from rulegrad.interpreter.numerics import tf32
from rulegrad.ir.dtype import DType
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.kernel import Kernel

CALLS = {"cuda_shim": r"\bw?g?mma_m\d+n\d+k\d+_\w+\(", "metal_shim": r"simdgroup_8x8\("}
CASES = [("cuda_shim", "bfloat16", shapes) for shapes in ("shared", "padded", "one warp")]
CASES += [("cuda_shim", dtype, "shared") for dtype in ("float16", "int8")]
CASES += [("cuda_shim", "float8_e4m3fn", shapes) for shapes in ("shared", "padded", "one warp")]
CASES += [("cuda_shim", "float8_e5m2", "one warp")]
CASES += [("cuda_shim", dtype, "four warps") for dtype in ("bfloat16", "float16")]
CASES += [("cuda_shim", "bfloat16", "four warps, padded")]
CASES += [("metal_shim", "float32", shapes) for shapes in ("shared", "padded", "one warp")]
CASES += [("metal_shim", dtype, "one warp") for dtype in ("float16", "bfloat16")]
#: by wgmma, whose operand stays in shared memory
HOPPER = ("four warps", "four warps, padded")
#: 8-bit floats are the target cuda_sm89's
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
#: what products are in, of the programs of tests/compile/test_tensor_cores.py
PROGRAMS = ("batches", "bias, activation, factor", "convolution", "attention")
SHAPES: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {
    "shared": {"cuda_shim": ((128, 64), (64, 128)), "metal_shim": ((64, 32), (32, 128))},
    "padded": {"cuda_shim": ((200, 120), (120, 200)), "metal_shim": ((100, 30), (30, 110))},
    "four warps": {"cuda_shim": ((128, 192), (192, 128))},
    "four warps, padded": {"cuda_shim": ((200, 120), (120, 200))},
    "one warp": {"cuda_shim": ((30, 60), (60, 24)), "metal_shim": ((20, 45), (45, 24))},
}


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product, of small integers as int32."""
    return a.cast("int32") @ b.cast("int32") if a.dtype == "int8" else a @ b


def pair(shapes: tuple[tuple[int, ...], ...], dtype: str, device: str) -> list[Tensor]:
    generator = np.random.default_rng(7)
    arrays = [generator.integers(-3, 4, shape).astype(np.int8) for shape in shapes]
    return [Tensor(array.astype(DType(dtype).numpy), device=device).realize() for array in arrays]


@pytest.mark.parametrize(("name", "dtype", "shapes"), CASES)
def test_products(
    name: str, dtype: str, shapes: str, simulator: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = devices.get(simulator(name))
    if dtype in EIGHT_BITS or shapes in HOPPER:
        monkeypatch.setattr(device, "target", "cuda_sm90a" if shapes in HOPPER else "cuda_sm89")
    forget_kernels()  # those of another target
    wanted = product(*pair(SHAPES[shapes][name], dtype, "numpy")).numpy()
    for order in (0, 9):
        monkeypatch.setattr(device, "order", order)
        result = product(*pair(SHAPES[shapes][name], dtype, name))
        if order == 0:
            (kernel,) = compile_graph([result.uop], device.target)
            assert re.search(CALLS[name], kernel.source)
            assert ("wgmma_" in kernel.source) == (shapes in HOPPER)
            assert ("barrier" in kernel.source or "__sync" in kernel.source) == (shapes != "one warp")
        np.testing.assert_array_equal(result.numpy(), wanted)
    forget_kernels()


@pytest.mark.parametrize("shapes", ["shared", "padded", "one warp"])
def test_tf32_is_asked_for_and_its_error_is_bounded(
    shapes: str, simulator: Callable[[str], str], with_tf32: None
) -> None:
    """Each operand is rounded by one part in 2048 at most, and the sum is of float32."""
    target = devices.get(simulator("cuda_shim")).target
    generator = np.random.default_rng(3)
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in SHAPES[shapes]["cuda_shim"])
    result = Tensor(a, device="cuda_shim") @ Tensor(b, device="cuda_shim")
    (kernel,) = compile_graph([result.uop], target)
    assert "mma_m16n8k8_tf32(" in kernel.source
    with config(rules_strict=True):
        assert "mma_" not in compile_graph([result.uop], target)[0].source
    found, sizes = result.numpy(), np.abs(a).astype(np.float64) @ np.abs(b)
    of_sum = a.shape[1] * 2.0**-24
    rounded = tf32(a).astype(np.float64) @ tf32(b)
    assert (np.abs(found - rounded) <= of_sum * sizes).all()
    error = np.abs(found - a.astype(np.float64) @ b)
    assert (error <= (2.0**-10 + 2.0**-22 + of_sum) * sizes).all()
    assert error.max() > 2.0**-16 * sizes.max()  # digits are lost


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_eight_bits_are_what_they_say(
    dtype: str, simulator: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every finite number, subnormal ones too, times one."""
    device: Any = devices.get(simulator("cuda_shim"))
    monkeypatch.setattr(device, "target", "cuda_sm89")
    codes = Tensor(np.arange(256, dtype=np.uint8), device="numpy").bitcast(dtype)
    values = np.nan_to_num(codes.cast("float32").numpy(), posinf=0, neginf=0).reshape(16, 16)
    a, b = np.tile(values, (2, 2)), np.eye(32, dtype=np.float32)
    left, right = (Tensor(array.astype(DType(dtype).numpy), device="cuda_shim").realize() for array in (a, b))
    assert "mma_" in compile_graph([(left @ right).uop], device.target)[0].source
    np.testing.assert_array_equal((left @ right).numpy().astype(np.float32), a)


@pytest.mark.parametrize("dtype", ["float32", *EIGHT_BITS])
def test_what_a_target_does_not_say_is_not_used(dtype: str) -> None:
    (kernel,) = compile_graph([product(*pair(SHAPES["shared"]["cuda_shim"], dtype, "numpy")).uop], "cuda")
    assert "mma_" not in kernel.source


@pytest.mark.parametrize(
    ("target", "dtype", "call"),
    [
        ("cuda", "bfloat16", "mma_m16n8k16_bfloat16("),
        ("cuda", "int8", "mma_m16n8k32_int8("),
        ("cuda_sm89", "float8_e4m3fn", "mma_m16n8k32_float8_e4m3fn("),
        ("cuda_sm90a", "float16", "wgmma_m64n256k64_float16_"),
        ("metal", "float16", "simdgroup_"),
        ("c_amx", "bfloat16", "amx_bf16"),
        ("c_amx", "int8", "amx_int8"),
    ],
)
def test_operands_of_large_products_are_not_widened_before(target: str, dtype: str, call: str) -> None:
    """By their costs alone: each element is converted thousands of times, but matrix instructions take it as it is."""
    (kernel,) = compile_graph([product(*pair(((4096, 512), (512, 4096)), dtype, "numpy")).uop], target)
    assert call in kernel.source


@pytest.mark.parametrize(("name", "dtype"), [("cuda_shim", "bfloat16"), ("metal_shim", "float32")])
def test_what_products_are_in(
    name: str, dtype: str, simulator: Callable[[str], str], tests_of: Callable[[str], Any]
) -> None:
    module = tests_of("compile/test_tensor_cores.py")
    simulator(name)
    for what in PROGRAMS:
        build, shapes = module.GRAPHS[what]
        found, wanted = (
            build(*(module.given(shape, dtype, device) for shape in shapes)).numpy().astype(np.float32)
            for device in (name, "numpy")
        )
        # the weights of attention are rounded before they are divided by their sum, or after
        digits = (2e-2 if what == "attention" else 1e-2) if dtype == "bfloat16" else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=digits, atol=1e-4, err_msg=what)


def wrong_orders(kernel: Kernel, source: str, tensors: list[Tensor], wanted: np.ndarray[Any, Any]) -> int:
    """In how many orders of the threads a kernel whose source was changed gives another product."""
    device: Any = devices.get("cuda_shim")
    (executable,) = device.compile([kernel._replace(source=source)])
    handle, result = device.allocate(wanted.size * 2), np.zeros(wanted.shape, np.float16)
    wrong = 0
    for order in (0, 1, 9):
        device.order = order
        executable([handle, *(Buffer.numbered(tensor.uop.attrs["id"]).handle for tensor in tensors)])
        device.copy_out(handle, result)
        wrong += not np.array_equal(result, wanted)
    device.order = 0
    return wrong


def test_a_barrier_left_out_shows(simulator: Callable[[str], str]) -> None:
    """The order of threads finds what a product needs: without the barriers, some order is wrong."""
    tensors = pair(SHAPES["shared"]["cuda_shim"], "float16", simulator("cuda_shim"))
    wanted = product(*pair(SHAPES["shared"]["cuda_shim"], "float32", "numpy")).numpy()
    (kernel,) = compile_graph([product(*tensors).uop], "cuda")
    assert wrong_orders(kernel, kernel.source.replace("__syncthreads();", ""), tensors, wanted) > 0


#: What wgmma needs, and what it is without: instructions that are done in the end and before a tile is filled again, tiles that are
#: filled before they are read, and a ring that is one tile longer than without instructions under way.
LEFT_OUT = {
    "nothing": lambda source: source,
    "the last wait": lambda source: re.sub(r"wait_for_matrices<0, 64>\(&acc\d\[0\]\);", "", source),
    "the waits of the steps": lambda source: source.replace("wait_for_matrices<1, 64>", "wait_for_matrices<3, 64>"),
    "barriers": lambda source: source.replace("__syncthreads();", ""),
    "waits for copies": lambda source: source.replace("wait_for_copies<1>", "wait_for_copies<2>"),
    "a tile of the ring": lambda source: re.sub(r"= (\w+) & 3;", r"= \1 % 3;", source),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_instructions_under_way_need(what: str, hopper: Any, without_boxes: None) -> None:
    shapes = ((128, 512), (512, 128))
    tensors = pair(shapes, "float16", "cuda_shim")
    wanted = product(*pair(shapes, "float32", "numpy")).numpy().astype(np.float16)
    (kernel,) = compile_graph([product(*tensors).uop], hopper.target)
    source = LEFT_OUT[what](kernel.source)
    assert (source == kernel.source) == (what == "nothing")
    assert (wrong_orders(kernel, source, tensors, wanted) > 0) == (what != "nothing")


@pytest.mark.parametrize("depth", [256, 208])
def test_bytes_of_wgmma_lie_along_the_depth(depth: int, hopper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right operand is transposed in memory; else warps multiply, by mma.sync."""
    shapes = ((128, depth), (128, depth))
    a, b = pair(shapes, "int8", "numpy")
    wanted = product(a, b.T).numpy()
    for order in (0, 1, 9):
        monkeypatch.setattr(hopper, "order", order)
        left, right = pair(shapes, "int8", "cuda_shim")
        result = product(left, right.T)
        assert "wgmma_m64n128k128_int8_dd(" in compile_graph([result.uop], hopper.target)[0].source
        np.testing.assert_array_equal(result.numpy(), wanted)
    (kernel,) = compile_graph([product(left.T, right).uop], hopper.target)
    assert "wgmma_" not in kernel.source and "mma_m16n8k32_int8(" in kernel.source


@pytest.mark.parametrize("letters", ["dd", "dc", "rd", "rc"])
def test_operands_of_wgmma_lie_as_in_memory(
    letters: str, hopper: Any, without_boxes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines along the depth, or across it: 16 bytes are copied at a time."""
    shapes = ((320, 256) if letters[0] == "r" else (256, 320), (128, 320) if letters[1] == "d" else (320, 128))

    def build(dtype: str, name: str) -> Tensor:
        a, b = pair(shapes, dtype, name)
        return (a.T if letters[0] == "r" else a) @ (b.T if letters[1] == "d" else b)

    wanted = build("float32", "numpy").numpy().astype(DType("bfloat16").numpy)
    for order in (0, 9):
        monkeypatch.setattr(hopper, "order", order)
        result = build("bfloat16", "cuda_shim")
        (kernel,) = compile_graph([result.uop], hopper.target)
        assert f"wgmma_m64n128k64_bfloat16_{letters}(" in kernel.source and "copy_16_bytes(" in kernel.source
        np.testing.assert_array_equal(result.numpy(), wanted)


def test_the_depth_is_the_longest_loop(hopper: Any) -> None:
    """Of sums over several loops, as in the gradient of the weights of a layer that multiplies sequences."""
    shapes = ((3, 128, 128), (3, 128, 128))

    def build(dtype: str, name: str) -> Tensor:
        a, b = pair(shapes, dtype, name)
        return (a.cast("float32").unsqueeze(3) * b.cast("float32").unsqueeze(2)).sum((0, 1)).cast(dtype)

    result = build("bfloat16", "cuda_shim")
    (kernel,) = compile_graph([result.uop], hopper.target)
    assert "wgmma_m64n128k64_bfloat16_rc(" in kernel.source
    wanted = build("float32", "numpy").numpy().astype(DType("bfloat16").numpy)
    np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize(
    ("arch", "target", "copies"),
    [
        ("sm_80", "cuda", ""),
        ("sm_89", "cuda_sm89", ""),
        ("sm_90a", "cuda_sm89", ""),
        ("sm_90a", "cuda_sm90a", "without_boxes"),
        ("sm_90a", "cuda_sm90a", ""),
    ],
)
def test_registers_hold_the_fragments(
    arch: str, target: str, copies: str, with_tf32: None, request: pytest.FixtureRequest, compiled_for: Any
) -> None:
    """No product has its fragments in memory: there is no stack and no spill."""
    if copies:
        request.getfixturevalue(copies)
    kernels, dtypes = {}, {}
    for dtype in ("float32", "bfloat16", "float16", "int8", *(EIGHT_BITS if target != "cuda" else ())):
        for shapes in SHAPES.values():
            (kernel,) = compile_graph([product(*pair(shapes["cuda_shim"], dtype, "numpy")).uop], target)
            assert "mma_" in kernel.source
            kernels[kernel.source], dtypes[kernel.name] = kernel, dtype
    (large,) = compile_graph([product(*pair(((4096, 512), (512, 4096)), "float16", "numpy")).uop], target)
    kernels[large.source], dtypes[large.name] = large, "float16"
    assert ("wgmma_m64n256k64" in large.source) == ("sm90a" in target)
    found, log = compiled_for(kernels, arch)
    assert len(found) == len(kernels)
    # what the compiler says where wgmma instructions cannot be under way together
    assert "serialized" not in log and "injected" not in log
    for one in found:
        assert (one.stack, one.spills) == (0, 0), one
        # Where whole tiles are copied, two blocks of 256 threads fit into the registers of a multiprocessor, except that Hopper's mma
        # makes halves of 8-bit floats first.
        is_narrow = "128x128" in one.name and not (arch == "sm_90a" and dtypes[one.name] in EIGHT_BITS)
        assert one.registers <= (128 if is_narrow else 255), one
