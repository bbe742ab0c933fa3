"""Products whose rows, or what is added to them, are read at indices of 64 bits: these are numbers of a row, and the columns are vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph

# Of an array of rows a, a square matrix w, a table t, and an index i for each row.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "added": lambda a, w, t, i: a @ w + t[i],
    "added to dot products": lambda a, w, t, i: a @ w.T + t[i],
    "multiplied": lambda a, w, t, i: t[i] @ w,
    "multiplied by lines": lambda a, w, t, i: t[i] @ w.T,
    "columns": lambda a, w, t, i: a @ t[i].T,
    "scaled": lambda a, w, t, i: (a @ w) * t[i][:, :1],
}


def arrays(rows: int, width: int) -> list[Any]:
    r = np.random.default_rng(0)
    shapes = ((rows, width), (width, width), (40, width))
    return [*(r.standard_normal(shape).astype(np.float32) for shape in shapes), r.integers(-40, 40, rows)]


@pytest.mark.parametrize("device", ["c", "opencl"])
@pytest.mark.parametrize(("rows", "width"), [(64, 64), (37, 50)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, rows: int, width: int, device: str) -> None:
    given = arrays(rows, width)
    result = PROGRAMS[name](*(Tensor(array, device=device) for array in given))
    np.testing.assert_allclose(result.numpy(), PROGRAMS[name](*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_have_the_schedule_of_a_product(name: str) -> None:
    tensors = [Tensor(array, device="numpy") for array in arrays(64, 64)]
    kernels = compile_graph([PROGRAMS[name](*tensors).uop], "c_avx512")
    assert "product" in {kernel.schedule.partition(":")[0] for kernel in kernels}
    assert not any("UNROLLED for" in kernel.source for kernel in kernels)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_index_that_is_out_of_range(name: str) -> None:
    *given, indices = arrays(37, 50)
    indices[11] = 40
    with pytest.raises(IndexError, match="40 is out of range for axis 0 of size 40"):
        PROGRAMS[name](*(Tensor(array, device="c") for array in (*given, indices))).numpy()


def test_masks_of_rows() -> None:
    """A bool of each row is a number too."""
    a, w, *_ = arrays(64, 64)
    mask = np.arange(64) % 3 == 0
    tensors = [Tensor(array, device="c").realize() for array in (a, w, mask)]
    with rg.profile() as p:
        result = (tensors[0] @ tensors[1]).where(tensors[2][:, None], 0.0).numpy()
    assert p.kernels[-1].schedule.startswith("product: ")
    np.testing.assert_allclose(result, np.where(mask[:, None], a @ w, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["opencl_cpu", "opencl_cpu_avx512", "c", "c_avx512", "cuda"])
@pytest.mark.parametrize("count", [9, 16, 19])
def test_a_product_of_a_product_and_gathered_rows(count: int, target: str) -> None:
    """Loops of a schedule stay as they are, where columns would repeat the first product too."""
    a, w, table, _ = arrays(12, 11)
    given = [Tensor(array, device="numpy") for array in (a, w, table, np.arange(count))]
    x, y, t, i = given
    assert compile_graph([((x @ y.T) @ t[i].T).uop], target)
