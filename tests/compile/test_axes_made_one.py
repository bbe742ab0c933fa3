"""Axes of a result that were made one: kernels are scheduled as if they were two, where a part of them depends on one only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad.compile import compile_graph
from rulegrad.nn import functional

Shape = tuple[int, ...]


def heads_of_rows(rows: rg.Tensor, weights: rg.Tensor) -> rg.Tensor:
    """Both axes of the result are two: images and rows, heads and columns."""
    split = rows.reshape(2, 24, 3, 32).transpose(1, 2)
    return (split @ weights).transpose(1, 2).reshape(48, 96)


CASES: dict[str, tuple[Callable[..., rg.Tensor], tuple[Shape, ...], str]] = {
    "product": (
        lambda a, b: (a @ b).transpose(1, 2).reshape(2, 48, 96), ((2, 3, 48, 64), (2, 3, 64, 32)), "product",
    ),
    "product of heads": (heads_of_rows, ((2, 24, 96), (2, 3, 32, 32)), "product"),
    "attention": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 64, 96),
        ((1, 3, 64, 32),) * 3, "attention",
    ),
    "attention, heads last": (
        lambda q, k, v: functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
        .transpose(1, 2).reshape(1, 64, 96),
        ((1, 64, 3, 32),) * 3, "attention",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize("case", CASES)
def test_they_are_scheduled_as_two(case: str) -> None:
    build, shapes, tactic = CASES[case]
    numbers = np.random.default_rng(3)
    arrays = [numbers.standard_normal(shape).astype(np.float32) for shape in shapes]
    wanted = build(*(rg.Tensor(array, device="numpy") for array in arrays)).numpy()
    found = build(*(rg.Tensor(array, device="c").realize() for array in arrays))
    kernels = compile_graph([found.uop], rg.runtime.devices.get("c").target)
    assert kernels[-1].tactic == tactic
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_an_axis_stays_one_where_all_depends_on_both() -> None:
    rows = rg.Tensor.zeros(8, 6, 5, device="c").contiguous().realize()
    (kernel,) = compile_graph([rows.sum(2).reshape(48).uop], "c")
    assert kernel.grid == compile_graph([rows.reshape(48, 5).sum(1).uop], "c")[0].grid
