"""C sources have one meaning: no operation is undefined for any value, and the value is the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.compile.kernels import compile_kernels
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
DIVISIONS = ("FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD")
BINARY = ("ADD", "SUB", "MUL", *DIVISIONS, "AND", "OR", "XOR", "SHL", "SHR", "MAX", "MIN", "POW")
EXACT = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "NEG": np.negative, "NOT": np.invert}


def integers(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, -1, -2, -7, -8, -31, -100]
    ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2, limits.max // 3]
    return np.array(sorted({v for v in (*near, *ends) if limits.min <= v <= limits.max}), dtype)


def floats(dtype: str) -> np.ndarray:
    powers = 2.0 ** np.array([7, 8, 15, 16, 31, 32, 62, 63, 64, 65, 100])
    sizes = np.concatenate([powers, powers - 1, powers + 1, powers * (1 - 2.0**-20), [0, 0.5, 0.999, 1.5, np.inf]])
    return np.concatenate([sizes, -sizes, [np.nan]]).astype(dtype)


def expanded(graph: UOp, leaves: dict[UOp, UOp]) -> UOp:
    """The graph on arrays: of other leaves, and with the vectors of one number as arrays of it, which the interpreter has."""
    found = dict(leaves)
    for node in graph.toposort():
        if node in found:
            continue
        new = node.replace([found[source] for source in node.src])
        if node.op == "BROADCAST":
            new = UOp("EXPAND", (UOp("RESHAPE", new.src, shape=(1,)),), shape=node.shape)
        found[node] = new
    return found[graph]


@pytest.fixture
def defined(compute):
    """`defined(graph, arrays, are_lanes)`: fails at an operation that C leaves undefined for one of the values."""

    def check(graph: UOp, arrays: dict[UOp, np.ndarray], are_lanes: bool) -> None:
        for node in graph.toposort():
            kind = as_dtype(node.dtype).kind
            if node.op in ("CONST", "BUFFER") or kind not in ("int", "uint"):
                continue
            limits = np.iinfo(node.dtype)
            a, *b = (compute(source, arrays) for source in node.src)
            exact = [side.astype(object) for side in (a, *b)]
            # unsigned integers of at least 32 bits wrap around in C, and lanes of all sizes; narrower ones are computed as int
            if node.op in EXACT and (kind == "int" or (limits.bits < 32 and not are_lanes)):
                result = EXACT[node.op](*exact)
                assert np.all((result >= limits.min) & (result <= limits.max)), f"{node} overflows"
            elif node.op in ("SHL", "SHR"):
                assert np.all((exact[1] >= 0) & (exact[1] < limits.bits)), f"{node} shifts by too much"
                assert node.op == "SHR" or (kind == "uint" and limits.bits >= 32), f"{node} shifts into the sign"
            elif node.op in ("TRUNCDIV", "TRUNCMOD"):
                assert np.all(exact[1] != 0), f"{node} divides by 0"
                assert kind == "uint" or not np.any((exact[0] == limits.min) & (exact[1] == -1)), f"{node} overflows"
            elif node.op == "CAST" and a.dtype.kind == "f":
                whole = np.trunc(a.astype(np.float64))
                assert np.all((whole >= float(limits.min)) & (whole < float(limits.max) + 1)), f"{node} does not fit"

    return check


@pytest.fixture
def check(defined, compute, variable):
    """Runs the passes that OpenCL has from `decompose` on, for scalars and for vectors: defined, and the same value."""

    def run(op: str, dtype: str | None, *arrays: np.ndarray) -> None:
        leaves = [variable(k, array) for k, array in enumerate(arrays)]
        given = dict(zip(leaves, arrays, strict=True))
        wanted = compute(UOp(op, tuple(leaves), *([dtype] if dtype else [])), given)
        for are_lanes in (True, False):
            first = leaves if are_lanes else [leaf.replace(shape=()) for leaf in leaves]
            lowered = UOp(op, tuple(first), *([dtype] if dtype else []))
            for name in ("decompose", "c_arithmetic", "lower_wide_integers", "spelling"):
                lowered = engine.rewrite(lowered, name, "opencl")
            lowered = expanded(lowered, dict(zip(first, leaves, strict=True)))
            defined(lowered, given, are_lanes)
            np.testing.assert_array_equal(compute(lowered, given), wanted)

    return run


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", BINARY)
def test_integer_ops(check, op, dtype):
    values = integers(dtype)
    check(op, None, *(side.ravel() for side in np.meshgrid(values, values)))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["NEG", "NOT", "ABS"])
def test_integer_unary_ops(check, op, dtype):
    check(op, None, integers(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_multiply_add(check, dtype):
    triples = np.array(list(itertools.product(integers(dtype)[::2], repeat=3)), dtype)
    check("MULACC", None, *triples.T)


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
def test_casts(check, source, dtype):
    if source != dtype:
        check("CAST", dtype, floats(source) if source in FLOATS else integers(source))


def test_bounds_make_guards_needless():
    """An address is computed without a cast or a condition."""
    out, a = (UOp("PARAM", (), "float32", slot=k, shape=(60, 7)) for k in range(2))
    flipped = UOp("PERMUTE", (UOp("RESHAPE", (a,), shape=(7, 60)),), order=(1, 0))
    graph = UOp("SINK", (UOp("STORE", (out, flipped * 2.0)),))
    source = compile_kernels([graph], "opencl", True)[0].source
    assert "?" not in source and "uint" not in source
