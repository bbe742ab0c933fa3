"""Lines that are shorter than a vector, as of a few classes or coordinates, are vectors of several lines."""

from __future__ import annotations

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("rows", [64, 101, 1000])
def test_values(rows: int, columns: int, dtype: type) -> None:
    r = np.random.default_rng(0)
    x, y, z = (r.standard_normal(s).astype(dtype) for s in ((rows, columns), (columns,), (rows, 1)))
    a, b, c = (Tensor(array, device="c").realize() for array in (x, y, z))
    with rg.profile() as p:
        result = ((a - b) * c + b).numpy()
    assert [kernel.schedule.partition(":")[0] for kernel in p.kernels] == ["short_lines"]
    np.testing.assert_allclose(result, (x - y) * z + y, rtol=1e-5, atol=1e-6)


def test_lines_of_several_images() -> None:
    """The loops outside are not part of the vectors."""
    r = np.random.default_rng(0)
    x, y = r.standard_normal((3, 37, 5)).astype(np.float32), r.standard_normal((3, 1, 5)).astype(np.float32)
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    with rg.profile() as p:
        result = (a * b).exp().numpy()
    assert p.kernels[-1].schedule.startswith("short_lines: ")
    np.testing.assert_allclose(result, np.exp(x * y), rtol=1e-5)


def test_two_results_and_a_smaller_dtype() -> None:
    r = np.random.default_rng(0)
    x, y = r.standard_normal((90, 3)).astype(np.float16), r.standard_normal(3).astype(np.float32)
    a, b = (Tensor(array, device="c").realize() for array in (x, y))
    first, second = a.cast("float32") + b, (a.cast("float32") * b).cast("float16")
    with rg.profile() as p:
        Tensor.realize(first, second)
    assert [kernel.schedule.partition(":")[0] for kernel in p.kernels] == ["short_lines"]
    np.testing.assert_array_equal(first.numpy(), x.astype(np.float32) + y)
    np.testing.assert_array_equal(second.numpy(), (x.astype(np.float32) * y).astype(np.float16))


def test_what_is_only_moved_is_left_to_the_compiler() -> None:
    x = np.arange(300, dtype=np.float32).reshape(100, 3)
    tensor = Tensor(x, device="c").realize()
    with rg.profile() as p:
        result = (tensor.flip(-1) == 5).numpy()
    assert not p.kernels[-1].schedule.startswith("short_lines")
    np.testing.assert_array_equal(result, x[:, ::-1] == 5)


@pytest.mark.parametrize("device", ["c", "opencl"])
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(5, 2, "float64"), (1001, 10, "float32"), (30001, 7, "float32")]
)
def test_what_is_left_over_is_updated_once(device: str, rows: int, columns: int, dtype: str) -> None:
    """By one of the threads, in memory that is read and written."""
    try:
        devices.get(device)
    except DeviceError as error:
        pytest.skip(str(error))
    generator = np.random.default_rng(0)
    values, change = (generator.standard_normal(shape).astype(dtype) for shape in ((rows, columns), (columns, rows)))
    x, by = Tensor(values, device=device).clone().realize(), Tensor(change, device=device).realize()
    x -= by.T * 0.5
    np.testing.assert_allclose(x.realize().numpy(), values - change.T * np.float64(0.5), rtol=1e-5, atol=1e-6)
