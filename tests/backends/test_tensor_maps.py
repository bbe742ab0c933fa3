"""Tiles that are copied by TMA: which products have them, that their values are right by emulation, and what the copies need."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph, forget_kernels
from rulegrad.config import config
from rulegrad.errors import DeviceError, RewriteError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.nn import functional
from rulegrad.runtime.backends import backend
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.kernel import Kernel, TensorMap
from rulegrad.workbench.diagnosis import meaning, samples

Shapes = tuple[tuple[int, ...], ...]
Build = Callable[..., Tensor]
ORDERS = (0, 1, 9)


def given(shapes: Shapes, dtype: str, device: str) -> list[Tensor]:
    """Small integers, of which none is 0: what should be padding, and is not, changes a product."""
    generator = np.random.default_rng(5)
    arrays = [generator.choice([-3, -2, -1, 1, 2, 3], shape).astype(np.int8) for shape in shapes]
    return [Tensor(array.astype(DType(dtype).numpy), device=device).realize() for array in arrays]


def sums(a: Tensor, b: Tensor) -> Tensor:
    return a.cast("int32") @ b.cast("int32")


def sums_over_two_axes(a: Tensor, b: Tensor) -> Tensor:
    products = a.cast("float32").unsqueeze(3) * b.cast("float32").unsqueeze(0)
    return products.sum((1, 2)).cast(str(a.dtype))


#: What is copied as boxes: the shapes, the computation, and the dtypes.
BOXES: dict[str, tuple[Shapes, Build, tuple[str, ...]]] = {
    "along the depth, both": (((256, 320), (128, 320)), lambda a, b: a @ b.T, ("bfloat16", "float16")),
    "along the columns": (((256, 320), (320, 128)), lambda a, b: a @ b, ("bfloat16", "float16")),
    "along the rows": (((320, 256), (128, 320)), lambda a, b: a.T @ b.T, ("bfloat16", "float16")),
    "across the depth, both": (((320, 256), (320, 128)), lambda a, b: a.T @ b, ("bfloat16", "float16")),
    "fewer steps than tiles": (((128, 64), (64, 128)), lambda a, b: a @ b, ("bfloat16",)),
    "two steps": (((128, 128), (128, 128)), lambda a, b: a @ b, ("float16",)),
    "several turns of the ring": (((128, 1088), (1088, 128)), lambda a, b: a @ b, ("float16",)),
    "a batch": (((3, 128, 192), (3, 192, 128)), lambda a, b: a @ b, ("bfloat16", "float16")),
    "a batch of batches": (((2, 2, 128, 64), (2, 2, 64, 128)), lambda a, b: a @ b, ("float16",)),
    "one matrix for a batch": (((2, 128, 128), (128, 128)), lambda a, b: a @ b, ("bfloat16",)),
    "sizes that do not fit": (((200, 120), (120, 200)), lambda a, b: a @ b, ("bfloat16", "float16")),
    "sizes that do not fit, turned": (((120, 200), (200, 120)), lambda a, b: a.T @ b.T, ("bfloat16",)),
    "sizes that do not fit, a batch": (((2, 104, 120), (2, 120, 120)), lambda a, b: a @ b, ("float16",)),
    "a part of what is in memory": (((160, 200), (200, 160)), lambda a, b: a[:128, :120] @ b[:120], ("bfloat16",)),
    "a sum over two axes": (((128, 3, 64), (3, 64, 128)), lambda a, b: sums_over_two_axes(a, b), ("bfloat16",)),
    "one operand twice": (((128, 128),), lambda a: a @ a, ("float16",)),
    "and more in the kernel": (((128, 128), (128, 128), (128,)), lambda a, b, c: (a @ b + c).relu(), ("bfloat16",)),
    "bytes": (((128, 384), (128, 384)), lambda a, b: sums(a, b.T), ("int8",)),
    "bytes, sizes that do not fit": (((240, 208), (208, 208)), lambda a, b: sums(a, b.T), ("int8",)),
}  # fmt: skip
#: What is not, as lines begin elsewhere, or are shifted, computed, or not there.
OTHERS: dict[str, tuple[Shapes, Build, str]] = {
    "lines of 260 bytes": (((128, 130), (130, 130)), lambda a, b: a @ b, "bfloat16"),
    "a shifted part": (((128, 136), (136, 128)), lambda a, b: a[:, 8:] @ b[8:], "bfloat16"),
    "a computed operand": (((128, 128), (128, 128)), lambda a, b: (a * 2).relu() @ b, "float16"),
    "padding in the graph": (((128, 120), (128, 128)), lambda a, b: a.pad(((0, 0), (4, 4))) @ b, "bfloat16"),
    "a convolution": (((2, 64, 8, 8), (64, 64, 3, 3)), lambda x, w: functional.conv2d(x, w, padding=1), "bfloat16"),
    "bytes across the depth": (((128, 128), (128, 128)), lambda a, b: sums(a, b), "int8"),
    "two axes as one": (((128, 2, 64), (128, 128)), lambda a, b: a.reshape(128, 128) @ b, "float16"),
    "warps": (((32, 64), (64, 32)), lambda a, b: a @ b, "bfloat16"),
}


def computed(shapes: Shapes, build: Build, dtype: str) -> Any:
    """By the simulator."""
    return build(*given(shapes, dtype, "cuda_shim")).numpy()


def expected(shapes: Shapes, build: Build, dtype: str) -> Any:
    """In float32 (integers in int32) by NumPy, rounded to the dtype of the result."""
    exact = build(*given(shapes, dtype if dtype == "int8" else "float32", "numpy"))
    return exact.numpy().astype(build(*given(shapes, dtype, "numpy")).dtype.numpy)


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, case in BOXES.items() for dtype in case[2]])
def test_products_of_boxes(name: str, dtype: str, hopper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, build, _ = BOXES[name]
    (kernel,) = compile_graph([build(*given(shapes, dtype, "numpy")).uop], hopper.target)
    assert "copy_box(" in kernel.source and "copy_16_bytes(" not in kernel.source and len(kernel.maps) == 2
    values = expected(shapes, build, dtype)
    for order in ORDERS:
        monkeypatch.setattr(hopper, "order", order)
        np.testing.assert_array_equal(computed(shapes, build, dtype), values)


@pytest.mark.parametrize("name", OTHERS)
def test_other_products(name: str, hopper: Any) -> None:
    shapes, build, dtype = OTHERS[name]
    for kernel in compile_graph([build(*given(shapes, dtype, "numpy")).uop], hopper.target):
        assert "copy_box(" not in kernel.source and kernel.maps == ()
    np.testing.assert_array_equal(computed(shapes, build, dtype), expected(shapes, build, dtype))


@pytest.mark.parametrize("name", BOXES)
def test_a_target_without_them_copies_by_threads(name: str, hopper: Any, without_boxes: None) -> None:
    shapes, build, dtypes = BOXES[name]
    (kernel,) = compile_graph([build(*given(shapes, dtypes[0], "numpy")).uop], hopper.target)
    assert "copy_box(" not in kernel.source and kernel.maps == ()
    np.testing.assert_array_equal(computed(shapes, build, dtypes[0]), expected(shapes, build, dtypes[0]))


@pytest.mark.parametrize("name", BOXES)
def test_programs_mean_what_their_kernels_mean(name: str) -> None:
    """By the interpreter, which copies boxes as the op says: after the first passes, and in the end."""
    shapes, build, dtypes = BOXES[name]
    (kernel,) = compile_graph([build(*given(shapes, dtypes[0], "numpy")).uop], "cuda_sm90a")
    arrays = samples.sample_arrays(kernel.graph)
    wanted, steps = meaning.meaning(kernel.graph, arrays), engine.pipeline("program")
    for count in (steps.index("tensor_cores") + 1, len(steps)):
        (program,) = engine.run_all([kernel.graph], steps[:count], "cuda_sm90a")
        assert "COPY_TILE" in {node.op for node in program.toposort()}
        assert meaning.agree(wanted, meaning.meaning(program, arrays)), steps[count - 1]


@pytest.mark.parametrize("target", [pytest.param("cuda", marks=pytest.mark.long_run), "cuda_sm90a"])
def test_each_pass_can_be_checked(target: str, hopper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CHECK=2 runs what every pass of a product makes."""
    monkeypatch.setattr(hopper, "target", target)
    forget_kernels()
    with config(check=2):
        case: tuple[Shapes, Build, str] = ((200, 120), (120, 200)), lambda a, b: a @ b, "float16"
        np.testing.assert_array_equal(computed(*case), expected(*case))


def test_maps_of_a_batch() -> None:
    a, b = given(((3, 200, 120), (3, 120, 200)), "bfloat16", "numpy")
    (kernel,) = compile_graph([(a[:, :, :112] @ b[:, :112]).uop], "cuda_sm90a")
    assert kernel.maps == (
        TensorMap(1, 2, (3, 200, 120), (3, 200, 112), (1, 64, 64)),
        TensorMap(2, 2, (3, 120, 200), (3, 112, 200), (1, 64, 64)),
    )


def test_a_target_has_to_spell_its_maps(tmp_path: Path) -> None:
    file = tmp_path / "boxes.rules"
    rows = (Path(backend("cuda").folder) / "variants.rules").read_text()
    row = rows[rows.index('    row      operands_in_local_memory "wgmma_m64n128k128_int8_dd"') :]
    file.write_text(
        f"target opencl:\n    has MATRIX_MULACC\n    limit local_memory 99999, box_lines 256\n{row}", encoding="utf-8"
    )
    a, b = given(((128, 256), (128, 256)), "int8", "numpy")
    with (
        rg.load_rules(file),
        pytest.raises(RewriteError, match="opencl has a limit box_lines, but no template tensor_map"),
    ):
        compile_graph([sums(a, b.T).uop], "opencl")


# ---- what the copies need ----


def changed(pattern: str, new: str, count: int = 0) -> Callable[[str], str]:
    return lambda source: re.sub(pattern, new, source, count=count)


IN_THE_LOOP = r"(for \(int i3 = [^\n]*\n)    __syncthreads\(\);\n"
#: What is left out or wrong, and what the simulator says: "" where it is a wrong product.
LEFT_OUT: dict[str, tuple[Callable[[str], str], str]] = {
    "the wait for a tile": (changed(r"wait_for_mbarrier\(.*?\);", ""), "more arrivals at an mbarrier than"),
    "the parity of later turns": (changed(r"i3 >> 2\);", "0);"), ""),
    "the other parity": (changed(r"i3 >> 2\);", "1 - (i3 >> 2));"), ""),
    "what is expected": (changed(r"if \(\w+\) mbarrier_arrive_expect_tx\(.*?\);", ""), "wait for what never comes"),
    "half of what is expected": (changed(r"(expect_tx\(.*?, )\d+", r"\g<1>12288"), ""),
    "more than comes is expected": (changed(r"(expect_tx\(.*?, )\d+", r"\g<1>24592"), "wait for what never comes"),
    "the barrier before a tile is filled again": (changed(IN_THE_LOOP, r"\1"), ""),
    "the mbarriers": (changed(r"if \(\w+\) init_mbarriers<4>", "(void)"), "an mbarrier that no thread has made"),
    "the waits for instructions": (changed("wait_for_matrices<1, 64>", "wait_for_matrices<3, 64>"), ""),
    "the end of the copies": (changed(r" & i3 < 6", ""), "ended while boxes were copied"),
    "the other coordinates": (changed(r"(&map0, [^,]*), (\w+), (\w+)\)", r"\1, \3, \2)"), ""),
    "a place at a multiple of 128 bytes": (changed(r"&(acc\d)\[([^\]]+)\], &map0", r"&\1[\2 + 8], &map0"), "128 bytes"),
}


@pytest.fixture
def product(hopper: Any) -> tuple[Kernel, Callable[[str], list[str]]]:
    """A product's kernel, and what is wrong with a source in each order: errors, or "" for another result."""
    shapes = ((128, 512), (512, 128))
    tensors = given(shapes, "float16", "cuda_shim")
    a, b = given(shapes, "float32", "numpy")
    wanted = (a @ b).cast("float16").numpy()
    (kernel,) = compile_graph([(tensors[0] @ tensors[1]).uop], hopper.target)

    def problems(source: str) -> list[str]:
        (executable,) = hopper.compile([kernel._replace(source=source)])
        handle, result, found = hopper.allocate(wanted.size * 2), np.zeros(wanted.shape, np.float16), []
        for order in ORDERS:
            hopper.order = order
            try:
                executable([handle, *(Buffer.numbered(tensor.uop.attrs["id"]).handle for tensor in tensors)])
            except DeviceError as error:
                found.append(str(error))
                continue
            finally:
                hopper.order = 0
            hopper.copy_out(handle, result)
            if not np.array_equal(result, wanted):
                found.append("")
        return found

    return kernel, problems


def test_nothing_is_left_out(product: tuple[Kernel, Callable[[str], list[str]]]) -> None:
    kernel, problems = product
    assert problems(kernel.source) == []


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_copies_of_boxes_need(what: str, product: tuple[Kernel, Callable[[str], list[str]]]) -> None:
    kernel, problems = product
    change, message = LEFT_OUT[what]
    source = change(kernel.source)
    assert source != kernel.source
    found = problems(source)
    assert found and any(message in problem for problem in found), found


# ---- the emulation, by kernels of our own ----

ONE_BOX = """
extern "C" __global__ void one_box(unsigned short* out, unsigned short* in, const __grid_constant__ tensor_map map0) {
  unsigned char* const memory = local_memory_0;
  unsigned long long* const barrier = (unsigned long long*)(local_memory_0 + 4096);
  if (threadIdx.x == 0) INIT
  __syncthreads();
  if (threadIdx.x == 0) { EXPECT COPY }
  WAIT
  for (int k = threadIdx.x; k < 2048; k += 32) out[k] = ((unsigned short*)memory)[k];
}
"""
PARTS = {
    "INIT": "init_mbarriers<1>(barrier);",
    "EXPECT": "mbarrier_arrive_expect_tx(barrier, 3072);",
    "COPY": "copy_box(memory, &map0, barrier, 40, -3);",
    "WAIT": "wait_for_mbarrier(barrier, 0);",
}
MAP = TensorMap(1, 2, (50, 88), (50, 80), (24, 64))


def one_box(device: Any, **parts: str) -> np.ndarray[Any, Any]:
    source = ONE_BOX
    for name, text in {**PARTS, **parts}.items():
        source = source.replace(name, text)
    kernel = Kernel("one_box", UOp("SINK", ()), source, (32,), (32,), 2, local_bytes=5120, maps=(MAP,))
    out, given = device.allocate(4096), device.allocate(50 * 88 * 2)
    device.copy_in(given, np.arange(50 * 88, dtype=np.uint16))
    result = np.zeros(2048, np.uint16)
    device.compile([kernel])[0]([out, given])
    device.copy_out(out, result)
    return result


@pytest.mark.parametrize("order", ORDERS)
def test_a_box_lies_as_the_manual_draws_it(order: int, hopper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of 128 bytes; chunk c of line r is at c ^ (r % 8). Three lines are above the array, and a third of each is beside it."""
    monkeypatch.setattr(hopper, "order", order)
    array = np.zeros((24, 64), np.uint16)
    array[3:, :40] = np.arange(50 * 88, dtype=np.uint16).reshape(50, 88)[:21, 40:80]
    lines = np.zeros((24, 8, 8), np.uint16)
    for line in range(24):
        for chunk in range(8):
            lines[line, chunk ^ line % 8] = array[line, 8 * chunk : 8 * chunk + 8]
    found = one_box(hopper)
    np.testing.assert_array_equal(found[:1536], lines.reshape(-1))
    assert set(found[1536:].tolist()) == {0xFFFF}  # nobody's


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"INIT": ";"}, "an mbarrier that no thread has made"),
        ({"INIT": "mbarrier_init(barrier, 1);"}, "a copy for an mbarrier that was not fenced when it was made"),
        ({"INIT": "{ mbarrier_init(barrier, 2); fence_mbarrier_init(); }"}, "32 of 32 threads wait for what never comes"),
        ({"INIT": "init_mbarriers<1>(barrier + 512);"}, "an mbarrier that is not in shared memory"),
        ({"EXPECT": PARTS["EXPECT"] * 2}, "more arrivals at an mbarrier than it waits for"),
        ({"EXPECT": "mbarrier_arrive_expect_tx(barrier, 1 << 21);"}, "waits for more bytes than it can count"),
        ({"EXPECT": "mbarrier_arrive_expect_tx((unsigned long long*)memory, 8);"}, "an mbarrier that no thread has made"),
        ({"COPY": "copy_box(memory, &map0, barrier, 40, 0, 0);"}, "as many coordinates as its tensor map has no axes"),
        ({"COPY": "copy_box(memory + 64, &map0, barrier, 40, 0);"}, "not at a multiple of 128 bytes"),
        ({"COPY": "copy_box(memory + 2176, &map0, barrier, 40, 0);"}, "a box that is not in shared memory"),
        ({"COPY": "copy_box(memory, (const tensor_map*)memory, barrier, 40, 0);"}, "a copy without a tensor map"),
        ({"WAIT": "__syncthreads();"}, "a block has ended while boxes were copied to its shared memory"),
        ({"WAIT": "wait_for_mbarrier(barrier, 2);"}, "a parity that is neither 0 nor 1"),
    ],
)  # fmt: skip
def test_what_is_an_error(parts: dict[str, str], message: str, hopper: Any) -> None:
    with pytest.raises(DeviceError, match=f"kernel 'one_box' on cuda_shim cannot run: .*{message}"):
        one_box(hopper, **parts)


def test_what_is_over_is_not_waited_for(hopper: Any) -> None:
    """The phase before the first one counts as over: its parity is 1. So this reads too early."""
    found = one_box(hopper, WAIT="wait_for_mbarrier(barrier, 1); if (threadIdx.x > 15) wait_for_mbarrier(barrier, 0);")
    assert 0xFFFF in found[:1536]


# ---- what the compiler makes of it ----


def compiled(kernels: dict[str, Kernel], kind: str) -> bytes:
    """The PTX or the CUBIN of kernels for sm_90a."""
    programs = importlib.import_module(f"{backend('cuda').module.__package__}.programs")
    try:
        nvrtc = programs.nvrtc()
        text = f"{programs.prelude()}{chr(10).join(kernels)}"
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"boxes.cu", 0, [], [])
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"NVRTC is not installed ({error})")
    arch = b"--gpu-architecture=" + (b"compute_90a" if kind == "PTX" else b"sm_90a")
    (status,) = nvrtc.nvrtcCompileProgram(program, 2, [arch, b"--std=c++17"])
    assert int(status) == 0
    return bytes(programs._text_of(program, kind))


def products() -> dict[str, Kernel]:
    """Those above, by their sources."""
    found = {}
    for shapes, build, dtypes in BOXES.values():
        (kernel,) = compile_graph([build(*given(shapes, dtypes[0], "numpy")).uop], "cuda_sm90a")
        found[kernel.source] = kernel
    return found


def test_ptx_copies_by_tma() -> None:
    text = compiled(products(), "PTX").decode()
    for rank in (2, 3, 4):
        assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" in text
    assert "cp.async.cg" not in text


def test_no_register_is_spilled(compiled_for: Any) -> None:
    kernels = products()
    found, log = compiled_for(kernels, "sm_90a")
    assert "serialized" not in log and "injected" not in log
    assert len(found) == len(kernels)
    for one in found:
        assert (one.stack, one.spills) == (0, 0) and one.registers <= 128, one


def disassembled(kernels: dict[str, Kernel], folder: Path) -> str:
    """By a disassembler, which is named by the environment's DISASSEMBLER where it is not on the path."""
    names = (os.environ.get("DISASSEMBLER", ""), "nvdisasm", "cuobjdump", "/usr/local/cuda/bin/cuobjdump")
    command = next((found for name in names if name and (found := shutil.which(name))), None)
    if command is None:
        pytest.skip("there is neither nvdisasm nor cuobjdump")
    file = folder / "kernels.cubin"
    file.write_bytes(compiled(kernels, "CUBIN"))
    options = ["-sass"] if "cuobjdump" in command else []
    return subprocess.run([command, *options, str(file)], capture_output=True, text=True, check=True).stdout


def test_sass_copies_by_tma(tmp_path: Path) -> None:
    text = disassembled(products(), tmp_path)
    assert {f"UTMALDG.{rank}D" for rank in (2, 3, 4)} <= set(re.findall(r"UTMALDG\.\dD", text))
    assert "HGMMA" in text and "LDGSTS" not in text


@pytest.mark.parametrize("shape", [(512, 1024, 768), (128, 320, 256), (4096, 512, 4096)])
@pytest.mark.parametrize("result", ["float16", "float32"])
def test_sass_reads_sums_after_the_last_wait(
    shape: tuple[int, int, int], result: str, tmp_path: Path, compiled_for: Any
) -> None:
    """ptxas moved conversions of the sums before the wait: on an H100 some of them were wrong (2026-11-26)."""
    rows, depth, columns = shape
    a, b = (Tensor(np.zeros(each, np.float16), device="numpy").realize() for each in ((rows, depth), (depth, columns)))
    (kernel,) = compile_graph([(a @ b).cast(result).uop], "cuda_sm90a")
    assert "wgmma" in kernel.source
    _, log = compiled_for([kernel.source], "sm_90a")
    assert "serialized" not in log and "injected" not in log
    lines = disassembled({kernel.source: kernel}, tmp_path).splitlines()
    last, wait = (max(k for k, line in enumerate(lines) if word in line) for word in ("HGMMA", "DEPBAR.LE gsb0, 0x0"))
    assert last < wait
    assert not [line for line in lines[last:wait] if re.search(r"F2FP|HADD2|F2F|STG", line)]
