"""The derivatives of digamma: against SciPy, PyTorch and each other."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, grad, special, vmap
from rulegrad.errors import ShapeError
from rulegrad.interpreter.numerics import polygamma


@pytest.mark.parametrize("order", [1, 2, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polygamma_of_all_magnitudes(order, dtype):
    scipy = pytest.importorskip("scipy.special")
    limit = 30 if dtype == "float32" else 250
    between = np.linspace(0.013, 60.017, 997)
    x = np.concatenate([np.logspace(-limit, limit, 401), between, -between, [0.0, -0.0, -1.0, -7.0, np.inf, np.nan]])
    x = x.astype(dtype)
    exact = scipy.polygamma(order, x.astype(np.float64))
    with np.errstate(over="ignore"):
        expected = exact.astype(dtype)
    limits = np.finfo(dtype)
    # near the roots, below 0, only absolute errors are small
    scale = np.maximum(np.abs(exact), limits.tiny / limits.eps)
    scale[x < 0] = np.maximum(scale[x < 0], 2.0**order)
    for device in ("c", "numpy"):
        found = Tensor(x, device=device).polygamma(order).numpy()
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        assert np.array_equal(np.isinf(found), np.isinf(expected))
        finite = np.isfinite(expected)
        assert np.array_equal(found[~finite & ~np.isnan(x)], expected[~finite & ~np.isnan(x)])
        error = np.abs(found[finite].astype(np.float64) - exact[finite]) / scale[finite] / limits.eps
        assert error.max() < 16, x[finite][error.argmax()]


def test_lgamma_has_all_derivatives():
    torch = pytest.importorskip("torch")
    values = [0.3, 1.0, 4.5, 40.0, -0.7, -3.2]
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    wanted = torch.lgamma(x)
    slope = Tensor.lgamma
    for _ in range(3):
        (wanted,) = torch.autograd.grad(wanted.sum(), x, create_graph=True)
        slope = (lambda f: lambda t: grad(lambda u: f(u).sum())(t))(slope)
        np.testing.assert_allclose(
            slope(Tensor(values, "float64")).numpy(), wanted.detach().numpy(), rtol=1e-8
        )  # of torch


def test_polygamma_of_other_dtypes_and_its_arguments():
    assert Tensor([1.0], dtype="float16").polygamma(1).dtype == "float16"
    assert Tensor([1, 2]).polygamma(1).dtype == "float32"
    np.testing.assert_allclose(Tensor([1.0, 2.0], dtype="float16").polygamma(2).tolist(), [-2.404, -0.4041], 1e-3)
    x = Tensor([0.5, 3.0], dtype="float64")
    assert special.polygamma(0, x).tolist() == x.digamma().tolist()
    each = vmap(grad(lambda v: v.polygamma(1)))(x)
    np.testing.assert_allclose(each.numpy(), special.polygamma(2, x).numpy())
    for wrong in (-1, 171):
        with pytest.raises(ShapeError, match="use a number from 0 to 170"):
            x.polygamma(wrong)


def test_the_interpreter_has_polygamma_of_all_magnitudes():
    """The oracle of the rule: it runs the op itself."""
    scipy = pytest.importorskip("scipy.special")
    between = np.linspace(0.013, 60.017, 997)
    x = np.concatenate([np.logspace(-307, 307, 401), between, -between, [0.0, -0.0, -1.0, np.inf, 5e-324, 1e-40]])
    for order in (1, 2, 9):  # of more, SciPy loses what is small
        with np.errstate(all="ignore"):
            found, exact = polygamma(order, x), scipy.polygamma(order, x)
        assert np.array_equal(np.isinf(found), np.isinf(exact))
        finite = np.isfinite(exact)
        assert np.array_equal(found[~finite], exact[~finite])
        np.testing.assert_allclose(found[finite], exact[finite], rtol=2e-14, atol=1e-290)
