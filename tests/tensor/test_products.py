"""Matrix products against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import ShapeError


def _values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(dtype)


def test_matmul_shapes(device, check):
    shapes = [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((1, 1), (1, 1)),
    ]
    check(*((Tensor(_values(*a)) @ Tensor(_values(*b)), _values(*a) @ _values(*b)) for a, b in shapes))


def test_matmul_dtypes(device, check):
    ints, bools = _values(3, 4, dtype="int32"), _values(3, 4, dtype="int32") > 0
    a, b = _values(5, 40, dtype="float16"), _values(40, 5, dtype="float16")
    wide = a.astype(np.float32) @ b.astype(np.float32)
    weights = a.astype(ml_dtypes.bfloat16)
    check(
        (Tensor(ints) @ Tensor(ints).T, ints @ ints.T),
        (Tensor(bools) @ Tensor(bools).T, bools @ bools.T),
        (Tensor(a) @ Tensor(b), wide.astype(np.float16)),
        (Tensor(weights) @ Tensor(b.astype(ml_dtypes.bfloat16)), wide.astype(ml_dtypes.bfloat16)),
        (Tensor(ints) @ Tensor(_values(4, 2)), ints.astype("float32") @ _values(4, 2)),
        (_values(3, 4) @ Tensor(_values(4, 2)), _values(3, 4) @ _values(4, 2)),
    )


def test_small_floats_are_rounded_once(device):
    # Added up in float16, each 1 after 2048 would be lost.
    a = Tensor(np.ones((1, 4096), np.float16))
    assert (a @ a.T).item() == 4096


def test_linear_and_outer(device, check):
    x, w, b = _values(2, 3, 4), _values(5, 4), _values(5)
    check(
        (Tensor(x).linear(Tensor(w), Tensor(b)), x @ w.T + b),
        (Tensor(x).linear(Tensor(w)), x @ w.T),
        (Tensor(b).outer(Tensor(w[0])), np.outer(b, w[0])),
        (Tensor(b).dot(Tensor(b)), b.dot(b)),
    )


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ((2, 3), (2, 3), r"\(2, 3\) and \(2, 3\) do not fit.* 3 elements .* 2"),
        ((2, 3), (4,), "only axis of the second has 4"),
        ((), (2,), "scalar"),
        ((2, 2, 3), (4, 3, 2), "do not broadcast"),
    ],
)
def test_errors(a, b, text):
    with pytest.raises(ShapeError, match=text):
        Tensor.ones(a) @ Tensor.ones(b)


def test_distances_of_all_pairs_as_one_kernel(device):
    """Of three sums one has a factor in common with both others: they changed each other's loops for ever."""
    generator = np.random.default_rng(3)
    a, b = (generator.normal(size=(n, 16)).astype(np.float32) for n in (24, 32))
    x, y = Tensor(a), Tensor(b)
    squares = (x * x).sum(1).unsqueeze(1) + (y * y).sum(1) - 2 * (x.unsqueeze(1) * y).sum(2)
    expected = np.linalg.norm(a[:, None] - b, axis=-1)
    np.testing.assert_allclose((-squares.clamp(min=0).sqrt()).numpy(), -expected, 1e-4, 1e-4)
    products = (x * x).sum(1).unsqueeze(1) + (y * y).sum(1) - 2 * x.matmul(y.T)
    assert (-products).argmax(1).tolist() == expected.argmin(1).tolist()
