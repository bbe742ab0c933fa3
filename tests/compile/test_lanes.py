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


def test_idle_lanes_do_nothing() -> None:
    """16 lanes for 9 columns: what is behind the end is neither read nor written."""
    text = source("product")
    assert "float acc0[64]" in text
    assert "< 9 ? data2[" in text and "< 9) data0[" in text


def test_places_are_not_read_by_idle_lanes() -> None:
    """The table of the places that are read has 7 elements, for 8 lanes."""
    assert re.search(
        r"uchar (alu\d+) = \(int\)i\d+ < 7;\s+const long value\d+ = \1 \? data3\[", source("chosen columns")
    )


def test_a_product_beside_sums_of_rows_has_tiles() -> None:
    """Four rows and 16 columns, and a sum for each of the rows."""
    text = source("product and sums of rows")
    assert "float acc0[64]" in text and "float acc1[4]" in text
