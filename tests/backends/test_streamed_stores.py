"""Results that the caches have no room for are written past them on AVX-512, and others are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rulegrad import Tensor, load_rules
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices


def source(result: Tensor, target: str) -> str:
    return compile_graph([result.uop], target)[-1].source


def test_only_large_results_that_are_not_read() -> None:
    large, small = (Tensor(np.zeros(n, np.float32), device="numpy") for n in (1 << 23, 1 << 22))
    assert "STREAM" in source(large + 1, "c_avx512") and "STREAM" in source(large.reshape(2048, -1).T * 2, "c_avx512")
    assert "STREAM" not in source(small + 1, "c_avx512")
    assert "STREAM" not in source(large + 1, "c")  # its vectors are not whole lines
    assert "STREAM" not in source(large.sum(), "c_avx512")


@pytest.mark.parametrize("shape", [(16,), (100,), (5, 33), (64, 48), (3, 1024 + 16)])
def test_values(written: Callable[[str], Path], shape: tuple[int, ...]) -> None:
    """Also at places that are not multiples of a line, and through views that are written in place."""
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    if "avx512" not in devices.target_of("c"):
        pytest.skip("this processor has no AVX-512")
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with load_rules(written("target c_avx512:\n    limit    streamed_bytes 64\n")):
        a = Tensor(x, device="c")
        assert "STREAM" in source(a + 1, devices.target_of("c"))
        np.testing.assert_array_equal((a + 1).numpy(), x + 1)
        np.testing.assert_array_equal((a.flip(0) * 2).numpy(), x[::-1] * 2)
        np.testing.assert_array_equal(a.cast("float64").numpy(), x)
        b = Tensor(x, device="c").clone().realize()
        b[1:] = b[1:] * 3
        b += 1
        wanted = x.copy()
        wanted[1:] *= 3
        np.testing.assert_array_equal(b.numpy(), wanted + 1)
