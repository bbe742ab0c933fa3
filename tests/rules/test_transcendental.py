"""Transcendental functions by rules: the error stays below what each rule states, and special values are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.ir import UOp
from rulegrad.lang import syntax

NAMES = ("EXP", "EXP2", "EXPM1", "LOG", "LOG2", "LOG10", "LOG1P", "SIN", "COS", "TAN", "SINH", "COSH", "TANH")
INVERSE = {
    "ASIN": "arcsin",
    "ACOS": "arccos",
    "ATAN": "arctan",
    "ASINH": "arcsinh",
    "ACOSH": "arccosh",
    "ATANH": "arctanh",
}
FUNCTIONS = {op: getattr(np, op.lower()) for op in NAMES} | {op: getattr(np, name) for op, name in INVERSE.items()}
BINARY = {"ATAN2": np.arctan2, "HYPOT": np.hypot}
OTHERS = {"ERF": math.erf, "ERFC": math.erfc}
SETS = ("transcendental", "trigonometry", "inverse_trigonometry", "hyperbolic", "power", "gamma")
FLOATS = ("float32", "float64")
COUNT = 60_000
# The exact value of a float64 function needs more digits than float64 has.
EXACT = np.longdouble
needs_long_double = pytest.mark.skipif(np.finfo(EXACT).nmant <= 52, reason="long double is float64 here")


def stated_ulp(op: str) -> float:
    """The largest `ulp` of the rules about an op."""
    bounds = [
        clause.expression.value
        for file in engine.loaded().sources.files
        for ruleset in file.declarations
        if isinstance(ruleset, syntax.Ruleset) and ruleset.name in SETS
        for rule in ruleset.rules
        if _is_about(rule, op)
        for clause in rule.clauses
        if clause.keyword == "ulp"
    ]
    return float(max(bounds))


def _is_about(rule: syntax.Rule, op: str) -> bool:
    pattern = rule.pattern
    if isinstance(pattern, syntax.Infix):
        return op == "POW" and pattern.operator == "**"
    return isinstance(pattern, syntax.OpCall) and pattern.op == op


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the exact value; infinite where nan, an infinity or a sign is wrong."""
    limits = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        _, exponent = np.frexp(np.where(np.isfinite(exact), np.abs(exact), 1))
        unit = np.ldexp(EXACT(1), np.maximum(exponent - 1, limits.minexp) - limits.nmant)
        error = np.abs(found.astype(EXACT) - exact) / unit
    same = (found == rounded) & (np.signbit(found) == np.signbit(rounded)) | np.isnan(found) & np.isnan(rounded)
    error[same & (~np.isfinite(rounded) | (rounded == 0))] = 0
    error[~same & ~np.isfinite(error)] = np.inf
    # a value that barely overflows may be rounded to the largest float instead
    largest = ~same & np.isinf(rounded) & (np.abs(found) == limits.max)
    error[largest] = 1
    return error


def arguments(dtype: str) -> np.ndarray:
    """Special values, every magnitude, near 0, near 1, and where the exponential neither overflows nor vanishes."""
    generator, limits = np.random.default_rng(0), np.finfo(dtype)
    special = [0, 1, 0.5, 2, 3, 10, np.inf, np.nan, limits.tiny, limits.smallest_subnormal, limits.max, 1e-10]
    magnitudes = np.exp2(generator.uniform(limits.minexp - limits.nmant, limits.maxexp, COUNT))
    near_one = 1 + np.exp2(-generator.uniform(0, limits.nmant, COUNT)) * generator.choice([-1, 1], COUNT)
    moderate = generator.uniform(-1, 1, 2 * COUNT) * 1.1 * limits.maxexp
    small = generator.uniform(-1, 1, 2 * COUNT) * 10
    multiples = np.arange(1, 2000) * (np.pi / 4)
    with np.errstate(over="ignore"):
        positive = np.concatenate([special, magnitudes, near_one, multiples]).astype(dtype)
        return np.concatenate([positive, -positive, moderate.astype(dtype), small.astype(dtype)])


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [pytest.param("float64", marks=needs_long_double), "float32"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error(lower, compute, variable, op, dtype):
    values = arguments(dtype)
    leaf = variable(0, values)
    found = compute(lower(UOp(op, (leaf,))), {leaf: values})
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[op](values.astype(EXACT))
    error = ulps(found, exact)
    worst = np.argmax(error)
    assert error[worst] <= stated_ulp(op), f"{op}({values[worst]!r}) is {found[worst]!r}, exactly {exact[worst]!r}"


@pytest.mark.parametrize("dtype", [pytest.param("float64", marks=needs_long_double), "float32"])
@pytest.mark.parametrize("op", BINARY)
def test_error_of_functions_of_two(lower, compute, variable, op, dtype):
    generator, limits = np.random.default_rng(1), np.finfo(dtype)
    a = arguments(dtype)
    special = np.array([0, 1, np.inf, np.nan, limits.tiny, limits.smallest_subnormal, limits.max], dtype)
    pairs = np.meshgrid(np.concatenate([special, -special]), np.concatenate([special, -special]))
    near = (a * (1 + generator.uniform(-1, 1, a.size))).astype(dtype)
    arrays = [
        np.concatenate([pairs[0].ravel(), a, a]),
        np.concatenate([pairs[1].ravel(), near, generator.permutation(a)]),
    ]
    leaves = variable(0, arrays[0]), variable(1, arrays[1])
    found = compute(lower(UOp(op, leaves)), dict(zip(leaves, arrays, strict=True)))
    with np.errstate(all="ignore"):
        error = ulps(found, BINARY[op](*(array.astype(EXACT) for array in arrays)))
    worst = np.argmax(error)
    assert error[worst] <= stated_ulp(op), f"{op}({arrays[0][worst]!r}, {arrays[1][worst]!r}) is {found[worst]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OTHERS)
def test_error_of_the_error_functions(lower, compute, variable, op, dtype):
    """The standard library's have an error of their own, of one unit at most."""
    values = arguments(dtype)[::4]
    leaf = variable(0, values)
    found = compute(lower(UOp(op, (leaf,))), {leaf: values})
    exact = np.array([OTHERS[op](float(v)) for v in values]).astype(EXACT)
    error = ulps(found, exact)
    worst = np.argmax(error)
    assert error[worst] <= stated_ulp(op) + 1, f"{op}({values[worst]!r}) is {found[worst]!r}, not {exact[worst]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_error_of_gamma(lower, compute, variable, dtype):
    values = arguments(dtype)[::4]
    values = values[~(values < -1e4)]
    leaf = variable(0, values)
    found = compute(lower(UOp("LGAMMA", (leaf,))), {leaf: values})
    with np.errstate(all="ignore"):
        exact = evaluators().evaluate("LGAMMA", "float64", [values.astype(np.float64)]).astype(EXACT)
    error = ulps(found, exact)
    # below 0 it has roots at irrational places
    error[(values < 0) & (np.abs(found - exact) <= 1e-6 * np.maximum(np.abs(values), 1))] = 0
    worst = np.argmax(error)
    assert error[worst] <= 8, f"lgamma({values[worst]!r}) is {found[worst]!r}, not {exact[worst]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_digamma_is_the_slope_of_lgamma(lower, compute, variable, dtype):
    """And digamma(x + 1) - digamma(x) = 1 / x."""
    x = np.concatenate([np.linspace(0.01, 15, 400), [1.4616321449683622, 100.0, 1e6], np.linspace(-3.9, -0.1, 100)])
    x = (np.round(x * 1024) / 1024).astype(dtype)
    leaf = variable(0, x)
    lowered = lower(UOp("DIGAMMA", (leaf,)))
    found, next_one = compute(lowered, {leaf: x}), compute(lowered, {leaf: x + 1})
    whole = (x <= 0) & (x == np.floor(x))
    scale = 1 + np.abs(found) + np.abs(1 / x)
    eps = np.finfo(dtype).eps
    assert np.all((np.abs(next_one - found - 1 / x) <= 8 * eps * scale) | whole)
    step = 1e-5
    places = x[(x > 0.1) & (x < 50)].astype(np.float64)
    slope = np.array([(math.lgamma(v + step) - math.lgamma(v - step)) / (2 * step) for v in places])
    np.testing.assert_allclose(found[(x > 0.1) & (x < 50)], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [pytest.param("float64", marks=needs_long_double), "float32"])
def test_error_of_powers(lower, compute, variable, dtype):
    generator, limits = np.random.default_rng(0), np.finfo(dtype)
    bases = [
        np.exp2(generator.uniform(limits.minexp - limits.nmant, limits.maxexp, COUNT)),
        1 + generator.uniform(-0.5, 1, COUNT) * np.exp2(-generator.uniform(0, limits.nmant, COUNT)),
    ]
    a = np.concatenate(bases).astype(dtype)
    with np.errstate(all="ignore"):
        # results of every magnitude
        b = (generator.uniform(limits.minexp, limits.maxexp, a.size) / np.log2(a.astype(EXACT))).astype(dtype)
    a = np.concatenate([a, generator.uniform(-10, 10, COUNT).astype(dtype)])
    b = np.concatenate([b, generator.integers(-20, 20, COUNT).astype(dtype)])
    leaves = variable(0, a), variable(1, b)
    found = compute(lower(UOp("POW", leaves)), dict(zip(leaves, (a, b), strict=True)))
    with np.errstate(all="ignore"):
        error = ulps(found, np.power(a.astype(EXACT), b.astype(EXACT)))
    worst = np.argmax(error)
    assert error[worst] <= stated_ulp("POW"), f"{a[worst]!r} ** {b[worst]!r} is {found[worst]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_powers(lower, compute, variable, dtype):
    """Every pair of special values, as C's pow has them."""
    limits = np.finfo(dtype)
    sizes = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.0**24 + 1, 2.0**53 - 1, np.inf, limits.max]
    sizes += [limits.tiny, limits.smallest_subnormal]
    values = np.array([np.nan, *sizes, *(-s for s in sizes)], dtype)
    a, b = (side.ravel() for side in np.meshgrid(values, values))
    leaves = variable(0, a), variable(1, b)
    found = compute(lower(UOp("POW", leaves)), dict(zip(leaves, (a, b), strict=True)))
    with np.errstate(all="ignore"):
        wanted = np.power(a, b)
    np.testing.assert_allclose(found, wanted, rtol=4 * limits.eps)
    exact = (wanted == 0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[exact], wanted[exact])
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)])


@pytest.mark.parametrize(
    "x, sine, cosine",
    [
        (1e22, -0.8522008497671888, 0.5232147853951389),
        # next to a multiple of pi / 2: the float64 with the smallest known cosine
        (6381956970095103.0 * 2.0**797, 1.0, -4.68716592425462761112e-19),
        (1.7976931348623157e308, 0.004961954789184062, -0.9999876894265599),
    ],
)
def test_sine_and_cosine_of_huge_arguments(lower, compute, variable, x, sine, cosine):
    values = np.array([x, -x])
    leaf = variable(0, values)
    np.testing.assert_allclose(compute(lower(UOp("SIN", (leaf,))), {leaf: values}), [sine, -sine], rtol=1e-15)
    np.testing.assert_allclose(compute(lower(UOp("COS", (leaf,))), {leaf: values}), [cosine, cosine], rtol=1e-15)


def test_slow_math_leaves_no_function_of_the_device():
    """OpenCL's functions of float32 are not called: PoCL computes them one element at a time."""
    x = UOp("BUFFER", (), "float32", id=1, shape=(4,), device="numpy")
    for op in (*FUNCTIONS, "POW"):
        lowered = engine.rewrite(UOp(op, (x, x) if op == "POW" else (x,)), "decompose", "opencl")
        assert op not in {node.op for node in lowered.toposort()}


@pytest.mark.parametrize("exponent, most", [(2, 1), (3, 2), (-1, 0), (0.5, 0)])
def test_small_constant_powers_are_products(exponent, most):
    x = UOp("BUFFER", (), "float32", id=1, shape=(4,), device="numpy")
    lowered = engine.rewrite(UOp("POW", (x, UOp.const(exponent, "float32"))), "decompose", "opencl")
    ops = [node.op for node in lowered.toposort() if node.op not in ("BUFFER", "CONST")]
    assert ops.count("MUL") <= most and set(ops) <= {"MUL", "DIV", "SQRT"}
