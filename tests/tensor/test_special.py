"""Special functions: values against PyTorch's and SciPy's, gradients, dtypes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from rulegrad import Tensor, config, grad, special, vmap
from rulegrad.errors import DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")


def numbers(count: int, low: float, high: float) -> np.ndarray:
    """Numbers without a pattern."""
    return low + (high - low) * (np.arange(1, count + 1) * 0.6180339887498949 % 1.0)


POSITIVE = np.concatenate([10.0 ** np.linspace(-12, 2, 30), np.linspace(0.1, 40, 40)])
REAL = np.concatenate([-POSITIVE, POSITIVE])
SHARES = np.concatenate([10.0 ** np.linspace(-30, -1, 20), np.linspace(0.05, 0.99, 20)])
#: Where each function is tried, what it is, how many units in the last place it may be off, and the units' own size.
FUNCTIONS = {
    "airy_ai": (REAL, lambda x: scipy.special.airy(x)[0], 8, lambda x, y: np.where(x < 0, np.maximum(-x, 1) ** 1.25, np.abs(y) * np.maximum(x, 1) ** 1.5)),
    "bessel_j0": (REAL, scipy.special.j0, 32, lambda x, y: np.minimum(1, np.abs(x) ** -0.5)),
    "bessel_j1": (REAL, scipy.special.j1, 32, lambda x, y: np.minimum(np.abs(x), np.abs(x) ** -0.5)),
    "bessel_y0": (POSITIVE, scipy.special.y0, 32, lambda x, y: np.maximum(-np.log(x), x**-0.5)),
    "bessel_y1": (POSITIVE, scipy.special.y1, 32, lambda x, y: np.maximum(1 / x, x**-0.5)),
    "entr": (REAL, scipy.special.entr, 4, None),
    "erfcx": (REAL[REAL > -9], scipy.special.erfcx, 32, None),
    "erfinv": (np.concatenate([SHARES, -SHARES]), scipy.special.erfinv, 4, None),
    "i0": (REAL[np.abs(REAL) < 80], scipy.special.i0, 8, None),
    "i0e": (REAL, scipy.special.i0e, 8, None),
    "i1": (REAL[np.abs(REAL) < 80], scipy.special.i1, 8, None),
    "i1e": (REAL, scipy.special.i1e, 8, None),
    "log_ndtr": (REAL, scipy.special.log_ndtr, 4, lambda x, y: np.abs(y) * np.where(x > 1, x * x, 1)),
    "modified_bessel_k0": (POSITIVE, scipy.special.k0, 8, None),
    "modified_bessel_k1": (POSITIVE, scipy.special.k1, 8, None),
    "ndtr": (REAL, scipy.special.ndtr, 4, lambda x, y: y * np.where(x < -1, x * x, 1)),
    "ndtri": (SHARES, scipy.special.ndtri, 4, None),
    "scaled_modified_bessel_k0": (POSITIVE, scipy.special.k0e, 8, None),
    "scaled_modified_bessel_k1": (POSITIVE, scipy.special.k1e, 8, None),
    "spherical_bessel_j0": (REAL, lambda x: scipy.special.spherical_jn(0, x), 4, None),
}  # fmt: skip
STEPS = {"float32": 2.0**-23, "float64": 2.0**-52}
#: Where the gradients are compared with PyTorch's, of the functions for which it has one.
SLOPES = {
    "entr": (0.1, 3), "erfcx": (-3, 3), "erfinv": (-0.99, 0.99), "i0": (-12, 12), "i0e": (-12, 12), "i1": (-12, 12),
    "i1e": (-12, 12), "log_ndtr": (-9, 4), "ndtr": (-4, 4), "ndtri": (0.01, 0.99), "sinc": (-3, 3),
}  # fmt: skip


def units(found: np.ndarray, wanted: np.ndarray, scale: np.ndarray, step: float) -> float:
    """By how many steps of their size numbers differ, where they are neither subnormal nor infinite."""
    normal = (np.abs(wanted) > 1e-36) & (np.abs(wanted) < 1e37)
    assert np.isfinite(found[normal]).all() and (np.abs(found[np.abs(wanted) < 1e-40]) < 1e-36).all()
    return float((np.abs(found - wanted) / scale / step)[normal].max())


@pytest.mark.parametrize(("device", "dtype"), [("numpy", "float32"), ("numpy", "float64"), ("c", "float32")])
def test_values(device, dtype):
    with config(device=device), np.errstate(all="ignore"):
        rows = [(name, row[0].astype(dtype)) for name, row in FUNCTIONS.items()]
        first, *others = found = [getattr(special, name)(Tensor(x)) for name, x in rows]
        first.realize(*others)
        for (name, x), values in zip(rows, found):
            assert values.dtype == dtype
            _, function, most, size = FUNCTIONS[name]
            exact = x.astype("float64")
            wanted = function(exact)
            scale = np.abs(wanted) if size is None else size(exact, wanted)
            assert units(values.numpy().astype("float64"), wanted, scale, STEPS[dtype]) <= most, name


@pytest.mark.parametrize("name", [*SLOPES])
def test_gradients_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    x = numbers(7, low=SLOPES[name][0], high=SLOPES[name][1])
    other = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(torch.special, name)(other).sum(), other, create_graph=True)
    slope = grad(lambda t: getattr(special, name)(t).sum())
    np.testing.assert_allclose(slope(Tensor(x)).numpy(), first.detach().numpy(), rtol=1e-11)
    (second,) = torch.autograd.grad(first.sum(), other)
    found = grad(lambda t: slope(t).sum())(Tensor(x)).numpy()
    np.testing.assert_allclose(found, second.numpy(), rtol=1e-7, atol=1e-9)


def test_gradients_are_quotients_of_differences():
    for name in FUNCTIONS:
        x = numbers(6, *SLOPES.get(name, (0.3, 12.0)))
        h, function = 1e-5, FUNCTIONS[name][1]
        wanted = (function(x + h) - function(x - h)) / (2 * h)
        found = grad(lambda t, name=name: getattr(special, name)(t).sum())(Tensor(x)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9, err_msg=name)


def test_functions_of_two():
    a = np.concatenate([10.0 ** np.linspace(-6, 4, 30), np.linspace(0.5, 60, 30)])
    x = a * np.resize([0.1, 0.6, 0.95, 1.0, 1.1, 1.7, 4.0], 60)
    for name in ("gammainc", "gammaincc"):
        wanted = getattr(scipy.special, name)(a, x)
        found = getattr(special, name)(Tensor(a), Tensor(x)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12 * 50, atol=1e-280, err_msg=name)
        single = getattr(special, name)(Tensor(a).float(), Tensor(x).float()).numpy()
        np.testing.assert_allclose(
            single,
            getattr(scipy.special, name)(np.float32(a).astype(float), np.float32(x).astype(float)),
            rtol=3e-5,
            atol=1e-36,
        )
    s, q = numbers(40, low=1.05, high=30), np.concatenate([numbers(39, low=0.01, high=90), [1e4]])
    np.testing.assert_allclose(special.zeta(Tensor(s), Tensor(q)).numpy(), scipy.special.zeta(s, q), rtol=2e-15)
    x = numbers(5, low=2.0, high=9.0)
    np.testing.assert_allclose(Tensor(x).mvlgamma(3).numpy(), scipy.special.multigammaln(x, 3), rtol=1e-13)


def test_borders_of_functions_of_two():
    nan, inf = math.nan, math.inf
    border = [(0, 0, nan), (0, 1, 1), (1, 0, 0), (inf, 1, 0), (1, inf, 1), (-1, 1, nan), (1, -1, nan), (nan, 1, nan)]
    # 1 / (1/2)**2 + pi**2 / 2 is the sum from -1/2 on; the others by summing the terms below 0
    below = [
        sum((q + k) ** -s for k in range(30)) + scipy.special.zeta(s, q + 30) for s, q in ((3.0, -7.3), (4.0, -20.25))
    ]
    for name, cases in {
        "gammainc": border,
        "gammaincc": [(a, x, 1 - p) for a, x, p in border],
        "xlog1py": [(0, -1, 0), (0, inf, 0), (0, nan, nan), (2, 3, 2 * math.log(4)), (0, -3, 0)],
        "zeta": [
            (2, -0.5, 4 + math.pi**2 / 2),
            (3, -7.3, below[0]),
            (4, -20.25, below[1]),
            (2, -3, inf),
            (1, 2, inf),
            (0.5, 2, nan),
            (2.5, -1.5, nan),
            (3, 0, inf),
        ],
    }.items():
        first, second, wanted = np.array(cases, dtype=float).T.copy()
        found = getattr(special, name)(Tensor(first), Tensor(second)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-13, err_msg=name)
        assert (
            getattr(special, name)(2.5, Tensor([1.5])).shape == getattr(special, name)(Tensor([2]), 1.5).shape == (1,)
        )


def test_gradients_of_functions_of_two(any_device):
    s, q = numbers(5, low=1.5, high=6.0), numbers(5, low=0.4, high=40.0)
    for name in ("gammainc", "gammaincc", "xlog1py", "zeta"):
        function, wanted, h = getattr(special, name), getattr(scipy.special, name), 1e-6
        by_first, by_second = grad(lambda x, y, f=function: f(x, y).sum(), argnums=(0, 1))(Tensor(s), Tensor(q))
        first, second = wanted(s + h, q) - wanted(s - h, q), wanted(s, q + h) - wanted(s, q - h)
        np.testing.assert_allclose(by_first.numpy(), first / (2 * h), rtol=1e-6, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(by_second.numpy(), second / (2 * h), rtol=1e-6, atol=1e-8, err_msg=name)
    a, x = np.array([25.0, 25.0, 300.0]), np.array([22.0, 31.0, 290.0])
    found = grad(lambda t: special.gammainc(t, Tensor(x)).sum())(Tensor(a)).numpy()
    h = 1e-4
    np.testing.assert_allclose(
        found, (scipy.special.gammainc(a + h, x) - scipy.special.gammainc(a - h, x)) / (2 * h), rtol=1e-7
    )


POLYNOMIALS = {
    "chebyshev_polynomial_t": scipy.special.eval_chebyt,
    "chebyshev_polynomial_u": scipy.special.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: np.cos((n + 0.5) * np.arccos(x)) / np.cos(np.arccos(x) / 2),
    "chebyshev_polynomial_w": lambda n, x: np.sin((n + 0.5) * np.arccos(x)) / np.sin(np.arccos(x) / 2),
    "hermite_polynomial_h": scipy.special.eval_hermite,
    "hermite_polynomial_he": scipy.special.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.special.eval_laguerre,
    "legendre_polynomial_p": scipy.special.eval_legendre,
}


@pytest.mark.parametrize("name", [name for name in special.__all__ if "polynomial" in name])
def test_polynomials(name):
    shifted = name.startswith("shifted_")
    of_degree = POLYNOMIALS[name.removeprefix("shifted_")]
    function = (lambda n, x: of_degree(n, 2 * x - 1)) if shifted else of_degree
    x, degrees = numbers(6, low=0.1 if shifted else -0.9, high=0.9), np.array([-1.0, 0, 1, 2, 5.7, 9])
    found = getattr(special, name)(Tensor(x).unsqueeze(1), Tensor(degrees)).numpy()
    wanted = [function(n, x) if n >= 0 else 0 * x for n in (-1, 0, 1, 2, 5, 9)]
    np.testing.assert_allclose(found, np.array(wanted).T, rtol=1e-9, atol=1e-11)
    assert getattr(special, name)(0.5, Tensor([1, 2])).shape == getattr(special, name)(Tensor([1, 2]), 2).shape == (2,)
    difference = (function(4, x + 1e-6) - function(4, x - 1e-6)) / 2e-6
    slope = grad(lambda t: getattr(special, name)(t, 4).sum())(Tensor(x)).numpy()
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-6)


def test_dtypes_and_shapes(any_device):
    for name in FUNCTIONS:
        function = getattr(special, name)
        half = function(Tensor([0.25, 0.5], dtype="float16"))
        assert half.dtype == "float16"
        np.testing.assert_allclose(half.numpy(), function(Tensor([0.25, 0.5])).half().numpy())
        assert function(Tensor([1], dtype="int32")).dtype == "float32"
        assert function(Tensor.zeros(0, 3)).shape == (0, 3) and function(Tensor(0.5)).shape == ()
        nan = function(Tensor([math.nan]))
        assert nan.isnan().item(), name
    assert vmap(special.i0)(Tensor([[1.0], [2.0]])).shape == (2, 1)
    assert Tensor([2.0]).igamma(1.0).item() + Tensor([2.0]).igammac(1.0).item() == pytest.approx(1.0)


def test_scipys_functions_of_tensors_are_tensors():
    x = Tensor([0.25, 0.5], requires_grad=True)
    for name in ("entr", "erf", "erfcx", "erfinv", "expit", "gammaln", "i0e", "log_ndtr", "logit", "ndtri", "psi"):
        found = getattr(scipy.special, name)(x)
        assert isinstance(found, Tensor) and found.requires_grad and found.dtype == "float32"
        np.testing.assert_allclose(found.detach().numpy(), getattr(scipy.special, name)([0.25, 0.5]), rtol=1e-6)
    assert isinstance(scipy.special.gammainc(2.0, x), Tensor) and isinstance(scipy.special.xlogy(x, 2), Tensor)
    with pytest.raises(DtypeError, match="np.kv: tensors have no such function"):
        scipy.special.kv(1.0, x)


def test_values_that_are_infinite():
    nan, inf = math.nan, math.inf
    for name, wanted in {
        "bessel_j0": [1, 1, nan, nan], "bessel_y0": [-inf, -inf, nan, nan], "bessel_y1": [-inf, -inf, nan, nan],
        "entr": [0, 0, -inf, -inf], "erfcx": [1, 1, 0, inf], "erfinv": [0, 0, nan, nan], "i0e": [1, 1, 0, 0],
        "log_ndtr": [math.log(0.5), math.log(0.5), 0, -inf], "modified_bessel_k0": [inf, inf, 0, nan],
        "modified_bessel_k1": [inf, inf, 0, nan], "ndtr": [0.5, 0.5, 1, 0], "ndtri": [-inf, -inf, nan, nan],
        "scaled_modified_bessel_k1": [inf, inf, 0, nan], "spherical_bessel_j0": [1, 1, 0, 0],
    }.items():  # fmt: skip
        found = getattr(special, name)(Tensor([0.0, -0.0, inf, -inf], dtype="float64")).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-13, err_msg=name)
    assert special.erfinv(Tensor([1.0, -1.0])).tolist() == special.ndtri(Tensor([1.0, 0.0])).tolist() == [inf, -inf]
    assert special.i0(Tensor([math.inf, -math.inf])).tolist() == [math.inf, math.inf]
    assert special.airy_ai(Tensor([math.inf])).tolist() == [0.0]


def test_wrong_arguments():
    with pytest.raises(DtypeError, match="i0e: complex64 is not real"):
        special.i0e(Tensor([1j]))
    with pytest.raises(DtypeError, match="ndtri: input is a float; use a tensor"):
        special.ndtri(0.5)
    with pytest.raises(DtypeError, match="neither argument is a tensor"):
        special.zeta(2.0, 1.0)
    with pytest.raises(ShapeError, match="multigammaln: the dimension is 0"):
        special.multigammaln(Tensor([3.0]), 0)
    with pytest.raises(ShapeError, match="the degree 5000"):
        special.legendre_polynomial_p(Tensor([3.0]), 5000)
    with pytest.raises(ShapeError, match="do not broadcast"):
        special.xlogy(Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0]))
