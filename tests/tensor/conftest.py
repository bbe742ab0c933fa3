"""Common parts of the tests of tensors: the device they run on, and a comparison with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, config

#: The tolerance of a comparison, by the size of a float in bits.
TOLERANCE = {8: 0.13, 16: 1e-2, 32: 2e-6, 64: 1e-12}

Check = Callable[..., None]


@pytest.fixture
def device(device: str) -> Iterator[str]:
    """Each device in turn is the default one."""
    with config(device=device):
        yield device


@pytest.fixture
def any_device() -> Iterator[str]:
    """The interpreter, for what does not depend on a device."""
    with config(device="numpy"):
        yield "numpy"


@pytest.fixture
def check() -> Check:
    """`check((tensor, expected), ...)` computes all tensors in one call and compares them with NumPy's results.

    Shapes and dtypes must be the same; integers and bools exactly, floats within the tolerance of their size.
    """

    def compare(*pairs: tuple[Tensor, Any], tolerance: float | None = None) -> None:
        Tensor.realize(*(tensor for tensor, _ in pairs))
        for number, (tensor, expected) in enumerate(pairs):
            expected = np.asarray(expected)
            values, where = tensor.numpy(), f"pair {number}"
            assert values.shape == expected.shape, where
            assert values.dtype == expected.dtype, where
            if not tensor.dtype.is_float:
                np.testing.assert_array_equal(values, expected, where)
                continue
            allowed = TOLERANCE[tensor.dtype.bits] if tolerance is None else tolerance
            np.testing.assert_allclose(
                values.astype(np.float64), expected.astype(np.float64), allowed, allowed, err_msg=where
            )

    return compare
