"""First values of parameters: their bounds, means and deviations, and shapes that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, ShapeError


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: nn.init.uniform_(t, -0.25, 0.25), 0.25),
        (lambda t: nn.init.xavier_uniform_(t, 2.0), 2.0 * (6 / (50 * 8 + 40 * 8)) ** 0.5),
        (lambda t: nn.init.kaiming_uniform_(t, a=1.0), (3 / 400) ** 0.5),
        (lambda t: nn.init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"), (6 / 320) ** 0.5),
    ],
)
def test_uniform(any_device, fill, bound):
    Tensor.manual_seed(0)
    values = fill(Tensor.zeros(40, 50, 4, 2)).numpy()
    assert 0.999 * bound < np.abs(values).max() <= bound * 1.000001
    assert abs(values.mean()) < 0.01 * bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.02)


@pytest.mark.parametrize(
    ("fill", "mean", "deviation"),
    [
        (lambda t: nn.init.normal_(t, 1.0, 0.5), 1.0, 0.5),
        (lambda t: nn.init.xavier_normal_(t), 0.0, (2 / 90) ** 0.5),
        (lambda t: nn.init.kaiming_normal_(t, nonlinearity="relu"), 0.0, (2 / 50) ** 0.5),
        # The deviation of a normal distribution that is cut off at 2 is 0.8796 (Johnson, Kotz and Balakrishnan).
        (lambda t: nn.init.trunc_normal_(t), 0.0, 0.8796),
    ],
)
def test_normal(any_device, fill, mean, deviation):
    Tensor.manual_seed(0)
    values = fill(Tensor.zeros(40, 50)).numpy()
    assert values.mean() == pytest.approx(mean, abs=0.06 * deviation)
    assert values.std() == pytest.approx(deviation, rel=0.05)


def test_truncated_values_are_within(any_device):
    values = nn.init.trunc_normal_(Tensor.zeros(3000), 1.0, 2.0, -0.5, 1.5).numpy()
    assert -0.5 <= values.min() < -0.49
    assert 1.49 < values.max() <= 1.5


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 2), (4, 3, 2)])
def test_orthogonal(any_device, shape):
    values = nn.init.orthogonal_(Tensor.zeros(shape), gain=2.0).numpy().reshape(shape[0], -1)
    product = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_constants(any_device):
    assert nn.init.eye_(Tensor.ones(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert nn.init.zeros_(Tensor.ones(2)).tolist() == [0.0, 0.0]
    assert nn.init.ones_(Tensor.zeros(2, dtype="float64")).dtype == "float64"
    weight = Tensor.zeros(2, requires_grad=True)
    assert nn.init.constant_(weight, 3.0).tolist() == [3.0, 3.0]
    assert weight.requires_grad


def test_gains():
    assert nn.init.calculate_gain("leaky_relu", 1.0) == 1.0
    assert nn.init.calculate_gain("tanh") == pytest.approx(5 / 3)
    assert nn.init.calculate_gain("conv2d") == 1.0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.init.xavier_normal_(Tensor.ones(3)), ShapeError, "no fan in"),
        (lambda: nn.init.kaiming_normal_(Tensor.ones(3, 2), mode="in"), ConfigError, "unknown mode 'in'"),
        (lambda: nn.init.calculate_gain("sine"), ConfigError, "unknown nonlinearity 'sine'"),
        (lambda: nn.init.orthogonal_(Tensor.ones(3)), ShapeError, "fewer than two axes"),
        (lambda: nn.init.eye_(Tensor.ones(3)), ShapeError, "not that of a matrix"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()
