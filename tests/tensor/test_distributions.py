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
    from torch_distributions import DISTRIBUTIONS, divergences, results
finally:
    sys.path.remove(str(HERE))

FILE = json.loads((HERE / "torch_values.json").read_text(encoding="utf-8"))
VALUES = FILE["distributions"]


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


def test_divergences_of_two_kinds(on_the_interpreter):
    expected = FILE["divergences"]["all pairs"]
    found, parameters = divergences(
        distributions, lambda array, is_parameter: Tensor(array, requires_grad=is_parameter)
    )
    assert found.keys() == expected["results"].keys()
    Tensor.realize(*found.values())
    for key, numbers in expected["results"].items():
        np.testing.assert_allclose(found[key].numpy().ravel(), numbers, 1e-7, 1e-9, err_msg=key)
    finite = [key for key, numbers in expected["results"].items() if np.isfinite(numbers).all()]
    sum((found[key].sum() for key in finite), Tensor(0.0)).backward()
    for parameter, numbers in zip(parameters, expected["gradients"], strict=True):
        np.testing.assert_allclose(parameter.grad.numpy().ravel(), numbers, 1e-6, 1e-9)


def check_moments(cases, rel):
    """Samples have the mean and, up to this part, the deviation that their distribution gives."""
    samples = [case.sample((3000,)) for case in cases]
    Tensor.realize(*samples)
    for case, drawn in zip(cases, samples, strict=True):
        values, deviation = drawn.numpy(), np.sqrt(case.variance.numpy())
        assert np.abs(values.mean(0) - case.mean.numpy()).max() < 4 * deviation.max() / np.sqrt(3000), case
        assert values.std(0) == pytest.approx(deviation, rel=rel), case


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
    check_moments(cases, 0.15)


def test_samples_of_further_kinds(on_the_interpreter):
    cases = [
        distributions.Weibull(Tensor([0.5, 4.0]), 2.0), distributions.Pareto(1.0, Tensor([5.0, 8.0])),
        distributions.Kumaraswamy(Tensor([0.6, 3.0]), 1.5), distributions.InverseGamma(Tensor([6.0, 9.0]), 2.0),
        distributions.FisherSnedecor(Tensor([4.0, 9.0]), 20.0), distributions.GeneralizedPareto(1.0, 2.0, Tensor([0.1, 0])),
        distributions.ContinuousBernoulli(Tensor([0.9, 0.5])), distributions.NegativeBinomial(4.0, Tensor([0.5, 0.9])),
        distributions.Multinomial(5, Tensor([0.2, 0.8])),
        distributions.LowRankMultivariateNormal(Tensor([1.0, 2]), Tensor([[1.0], [2]]), Tensor([1.0, 3])),
        distributions.Wishart(4.0, Tensor([[1.0, 0.3], [0.3, 0.5]])), distributions.LogNormal(Tensor([0.0]), 0.25),
        distributions.MixtureSameFamily(distributions.Categorical(Tensor([0.3, 0.7])), distributions.Normal(Tensor([0.0, 9.0]), 1.0)),
    ]  # fmt: skip
    check_moments(cases, 0.2)


def test_samples_of_which_other_means_are_known(on_the_interpreter):
    angles = distributions.VonMises(Tensor([0.5, 3.0]), Tensor([2.0, 0.001])).sample((3000,))
    assert angles.abs().max().item() <= np.pi and angles[:, 0].sin().mean().item() == pytest.approx(
        np.sin(0.5) * 0.69777, abs=0.05
    )
    factors = distributions.LKJCholesky(3, Tensor([2.0, 9.0])).sample((500,))
    assert distributions.constraints.corr_cholesky.check(factors).all().item() and factors.shape == (500, 2, 3, 3)
    found = (factors @ factors.mT).numpy()[:, :, 0, 1]
    assert found.var(0) == pytest.approx([1 / 6, 1 / 20], rel=0.25)  # of a beta variate between -1 and 1
    soft = distributions.RelaxedOneHotCategorical(0.01, Tensor([0.2, 0.8])).rsample((2000,))
    assert soft.mean(0).tolist() == pytest.approx([0.2, 0.8], abs=0.05)
    hard = distributions.RelaxedBernoulli(Tensor(0.01), Tensor([0.2, 0.8])).expand([3, 2]).sample((500,))
    assert hard.shape == (500, 3, 2) and hard.mean((0, 1)).tolist() == pytest.approx([0.2, 0.8], abs=0.06)
    assert (
        np.isinf(distributions.HalfCauchy(1.0).mean.item()) and (distributions.HalfCauchy(1.0).sample((9,)) > 0).all()
    )
    logits = Tensor([0.0, 1.0], requires_grad=True)
    through = distributions.OneHotCategoricalStraightThrough(logits=logits).rsample()
    (through * Tensor([1.0, 2.0])).sum().backward()
    assert sorted(through.tolist()) == [0.0, 1.0] and logits.grad.tolist() == pytest.approx([-0.1966, 0.1966], abs=1e-4)


def test_tails_beyond_a_limit():
    """PyTorch's has no float64."""
    torch = pytest.importorskip("torch")
    for asked in ("log_prob", "cdf", "icdf"):
        found, expected = (
            getattr(library.GeneralizedPareto(one([0.1, 0, 0]), one([0.7, 2, 2]), one([0.3, -0.2, 0])), asked)(
                one([0.3, 0.5, 0.9])
            )
            for library, one in ((distributions, Tensor), (torch.distributions, torch.tensor))
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 2e-6, 1e-6)
    found = distributions.GeneralizedPareto(1.0, 2.0, Tensor([0.6, -0.2]))
    assert found.log_prob(Tensor(0.5)).tolist() == [-np.inf, -np.inf] and found.variance.tolist()[0] == np.inf
    assert found.entropy().tolist() == pytest.approx([np.log(2) + 1.6, np.log(2) + 0.8])
    assert found.support.upper_bound.tolist() == [np.inf, 11.0]


SETS = {
    "real": 1, "positive": 1, "unit_interval": 1, "simplex": 1, "lower_cholesky": 2, "corr_cholesky": 1,
    "positive_definite": 2, "real_vector": 1, "nonnegative": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_transforms_to_sets(on_the_interpreter, name):
    torch = pytest.importorskip("torch")
    values = np.array([0.3, -1.0, 0.5]) if SETS[name] == 1 else np.array([[0.3, 9.0], [0.5, -1.0]])
    found, expected = [], []
    for results, library, one in ((found, distributions, Tensor), (expected, torch.distributions, torch.tensor)):
        for registry in (library.biject_to, library.transform_to)[SETS[name] - 1 :]:
            transform = registry(getattr(library.constraints, name))
            x = one(values)
            y = transform(x)
            assert getattr(library.constraints, name).check(y).all()
            results += [
                y,
                transform.inv(y),
                one([*transform.forward_shape(x.shape), *transform.inverse_shape(y.shape)]),
            ]
            if transform.bijective:
                results.append(transform.log_abs_det_jacobian(x, y))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-9, 1e-9)


def test_sets_and_transforms_with_bounds_and_parts(on_the_interpreter):
    sets = distributions.constraints
    between = distributions.biject_to(sets.interval(1.0, Tensor([2.0, 3.0])))
    assert between(Tensor([0.0, 0.0])).tolist() == [1.5, 2.0]
    assert distributions.transform_to(sets.less_than(3.0))(Tensor(0.0)).item() == 2
    both = distributions.biject_to(sets.stack([sets.positive, sets.real], 0))
    assert both(Tensor([0.0, 5.0])).tolist() == [1, 5] and both.codomain.check(Tensor([1.0, -1.0])).tolist() == [
        True,
        True,
    ]
    parts = distributions.biject_to(sets.cat([sets.real, sets.positive], 0, [2, 1]))
    assert parts(Tensor([0.5, 5.0, 0.0])).tolist() == [0.5, 5, 1] and parts.length == 3
    rows = distributions.biject_to(sets.independent(sets.positive, 1))
    assert rows.log_abs_det_jacobian(Tensor([1.0, 2.0]), None).item() == 3 and rows.domain.event_dim == 1
    assert sets.one_hot.check(Tensor([[0.0, 1], [1, 1]])).tolist() == [True, False]
    assert sets.multinomial(2).check(Tensor([1.0, 1.0])) and sets.positive_semidefinite.check(Tensor.zeros(2, 2))
    assert sets.is_dependent(distributions.Uniform.support) and not sets.is_dependent(distributions.Normal.support)
    assert distributions.Uniform(0.0, 2.0).support.check(Tensor([1.0, 3.0])).tolist() == [True, False]
    kept = distributions.TanhTransform(cache_size=1)
    x = Tensor([20.0])  # its tangent is 1, which comes from infinity
    assert kept.inv(kept(x)) is x and np.isinf(distributions.TanhTransform().inv(kept(x)).item())
    assert distributions.AffineTransform(0, 2) == distributions.AffineTransform(0, 2) != distributions.ExpTransform()
    with pytest.raises(ConfigError, match="no transform"):
        distributions.biject_to(sets.boolean)
    with pytest.raises(ShapeError, match="4 numbers"):
        distributions.CorrCholeskyTransform()(Tensor.ones(4))


def test_all_values(on_the_interpreter):
    assert distributions.Bernoulli(Tensor([0.2, 0.4])).enumerate_support().tolist() == [[0, 0], [1, 1]]
    assert distributions.Categorical(Tensor([[0.2, 0.4, 0.4]])).enumerate_support(False).tolist() == [[0], [1], [2]]
    assert distributions.OneHotCategorical(Tensor([0.5, 0.5])).enumerate_support().tolist() == [[1, 0], [0, 1]]
    assert distributions.Binomial(2, Tensor([0.5])).enumerate_support().tolist() == [[0], [1], [2]]


class Shifted(distributions.Normal):
    """One that a program derives, with a value of its own."""

    def __init__(self, loc, scale, more, validate_args=None):
        self.more = more
        super().__init__(loc + more, scale, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Shifted, _instance)
        new.more = self.more
        return super().expand(batch_shape, _instance=new)


def test_classes_that_derive(on_the_interpreter):
    found = Shifted(Tensor([0.0]), 1.0, 2.0).expand([3, 1])
    assert type(found) is Shifted and found.more == 2 and found.loc.shape == (3, 1) == found.batch_shape
    assert found._extended_shape((4,)) == (4, 3, 1) and isinstance(found, distributions.ExponentialFamily)


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
        lambda: distributions.kl_divergence(distributions.Binomial(2, one / 2), distributions.Binomial(3, one / 2)),
        lambda: distributions.Multinomial(one),
        lambda: distributions.LKJCholesky(1),
        lambda: distributions.Wishart(3.0),
        lambda: distributions.MixtureSameFamily(distributions.Poisson(one), distributions.Normal(one, one)),
    ):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ShapeError, match="MultivariateNormal"):
        distributions.MultivariateNormal(one, Tensor.ones(3, 3))
