"""Products of bfloat16 and small integers on targets whose vector units multiply pairs: the text, and the values at sizes that tile and that do not."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.nn import functional
from rulegrad.runtime import devices

INSTRUCTION = {"bfloat16": "vdpbf16ps", "int8": "vpdpbusd", "int16": "vpdpwssd", "uint8": "vpdpwssd"}
SIZES = [(1, 1, 32), (5, 2, 16), (1, 3, 8), (5, 7, 40), (13, 16, 33), (24, 65, 64), (64, 48, 96)]


def given(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers that sums of bfloat16 products have exactly."""
    return np.random.default_rng(sum(shape)).integers(0 if dtype == "uint8" else -9, 10, shape).astype(dtype)


def product(dtype: str, rows: int, depth: int, columns: int, device: str) -> tuple[Tensor, np.ndarray]:
    a, b = given((rows, depth), dtype), given((depth, columns), dtype)
    wanted = "float32" if dtype == "bfloat16" else "int32"
    x, y = (Tensor(array, device=device).cast(wanted) for array in (a, b))
    return x @ y, a.astype(wanted) @ b.astype(wanted)


@pytest.mark.parametrize("dtype", INSTRUCTION)
def test_the_instruction_is_used(dtype: str) -> None:
    for target, has in (("c_avx512_bf16", True), ("c_avx512_vnni", dtype != "bfloat16"), ("c_avx512", False)):
        *_, kernel = compile_graph([product(dtype, 24, 64, 64, "numpy")[0].uop], target)
        assert (f", {INSTRUCTION[dtype]}, " in kernel.source) == has


@pytest.mark.parametrize(("dtype", "size"), list(itertools.product(INSTRUCTION, SIZES)))
def test_values(dtype: str, size: tuple[int, int, int]) -> None:
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    found, wanted = product(dtype, *size, "c")
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", INSTRUCTION)
def test_rows_by_rows(dtype: str) -> None:
    """A linear layer: both have the depth as their last axis, along which the lanes go where there are few rows."""
    wanted = "float32" if dtype == "bfloat16" else "int32"
    for rows, depth, columns in ((24, 64, 64), (7, 64, 64), (13, 33, 65)):
        a, b = given((rows, depth), dtype), given((columns, depth), dtype)
        x, y = (Tensor(array, device="numpy").cast(wanted) for array in (a, b))
        *_, kernel = compile_graph([(x @ y.T).uop], "c_avx512_bf16")
        assert (f", {INSTRUCTION[dtype]}, " in kernel.source) == (rows >= 8)
        x, y = (Tensor(array, device="c").cast(wanted) for array in (a, b))
        np.testing.assert_array_equal((x @ y.T).numpy(), a.astype(wanted) @ b.astype(wanted).T)


@pytest.mark.each_value
@pytest.mark.parametrize("size", [*SIZES, (7, 130, 31), (40, 259, 100)])
@pytest.mark.parametrize("transposed", ["", "left", "right", "both"])
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_products_of_bytes(dtypes: tuple[str, str], transposed: str, size: tuple[int, int, int]) -> None:
    """One factor of the instruction is unsigned: a signed one is moved by 128, which a sum for each row makes good."""
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    rows, depth, columns = size
    r = np.random.default_rng(rows)
    limits = [np.iinfo(dtype) for dtype in dtypes]
    a = r.integers(limits[0].min, limits[0].max, (rows, depth), dtypes[0], endpoint=True)
    b = r.integers(limits[1].min, limits[1].max, (depth, columns), dtypes[1], endpoint=True)
    a[0], b[:, 0] = limits[0].min, limits[1].min
    x = Tensor(a.T.copy(), device="c").T if transposed in ("left", "both") else Tensor(a, device="c")
    y = Tensor(b.T.copy(), device="c").T if transposed in ("right", "both") else Tensor(b, device="c")
    found = (x.cast("int32") @ y.cast("int32") + 1).relu()
    wanted = np.maximum(a.astype(np.int32) @ b.astype(np.int32) + 1, 0)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(("dtype", "accumulated"), [("bfloat16", "float32"), ("int8", "int32")])
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions(dtype: str, accumulated: str, channels_last: bool) -> None:
    """Also where the pairs are of channels, which a plane's columns do not have beside each other."""
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    x, weight = given((1, 8, 7, 9), dtype), given((5, 8, 3, 3), dtype)
    found = []
    for device in ("c", "numpy"):
        a, b = Tensor(x, device=device), Tensor(weight, device=device)
        if channels_last:
            a = a.permute((0, 2, 3, 1)).contiguous().permute((0, 3, 1, 2))
            b = b.permute((2, 3, 1, 0)).contiguous().permute((3, 2, 0, 1))
        found.append(functional.conv2d(a.cast(accumulated), b.cast(accumulated), padding=1).numpy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_sums_wrap_around(dtype: str) -> None:
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    limits = np.iinfo(dtype)
    r = np.random.default_rng(1)
    a, b = (r.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in ((9, 35), (35, 33)))
    np.testing.assert_array_equal((Tensor(a, device="c") @ Tensor(b, device="c")).numpy(), a @ b)


def test_extremes() -> None:
    """Products of the least int16 do not fit in 32 bits when two are added; infinities meet no zeros beyond the end."""
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    a = np.full((4, 3), -32768, np.int16)
    x = Tensor(a, device="c").cast("int32") @ Tensor(np.full((3, 32), -32768, np.int16), device="c").cast("int32")
    assert np.unique(x.numpy()).tolist() == [np.int64(3 << 30).astype(np.int32)]
    b = np.full((4, 3), np.inf, ml_dtypes.bfloat16)
    y = Tensor(b, device="c") @ Tensor(np.ones((3, 32), ml_dtypes.bfloat16), device="c")
    assert np.isposinf(y.numpy().astype(np.float32)).all()
