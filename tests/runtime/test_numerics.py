"""Random numbers, and the corners of integer arithmetic that need care."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad.interpreter.numerics import power, threefry

# From the known-answer tests of Random123, threefry2x32 with 20 rounds: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def words(pair: tuple[int, int]) -> np.uint64:
    """Word 0 in the low half."""
    return np.uint64(pair[0] | pair[1] << 32)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_threefry(counter: tuple[int, int], key: tuple[int, int], result: tuple[int, int]) -> None:
    assert threefry(np.array([words(counter)]), np.array([words(key)])).tolist() == [int(words(result))]


def test_threefry_is_uniform() -> None:
    bits = threefry(np.arange(1 << 14, dtype=np.uint64), np.uint64(7) * np.ones(1, np.uint64))
    assert len(np.unique(bits)) == 1 << 14
    for shift in (0, 32):
        mean = (bits >> np.uint64(shift) & np.uint64(0xFFFFFFFF)).astype(float).mean() / 2**32
        assert abs(mean - 0.5) < 0.02


def test_a_power_of_a_half_is_no_square_root() -> None:
    for shape in ((), (2,)):
        base = np.broadcast_to(np.array(-np.inf, "float32"), shape)
        np.testing.assert_array_equal(power(base, np.array(0.5, "float32")), np.full(shape, np.inf, "float32"))
        assert not np.signbit(power(np.full(shape, -0.0, "float32"), np.array(0.5, "float32"))).any()
