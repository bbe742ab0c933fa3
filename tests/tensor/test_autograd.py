"""Gradients: against finite differences in float64, closed forms, and how they are recorded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rulegrad import Tensor, no_grad
from rulegrad.errors import DtypeError, RulegradError, ShapeError

RNG = np.random.default_rng(0)
X = RNG.uniform(0.3, 1.7, (3, 4))
Y = RNG.uniform(-1.5, 1.5, (3, 4))
W = RNG.uniform(-1, 1, (4, 2))

#: Functions of x (positive), y and w; every one is differentiated with respect to all three.
FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "arithmetic": lambda x, y, w: (x * y - y / x + (x - 2.0) * 0.5 - (-y)) * (1.0 / x),
    "broadcast": lambda x, y, w: x * y[0] + y[:, :1] * w.T[0] + w[0, 0],
    "powers": lambda x, y, w: x**3 + x**-1 + x**0.5 + x**1.7 + x**y + 2.0**y,
    "exp_log": lambda x, y, w: y.exp() + x.log() + x.exp2() * x.log2() + x.sqrt() * x.rsqrt(),
    "sin_cos": lambda x, y, w: y.sin() * x.cos() + y.tanh() + y.sigmoid() * y.silu(),
    "exponentials": lambda x, y, w: y.expm1() * x.log1p() + x.log10() * y.logaddexp(x) + x.logaddexp2(y),
    "angles": lambda x, y, w: (y * 0.5).asin() + (y * 0.6).acos() * y.atan() + y.atan2(x) * x.tan() + x.sinc(),
    "hyperbolic": lambda x, y, w: y.sinh() * x.cosh() + y.asinh() + (x + 1.0).acosh() * (y * 0.6).atanh(),
    "gamma": lambda x, y, w: y.erf() * x.erfc() + x.lgamma() + (x * 0.5).logit(),
    "remainders": lambda x, y, w: y.remainder(x) + y.fmod(x * 0.7) + y.hypot(x) + y.copysign(-1.0) * x.lerp(y, x),
    "gelu": lambda x, y, w: y.gelu() + y.softplus() + y.leaky_relu() + y.relu(),
    "select": lambda x, y, w: (y > 0).where(x * y, y * y) + y.maximum(x) + x.minimum(0.9) + y.abs() + y.clip(-1, 1),
    "matmul": lambda x, y, w: ((x @ w).T @ y).tanh() @ w,
    "sums": lambda x, y, w: x.sum(axis=0) * y.mean(axis=1, keepdims=True) + y.sum(),
    "products": lambda x, y, w: x.prod(axis=1) + y.prod(axis=0)[:3],
    "extremes": lambda x, y, w: x.max(axis=1) * y.min(axis=1) + y.max(),
    "variance": lambda x, y, w: x.var(axis=0) + y.std(axis=0, correction=1),
    "softmax": lambda x, y, w: y.softmax() * x + y.log_softmax(0) + y.logsumexp(1, keepdims=True),
    "views": lambda x, y, w: (x.T.reshape(2, 6).flip(1).pad(1) * y.reshape(12)[2]).permute(1, 0)[1:-1, ::2],
    "indexing": lambda x, y, w: x[1, ::-2] * y[::2, 1:3].sum() + w[None, -1].expand(2, 2).flatten()[:2],
    "joining": lambda x, y, w: x.cat(y * 2, axis=1).stack(y.cat(x, axis=1)).roll(2, 2) * 3.0,
    "convolution": lambda x, y, w: x.reshape(1, 1, 3, 4).conv2d(y.reshape(3, 1, 2, 2), stride=(1, 2), padding=1),
    "pooling": lambda x, y, w: (x * y).avg_pool2d((2, 2), 1) + x.max_pool2d((2, 2), 1),
    "cross_entropy": lambda x, y, w: (x @ w).cross_entropy(Tensor([1, 0, 1])),
    "materialize": lambda x, y, w: (x * y).contiguous() * x,
    "reuse": lambda x, y, w: (x * x + x).exp() * x / (x + x * y * y),
}  # fmt: skip


def _weights(count: int) -> np.ndarray:
    """Fixed weights, so that the sum of a result depends on every element of it differently."""
    return np.cos(np.arange(count) * 1.3) + 1.5


def _weighted_sum(result: Tensor) -> Tensor:
    return (result.flatten() * Tensor(_weights(result.size))).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_finite_differences(any_device, name):
    function, arrays = FUNCTIONS[name], [X, Y, W]
    inputs = [Tensor(array, requires_grad=True) for array in arrays]
    _weighted_sum(function(*inputs)).backward()
    gradients = [tensor.grad for tensor in inputs]
    Tensor.realize(*(g for g in gradients if g is not None))
    direction = np.random.default_rng(1)
    for position, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        step = direction.uniform(-1, 1, array.shape)
        values = []
        for distance in (1e-5, -1e-5):
            moved = [a + step * distance if k == position else a for k, a in enumerate(arrays)]
            values.append(_weighted_sum(function(*map(Tensor, moved))).item())
        expected = (values[0] - values[1]) / 2e-5
        got = 0.0 if gradient is None else float((gradient.numpy() * step).sum())
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-7), f"input {position}"


def test_closed_forms(device, check):
    x = Tensor(X.astype(np.float32), requires_grad=True)
    w = Tensor(W.astype(np.float32), requires_grad=True)
    labels = np.array([1, 0, 1])
    scores = x @ w
    loss = scores.cross_entropy(Tensor(labels)) + (x * x).sum()
    assert loss.backward() is loss
    s = (X @ W).astype(np.float64)
    share = np.exp(s) / np.exp(s).sum(1, keepdims=True)
    slope = (share - np.eye(2)[labels]) / 3
    assert x.grad is not None
    assert w.grad is not None
    check(
        (x.grad, (slope @ W.T + 2 * X).astype(np.float32)),
        (w.grad, (X.T @ slope).astype(np.float32)),
        (loss, np.float32(-np.log(share[np.arange(3), labels]).mean() + (X * X).sum())),
        tolerance=5e-6,
    )


def test_dtypes_of_gradients(any_device):
    half = Tensor([1.0, 2.0], dtype="float16", requires_grad=True)
    single = Tensor([3.0, 4.0], requires_grad=True)
    (half * single).sum().backward()
    assert half.grad.dtype == "float16"
    assert half.grad.tolist() == [3.0, 4.0]
    assert single.grad.tolist() == [1.0, 2.0]


def test_gradients_at_the_edges(any_device):
    x = Tensor([-1.0, 0.0, 2.0], requires_grad=True)
    x.relu().sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]
    far = Tensor([-1000.0, 1000.0], requires_grad=True)
    (far.sigmoid() + far.softplus()).sum().backward()
    assert far.grad.tolist() == [0.0, 1.0]


def test_gradients_add_up_and_are_forgotten(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_equal_leaves_have_gradients_of_their_own(any_device):
    a, b = Tensor.zeros(2, requires_grad=True), Tensor.zeros(2, requires_grad=True)
    array = np.zeros(2, np.float32)
    shared = Tensor(array)
    c, d = Tensor(shared, requires_grad=True), Tensor(shared, requires_grad=True)
    (a * 2 + b * 3 + c * 4 + d * 5).sum().backward()
    assert [t.grad.tolist() for t in (a, b, c, d)] == [[2, 2], [3, 3], [4, 4], [5, 5]]


def test_realizing_on_the_way_does_not_cut_the_gradient(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    middle = (x * x).realize()
    print(middle)
    after = (middle * x).sum()
    assert after.item() == 9.0
    after.backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_given_gradient(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(Tensor([1.0, -1.0]))
    assert x.grad.tolist() == [2.0, -4.0]


def test_detach_and_no_grad(any_device):
    x = Tensor([2.0, 3.0], requires_grad=True)
    with no_grad():
        assert not (x * 2).requires_grad
        factor = x * 2
    ((x * factor) + x.detach() * x).sum().backward()
    assert x.grad.tolist() == [6.0, 9.0]
    assert (x * 2).requires_grad

    @no_grad()
    def doubled(value: Tensor) -> Tensor:
        return value * 2

    assert not doubled(x).requires_grad
    assert not (x > 0).requires_grad
    assert not x.argmax().requires_grad


def test_assignment_keeps_a_leaf_and_the_graphs_before_it(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    before = (x * x).sum()
    x.assign(x.detach() * 10)
    assert x.requires_grad
    before.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_leaves_can_be_switched(any_device):
    x = Tensor([1.0], requires_grad=True)
    y = x * 2
    x.requires_grad = False
    y.sum().backward()
    assert x.grad is None
    assert not (x * 2).requires_grad
    assert x.requires_grad_().requires_grad


def test_long_chains_do_not_recurse(any_device):
    x = Tensor([1.0], requires_grad=True)
    total = x
    for _ in range(3000):
        total = total + x
    total.sum().backward()
    assert x.grad.item() == 3001.0


def test_errors(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match=r"backward: the shape \(2,\) has 2 elements"):
        (x * 2).backward()
    with pytest.raises(RulegradError, match="depends on no tensor with requires_grad"):
        Tensor([1.0]).backward()
    with pytest.raises(ShapeError, match=r"gradient of shape \(3,\)"):
        (x * 2).backward(Tensor.ones(3))
    with pytest.raises(DtypeError, match="gradient of float64"):
        (x * 2).backward(Tensor.ones(2, dtype="float64"))
    with pytest.raises(DtypeError, match="int64 has no gradient"):
        Tensor([1]).requires_grad = True


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_largest_sums_are_found_again(device, kind):
    """The kernel of the gradient may add up in another order than that of the largest, and still finds it."""
    rng = np.random.default_rng(3)
    scores, weights = rng.standard_normal((12, 16)), rng.standard_normal((16, 7))
    gradients = []
    for stored in (False, True):
        x = Tensor(scores, requires_grad=True)
        mixed = x.softmax(1) @ Tensor(weights)
        if stored:
            mixed.realize()
        (getattr(mixed, kind)(1) * Tensor(np.arange(1.0, 13.0))).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], 1e-12, 1e-14)
    assert (np.abs(gradients[1]).sum(1) > 0).all()


def test_the_largest_of_windows_are_found_again(device):
    rng = np.random.default_rng(4)
    images, weights = rng.standard_normal((2, 4, 6, 5)), Tensor(rng.standard_normal((2, 4, 3, 3)))
    gradients = []
    for stored in (False, True):
        x = Tensor(images, requires_grad=True)
        found = x.conv2d(weights)
        if stored:
            found.realize()
        found.max_pool2d(2).square().sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], 1e-12, 1e-13)
