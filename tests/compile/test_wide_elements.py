"""Vectors of 64-bit numbers fit into a register; gathers beside reductions; rows and columns that are added up in kernels of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.nn import functional


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [("float64", 8), ("int64", 8), ("float32", 16), ("int32", 16)],
)
def test_a_vector_is_a_register(dtype: str, lanes: int) -> None:
    """gcc takes the lanes of longer ones apart where it converts or compares them."""
    x = Tensor(np.zeros(1000), device="numpy").cast(dtype).realize()
    (kernel,) = compile_graph([(x * 2 + 1).uop], "c_avx512")
    assert kernel.tactic == "elementwise" and f", {lanes}, " in kernel.source


@pytest.mark.parametrize("columns", [1000, 10])
def test_words_of_64_bits_are_for_sines_of_large_numbers_only(columns: int) -> None:
    """They do not make the vectors of others shorter."""
    x, y = (Tensor(np.zeros(s, np.float32), device="numpy").realize() for s in ((1000, columns), columns))
    (kernel,) = compile_graph([(x * y).sin().uop], "c_avx512")
    assert "LIKELY(unsigned long long, long long, 16, " in kernel.source


def test_a_vector_with_one_large_number() -> None:
    x = np.linspace(-100, 100, 1000).astype(np.float32)
    x[[3, 500, 501]] = 3e38, np.inf, -1e9
    with np.errstate(invalid="ignore"):
        wanted = np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))
    tensor = Tensor(x, device="c")
    for found, exact in zip((tensor.sin(), tensor.cos()), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), exact, rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sines_of_every_magnitude(dtype: Any) -> None:
    """The word of 2 / pi that a quadrant is computed with depends on the exponent."""
    info = np.finfo(dtype)
    fractions = np.linspace(1, 2, 7, endpoint=False)[:, None]
    x = np.ldexp(fractions, np.arange(info.minexp, info.maxexp)).astype(dtype)
    tensor = Tensor(np.stack([x, -x]), device="c")
    exact = np.stack([x, -x]).astype(np.float64)
    np.testing.assert_allclose(tensor.sin().numpy(), np.sin(exact), rtol=0, atol=2 * info.eps)
    np.testing.assert_allclose(tensor.cos().numpy(), np.cos(exact), rtol=0, atol=2 * info.eps)


@pytest.mark.parametrize("count", [5, 16, 31, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_tails_of_wide_elements(dtype: Any, count: int) -> None:
    x = np.arange(3 * count).reshape(3, count).astype(dtype)
    tensor = Tensor(x, device="c")
    np.testing.assert_array_equal((tensor[:, 1:] * 2 + tensor[:, :-1]).numpy(), x[:, 1:] * 2 + x[:, :-1])


def test_losses_of_images_are_vectors_of_pixels() -> None:
    """Gathered elements, one a pixel, are read lane by lane; the sums for them are in vectors."""
    r = np.random.default_rng(0)
    x, y = r.standard_normal((2, 20, 9, 40)).astype(np.float32), r.integers(0, 20, (2, 9, 40))
    scores, labels = Tensor(x, device="c").realize(), Tensor(y, device="c").realize()
    with rg.profile() as p:
        loss = functional.cross_entropy(scores, labels).numpy()
    assert p.kernels[0].schedule.startswith("columns: ")
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    np.testing.assert_allclose(loss, -np.take_along_axis(logs, y[:, None], 1).mean(), rtol=1e-5)


def test_a_label_outside_is_an_error() -> None:
    scores, labels = Tensor(np.zeros((2, 20, 9, 40), np.float32), device="c"), np.zeros((2, 9, 40), np.int64)
    labels[1, 3, 7] = 20
    with pytest.raises(IndexError, match="20"):
        functional.cross_entropy(scores, Tensor(labels, device="c")).numpy()


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize(("count", "kernels"), [(100, ["columns", "rows"]), (20, ["none"])])
def test_sums_of_rows_and_of_columns_are_two_kernels_where_that_is_faster(count: int, kernels: list[str]) -> None:
    x = np.arange(count * count, dtype=np.float32).reshape(count, count)
    tensor = Tensor(x, device="c").realize()
    with rg.profile() as p:
        columns, rows = tensor.sum(0), tensor.sum(1)
        Tensor.realize(columns, rows)
    assert [kernel.schedule.partition(":")[0] for kernel in p.kernels] == kernels
    np.testing.assert_allclose(columns.numpy(), x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(rows.numpy(), x.sum(1), rtol=1e-5)


@pytest.mark.parametrize("build", [lambda x: x.max(1), lambda x: x.max(0), lambda x: x.softmax(0)])
def test_reductions_of_float64(build: Any) -> None:
    x = Tensor(np.zeros((64, 1000)), device="numpy").realize()
    (kernel,) = compile_graph([build(x).uop], "c_avx512")
    assert "VECTOR(double, 8)" in kernel.source and "VECTOR(double, 16)" not in kernel.source


def test_a_wide_number_of_a_row_leaves_its_elements_in_whole_vectors() -> None:
    """A label is one number of 64 bits for all scores of a row."""
    scores, labels = (
        Tensor(np.zeros((64, 1000), np.float32), device="numpy"),
        Tensor(np.zeros(64, np.int64), device="numpy"),
    )
    kernels = compile_graph([functional.cross_entropy(scores, labels, reduction="none").uop], "c_avx512")
    assert any("VECTOR_AT(float, 16, " in kernel.source for kernel in kernels)


def test_indices_that_are_clamped_divide_nothing() -> None:
    """Pixels of images between which is interpolated: rows that are one axis are not remainders of the index."""
    r = np.random.default_rng(0)
    x, grid = r.standard_normal((2, 3, 8, 8)).astype(np.float32), r.standard_normal((2, 9, 9, 2)).astype(np.float32)
    with rg.profile() as p:
        result = functional.grid_sample(*(Tensor(a, device="c").realize() for a in (x, grid)), align_corners=True)
        found = result.numpy()
    assert not any("% 384" in kernel.source or "% 192" in kernel.source for kernel in p.kernels)
    at = (grid + 1) / 2 * 7
    low = np.floor(at).astype(int)
    wanted = np.zeros((2, 3, 9, 9), np.float64)
    for dy, dx in np.ndindex(2, 2):
        column, row = low[..., 0] + dx, low[..., 1] + dy
        weight = (1 - abs(at[..., 0] - column)) * (1 - abs(at[..., 1] - row))
        weight = np.where((column >= 0) & (column < 8) & (row >= 0) & (row < 8), weight, 0)
        for n in range(2):
            wanted[n] += weight[n] * x[n][:, row[n].clip(0, 7), column[n].clip(0, 7)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
