"""cat, stack, split, chunk, repeat, roll."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import ShapeError

A = np.arange(6, dtype=np.int64).reshape(2, 3)
B = np.arange(10, 14, dtype=np.int64).reshape(2, 2)
SPECIAL = np.array([np.nan, -np.inf, -0.0, np.inf], np.float32)
HUGE = np.array([2**62 + 1, -(2**63)], np.int64)


def test_cat_and_stack(device, check):
    a, b = Tensor(A), Tensor(B)
    check(
        (a.cat(b, axis=1), np.concatenate([A, B], 1)),
        (Tensor.cat([a, a, b.T.T[:, :1].expand(2, 3)], axis=0), np.concatenate([A, A, B[:, :1].repeat(3, 1)])),
        (Tensor.cat([b, a, b], dim=-1), np.concatenate([B, A, B], 1)),
        (a.cat(axis=0), A),
        (Tensor(HUGE).cat(Tensor(HUGE)), np.concatenate([HUGE, HUGE])),
        (a.cat(Tensor.ones(2, 1), axis=1), np.concatenate([A, np.ones((2, 1))], 1).astype("float32")),
        (a.cat(Tensor.zeros(2, 0, dtype="int64"), axis=1), A),
        (Tensor.stack([a, a + 1]), np.stack([A, A + 1])),
        (a.stack(a, axis=-1), np.stack([A, A], -1)),
    )


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_a_counted_part_of_joined_parts(dtype):
    """Numbers that count places have no memory, whose index could be gated: joined twice they may be any elsewhere."""
    x, steps = np.arange(1, 4).astype(dtype), (np.arange(3) * 2).astype(dtype)
    y = Tensor(x, device="c") * (Tensor.arange(3, device="c") * 2).cast(dtype)
    twice = y.cat(y, axis=0)
    expected = np.concatenate([x * steps, x * steps])
    np.testing.assert_array_equal(twice.cat(twice.flip(0), axis=0).numpy(), np.r_[expected, expected[::-1]])


def test_every_bit_is_kept(device):
    joined = Tensor(SPECIAL).cat(Tensor(SPECIAL)).numpy()
    expected = np.concatenate([SPECIAL, SPECIAL])
    np.testing.assert_array_equal(joined.view(np.uint32), expected.view(np.uint32))


def test_taking_apart(device, check):
    x = Tensor(A)
    first, second = x.split([1, 2], axis=1)
    parts = Tensor.arange(7).chunk(3)
    assert [len(part) for part in parts] == [3, 3, 1]
    assert [len(part) for part in Tensor.arange(7).split(4)] == [4, 3]
    check(
        (first, A[:, :1]),
        (second, A[:, 1:]),
        (parts[1], np.arange(3, 6)),
        (x.repeat(2, 3), np.tile(A, (2, 3))),
        (x.repeat(2, 1, 2), np.tile(A, (2, 1, 2))),
        (x.roll(1, 1), np.roll(A, 1, 1)),
        (x.roll(-4, 1), np.roll(A, -4, 1)),
        (x.roll(3, 1), A),
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: x.cat(Tensor.ones(3, 3), axis=1), r"cat: the shapes \(2, 3\), \(3, 3\)"),
        (lambda x: x.stack(Tensor.ones(3, 2)), r"stack: the shapes \(2, 3\), \(3, 2\)"),
        (lambda x: x.split([1, 1], axis=1), r"do not add up to 3"),
        (lambda x: x.split(0), "size of 1 or more"),
        (lambda x: x.repeat(2), "the counts"),
        (lambda x: x.cat(x, axis=2), "axis 2 does not exist"),
    ],
)
def test_errors(make, text):
    with pytest.raises(ShapeError, match=text):
        make(Tensor.ones(2, 3))
