"""Results beside each other in one work-item: extents that lanes do not divide, odd rows, columns, sums of rows beside a product."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph

PROGRAMS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., Any]]] = {
    "product": (((256, 5), (5, 9)), lambda x, y: x @ y),
    "one column more than lanes": (((256, 5), (5, 17)), lambda x, y: x @ y),
    "product and sums of rows": (((256, 3), (3, 9)), lambda x, y: (x @ y) / x.sum(axis=1).reshape(256, 1)),
    "chosen columns": (
        ((256, 9), (9, 12), (9, 7)),
        lambda x, y, z: (x.reshape(256, 9, 1) * (y[:, [5, 0, 11, 2, 7, 7, 1]] * z).reshape(1, 9, 7)).sum(axis=1),
    ),
    "odd rows": (((40, 37),), lambda x: x - x.max(axis=1).reshape(40, 1) + x.sum(axis=1).reshape(40, 1)),
    "rows of one more": (((40, 65),), lambda x: x.sum(axis=1)),
    "columns": (((7, 512),), lambda x: x / x.sum(axis=0)),
    "few columns": (((7, 16),), lambda x: x.max(axis=0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", ["opencl", "c"], indirect=True)
def test_values(device: str, name: str) -> None:
    shapes, function = PROGRAMS[name]
    random = np.random.default_rng(3)
    arrays = [random.uniform(1, 2, shape).astype(np.float32) for shape in shapes]
    found = function(*(Tensor(array, device=device) for array in arrays)).numpy()
    np.testing.assert_allclose(found, function(*(array.astype(np.float64) for array in arrays)), rtol=2e-5)


def source(name: str) -> str:
    shapes, function = PROGRAMS[name]
    tensors = [Tensor.ones(*shape, device="numpy").contiguous().realize() for shape in shapes]
    (kernel,) = compile_graph([function(*tensors).uop], "opencl")
    return kernel.source


def test_few_columns_are_one_tile() -> None:
    """Four rows of all nine columns: no lane is idle."""
    text = source("product")
    assert text.count("float acc") == 36
    assert "?" not in text and "if (" not in text


def test_idle_lanes_store_nothing() -> None:
    """Tiles of 8 for 17 columns: what is behind the end is read at the end, and not written."""
    text = source("one column more than lanes")
    assert re.search(r"(alu\d+) < 16 \? \1 : 16;", text)
    gates = set(re.findall(r"if \((.*)\) data0\[", text))
    assert len(gates) == 1 and re.search(rf"{gates.pop()} = gid\d+ < 2", text)


def test_chosen_columns_are_read_once() -> None:
    """Seven columns of a table of places: each place is read before the rows, no place behind the last."""
    text = source("chosen columns")
    assert sorted(re.findall(r"data3\[(\d+)l?\]", text.partition("for (")[0])) == list("0123456")


def test_a_product_beside_sums_of_rows_has_tiles() -> None:
    """Four rows of nine columns, and a sum for each of the rows."""
    text = source("product and sums of rows")
    assert text.count("float acc") == 36 + 4


@pytest.mark.parametrize("device", ["c", "opencl"])
@pytest.mark.parametrize("count", [100, 130])
def test_places_that_depend_on_a_reduction_of_lanes(count: int, device: str) -> None:
    """Each step of the search reads at places of the step before; the largest of the line is one of lanes too."""
    r = np.random.default_rng(0)
    x, line = r.standard_normal(count).astype(np.float32), np.sort(r.standard_normal(20).astype(np.float32)) - 1
    values = Tensor(x, device=device)
    found = Tensor(line, device=device).searchsorted(values - values.max())
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(line, x - x.max()))
