"""Products on the target c_amx: that they reach AMX's instructions, and their values.

The instructions are emulated in C, and are the processor's own where it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.errors import DeviceError
from rulegrad.ir.dtype import DType
from rulegrad.nn import functional
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.workbench.diagnosis import meaning, samples

try:
    devices.get("c")
except DeviceError as problem:
    pytest.skip(str(problem), allow_module_level=True)

SHIM = Path(__file__).parent / "amx"
#: rows, depth, columns: tiles, none whole, 16 columns, more rows or columns than threads share
SIZES = [(64, 128, 96), (30, 45, 29), (64, 64, 14), (520, 64, 40), (32, 64, 1030)]


@pytest.fixture(autouse=True, params=["emulated", "processor"])
def device_with_amx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device c, compiled for c_amx: with a header that emulates its instructions, and with the compiler's own."""
    module = backend("c").module
    found = module.compilers.find()
    if request.param == "emulated":
        device = module.Device(0, type(found)((*found.command, "-I", str(SHIM))), "c_amx")
    elif module.best_target(found) == "c_amx":
        device = module.Device(0, found, "c_amx")
    else:
        pytest.skip("this processor has no AMX")
    monkeypatch.setitem(devices._open, "c", device)
    forget_kernels()  # those of the target c
    yield device
    forget_kernels()


def operands(m: int, k: int, n: int, low: int, high: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(m * k * n)
    return generator.integers(low, high, (m, k)), generator.integers(low, high, (k, n))


def source_of(x: Tensor) -> str:
    return "".join(kernel.source for kernel in compile_graph([x.uop], "c_amx"))


def halves(*arrays: Any) -> list[Tensor]:
    return [Tensor(v.astype(DType("bfloat16").numpy), device="c").realize() for v in arrays]


def tile_columns(columns: int) -> int:
    """Those of the instruction: the most of which half are not padding."""
    return 32 if columns > 16 else 16


@pytest.mark.parametrize("size", SIZES)
def test_bfloat16(size: tuple[int, int, int]) -> None:
    a, b = operands(*size, -8, 9)
    x, y = halves(a, b)
    product = x.cast("float32") @ y.cast("float32")
    assert f"amx_bf16_32x{tile_columns(size[2])}x32(&" in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


@pytest.mark.parametrize("size", SIZES)
def test_int8(size: tuple[int, int, int]) -> None:
    a, b = operands(*size, -128, 128)
    x, y = (Tensor(v.astype(np.int8), device="c") for v in (a, b))
    product = x.cast("int32") @ y.cast("int32")
    assert f"amx_int8_32x{tile_columns(size[2])}x64(&" in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
def test_epilogue_transposed_and_batches(left_turned: bool, right_turned: bool) -> None:
    generator = np.random.default_rng(3)
    a, b, c = (generator.integers(-4, 5, s).astype(np.float32) for s in ((3, 64, 96), (3, 96, 64), (64,)))
    x, y = halves(a.transpose(0, 2, 1) if left_turned else a, b.transpose(0, 2, 1) if right_turned else b)
    x, y = (t.permute(0, 2, 1) if turned else t for t, turned in ((x, left_turned), (y, right_turned)))
    result = functional.relu(x.cast("float32") @ y.cast("float32") + Tensor(c, device="c"))
    source = source_of(result)
    assert "amx_bf16_32x32x32(&" in source
    assert ("amx_bf16_32x32x32(&data1[" in source) != left_turned  # lines are read where they are
    np.testing.assert_array_equal(result.numpy(), np.maximum(a @ b + c, 0))


def test_a_convolution() -> None:
    generator = np.random.default_rng(4)
    a, b = generator.integers(-3, 4, (2, 32, 9, 9)), generator.integers(-3, 4, (32, 32, 3, 3))
    result = functional.conv2d(*halves(a, b), padding=1)
    assert "amx_bf16_32x16x32(&" in source_of(result)
    plain = functional.conv2d(*(Tensor(v.astype(np.float32), device="numpy") for v in (a, b)), padding=1)
    np.testing.assert_array_equal(result.numpy(), plain.cast("bfloat16").numpy())


def test_copies_of_a_tile_where_those_of_the_whole_depth_are_too_large(tmp_path: Path) -> None:
    file = tmp_path / "small.rules"
    file.write_text("target c_amx:\n    limit panel_bytes 4096\n", encoding="utf-8")
    a, b = operands(70, 200, 90, -8, 9)
    with rg.load_rules(file):
        x, y = halves(a.T, b)
        product = x.T.cast("float32") @ y.cast("float32")
        assert "short acc1[1024]" in source_of(product)
        np.testing.assert_array_equal(product.numpy(), a @ b)


def test_a_sum_of_products_begins_each_of_them_anew() -> None:
    """Or adds them up without a matrix unit: its sums of one batch must not go on into the next."""
    generator = np.random.default_rng(5)
    a, b = generator.integers(-8, 9, (3, 64, 32)), generator.integers(-8, 9, (32, 32))
    x, y = halves(a, b)
    np.testing.assert_array_equal((x.cast("float32") @ y.cast("float32")).sum(0).numpy(), (a @ b).sum(0))


@pytest.mark.each_value
@pytest.mark.parametrize("size", SIZES[:3])
@pytest.mark.parametrize("turned", [False, True])
def test_programs_mean_what_their_kernels_mean(size: tuple[int, int, int], turned: bool) -> None:
    """By the interpreter, which knows the instructions by their rows."""
    a, b = operands(*size, -8, 9)
    x, y = halves(a.T if turned else a, b)
    (kernel,) = compile_graph([((x.T if turned else x).cast("float32") @ y.cast("float32")).uop], "c_amx")
    program = engine.run_all([kernel.graph], engine.pipeline("program"), "c_amx")[0]
    assert {"CLEAR_MATRIX", "MATRIX_MULACC", "STORE_MATRIX"} <= {node.op for node in program.toposort()}
    arrays = samples.sample_arrays(kernel.graph)
    assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


@pytest.mark.each_value
@pytest.mark.parametrize("depth", [32, 64])
def test_every_pass_keeps_the_meaning(depth: int) -> None:
    """CHECK=2, of a product of one step too."""
    x, y = halves(*operands(64, depth, 14, -8, 9))
    forget_kernels()
    with rg.config(check=2):
        assert "amx_bf16_32x16x32(&" in source_of(x.cast("float32") @ y.cast("float32"))


def test_float32_is_multiplied_without_it() -> None:
    a, b = operands(32, 32, 32, -8, 9)
    product = Tensor(a.astype(np.float32), device="c") @ Tensor(b.astype(np.float32), device="c")
    assert "amx" not in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_of_float32_is_one_kernel(causal: bool) -> None:
    """Parts without an instruction are put together as on processors without AMX."""
    r = np.random.default_rng(0)
    q, k, v = (r.standard_normal((2, n, 16), np.float32) for n in (70, 130, 130))
    with rg.profile() as p:
        found = functional.scaled_dot_product_attention(
            *(Tensor(x, device="c") for x in (q, k, v)), is_causal=causal
        ).numpy()
    assert [kernel.schedule.partition(":")[0] for kernel in p.kernels] == ["attention"]
    scores = q @ k.transpose(0, 2, 1) / 4
    powers = np.exp(scores if not causal else np.where(np.tri(70, 130, dtype=bool), scores, -np.inf))
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True) @ v, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [32, 100])
def test_state_beside_a_product_of_instructions_stays_in_its_memory(size: int) -> None:
    r = np.random.default_rng(size)
    x, y, a = (r.integers(-3, 3, (size, size)).astype(np.float32) for _ in range(3))
    first, second, factor = (Tensor(value, device="c").realize() for value in (x, y, a))
    product = factor.cast("bfloat16").cast("float32") @ factor.cast("bfloat16").cast("float32")
    new = first + product, second * first - product
    first.assign(new[0])
    second.assign(new[1])
    del new, product
    Tensor.realize(first, second)
    np.testing.assert_array_equal(first.numpy(), x + a @ a)
    np.testing.assert_array_equal(second.numpy(), y * x - a @ a)


def test_the_target_says_what_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    module = backend("c").module
    compiler = module.compilers.find()
    for flags, permitted, target in (
        (["-mavx"], True, "c"),
        (["-mavx", "-mavx2"], True, "c_avx2"),
        (["-mavx512f"], True, "c"),
        (["-mavx512vl"], True, "c_avx512"),
        (["-mavx512vl", "-mavx512bf16"], True, "c_avx512"),
        (["-mavx512vl", "-mavx512vnni"], True, "c_avx512_vnni"),
        (["-mavx512vl", "-mavx512vnni", "-mavx512bf16"], True, "c_avx512_bf16"),
        (["-mavx512vl", "-mamx-bf16", "-mamx-int8"], False, "c_avx512"),
        (["-mavx512f", "-mamx-bf16", "-mamx-int8"], True, "c_amx"),
    ):
        monkeypatch.setattr(type(compiler), "flags", lambda _, flags=flags: flags)
        monkeypatch.setattr(module.processor, "may_use_amx", lambda permitted=permitted: permitted)
        assert module.best_target(compiler) == target


def test_kernels_compile_for_processors_that_have_it(tmp_path: Path) -> None:
    """With the compiler's own header and flags; nothing is run."""
    module = backend("c").module
    compiler = module.compilers.find()
    flags = ["-mamx-tile", "-mamx-bf16", "-mamx-int8", "-mavx512f"]
    if not compiler._accepts(flags):
        pytest.skip("this compiler does not know AMX")
    x = Tensor(np.ones((64, 64), np.int8), device="c")
    source = source_of(x.cast("int32") @ x.cast("int32"))
    header = (backend("c").folder / "amx.h").read_text(encoding="utf-8")
    name = source.split("static void ")[1].split("(")[0]
    text = f"#define UNROLLED\n#define VECTORIZED\n{header}{source}void* used = {name};\n"
    # not as a compiler of its own, whose trial would run what this processor need not have
    assert compiler._begin(text, [*compiler.flags(), *flags], compiler._found().linker).finish()
