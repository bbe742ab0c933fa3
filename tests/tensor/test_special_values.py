"""Elementwise functions against NumPy on any floats: nan, infinities, signed zeros, denormals, every magnitude."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import DtypeError

Array = np.ndarray[Any, Any]

# One shape, so that the kernels are compiled once for all examples.
COUNT = 24


def floor_divide(a: Array, b: Array) -> Array:
    """NumPy's, but infinities are those of `a / b`, as in the array API standard."""
    wanted: Array = np.where(np.isfinite(a) & np.isfinite(b), np.floor_divide(a, b), a / b)
    return wanted


UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "negative": np.negative, "sign": np.sign, "signbit": np.signbit, "square": np.square,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sqrt": np.sqrt, "reciprocal": np.reciprocal, "nan_to_num": np.nan_to_num,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "heaviside": np.heaviside, "isclose": np.isclose,
}  # fmt: skip
#: Where the result is not rounded from the exact one: units in the last place that are allowed.
ULP = 6
#: What cancels; compared with the larger operand, or 1.
CANCELS = {"logaddexp", "logaddexp2"}
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 10.0, 1e-40, -1e-40, 0.1)


def floats(dtype: str) -> st.SearchStrategy[Array]:
    """Arrays of special values, simple fractions and any other floats."""
    any_float = st.floats(width=32 if dtype == "float32" else 64, allow_subnormal=True)
    simple = st.integers(-200, 200).map(lambda k: k / 8)
    element = st.one_of(st.sampled_from(SPECIAL), simple, any_float)
    return st.lists(element, min_size=COUNT, max_size=COUNT).map(lambda values: np.array(values, dtype))


def agree(name: str, found: Array, wanted: Any, *sources: Array) -> None:
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype, name
    if found.dtype.kind != "f":
        good = found == wanted
    else:
        scale = np.abs(wanted)
        if name in CANCELS:
            scale = np.maximum(scale, np.maximum(1, np.where(np.isfinite(wanted), np.abs(sources[0]), 0)))
        limits = np.finfo(found.dtype)
        near = np.abs(found - wanted) <= ULP * np.maximum(limits.eps * scale, limits.smallest_subnormal)
        edge = np.isinf(wanted) & (np.abs(found) >= limits.max) | np.isinf(found) & (np.abs(wanted) >= limits.max)
        same_sign = np.signbit(found) == np.signbit(wanted)
        good = (near | (found == wanted) | edge) & same_sign | np.isnan(found) & np.isnan(wanted)
    if not good.all():
        k = int(np.argmin(good))
        arguments = ", ".join(repr(float(source[k])) for source in sources)
        pytest.fail(f"{name}({arguments}) is {found[k]!r}, not {wanted[k]!r}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_functions_of_one(device, dtype, data):
    x = data.draw(floats(dtype))
    results = {name: getattr(Tensor(x), name)() for name in UNARY}
    Tensor.realize(*results.values())
    with np.errstate(all="ignore"):
        for name, tensor in results.items():
            agree(name, tensor.numpy(), UNARY[name](x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_functions_of_two(device, dtype, data):
    x, y = data.draw(floats(dtype)), data.draw(floats(dtype))
    results = {name: getattr(Tensor(x), name)(Tensor(y)) for name in BINARY}
    Tensor.realize(*results.values())
    with np.errstate(all="ignore"):
        for name, tensor in results.items():
            agree(name, tensor.numpy(), BINARY[name](x, y), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_parts_of_floats(device, dtype, data):
    x = data.draw(floats(dtype))
    n = data.draw(st.lists(st.integers(-2200, 2200), min_size=COUNT, max_size=COUNT).map(np.array))
    mantissa, exponent = Tensor(x).frexp()
    scaled = Tensor(x).ldexp(Tensor(n))
    Tensor.realize(mantissa, exponent, scaled)
    with np.errstate(all="ignore"):
        wanted_mantissa, wanted_exponent = np.frexp(x)
        agree("frexp", mantissa.numpy(), wanted_mantissa, x)
        agree("frexp", exponent.numpy(), np.where(np.isfinite(x), wanted_exponent, 0).astype(np.int32), x)
        wanted = np.ldexp(x, n)
        agree("ldexp", scaled.numpy(), wanted, x, n)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_divisors(device, check, dtype):
    limits = np.iinfo(dtype)
    values = [v for v in (0, 1, 2, 12, 18, 97, 100, 89, 55, -12, -18, limits.max) if v >= limits.min]
    a, b = (side.ravel() for side in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    with np.errstate(all="ignore"):
        small = (np.abs(a.astype(np.float64)) < 1000) & (np.abs(b.astype(np.float64)) < 1000)
        check((Tensor(a).gcd(Tensor(b)), np.gcd(a, b)))
        a, b = a[small], b[small]
        check((Tensor(a).lcm(Tensor(b)), np.lcm(a, b)))


def test_euclid_takes_its_most_steps(device):
    """Two Fibonacci numbers next to each other."""
    assert Tensor([7540113804746346429]).gcd(Tensor([4660046610375530309])).tolist() == [1]
    assert Tensor([89], dtype="int8").gcd(Tensor([55], dtype="int8")).tolist() == [1]


def test_error_and_gamma_functions(device, check):
    x = np.array([-3.0, -0.3, 0.0, 0.2, 1.0, 2.5, 9.0, np.inf, np.nan])
    p = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.7, 31.0, -0.5, -2.5])
    euler = 0.5772156649015329
    # Abramowitz and Stegun, 6.3.2 to 6.3.4, and the recurrence
    half, harmonic = -euler - 2 * math.log(2), sum(1 / k for k in range(1, 31))
    digamma = [
        -euler - math.pi / 2 - 3 * math.log(2),
        half,
        -euler,
        half + 2,
        1 - euler,
        1.1671535393615112,
        harmonic - euler,
        half + 2,
        half + 2 + 2 / 3 + 2 / 5,
    ]
    check(
        (Tensor(x).erf(), [math.erf(v) for v in x]),
        (Tensor(x).erfc(), [math.erfc(v) for v in x]),
        (Tensor(p).lgamma(), [math.lgamma(v) for v in p]),
        (Tensor(p).digamma(), digamma),
        (Tensor([0.0, -1.0, -3.0]).lgamma(), np.full(3, np.inf, np.float32)),
        (Tensor([0.0, -0.0, -1.0, np.inf]).digamma(), np.array([-np.inf, np.inf, np.nan, np.inf], np.float32)),
    )  # fmt: skip


def test_digamma_next_to_a_pole(device, check):
    """There it is -1 / d and 1 + 1/2 + … + 1/n - Euler's constant, d behind -n."""
    d = np.array([2.0**-42, -(2.0**-44)])
    check((Tensor(d - 50).digamma(), -1 / d + 3.92))


def test_probabilities(device, check):
    p = np.array([1e-20, 0.2, 0.5 + 1e-9, 0.7, 1.0, 0.0])
    with np.errstate(divide="ignore"):
        expected = np.array([*np.log(p[:2] / (1 - p[:2])), 4e-9, np.log(7 / 3), np.inf, -np.inf])
    check(
        (Tensor(p).logit(), expected),
        (Tensor(p).logit(0.2), np.log([0.25, 0.25, 1, 7 / 3, 4, 0.25])),
        (Tensor(p).expit(), 1 / (1 + np.exp(-p))),
        tolerance=1e-8,
    )


def test_between_and_rounded(device, check):
    x, y = np.array([0.0, 1.0, -2.0], np.float32), np.array([1.0, 5.0, 2.0], np.float32)
    check(
        (Tensor(x).lerp(Tensor(y), 0.25), x + (y - x) * np.float32(0.25)),
        (Tensor(x).lerp(Tensor(y), 1.0), y),
        (Tensor([12.345, -0.55]).round(decimals=1), np.array([12.3, -0.6], np.float32)),
        (Tensor([1250.0, 1350.0]).round(decimals=-2), np.array([1200.0, 1400.0], np.float32)),
        (Tensor([3, 2]).float_power(2), np.array([9.0, 4.0])),
        (Tensor([0.0, 0.5, 1.5]).sinc(), np.sinc(np.array([0.0, 0.5, 1.5], np.float32))),
    )
    assert Tensor(x).allclose(Tensor(x)) and not Tensor(x).allclose(Tensor(y))


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_are_of_integers(any_device, name):
    with pytest.raises(DtypeError, match=f"{name}: the operands promote to float32"):
        getattr(Tensor([1.0]), name)(Tensor([2.0]))


def test_integers_have_no_neighbours(any_device):
    with pytest.raises(DtypeError, match="nextafter: int64 has no neighbouring floats"):
        Tensor([1]).nextafter(2)


def test_zero_that_is_added_is_an_addition(device):
    x = Tensor(np.array([-0.0, 0.0, 1.0]))
    for result, expected in (
        (x + 0.0, [0.0, 0.0, 1.0]),
        (0.0 + x, [0.0, 0.0, 1.0]),
        (x - 0.0, [-0.0, 0.0, 1.0]),
        (x + -0.0, [-0.0, 0.0, 1.0]),
    ):
        assert list(map(str, result.tolist())) == list(map(str, expected))


def test_doubles_beside_nan_and_infinity(device):
    x = Tensor(np.array([1.0, -1.0]))
    with np.errstate(invalid="ignore"):
        for number in (np.nan, np.inf, -np.inf):
            np.testing.assert_array_equal((x % number).numpy(), np.array([1.0, -1.0]) % number)
            np.testing.assert_array_equal((x // number).numpy(), np.array([1.0, -1.0]) / number)
            np.testing.assert_array_equal(x.fmod(number).numpy(), np.fmod([1.0, -1.0], number))


@pytest.mark.parametrize("name", ["numpy", "c"])
def test_nan_keeps_its_sign(name):
    minus = math.copysign(math.nan, -1.0)
    with config(device=name):
        x = Tensor([1.0, -2.0, minus, math.nan])
        rows = [Tensor.full((4,), minus), -Tensor.full((4,), math.nan), (x > 9).where(0.0, minus), x.copysign(minus)]
        found = x.stack(*rows, x.copysign(math.nan), x.abs()).numpy()
    wanted = [[False, True, True, False]] + [[True] * 4] * 4 + [[False] * 4] * 2
    assert np.signbit(found).tolist() == wanted


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_float_without_infinities(device: str) -> None:
    """float8_e4m3fn ends at 448: what fills or bounds other floats with an infinity has to take that."""
    values = np.array([[-300.0, 2.75, np.nan, -0.5]], np.float32)
    x = Tensor(values, device=device).cast("float8_e4m3fn")
    one = Tensor([1.0], device=device).cast("float8_e4m3fn")
    assert x.isfinite().tolist() == [[True, True, False, True]]
    assert (x // one)[:, 1].tolist() == [2.0] and (x // one)[:, 3].tolist() == [-1.0]
    assert np.nanmax(x).item() == 2.75 and np.nanmin(x).item() == -288.0
    assert x[:, :1].reshape(1, 1, 1, 1).max_pool2d(3, 1, 1).item() == -288.0
    assert (-one * 448).isclose(-one * 448).item() is True
    places = Tensor([0, 0], device=device)
    found = (
        Tensor.zeros(1, device=device)
        .cast("float8_e4m3fn")
        .scatter_reduce(0, places, (x[0, :1] / 1).cat(x[0, :1]), "amax", include_self=False)
    )
    assert found.item() == -288.0


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_quotients_of_small_floats_are_rounded_to_integers_before_they_are_rounded_to_the_dtype(
    dtype: str, mode: str
) -> None:
    """0.04296875 / 0.005859375 is 7.33, and was 6 in float8_e4m3fn: what the remainder leaves was rounded first."""
    random = np.random.default_rng(0)
    values = random.standard_normal((2, 1000)) * 10.0 ** random.integers(-2, 3, (2, 1000))
    a, b = (Tensor(side.astype(np.float32)).cast(dtype).realize() for side in values)
    with np.errstate(all="ignore"):
        exact = a.cast("float64").numpy() / b.cast("float64").numpy()
        wanted = Tensor((np.floor if mode == "floor" else np.trunc)(exact)).cast(dtype).cast("float32").numpy()
    found = a.div(b, rounding_mode=mode)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.cast("float32").numpy(), wanted)


def test_remainders_of_vectors():
    """Quotients of all sizes, of which few or none make a vector take the long way."""
    r = np.random.default_rng(0)
    special = np.array([*SPECIAL, 1e-45, -7e-39, 3e38, -3e38, 2**24 + 2, 0.7], np.float32)
    first, second = (grid.ravel() for grid in np.meshgrid(special, special))
    for exponent in (0, 0, 20, 25, 60):
        first = np.append(first, (r.standard_normal(1000) * 2.0**exponent).astype(np.float32))
        second = np.append(second, r.standard_normal(1000).astype(np.float32))
    first, second = np.append(first, np.float32([-6.0] * 40)), np.append(second, np.float32([3.0] * 40))
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(first, second)
    result = Tensor(first, device="c").fmod(Tensor(second, device="c")).numpy()
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(np.signbit(result)[result == 0], np.signbit(wanted)[wanted == 0])
