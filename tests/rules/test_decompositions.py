"""Division, powers, max and min, rounding, comparisons: what the rules make of them means the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.ir import UOp

DIVISIONS = ("FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def every_pair(dtype):
    limits = np.iinfo(dtype)
    values = np.arange(limits.min, limits.max + 1).astype(dtype)
    return [side.ravel() for side in np.meshgrid(values, values, indexing="ij")]


def random_pairs(dtype, count=20_000):
    """Random bits; the second of every size, so that quotients are not all 0."""
    generator, limits = np.random.default_rng(1), np.iinfo(dtype)
    sides = generator.integers(limits.min, limits.max, (2, count), dtype=dtype, endpoint=True)
    shift = generator.integers(0, limits.bits, count).astype(dtype)
    sides[1] = sides[1] >> shift
    edges = np.array([0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min // 2], dtype)
    special = np.array(list(itertools.product([*edges, *(0 - edges).astype(dtype)], repeat=2)), dtype).T
    return list(np.concatenate([special, sides], axis=1))


@pytest.fixture
def agree(lower, compute, variable):
    """Fails unless the lowered op gives what the op gives; `constants` replaces the second source."""

    def check(op, *arrays, constant=None):
        leaves = [variable(k, array) for k, array in enumerate(arrays)]
        last = () if constant is None else (UOp.const(constant, arrays[0].dtype.name),)
        graph = UOp(op, (*leaves, *last))
        given = dict(zip(leaves, arrays, strict=True))
        wanted, found = compute(graph, given), compute(lower(graph), given)
        np.testing.assert_array_equal(found, wanted, f"{op} {arrays[0].dtype} {constant if last else ''}")
        if wanted.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))

    return check


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_division_of_every_pair(agree, op, dtype):
    agree(op, *every_pair(dtype))


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_division_by_every_constant(agree, op, dtype):
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    for constant in every.tolist():
        agree(op, every, constant=constant)


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("dtype", [d for d in INTEGERS if "8" not in d])
def test_division_of_large_integers(agree, op, dtype):
    a, b = random_pairs(dtype)
    agree(op, a, b)
    for constant in (1, 3, 7, 10, 64, 1000, np.iinfo(dtype).max, *((-1, -7, -64) if dtype[0] == "i" else ())):
        agree(op, a, constant=constant)


@pytest.mark.parametrize("low, high", [(0, 100), (-7, 20), (-50, -3), (5, 9), (0, 70_000), (-66_000, 66_000)])
def test_division_of_addresses(lower, low, high):
    """Bounds decide how an address is divided: shifts, multiplication, or the machine's division."""
    index = UOp("RANGE", (UOp.const(high - low, "index"),), id=0, kind="output")
    loops = (index,)
    for op, constant in itertools.product(DIVISIONS, (*range(-9, 13), 100, 1000, 65_537)):
        graph = UOp(op, (index + low, UOp.const(constant, "index")))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate(lower(graph), loops=loops), evaluate(graph, loops=loops))


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
@pytest.mark.parametrize("low, high", [(0, 100), (1, 11), (-100, 100), (-5, 120)])
def test_division_of_narrow_bounded_integers(lower, dtype, low, high):
    """Cheaper divisions must not overflow on the way."""
    index = UOp("RANGE", (UOp.const(high - low, "index"),), id=0, kind="output")
    value = UOp("CAST", (index + max(low, 0 if dtype == "uint8" else low),), dtype)
    for op, constant in itertools.product(DIVISIONS, (2, 3, 5, 7, 10, 11, 64, 100)):
        graph = UOp(op, (value, UOp.const(constant, dtype)))
        np.testing.assert_array_equal(evaluate(lower(graph), loops=(index,)), evaluate(graph, loops=(index,)))


@pytest.mark.parametrize("divisor", [3, 7, 10, 12, 100, 641, 1000])
def test_a_bounded_address_is_not_divided(divisor):
    index = UOp("RANGE", (UOp.const(2000, "index"),), id=0, kind="output")
    for op in ("FLOORDIV", "FLOORMOD"):
        quotient = engine.rewrite(UOp(op, (index, UOp.const(divisor, "index"))), "decompose", "opencl")
        assert {node.op for node in quotient.toposort()} <= {"RANGE", "CONST", "MUL", "SHR", "ADD", "SUB"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integer_powers_of_every_pair(agree, dtype):
    agree("POW", *every_pair(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers(agree, dtype):
    limits = np.iinfo(dtype)
    bases = np.array([*range(-9 if limits.min else 0, 14), limits.max, limits.min, limits.max // 3], dtype)
    exponents = np.array([*range(-3 if limits.min else 0, 20), 31, 62, 63, 64, 65, 100, limits.max], dtype)
    a, b = (side.ravel() for side in np.meshgrid(bases, exponents))
    agree("POW", a, b)
    for constant in (0, 1, 2, 3, 4, 5, 13, 100, limits.max):
        agree("POW", a, constant=constant)


SIZES = (0.0, 1.0, 0.5, 1.5, 2.5, 0.1, 0.3, 1e-40, 3e38, np.inf)
SPECIAL = [np.nan, *SIZES, *(-size for size in SIZES)]


def floats(dtype):
    generator, limits = np.random.default_rng(2), np.finfo(dtype)
    large = 2.0 ** np.arange(limits.nmant - 2, limits.nmant + 3)
    near_large = np.concatenate([large - 1.5, large - 1, large - 0.5, large, large + 1])
    sizes = generator.normal(size=4000) * 2.0 ** generator.integers(-5, limits.nmant + 2, 4000)
    return np.concatenate([SPECIAL, near_large, -near_large, sizes]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["ROUND", "TRUNC", "FLOOR", "CEIL", "ABS", "NEG", "RECIPROCAL"])
def test_rounding_and_signs_of_floats(agree, op, dtype):
    agree(op, floats(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["MAX", "MIN", "CMPLE", "SUB"])
def test_comparisons_of_floats(agree, op, dtype):
    # which zero is the larger is open
    values = np.array([v for v in SPECIAL if not (v == 0 and np.signbit(v))], dtype)
    a, b = (side.ravel() for side in np.meshgrid(values, values))
    agree(op, a, b)
    for constant in (0.0, 1.5, -2.5, float("inf"), float("nan")):
        agree(op, values, constant=constant)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["MAX", "MIN", "CMPLE", "SUB", "ABS"])
def test_integers(agree, op, dtype):
    pairs = random_pairs(dtype, 500)
    agree(op, *(pairs[:1] if op == "ABS" else pairs))


@pytest.mark.parametrize("op", ["ADD", "MUL", "MAX", "MIN", "CMPLE"])
def test_bools(agree, op):
    agree(op, np.array([False, False, True, True]), np.array([False, True, False, True]))


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_casts_to_bool(lower, compute, variable, dtype):
    values = np.array([0, 1, 2, 100] if dtype[0] in "iu" else [0.0, -0.0, 0.25, 1e-40, np.nan, np.inf], dtype)
    leaf = variable(0, values)
    found = compute(lower(UOp("CAST", (leaf,), "bool")), {leaf: values})
    np.testing.assert_array_equal(found, values.astype(bool))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_multiply_add(agree, dtype):
    agree("MULACC", *(np.arange(k, k + 5).astype(dtype) for k in range(3)))
