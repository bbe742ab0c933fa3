"""Special cases: what the standard says of nan, infinities and signed zeros, as a table for each function."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

nan, inf, pi = np.nan, np.inf, np.pi

# Argument and result. A zero's sign counts on both sides.
UNARY: dict[str, list[tuple[float, float]]] = {
    "abs": [(nan, nan), (-0.0, 0.0), (-inf, inf), (inf, inf)],
    "acos": [(nan, nan), (1.5, nan), (-1.5, nan), (1.0, 0.0)],
    "acosh": [(nan, nan), (0.5, nan), (1.0, 0.0), (inf, inf)],
    "asin": [(nan, nan), (1.5, nan), (-1.5, nan), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "atan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, pi / 2), (-inf, -pi / 2)],
    "atanh": [(nan, nan), (-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (3.0, 3.0), (-0.5, -0.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0)],
    "floor": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (3.0, 3.0)],
    "log": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log10": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [(nan, nan), (-2.0, nan), (-inf, nan), (-1.0, -inf), (-0.0, -0.0), (0.0, 0.0), (inf, inf)],
    "log2": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "negative": [(nan, nan), (0.0, -0.0), (-0.0, 0.0), (inf, -inf)],
    "positive": [(nan, nan), (-0.0, -0.0), (inf, inf)],
    "reciprocal": [(nan, nan), (0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)],
    "round": [
        (nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (0.5, 0.0), (1.5, 2.0), (2.5, 2.0),
        (-0.5, -0.0), (-1.5, -2.0),
    ],
    "sign": [(nan, nan), (-3.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (inf, 1.0), (-inf, -1.0)],
    "sin": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "sinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "sqrt": [(nan, nan), (-1.0, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf)],
    "square": [(nan, nan), (-0.0, 0.0), (-inf, inf)],
    "tan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "tanh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "trunc": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (3.0, 3.0), (-0.5, -0.0)],
}  # fmt: skip
TRUTHS: dict[str, list[tuple[float, bool]]] = {
    "isfinite": [(inf, False), (-inf, False), (nan, False), (1.0, True), (-0.0, True)],
    "isinf": [(inf, True), (-inf, True), (nan, False), (1.0, False)],
    "isnan": [(nan, True), (inf, False), (0.0, False)],
    "signbit": [(0.0, False), (-0.0, True), (inf, False), (-inf, True), (5.0, False), (-5.0, True)],
}
BINARY: dict[str, list[tuple[float, float, float]]] = {
    "add": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf),
        (inf, 1.0, inf), (-inf, 1.0, -inf), (1.0, inf, inf), (1.0, -inf, -inf), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0),
        (0.0, -0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 2.0, 2.0), (-0.0, 2.0, 2.0), (2.0, -2.0, 0.0),
    ],
    "atan2": [
        (nan, 1.0, nan), (1.0, nan, nan), (1.0, 0.0, pi / 2), (1.0, -0.0, pi / 2), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
        (0.0, -0.0, pi), (0.0, -1.0, pi), (-0.0, 1.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi), (-0.0, -1.0, -pi),
        (-1.0, 0.0, -pi / 2), (-1.0, -0.0, -pi / 2), (1.0, inf, 0.0), (1.0, -inf, pi), (-1.0, inf, -0.0),
        (-1.0, -inf, -pi), (inf, 1.0, pi / 2), (-inf, 1.0, -pi / 2), (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4),
        (-inf, inf, -pi / 4), (-inf, -inf, -3 * pi / 4),
    ],
    "copysign": [
        (1.0, -2.0, -1.0), (-1.0, 2.0, 1.0), (1.0, -0.0, -1.0), (-1.0, 0.0, 1.0), (0.0, -1.0, -0.0), (-0.0, 1.0, 0.0),
        (inf, -1.0, -inf), (nan, 1.0, nan),
    ],
    "divide": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, inf, nan), (inf, -inf, nan), (0.0, 0.0, nan), (0.0, -0.0, nan),
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, -0.0), (-0.0, -1.0, 0.0), (1.0, 0.0, inf), (1.0, -0.0, -inf),
        (-1.0, 0.0, -inf), (-1.0, -0.0, inf), (inf, 1.0, inf), (inf, -1.0, -inf), (-inf, 1.0, -inf),
        (-inf, -1.0, inf), (1.0, inf, 0.0), (1.0, -inf, -0.0), (-1.0, inf, -0.0), (-1.0, -inf, 0.0),
    ],
    "floor_divide": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, inf, nan), (inf, -inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan),
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, -0.0), (-0.0, -1.0, 0.0), (1.0, inf, 0.0), (-1.0, -inf, 0.0),
        (1.0, -inf, -0.0), (-1.0, inf, -0.0), (inf, 1.0, inf), (inf, -1.0, -inf), (-inf, 1.0, -inf), (-inf, -1.0, inf),
    ],
    "hypot": [
        (inf, 1.0, inf), (-inf, 1.0, inf), (1.0, inf, inf), (inf, nan, inf), (nan, -inf, inf), (nan, 1.0, nan),
        (1.0, nan, nan), (0.0, -0.0, 0.0), (-0.0, -0.0, 0.0), (-3.0, 4.0, 5.0),
    ],
    "logaddexp": [(nan, 1.0, nan), (1.0, nan, nan), (inf, 1.0, inf), (1.0, inf, inf), (-inf, -inf, -inf), (-inf, 1.0, 1.0)],
    "maximum": [(nan, 1.0, nan), (1.0, nan, nan), (inf, 1.0, inf), (-inf, 1.0, 1.0)],
    "minimum": [(nan, 1.0, nan), (1.0, nan, nan), (inf, 1.0, 1.0), (-inf, 1.0, -inf)],
    "multiply": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, 0.0, nan), (-inf, -0.0, nan), (0.0, inf, nan), (inf, inf, inf),
        (inf, -inf, -inf), (inf, -2.0, -inf), (-2.0, inf, -inf), (-0.0, 2.0, -0.0), (-2.0, -0.0, 0.0),
    ],
    "nextafter": [(nan, 1.0, nan), (1.0, nan, nan), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0)],
    "pow": [
        (2.0, 0.0, 1.0), (nan, 0.0, 1.0), (nan, -0.0, 1.0), (nan, 1.0, nan), (1.0, nan, 1.0), (2.0, nan, nan),
        (2.0, inf, inf), (-2.0, inf, inf), (2.0, -inf, 0.0), (-2.0, -inf, 0.0), (1.0, inf, 1.0), (-1.0, inf, 1.0),
        (1.0, -inf, 1.0), (-1.0, -inf, 1.0), (0.5, inf, 0.0), (0.5, -inf, inf), (inf, 2.0, inf), (inf, -2.0, 0.0),
        (-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, 2.5, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0), (0.0, 2.0, 0.0),
        (0.0, -2.0, inf), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -inf), (-0.0, -2.0, inf),
        (-2.0, 0.5, nan), (-8.0, 3.0, -512.0),
    ],
    "remainder": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, 1.0, nan), (-inf, inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan),
        (1.0, 0.0, nan), (-1.0, -0.0, nan), (0.0, 1.0, 0.0), (-0.0, 1.0, 0.0), (0.0, -1.0, -0.0), (-0.0, -1.0, -0.0),
        (1.0, inf, 1.0), (-1.0, -inf, -1.0), (1.0, -inf, -inf), (-1.0, inf, inf), (-5.0, 3.0, 1.0), (5.0, -3.0, -1.0),
        (6.0, 3.0, 0.0), (-6.0, 3.0, 0.0), (6.0, -3.0, -0.0),
    ],
    "subtract": [
        (nan, 1.0, nan), (1.0, nan, nan), (inf, inf, nan), (inf, -inf, inf), (-inf, inf, -inf), (-0.0, 0.0, -0.0),
        (0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (2.0, 2.0, 0.0),
    ],
}  # fmt: skip
COMPARISONS: dict[str, list[tuple[float, float, bool]]] = {
    "equal": [(nan, nan, False), (inf, inf, True), (-inf, inf, False), (-0.0, 0.0, True), (1.0, nan, False)],
    "not_equal": [(nan, nan, True), (inf, inf, False), (-0.0, 0.0, False), (1.0, nan, True)],
    "less": [(nan, 1.0, False), (1.0, nan, False), (-inf, inf, True), (inf, inf, False), (-0.0, 0.0, False)],
    "less_equal": [(nan, nan, False), (-inf, -inf, True), (inf, -inf, False), (0.0, -0.0, True)],
    "greater": [(nan, 1.0, False), (1.0, nan, False), (inf, 1.0, True), (0.0, -0.0, False)],
    "greater_equal": [(nan, nan, False), (inf, inf, True), (-0.0, 0.0, True), (-inf, 1.0, False)],
}
OPERATORS = {
    "add": "__add__", "subtract": "__sub__", "multiply": "__mul__", "divide": "__truediv__", "pow": "__pow__",
    "floor_divide": "__floordiv__", "remainder": "__mod__",
}  # fmt: skip


def agrees(result: Any, expected: float) -> bool:
    """Equal up to rounding; of zeros the sign as well."""
    if np.isnan(expected):
        return bool(np.isnan(result))
    close = bool(np.isclose(result, expected, rtol=1e-6, atol=0))
    return close and (expected != 0 or np.signbit(result) == np.signbit(expected))


def sound_laws_only(lib: Any) -> Any:
    """Without the laws that rulegrad marks as unsound: docs/array-api.md names the one that matters here."""
    if not lib.is_ours:
        return nullcontext()
    from rulegrad import config

    return config(rules_strict=True)


def wrong(name: str, cases: list[Any], results: Any) -> list[str]:
    pairs = zip(cases, results, strict=True)
    return [f"{name}{case[:-1]} is {result}, not {case[-1]}" for case, result in pairs if not agrees(result, case[-1])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(lib: Any, xp: Any, name: str, dtype: str):
    cases: list[Any] = UNARY[name]
    results = lib.values(getattr(xp, name)(lib.array([case[0] for case in cases], dtype)))
    assert wrong(name, cases, results) == []


@pytest.mark.parametrize("name", TRUTHS)
def test_kinds_of_numbers(lib: Any, xp: Any, name: str):
    given, expected = zip(*TRUTHS[name], strict=True)
    lib.exactly(getattr(xp, name)(lib.array(given, "float32")), np.array(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(lib: Any, xp: Any, name: str, dtype: str):
    cases: list[Any] = BINARY[name]
    first, second = (lib.array([case[k] for case in cases], dtype) for k in (0, 1))
    assert wrong(name, cases, lib.values(getattr(xp, name)(first, second))) == []


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_the_functions(lib: Any, name: str):
    cases: list[Any] = BINARY[name]
    first, second = (lib.array([case[k] for case in cases], "float64") for k in (0, 1))
    assert wrong(name, cases, lib.values(getattr(first, OPERATORS[name])(second))) == []


@pytest.mark.parametrize("name", BINARY)
def test_numbers_one_at_a_time(lib: Any, xp: Any, name: str):
    """Beside a Python number, which laws may know: every case of its own."""
    function = getattr(xp, name)
    with sound_laws_only(lib):
        results = [lib.values(function(lib.array(a, "float64"), b))[()] for a, b, _ in BINARY[name]]
    assert wrong(name, list(BINARY[name]), results) == []


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(lib: Any, xp: Any, name: str):
    first, second, expected = zip(*COMPARISONS[name], strict=True)
    result = getattr(xp, name)(lib.array(first, "float64"), lib.array(second, "float64"))
    lib.exactly(result, np.array(expected))


# ---- integers ----


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_integers_are_finite(lib: Any, xp: Any, dtype: str):
    x = lib.array([0, 5], dtype)
    assert lib.values(xp.isfinite(x)).all()
    assert not lib.values(xp.isinf(x)).any()
    assert not lib.values(xp.isnan(x)).any()


# ---- reductions ----


def test_reductions_of_special_numbers(lib: Any, xp: Any):
    with_nan, infinite = lib.array([1.0, nan, 3.0]), lib.array([1.0, inf, -inf])
    for name in ("max", "min", "sum", "prod", "mean", "std", "var"):
        assert np.isnan(lib.values(getattr(xp, name)(with_nan))), name
    assert np.isnan(lib.values(xp.sum(infinite)))
    assert np.isnan(lib.values(xp.mean(infinite)))
    assert lib.values(xp.max(infinite)) == inf
    assert lib.values(xp.min(infinite)) == -inf


def test_reductions_of_nothing(lib: Any, xp: Any):
    none = xp.zeros((0, 2))
    lib.same(xp.sum(none, axis=0), np.zeros(2), lib.name_of(none.dtype))
    lib.same(xp.prod(none, axis=0), np.ones(2), lib.name_of(none.dtype))
    assert lib.values(xp.all(none)) and not lib.values(xp.any(none))
    assert np.isnan(lib.values(xp.mean(none)))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError):
            lib.values(getattr(xp, name)(none))


# ---- complex numbers ----

_PARTS = (-inf, -2.0, -0.0, 0.0, 1.0, 1e200, inf, nan)
GRID = np.array([complex(a, b) for a in _PARTS for b in _PARTS])


def same_complex(result: complex, expected: complex) -> bool:
    """Equal parts; where the standard leaves signs open (of infinities and zeros beside a nan), they may differ."""
    for a, b in ((result.real, expected.real), (result.imag, expected.imag)):
        open_sign = (np.isinf(b) and np.isinf(a)) or (a == 0 and b == 0)
        if not (agrees(a, b) or (open_sign and (np.isnan(expected.real) or np.isnan(expected.imag)))):
            return False
    return True


def expm1(given: Any) -> Any:
    """NumPy's, but for the standard's special cases, which it does not follow."""
    expected = np.expm1(given)
    for k, z in enumerate(given):
        if z.real == -inf and not np.isfinite(z.imag):
            expected[k] = complex(-1.0, math.copysign(0.0, z.imag))
        elif z.real == inf and not np.isfinite(z.imag):
            expected[k] = complex(inf, nan)
        elif z.imag == 0:
            expected[k] = complex(np.expm1(z.real), z.imag)
    return expected


@pytest.mark.parametrize(
    "name",
    ["exp", "expm1", "log", "sqrt", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
    + ["sin", "cos", "tan", "asin", "acos", "atan"],
)
def test_complex_functions_of_special_numbers(lib: Any, xp: Any, name: str):
    assert wrong_complex(name, GRID, lib.values(getattr(xp, name)(lib.array(GRID)))) == []


def wrong_complex(name: str, given: Any, results: Any) -> list[str]:
    expected = expm1(given) if name == "expm1" else getattr(np, name)(given)
    return [
        f"{name}({x}) is {a}, not {b}"
        for x, a, b in zip(given, results, expected, strict=True)
        if not same_complex(a, b)
    ]


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan", "conj", "real", "imag", "abs"])
def test_complex_parts_of_special_numbers(lib: Any, xp: Any, name: str):
    lib.exactly(getattr(xp, name)(lib.array(GRID)), getattr(np, name)(GRID))
