"""Products on the target c_amx: that they reach AMX's instructions, and their values, with the instructions emulated in C."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.nn import functional
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend

try:
    devices.get("c")
except DeviceError as problem:
    pytest.skip(str(problem), allow_module_level=True)

SHIM = Path(__file__).parent / "amx"
SIZES = [(32, 64, 48), (30, 45, 29), (16, 128, 16), (64, 64, 64)]


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device c, compiled for c_amx with a header that emulates its instructions."""
    module = backend("c").module
    found = module.compilers.find()
    compiler = type(found)((*found.command, "-I", str(SHIM)))
    device = module.Device(0, compiler, "c_amx")
    monkeypatch.setitem(devices._open, "c", device)
    yield device


def operands(m: int, k: int, n: int, low: int, high: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(m * k * n)
    return generator.integers(low, high, (m, k)), generator.integers(low, high, (k, n))


def source_of(x: Tensor) -> str:
    return "".join(kernel.source for kernel in compile_graph([x.uop], "c_amx"))


@pytest.mark.parametrize("size", SIZES)
def test_bfloat16(size: tuple[int, int, int]) -> None:
    a, b = operands(*size, -8, 9)
    x, y = (Tensor(v.astype(np.float32), device="c").cast("bfloat16").realize() for v in (a, b))
    product = x.cast("float32") @ y.cast("float32")
    assert "amx_bf16_16x16x32(&" in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


@pytest.mark.parametrize("size", SIZES)
def test_int8(size: tuple[int, int, int]) -> None:
    a, b = operands(*size, -128, 128)
    x, y = (Tensor(v.astype(np.int8), device="c") for v in (a, b))
    product = x.cast("int32") @ y.cast("int32")
    assert "amx_int8_16x16x64(&" in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


def test_epilogue_transposed_and_batches() -> None:
    generator = np.random.default_rng(3)
    a, b, c = (generator.integers(-4, 5, s).astype(np.float32) for s in ((3, 64, 32), (3, 48, 64), (48,)))
    x, y = (Tensor(v, device="c").cast("bfloat16").realize() for v in (a, b))
    result = functional.relu(
        x.cast("float32").permute(0, 2, 1) @ y.cast("float32").permute(0, 2, 1) + Tensor(c, device="c")
    )
    assert "amx_bf16_16x16x32(&" in source_of(result)
    np.testing.assert_array_equal(result.numpy(), np.maximum(a.transpose(0, 2, 1) @ b.transpose(0, 2, 1) + c, 0))


def test_float32_is_multiplied_without_it() -> None:
    a, b = operands(32, 32, 32, -8, 9)
    product = Tensor(a.astype(np.float32), device="c") @ Tensor(b.astype(np.float32), device="c")
    assert "amx" not in source_of(product)
    np.testing.assert_array_equal(product.numpy(), a @ b)


def test_the_target_says_what_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    module = backend("c").module
    compiler = module.compilers.find()
    for flags, permitted, target in (
        (["-mavx2"], True, "c"),
        (["-mavx512f"], True, "c_avx512"),
        (["-mavx512f", "-mamx-bf16", "-mamx-int8"], False, "c_avx512"),
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
    with_flags = type(compiler)((*compiler.command, *flags))
    text = f"#define UNROLLED\n#define VECTORIZED\n{header}{source}void* used = reduce;\n"
    name = source.split("static void ")[1].split("(")[0]
    assert with_flags.compile(text.replace("void* used = reduce", f"void* used = {name}"))
