"""Trapezoids, slopes, distances, products of tensors, spectra of parts: against NumPy and SciPy, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
from scipy.spatial import distance

from rulegrad import Tensor, grad
from rulegrad.errors import ConfigError, DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

generator = np.random.default_rng(11)
A = generator.normal(size=(4, 5))
B = generator.normal(size=(3, 5))
SIGNAL = generator.normal(size=(2, 40))


def near(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_trapezoids() -> None:
    at = np.sort(generator.normal(size=5))
    y, x = Tensor(A), Tensor(at)
    near(y.trapezoid(), np.trapezoid(A))
    near(y.trapz(dx=0.5, dim=0), np.trapezoid(A, dx=0.5, axis=0))
    near(y.trapezoid(x), np.trapezoid(A, at))
    near(y.trapezoid(Tensor(np.cumsum(A, 0)), dim=0), np.trapezoid(A, np.cumsum(A, 0), axis=0))
    near(y.cumulative_trapezoid(x), np.cumsum((A[:, 1:] + A[:, :-1]) * np.diff(at) / 2, 1))
    assert Tensor([1, 2, 4]).trapezoid().item() == 4.5 and Tensor(np.zeros((2, 0))).trapezoid().tolist() == [0, 0]
    with pytest.raises(ShapeError):
        y.trapezoid(Tensor(at[:4]))


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes(edge_order: int) -> None:
    at = [np.cumsum(generator.uniform(0.5, 2, n)) for n in A.shape]
    for spacing, given in ((1, 1), (0.5, 0.5), ([0.5, 2.0], [0.5, 2.0]), ([Tensor(c) for c in at], at)):
        expected = np.gradient(A, *(given if isinstance(given, list) else [given]), edge_order=edge_order)
        for found, wanted in zip(Tensor(A).gradient(spacing=spacing, edge_order=edge_order), expected, strict=True):
            near(found, wanted)
    (one,) = Tensor(A).gradient(dim=0, spacing=[Tensor(at[0])], edge_order=edge_order)
    near(one, np.gradient(A, at[0], axis=0, edge_order=edge_order))
    shortest = A[0, : edge_order + 1].copy()
    near(Tensor(shortest).gradient(edge_order=edge_order)[0], np.gradient(shortest, edge_order=edge_order))
    with pytest.raises(ShapeError, match="1 samples along axis 0"):
        Tensor([1.0]).gradient()
    with pytest.raises(ShapeError, match="3 spacings for 2 axes"):
        Tensor(A).gradient(spacing=[1, 2, 3])


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, np.inf])
def test_distances(p: float) -> None:
    expected = np.linalg.norm(A[:, None] - B[None], p, -1)
    near(Tensor(A).cdist(Tensor(B), p), expected)
    near(Tensor(A).pdist(p), np.linalg.norm(A[:, None] - A[None], p, -1)[np.triu_indices(4, 1)])
    assert Tensor(np.zeros((2, 0))).cdist(Tensor(np.zeros((3, 0))), p).shape == (2, 3)


def test_distances_of_equal_points_have_gradient_zero() -> None:
    np.testing.assert_allclose(Tensor(A).pdist().numpy(), distance.pdist(A))
    found = grad(lambda x: x.cdist(Tensor(A)).sum())(Tensor(A)).numpy()
    far = A[:, None] - A[None]
    size = np.sqrt((far**2).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, (far / np.where(size == 0, 1, size)).sum(1), rtol=1e-10)
    with pytest.raises(ShapeError, match="cdist: the shapes"):
        Tensor(A).cdist(Tensor(B[:, :2].copy()))


def test_renorm() -> None:
    for p, axis in ((2, 0), (1, -1), (np.inf, 1)):
        rows = np.moveaxis(A, axis, 0)
        norms = np.linalg.norm(rows, p, 1)
        factors = np.where(norms > 1.5, 1.5 / (norms + 1e-7), 1)
        near(Tensor(A).renorm(p, axis, 1.5), np.moveaxis(rows * factors[:, None], 0, axis))
    with pytest.raises(DtypeError, match="renorm: the dtype is int64"):
        Tensor([[1]]).renorm(2, 0, 1.0)


def test_products_of_tensors() -> None:
    blocks = [np.array(3), np.array([1, 2]), np.array([[4.5], [5.5]]), np.zeros((0, 1))]
    assert Tensor.block_diag(*map(Tensor, blocks)).tolist() == [
        [3, 0, 0, 0, 0], [0, 1, 2, 0, 0], [0, 0, 0, 4.5, 0], [0, 0, 0, 5.5, 0],
    ]  # fmt: skip
    assert Tensor.cartesian_prod(Tensor([1, 2])).tolist() == [1, 2]
    assert Tensor.cartesian_prod(Tensor([1, 2]), Tensor([3]), Tensor([4, 5])).tolist() == [
        [1, 3, 4], [1, 3, 5], [2, 3, 4], [2, 3, 5],
    ]  # fmt: skip
    x = Tensor([5, 6, 7])
    assert x.combinations(3).tolist() == [[5, 6, 7]] and x.combinations(0).shape == (0,)
    assert x.combinations(4).shape == (0, 4)
    assert x.combinations(with_replacement=True).tolist() == [[5, 5], [5, 6], [5, 7], [6, 6], [6, 7], [7, 7]]
    for wrong in (lambda: x.block_diag(Tensor.ones(1, 1, 1)), lambda: x.cartesian_prod(Tensor(1))):
        with pytest.raises(ShapeError):
            wrong()


def test_sums_of_products_without_what_is_added() -> None:
    """With beta=0 the tensor that is added to is not read: its nan do not count."""
    a, b = generator.normal(size=(2, 3, 4)), generator.normal(size=(2, 4, 5))
    none = Tensor(np.full((3, 5), np.nan))
    near(none.addbmm(Tensor(a), Tensor(b), beta=0, alpha=2), 2 * (a @ b).sum(0))
    near(Tensor(np.ones(5)).addbmm(Tensor(a), Tensor(b), beta=3), 3 + (a @ b).sum(0))
    near(none.addmm(Tensor(a[0]), Tensor(b[0]), beta=0), a[0] @ b[0])
    near(Tensor(np.full(3, np.nan)).addmv(Tensor(a[0]), Tensor(b[0, :, 0].copy()), beta=0), a[0] @ b[0, :, 0])
    near(none.addr(Tensor(a[0, :, 0].copy()), Tensor(b[0, 0]), beta=0), np.outer(a[0, :, 0], b[0, 0]))
    near(none.baddbmm(Tensor(a), Tensor(b), beta=0), a @ b)


def test_covariances_with_weights() -> None:
    times, shares = np.array([1, 2, 3, 1, 1]), generator.uniform(0.5, 2, 5)
    for f, a in ((times, None), (None, shares), (times, shares)):
        for correction in (0, 1):
            found = Tensor(A).cov(
                correction=correction,
                fweights=None if f is None else Tensor(f),
                aweights=None if a is None else Tensor(a),
            )
            near(found, np.cov(A, ddof=correction, fweights=f, aweights=a))
    near(Tensor(A[:1]).cov(fweights=Tensor(times)), np.cov(A[:1], fweights=times))
    z = A + 1j * A[::-1]
    near(Tensor(z).cov(aweights=Tensor(shares)), np.cov(z, aweights=shares))
    assert Tensor(A[:1]).cov().shape == Tensor(A[:1]).corrcoef().shape == ()
    with pytest.raises(ShapeError, match=r"weights of shape \(2,\) for 5 observations"):
        Tensor(A).cov(aweights=Tensor([1.0, 2.0]))


def test_complex_numbers_of_parts() -> None:
    size, angle = abs(A), A * 3
    near(Tensor(size).polar(Tensor(angle)), size * np.exp(1j * angle))
    pairs = Tensor(A[:, :2])
    near(pairs.view_as_complex(), A[:, 0] + 1j * A[:, 1])
    near(pairs.view_as_complex().view_as_real(), A[:, :2])
    with pytest.raises(DtypeError, match="it needs complex numbers"):
        pairs.view_as_real()


@pytest.mark.parametrize(("size", "hop", "long"), [(8, 2, 8), (8, 3, 6), (9, 4, 9)])
@pytest.mark.parametrize("center", [True, False])
def test_spectra_of_parts_and_back(size: int, hop: int, long: int, center: bool) -> None:
    window = scipy.signal.windows.hann(long, sym=False) + 0.1
    padded = np.pad(window, ((size - long) // 2, size - long - (size - long) // 2))
    signal = np.pad(SIGNAL, ((0, 0), (size // 2, size // 2)), "reflect") if center else SIGNAL
    parts = np.lib.stride_tricks.sliding_window_view(signal, size, 1)[:, ::hop] * padded
    x = Tensor(SIGNAL)
    arguments: dict[str, Any] = {"hop_length": hop, "win_length": long, "window": Tensor(window), "center": center}
    for normalized in (True, False):
        found = x.stft(size, **arguments, normalized=normalized, return_complex=True)
        scale = np.sqrt(size) if normalized else 1
        near(found, np.fft.rfft(parts).swapaxes(1, 2) / scale)
    whole = x.stft(size, **arguments, onesided=False, return_complex=False)
    near(whole.view_as_complex(), np.fft.fft(parts).swapaxes(1, 2))
    if center:
        kept = hop * (found.shape[-1] - 1) + size % 2
        near(found.istft(size, **arguments), SIGNAL[:, :kept])
        near(found.istft(size, **arguments, length=37), SIGNAL[:, :37])
        near(whole.view_as_complex().istft(size, **arguments, length=37), SIGNAL[:, :37])
        z = x.cast("complex128") * (1 + 2j)
        back = z.stft(size, **arguments).istft(size, **arguments, length=37, return_complex=True)
        near(back, (SIGNAL * (1 + 2j))[:, :37])


def test_spectra_that_are_refused() -> None:
    x = Tensor(SIGNAL[0])
    with pytest.raises(ConfigError, match="return_complex=True"):
        x.stft(8)
    with pytest.raises(ShapeError, match="a window of shape"):
        x.stft(8, window=Tensor([1.0]), return_complex=True)
    with pytest.raises(ShapeError, match="64 samples of a signal of 40"):
        x.stft(64, center=False, return_complex=True)
    with pytest.raises(ConfigError, match="add up to 0"):
        hann = Tensor(scipy.signal.windows.hann(8, sym=False))
        x.stft(8, 8, window=hann, center=False, return_complex=True).istft(8, 8, window=hann, center=False)


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "trapezoid": lambda x: x.trapezoid(x.cumsum(1)),
    "cumulative_trapezoid": lambda x: x.cumulative_trapezoid(),
    "gradient": lambda x: x.gradient(spacing=[x[:, 0].exp().cumsum(0), x[0].exp().cumsum(0)], edge_order=2)[1],
    "cdist": lambda x: x.cdist(x[:2] * 2, 3),
    "pdist": lambda x: x.pdist(),
    "renorm": lambda x: x.renorm(2, 0, 1.5),
    "block_diag": lambda x: x.block_diag(x[0], x[0, 0]),
    "cartesian_prod": lambda x: x[0].cartesian_prod(x[1]),
    "combinations": lambda x: x[0].combinations(3),
    "cov": lambda x: x.cov(aweights=x[0].exp()),
    "polar": lambda x: x.polar(x * 2).view_as_real(),
    "stft": lambda x: x.stft(4, 1, window=x[0, :4], return_complex=False),
    "istft": lambda x: x.stft(4, 1, return_complex=True).istft(4, 1, window=x[0, :4].exp()),
    "addbmm": lambda x: x[:2].addbmm(x.reshape(2, 2, 5), x.reshape(2, 5, 2)[..., :1], beta=2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite_differences(name: str) -> None:
    of = GRADIENTS[name]
    way = generator.normal(size=A.shape)
    weights = np.cos(np.arange(of(Tensor(A)).size)).reshape(of(Tensor(A)).shape)

    def value(x: Any) -> Any:
        return (of(x) * Tensor(weights)).sum()

    found = (grad(value)(Tensor(A)).numpy() * way).sum()
    step = 1e-6
    expected = (value(Tensor(A + step * way)).item() - value(Tensor(A - step * way)).item()) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


def test_small_floats_and_integers() -> None:
    x = Tensor(A.astype(np.float16))
    for found in (x.trapezoid(), x.gradient()[0], x.cdist(x), x.renorm(2, 0, 1.0), x.cov()):
        assert found.dtype == "float16"
    assert Tensor([[1, 2], [4, 6]]).pdist().tolist() == [5.0]
    assert Tensor([1, 3, 6]).gradient()[0].tolist() == [2.0, 2.5, 3.0]
