"""`rulegrad.distributions` against PyTorch's: values, gradients, and the moments of samples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rulegrad import Tensor, distributions
from rulegrad.errors import ConfigError, ShapeError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
try:
    from torch_distributions import DISTRIBUTIONS, results
finally:
    sys.path.remove(str(HERE))

VALUES = json.loads((HERE / "torch_values.json").read_text(encoding="utf-8"))["distributions"]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_and_gradients(on_the_interpreter, name):
    expected = VALUES[name]
    found, parameters = results(
        distributions, name, lambda array, is_parameter: Tensor(array, requires_grad=is_parameter)
    )
    assert expected["results"].keys() <= found.keys()
    for key, numbers in expected["results"].items():
        np.testing.assert_allclose(found[key].numpy().ravel(), numbers, 1e-7, 1e-9, err_msg=key)
    finite = [key for key, numbers in expected["results"].items() if key != "cdf" and np.isfinite(numbers).all()]
    sum((found[key].sum() for key in finite), Tensor(0.0)).backward()
    for parameter, numbers in zip(parameters, expected["gradients"], strict=True):
        gradient = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(gradient.ravel(), numbers, 1e-6, 1e-9)


def test_samples_have_the_moments_that_the_distribution_says(on_the_interpreter):
    cases = [
        distributions.Gamma(Tensor([0.5, 4.0]), 2.0), distributions.Beta(Tensor([0.6, 3.0]), 1.5),
        distributions.Poisson(Tensor([2.5, 40.0])), distributions.Geometric(Tensor([0.5, 0.8])),
        distributions.Binomial(5, Tensor([0.5, 0.9])), distributions.StudentT(Tensor([9.0, 12.0]), 1.0, 0.5),
        distributions.Gumbel(Tensor([0.0, 1.0]), 0.5), distributions.HalfNormal(Tensor([0.5, 1.0])),
        distributions.LogNormal(Tensor([0.0, 0.5]), 0.25), distributions.Dirichlet(Tensor([1.0, 0.3, 2.0])),
        distributions.MultivariateNormal(Tensor([1.0, 0.0]), Tensor([[2.0, 0.5], [0.5, 1.0]])),
        distributions.OneHotCategorical(Tensor([0.25, 0.25, 0.5])),
    ]  # fmt: skip
    samples = [case.sample((3000,)) for case in cases]
    Tensor.realize(*samples)
    for case, drawn in zip(cases, samples, strict=True):
        values, deviation = drawn.numpy(), np.sqrt(case.variance.numpy())
        assert np.abs(values.mean(0) - case.mean.numpy()).max() < 4 * deviation.max() / np.sqrt(3000), case
        assert values.std(0) == pytest.approx(deviation, rel=0.15), case


def test_gradients_of_samples(on_the_interpreter):
    """The mean of a gamma variate is its concentration over its rate, so the gradient is that of this quotient."""
    concentration, rate = Tensor([0.7, 3.0], requires_grad=True), Tensor(2.0, requires_grad=True)
    made = distributions.Gamma(concentration, rate)
    drawn = made.rsample((4000,))
    drawn.mean(0).sum().backward()
    assert concentration.grad.tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    assert rate.grad.item() == pytest.approx(-3.7 / 4, rel=0.1) and not made.sample().requires_grad
    loc = Tensor([0.0, 1.0], requires_grad=True)
    distributions.Independent(distributions.LogNormal(loc, 1.0), 1).rsample((2,)).sum().backward()
    assert loc.grad.shape == (2,) and distributions.StudentT(5.0).has_rsample


def test_bad_parameters(on_the_interpreter):
    one = Tensor.ones(2)
    for wrong in (
        lambda: distributions.MultivariateNormal(one),
        lambda: distributions.Independent(distributions.Normal(one, one), 2),
        lambda: distributions.Poisson(one).rsample(),
        lambda: distributions.StudentT(one).cdf(one),
        lambda: distributions.Transform()(one),
        lambda: distributions.kl_divergence(distributions.Poisson(one), distributions.Gamma(one, one)),
    ):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ShapeError, match="MultivariateNormal"):
        distributions.MultivariateNormal(one, Tensor.ones(3, 3))
