"""rulegrad.masked: reductions of the elements that a mask counts, against the same of the elements alone."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, grad, masked
from rulegrad.errors import DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

X = np.sin(np.arange(1.0, 13.0) ** 2).reshape(3, 4)
MASK = np.array([[True, False, True, True], [False, True, False, False], [True] * 4])
ROWS = [row[counted] for row, counted in zip(X, MASK)]


def lower_median(row):
    return np.sort(row)[(len(row) - 1) // 2]


@pytest.mark.parametrize(
    ("name", "of_row"),
    [
        ("sum", np.sum), ("prod", np.prod), ("amax", np.max), ("amin", np.min), ("mean", np.mean), ("median", lower_median),
        ("norm", np.linalg.norm), ("logsumexp", lambda row: np.log(np.exp(row).sum())),
    ],
)  # fmt: skip
def test_reductions(name, of_row):
    function = getattr(masked, name)
    wanted = np.array([of_row(row) for row in ROWS])
    np.testing.assert_allclose(function(Tensor(X), dim=1, mask=Tensor(MASK)).numpy(), wanted, rtol=1e-12)
    kept = function(Tensor(X), dim=1, keepdim=True, mask=MASK, dtype="float32")
    assert kept.shape == (3, 1) and kept.dtype == "float32"
    np.testing.assert_allclose(function(Tensor(X), dim=0).numpy(), [of_row(row) for row in X.T], rtol=1e-12)
    slope = grad(lambda x: function(x, dim=1, mask=Tensor(MASK)).sum())(Tensor(X)).numpy()
    assert np.isfinite(slope).all() and (slope[~MASK] == 0).all() and (slope[MASK] != 0).any()


def test_variances():
    mask = Tensor(MASK[[0, 2]])
    for correction in (0, 1):
        wanted = [row.var(ddof=correction) for row in (ROWS[0], ROWS[2])]
        found = masked.var(Tensor(X[[0, 2]]), 1, correction=correction, mask=mask)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
        deviation = masked.std(Tensor(X[[0, 2]]), 1, bool(correction), mask=mask)
        np.testing.assert_allclose(deviation.numpy(), np.sqrt(wanted), rtol=1e-12)
    assert masked.var(Tensor([1, 2, 9]), mask=[True, True, False]).item() == 0.5


def test_places_and_integers():
    x, mask = Tensor([[5, 9, 7], [3, 1, 2]]), Tensor([[True, False, True], [True, False, True]])
    assert masked.argmax(x, 1, mask=mask).tolist() == [2, 0] and masked.argmin(x, 1, mask=mask).tolist() == [0, 2]
    assert masked.amax(x, mask=mask).item() == 7 and masked.amin(x, mask=mask).item() == 2
    assert masked.sum(x, (), mask=mask).item() == 17 and masked.sum(x, 0, mask=[True, False, False]).tolist() == [
        8,
        0,
        0,
    ]
    nothing = Tensor([[False]])
    assert masked.amax(x, 1, mask=nothing).tolist() == [-(2**63)] * 2 and masked.prod(x, 1, mask=nothing).tolist() == [
        1,
        1,
    ]
    assert (
        np.isnan(masked.mean(x.double(), mask=nothing).item())
        and masked.amin(x.double(), mask=nothing).item() == np.inf
    )
    assert masked.median(Tensor(3.0), 0, mask=Tensor(True)).item() == 3.0


def test_as_many_results_as_elements():
    x, mask = Tensor(X), Tensor(MASK)
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask).numpy(), np.where(MASK, X, 0).cumsum(1), rtol=1e-12)
    np.testing.assert_allclose(masked.cumprod(x, 1, mask=mask).numpy(), np.where(MASK, X, 1).cumprod(1), rtol=1e-12)
    powers = np.where(MASK, np.exp(X), 0)
    shares = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(masked.softmax(x, 1, mask=mask).numpy(), shares, rtol=1e-12)
    np.testing.assert_allclose(masked.softmin(-x, 1, mask=mask).numpy(), shares, rtol=1e-12)
    np.testing.assert_allclose(masked.log_softmax(x, 1, mask=mask).exp().numpy(), shares, rtol=1e-12)
    lengths = np.sqrt((np.where(MASK, X, 0) ** 2).sum(1, keepdims=True))
    np.testing.assert_allclose(
        masked.normalize(x, 2.0, 1, mask=mask).numpy(), np.where(MASK, X, 0) / lengths, rtol=1e-12
    )
    both = masked.logaddexp(x, x * 2, input_mask=mask, other_mask=~mask).numpy()
    np.testing.assert_allclose(both, np.where(MASK, X, 2 * X), rtol=1e-12)


def test_wrong_arguments():
    x = Tensor(X)
    with pytest.raises(ShapeError, match=r"sum: a mask of shape \(1, 3, 4\)"):
        masked.sum(x, mask=Tensor(MASK).unsqueeze(0))
    with pytest.raises(ShapeError, match="do not broadcast"):
        masked.sum(x, mask=Tensor([True, False]))
    with pytest.raises(ShapeError, match="unbiased and correction"):
        masked.var(x, unbiased=True, correction=1)
    with pytest.raises(DtypeError, match="mean: int64"):
        masked.mean(Tensor([1, 2]))
    with pytest.raises(DtypeError, match="a list has no mask"):
        masked.sum([1.0])
