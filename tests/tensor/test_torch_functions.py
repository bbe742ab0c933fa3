"""PyTorch's everyday functions beyond NumPy's: statistics, draws, views, in-place forms, retained gradients."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Generator, Tensor, no_grad
from rulegrad.errors import ConfigError, DtypeError, GradientError, RulegradError, ShapeError

NAN = float("nan")
GAPS = np.array([[1.0, NAN, 3.0, 8.0], [NAN, NAN, NAN, NAN], [4.0, 2.0, 0.5, -1.0]], np.float32)
POINTS = np.array([[1.0, 2.0, 4.0, 0.5], [0.0, 3.0, 1.0, -1.0], [2.0, 2.5, 0.0, 1.0]])


# ---- statistics ----


@pytest.mark.filterwarnings("ignore:.*nan.*:RuntimeWarning", "ignore:Mean of empty slice:RuntimeWarning")
def test_statistics_without_nan(device, check):
    x = Tensor(GAPS)
    check(
        (x.nansum(), np.nansum(GAPS)),
        (x.nansum(1, keepdim=True), np.nansum(GAPS, 1, keepdims=True)),
        (x.nanmean(dim=1), np.nanmean(GAPS, 1)),
        (x.nanmean(), np.nanmean(GAPS)),
        (x.nanmedian(axis=1), np.nanmedian(GAPS, 1)),
        (x.nanmedian(), np.nanmedian(GAPS)),
        (x.nanquantile(0.3, 0), np.nanquantile(GAPS, 0.3, 0).astype(np.float32)),
        (Tensor([1, 2]).nanmean(), np.float64(1.5)),
        (Tensor([1, 2]).nansum(), np.int64(3)),
    )


def test_gradients_without_nan(any_device):
    x = Tensor([1.0, NAN, 3.0], requires_grad=True)
    x.nanmean().backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


def test_covariances(any_device, check):
    x = Tensor(POINTS)
    check(
        (x.cov(), np.cov(POINTS)),
        (x.cov(correction=0), np.cov(POINTS, bias=True)),
        (x[0].cov(), np.cov(POINTS[0])),
        (x.corrcoef(), np.corrcoef(POINTS)),
        (x[0].corrcoef(), np.float64(1.0)),
    )
    with pytest.raises(ShapeError, match=r"cov: the shape is \(1, 3, 4\)"):
        x.unsqueeze(0).cov()


def test_the_correction_has_three_names(any_device, check):
    x = Tensor(POINTS)
    check(
        (x.var(), POINTS.var()),
        (x.std(0, unbiased=True), POINTS.std(0, ddof=1)),
        (x.var(1, unbiased=False), POINTS.var(1)),
        (x.std(ddof=1), POINTS.std(ddof=1)),
    )
    with pytest.raises(ConfigError, match="var: correction and ddof are names of one argument"):
        x.var(correction=1, ddof=0)


def test_extremes_and_modes(any_device):
    x = Tensor([[3, 1, 3, 1], [2, 5, 5, 0]])
    assert [part.tolist() for part in x.mode()] == [[1, 5], [3, 2]]
    assert [part.shape for part in x.mode(0, keepdim=True)] == [(1, 4), (1, 4)]
    assert [part.tolist() for part in x.aminmax(dim=1)] == [[1, 0], [3, 5]]
    assert x.amax((0, 1)).item() == 5 and x.amin(1, keepdim=True).tolist() == [[1], [0]]


def test_histc(any_device):
    x = Tensor([0.0, 1.0, 2.0, 2.5, 7.0])
    assert x.histc(4, 0, 4).tolist() == [1.0, 1.0, 2.0, 0.0]
    assert x.histc(7).tolist() == np.histogram([0.0, 1.0, 2.0, 2.5, 7.0], 7)[0].tolist()
    with pytest.raises(ShapeError, match="histc: bins=0"):
        x.histc(0)


def test_logsumexp_over_several_axes(any_device, check):
    x = Tensor(POINTS)
    expected = np.log(np.exp(POINTS).sum())
    check((x.logsumexp((0, 1)), expected), (x.logsumexp(dim=[0, 1], keepdim=True), expected.reshape(1, 1)))


def test_softplus_with_a_slope_and_a_threshold(any_device, check):
    x = np.array([-3.0, 0.5, 4.0])
    soft = np.log1p(np.exp(2 * x)) / 2
    tensor = Tensor(x)
    check((tensor.softplus(2), soft), (tensor.softplus(2, 4.0), np.where(2 * x > 4, x, soft)))
    check((tensor.softplus(), np.log1p(np.exp(x))))


# ---- distinct slices ----


def test_unique_along_an_axis(any_device):
    values = np.array([[2, 1, 2], [0, 5, 0], [2, 1, 2]], np.int32)
    for dim in (0, 1):
        found = Tensor(values).unique(dim=dim, return_inverse=True, return_counts=True)
        expected = np.unique(values, return_inverse=True, return_counts=True, axis=dim)
        for part, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part.numpy(), wanted.reshape(part.shape))
        assert found[0].dtype == "int32"
    assert Tensor([3, 1, 3]).unique(return_counts=True)[1].tolist() == [1, 2]


def test_unique_consecutive(any_device):
    found = Tensor([1, 1, 2, 2, 2, 1]).unique_consecutive(return_inverse=True, return_counts=True)
    assert [part.tolist() for part in found] == [[1, 2, 1], [0, 0, 1, 1, 1, 2], [2, 3, 1]]
    assert Tensor([], dtype="int64").unique_consecutive().tolist() == []


# ---- draws ----


def test_multinomial_follows_the_weights(device):
    Tensor.manual_seed(3)
    weights = Tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
    found = weights.multinomial(2000, replacement=True).numpy()
    assert found.shape == (2, 2000) and found.dtype == np.int64
    assert set(found[0]) == {0, 2} and set(found[1]) == {1}
    assert abs((found[0] == 2).mean() - 0.75) < 0.05
    first = np.array([weights[0].multinomial(1).item() for _ in range(3)])
    assert set(first) <= {0, 2}


def test_multinomial_without_replacement(any_device):
    Tensor.manual_seed(5)
    weights = Tensor(np.tile(np.array([[4.0, 1.0, 0.0, 1.0]], np.float32), (500, 1)))
    found = weights.multinomial(3).numpy()
    assert all(sorted(row) == [0, 1, 3] for row in found.tolist())
    assert abs((found[:, 0] == 0).mean() - 4 / 6) < 0.08
    with pytest.raises(ShapeError, match="multinomial: 5 samples of 4 weights; use replacement=True"):
        weights.multinomial(5)


def test_multinomial_where_nothing_can_be_drawn(any_device):
    weights = Tensor([[0.0, 0.0], [1.0, -1.0], [1.0, NAN], [0.0, 2.0]])
    assert weights.multinomial(2, replacement=True).tolist() == [[-1, -1]] * 3 + [[1, 1]]
    assert weights.multinomial(2).tolist() == [[-1, -1]] * 3 + [[1, -1]]
    with pytest.raises(DtypeError, match="multinomial: the weights are int64"):
        Tensor([1, 2]).multinomial(1)
    with pytest.raises(ShapeError, match="multinomial: 0 samples"):
        weights.multinomial(0)


def test_random_fillings(any_device):
    Tensor.manual_seed(7)
    x = Tensor.zeros(2000, dtype="float64")
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.05 and x.amin().item() >= 0
    assert abs(x.log_normal_(0.0, 0.5).log().std().item() - 0.5) < 0.05
    assert set(Tensor.zeros(500, dtype="int8").random_(2, 5).tolist()) == {2, 3, 4}
    assert Tensor.zeros(500, dtype="uint8").random_().amax().item() > 200
    assert 0.2 < Tensor.zeros(2000).bernoulli(0.25).numpy().mean() < 0.3
    assert (
        abs(x.cauchy_(3.0, 2.0).median().item() - 3.0) < 0.3
        and abs(((x - 3.0).abs() < 2.0).double().mean().item() - 0.5) < 0.05
    )
    assert abs(x.geometric_(0.25).mean().item() - 4.0) < 0.4 and x.amin().item() == 1.0 and (x == x.round()).all()
    assert Tensor.zeros(9, dtype="int32").geometric_(0.5).dtype == "int32"
    for wrong in (lambda: x.exponential_(0), lambda: x.cauchy_(0, 0.0), lambda: x.geometric_(1.0)):
        with pytest.raises(ConfigError, match="exponential_: lambd=0|cauchy_: sigma=0.0|geometric_: p=1.0"):
            wrong()


def test_random_fillings_from_a_generator(any_device):
    fillings = (
        "exponential_()", "cauchy_()", "geometric_(0.3)", "log_normal_()", "random_(9)", "uniform_()", "normal_()", "bernoulli_(0.5)",
        "bernoulli(0.5)", "rand_like()", "randn_like()",
    )  # fmt: skip
    for filling in fillings:
        name, _, given = filling[:-1].partition("(")
        arguments = [float(given)] if given and name != "random_" else [int(given)] if given else []
        first, second, third = (
            getattr(Tensor.zeros(64), name)(*arguments, generator=Generator().manual_seed(seed)) for seed in (1, 1, 2)
        )
        assert (first == second).all().item() and not (first == third).all().item(), name
    weights = Tensor.ones(1000)
    for replacement in (False, True):
        first, second = (weights.multinomial(9, replacement, generator=Generator().manual_seed(1)) for _ in range(2))
        assert (first == second).all().item()


# ---- gradients of results ----


def test_a_result_retains_its_gradient(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    y, same = x * 3, x * 3
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad and not y.is_leaf and x.is_leaf and not same.retains_grad
    (y * y + same).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0] and x.grad.tolist() == [21.0, 39.0] and same.grad is None
    (y * 2).sum().backward()
    assert y.grad.tolist() == [8.0, 14.0] and x.grad.tolist() == [27.0, 45.0]


def test_a_result_that_was_realized_retains_its_gradient(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).realize()
    y.retain_grad()
    z = (y * 5).sum().realize()
    z.backward()
    assert y.grad.tolist() == [5.0, 5.0] and x.grad.tolist() == [10.0, 20.0]
    x.retain_grad()
    with pytest.raises(GradientError, match="retain_grad: this tensor has no gradient"):
        Tensor([1.0]).retain_grad()


def test_detached_in_place(any_device):
    x = Tensor([1.0], requires_grad=True)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad and y.tolist() == [2.0]
    assert not x.detach_().requires_grad


# ---- views and names ----


def test_views(any_device):
    x = Tensor(np.arange(6).reshape(2, 3))
    assert x.unflatten(1, (3, 1)).shape == (2, 3, 1) and x.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert x.narrow(1, 1, 2).tolist() == x.narrow(-1, -2, 2).tolist() == [[1, 2], [4, 5]]
    assert x.select(1, -1).tolist() == [2, 5] and x.movedim(0, 1).shape == x.swapdims(0, 1).shape == (3, 2)
    assert x.select_scatter([9, 9, 9], 0, 1).tolist() == [[0, 1, 2], [9, 9, 9]]
    assert x.slice_scatter([[7], [8]], 1, 2).tolist() == [[0, 1, 7], [3, 4, 8]]
    assert x.fliplr().tolist() == [[2, 1, 0], [5, 4, 3]] and x.flipud().tolist() == [[3, 4, 5], [0, 1, 2]]
    assert Tensor([1, 2]).diagflat().tolist() == [[1, 0], [0, 2]]
    assert x.sum_to_size(1, 3).tolist() == [[3, 5, 7]] and x.sum_to_size(3).tolist() == [3, 5, 7]
    assert [part.shape for part in x.split_with_sizes([1, 2], 1)] == [(2, 1), (2, 2)]
    z = Tensor([[1 + 2j, 3j]])
    assert z.mH.tolist() == z.H.tolist() == z.adjoint().tolist() == [[1 - 2j], [-3j]]
    assert x.new_zeros(2).dtype == x.new_tensor([1.0]).dtype == "int64" and x.new_full((2,), 3).tolist() == [3, 3]
    assert x.new_ones(1, 2, dtype="float32").tolist() == [[1.0, 1.0]]
    for wrong in (lambda: x.narrow(1, 2, 2), lambda: x.sum_to_size(2), lambda: x.unflatten(1, (2, 2))):
        with pytest.raises(ShapeError):
            wrong()


def test_elementwise_names(any_device, check):
    a, b = np.array([1.0, NAN, 2.5, NAN]), np.array([0.5, 2.0, NAN, NAN])
    x, y = Tensor(a), Tensor(b)
    check(
        (x.fmax(y), np.fmax(a, b)),
        (x.fmin(y), np.fmin(a, b)),
        (x.fmax(2), np.fmax(a, 2)),
        (Tensor([1, 3]).fmin(2), np.fmin([1, 3], 2)),
        (x.clamp_min(2), np.maximum(a, 2)),
        (x.clamp_max(2), np.minimum(a, 2)),
        (Tensor([-1.5, 2.25]).frac(), np.array([-0.5, 0.25], np.float32)),
        (Tensor([0.0, 0.0, 2.0]).xlogy([0.0, NAN, 1.0]), np.array([0.0, NAN, 0.0], np.float32)),
        (Tensor([0.0, 2.0]).xlogy(4), np.array([0.0, 2 * np.log(4)], np.float32)),
        (Tensor([1.0]).addcmul([2.0], [3.0], value=2), np.array([13.0], np.float32)),
        (Tensor([1.0]).addcdiv([3.0], [2.0], value=2), np.array([4.0], np.float32)),
        (Tensor([1.0]).addmv([[2.0, 1.0]], [1.0, 1.0]), np.array([4.0], np.float32)),
        (Tensor([[1.0]]).addr([2.0], [3.0], alpha=2), np.array([[13.0]], np.float32)),
        (Tensor([1.0, np.inf, -np.inf]).isposinf(), np.array([False, True, False])),
        (Tensor([1.0, np.inf, -np.inf]).isneginf(), np.array([False, False, True])),
        (Tensor([1 + 1j, 1]).isreal(), np.array([False, True])),
    )
    assert Tensor([3.0, 4.0]).dist([0.0, 0.0]).item() == 5.0
    assert [str(x.short().dtype), str(x.char().dtype), str(x.byte().dtype)] == ["int16", "int8", "uint8"]
    assert x.cfloat().is_complex() and x.is_signed() and not x.byte().is_signed() and Tensor(2).is_nonzero()


# ---- in place ----

UNARY = ["exp_", "sqrt_", "neg_", "abs_", "relu_", "sigmoid_", "tanh_", "floor_", "log_", "reciprocal_", "square_"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_in_place(any_device, name):
    x = same = Tensor([0.5, 2.25])
    expected = getattr(x, name[:-1])().tolist()
    assert getattr(x, name)() is same and x.tolist() == expected


def test_updates_and_products_in_place(any_device):
    """The tensor itself, with the values of the function of the same name."""
    x, i, row, ones = Tensor([[0.25, 0.5], [0.75, 0.125]]), Tensor([[1, 0]]), Tensor([0.5, 2.0]), Tensor.ones(1, 2, 2)
    cases: dict[str, tuple[object, ...]] = {
        "addbmm_": (ones, ones), "addmv_": (x, row), "addr_": (row, row), "cumprod_": (1,), "erfinv_": (), "logit_": (), "i0_": (), "igamma_": (1.5,), "igammac_": (1.5,), "mvlgamma_": (1,), "polygamma_": (2,),
        "index_reduce_": (1, [1], x[:, :1], "amax"), "put_": ([0, -1], row), "renorm_": (2, 0, 0.5), "ldexp_": (i,),
        "scatter_reduce_": (0, i, x, "sum"), "heaviside_": (row,), "sgn_": (), "fix_": (), "absolute_": (),
    }  # fmt: skip
    for name, arguments in cases.items():
        target = same = row.clone() if name == "addmv_" else x.clone()
        expected = getattr(target, name[:-1])(*arguments).tolist()
        assert getattr(target, name)(*arguments) is same and same.tolist() == expected, name
    assert ones.baddbmm_(ones, ones).tolist() == [[[3.0, 3.0], [3.0, 3.0]]]


def test_more_functions_in_place(any_device):
    x = Tensor([1.0, 2.0])
    assert x.lerp_(Tensor([3.0, 4.0]), 0.5).tolist() == [2.0, 3.0]
    assert x.addcmul_([1.0, 1.0], [2.0, 2.0]).tolist() == [4.0, 5.0]
    assert x.subtract_(1).clip_(3.5, None).tolist() == [3.5, 4.0]
    assert x.index_put_(([0],), 1.0).masked_scatter_([False, True], [9.0]).tolist() == [1.0, 9.0]
    assert Tensor.zeros(2, 2).fill_diagonal_(3).tolist() == [[3, 0], [0, 3]]
    assert Tensor.ones(2, 2).tril_().tolist() == [[1, 0], [1, 1]]
    weight = Tensor([1.0], requires_grad=True)
    with pytest.raises(RulegradError, match="exp_: this tensor is a leaf that requires a gradient"):
        weight.exp_()
    with no_grad():
        assert weight.mul_(2).sqrt_().requires_grad
    with pytest.raises(DtypeError, match="exp_: the result is float32 and does not fit a tensor of int64"):
        Tensor([1]).exp_()
    with pytest.raises(ShapeError, match="subtract_: the result has the shape"):
        Tensor([1.0]).subtract_(Tensor([1.0, 2.0]))
