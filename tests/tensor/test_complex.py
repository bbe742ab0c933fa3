"""Complex numbers against NumPy: memory, arithmetic, functions, reductions, promotion, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulegrad import Tensor, engine
from rulegrad.compile.schedule import make_schedule
from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype

Array = np.ndarray[Any, Any]

DTYPES = ["complex64", "complex128"]
TOLERANCE = {"complex64": 3e-6, "complex128": 1e-13, "float32": 3e-6, "float64": 1e-13}
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)
COUNT = 12


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    return (generator.normal(size=shape) * 2 + 1j * generator.normal(size=shape) * 2).astype(dtype)


def agree(name: str, tensor: Tensor, wanted: Any, scale: float = 1e-3) -> None:
    found, wanted = tensor.numpy(), np.asarray(wanted)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, wanted, name)
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), name)
    error = np.abs(found - wanted)[finite] / np.maximum(np.abs(wanted[finite]), scale)
    assert np.all(error <= TOLERANCE[wanted.dtype.name]), f"{name}: {found} is not {wanted}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(device, dtype):
    a, b = numbers((3, 4), dtype), numbers((3, 4), dtype, 1)
    x, y = Tensor(a), Tensor(b)
    results = {
        "add": (x + y, a + b), "sub": (x - y, a - b), "mul": (x * y, a * b), "div": (x / y, a / b),
        "neg": (-x, -a), "pow": (x**y, a**b), "square": (x**2, a**2), "inverse": (x**-1, 1 / a),
        "scalar": (2.5 - x * (1 + 2j), 2.5 - a * (1 + 2j)), "broadcast": (x * y[0], a * b[0]),
        "real": (x.real, a.real), "imag": (x.imag, a.imag), "conj": (x.conj(), np.conj(a)),
        "abs": (x.abs(), np.abs(a)), "angle": (x.angle(), np.angle(a)), "sign": (x.sign(), a / np.abs(a)),
        "equal": (x == Tensor(a), a == a), "not_equal": (x != y, a != b), "round": (x.round(), np.round(a)),
        "where": ((x.real > 0).where(x, 0), np.where(a.real > 0, a, np.zeros((), dtype))),
    }  # fmt: skip
    Tensor.realize(*(tensor for tensor, _ in results.values()))
    for name, (tensor, wanted) in results.items():
        agree(name, tensor, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(device, dtype):
    a = numbers((40,), dtype)
    results = {name: getattr(Tensor(a), name)() for name in FUNCTIONS}
    Tensor.realize(*results.values())
    for name, tensor in results.items():
        agree(name, tensor, getattr(np, NUMPY.get(name, name))(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_products(device, dtype):
    a, b = numbers((5, 3), dtype), numbers((3, 7), dtype, 1)
    x = Tensor(a)
    results = {
        "sum": (x.sum(), a.sum()), "rows": (x.sum(axis=1, keepdims=True), a.sum(axis=1, keepdims=True)),
        "product": (x.prod(axis=0), a.prod(axis=0)), "all": (x.prod(), a.prod()), "mean": (x.mean(axis=1), a.mean(axis=1)),
        "matmul": (x @ Tensor(b), a @ b), "any": (x.any(axis=0), a.any(axis=0)),
    }  # fmt: skip
    Tensor.realize(*(tensor for tensor, _ in results.values()))
    for name, (tensor, wanted) in results.items():
        agree(name, tensor, wanted, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_and_joining(device, dtype):
    a = numbers((3, 4), dtype)
    x = Tensor(a)
    results = {
        "transposed": (x.T, a.T), "slices": (x[1:, ::-1], a[1:, ::-1]), "reshaped": (x.reshape(2, 6), a.reshape(2, 6)),
        "joined": (x.cat(x, axis=0), np.concatenate([a, a])), "padded": (x.pad(1), np.pad(a, 1)),
        "filled": (Tensor.full((2,), 1 + 2j), np.full(2, 1 + 2j, "complex64")),
        "ones": (Tensor.ones(2, dtype=dtype), np.ones(2, dtype)), "eye": (Tensor.eye(3, dtype=dtype), np.eye(3, dtype=dtype)),
        "empty": (x[:0], a[:0]), "scalar": (x[0, 0], a[0, 0]),
    }  # fmt: skip
    for name, (tensor, wanted) in results.items():
        agree(name, tensor, wanted)


def test_memory_keeps_every_bit(device):
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1.5]
    a = np.array([complex(x, y) for x in special for y in special])
    found = (Tensor(a)[::-1])[::-1].realize().numpy()
    np.testing.assert_array_equal(found.view(np.uint64), a.view(np.uint64))
    assert Tensor(a).tolist()[1] == 0 and Tensor(2 + 1j).item() == 2 + 1j


def test_casts_and_promotion(device, check):
    a = numbers((4,), "complex64")
    x = Tensor(a)
    check(
        (Tensor([1, 2]).cast("complex64"), np.array([1, 2], "complex64")),
        (x.cast("complex128"), a.astype("complex128")),
        (x.cast("bool"), a.astype(bool)),
        (Tensor(a.real) + x, a.real + a),
        (Tensor([1.0], dtype="float64") + x, np.float64(1) + a.astype("complex128")),
        (Tensor([1], dtype="int8") * 2j, np.array([2j], "complex64")),
        (Tensor([1.0]) + 1j, np.array([1 + 1j], "complex64")),
        (Tensor([1.0, 2.0]).imag, np.zeros(2, np.float32)),
        (Tensor([-1.0, 2.0]).angle(), np.angle(np.array([-1.0, 2.0], np.float32))),
        (Tensor.complex(Tensor([1.0]), Tensor([2.0, 3.0])), np.array([1 + 2j, 1 + 3j], "complex64")),
        (x.isfinite(), np.isfinite(a)),
    )
    assert Tensor([1 + 2j]).dtype == "complex64" and Tensor(np.array([1 + 2j])).dtype == "complex128"
    assert "1.+2.j" in repr(Tensor([1 + 2j]))


def floats() -> st.SearchStrategy[float]:
    special = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e3])
    return st.one_of(special, st.floats(-100, 100).map(lambda v: round(v, 6)))


def arrays() -> st.SearchStrategy[Array]:
    element = st.builds(complex, floats(), floats())
    return st.lists(element, min_size=COUNT, max_size=COUNT).map(lambda values: np.array(values, "complex128"))


@given(a=arrays(), b=arrays())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_numbers(device, a, b):
    b = np.where(b == 0, 1, b)
    x, y = Tensor(a), Tensor(b)
    results = {
        "mul": (x * y, a * b),
        "div": (x / y, a / b),
        "sqrt": (x.sqrt(), np.sqrt(a)),
        "log": (y.log(), np.log(b)),
    }
    Tensor.realize(*(tensor for tensor, _ in results.values()))
    for name, (tensor, wanted) in results.items():
        agree(name, tensor, wanted, 1e-10)


def test_far_and_near_numbers(device):
    a = np.array([1e200 + 1e200j, 1e-200 - 1e-200j, 3e-320j, 1e300, 1 + 1e-9j, -1e-200])
    for name in ("sqrt", "log", "abs", "asinh", "atan"):
        agree(name, getattr(Tensor(a), name)(), getattr(np, NUMPY.get(name, name))(a), 1e-300)
    b = np.array([1e200 - 1e200j, 1e-200 + 1e-200j, 2e-300, 1e-5j, 1e300 + 1e300j, 1e100])
    agree("div", Tensor(a) / Tensor(b), a / b, 1e-300)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda z: z.cast("float32"), "complex64 has no order or sign as float32; take .real"),
        (lambda z: z < z, "less: not defined for complex numbers"),
        (lambda z: z.maximum(1), "maximum: not defined for complex numbers"),
        (lambda z: z.erf(), "erf: not defined for complex numbers"),
        (lambda z: z.floor(), "floor: not defined for complex numbers"),
        (lambda z: z // 2, "not defined for complex numbers"),
        (lambda z: z & 1, "has no bits to combine"),
        (lambda z: z.bitcast("float64"), "a complex number is two floats"),
        (lambda z: Tensor.full((2,), 1j, dtype="float32"), "the number 1j does not fit float32"),
        (lambda z: Tensor([1j], dtype="int32"), "complex numbers cannot be int32"),
        (lambda z: Tensor.complex(z, z), "a part is complex64"),
    ],
)
def test_what_complex_numbers_cannot(any_device, action, message):
    with pytest.raises(DtypeError, match=message):
        action(Tensor([1 + 2j]))


def test_no_complex_number_is_left():
    """After the pass there are only floats; an op that no rule takes apart is an error with its name."""
    z = UOp("PARAM", (), "complex64", slot=0, shape=(4, 3))
    graph = UOp("SINK", (UOp("EXP", (UOp("MUL", (z, z)),)), UOp("REDUCE", (z,), op="MUL", axes=(0,))))
    rewritten = engine.rewrite(graph, "complex_numbers")
    assert not any(as_dtype(node.dtype).is_complex for node in rewritten.toposort())
    assert [node.shape for node in rewritten.src] == [(4, 3, 2), (1, 3, 2)]
    with pytest.raises(DtypeError, match="no rule computes REDUCE by MAX on complex64"):
        make_schedule(UOp("SINK", (UOp("REDUCE", (z,), op="MAX", axes=(0,)),)), 1, "numpy", {})


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_part_that_is_one_number_has_the_shape_of_the_whole(device: str) -> None:
    x = Tensor(np.arange(1000.0), device=device)
    assert not x.cast("complex128").imag.numpy().any()
    assert not (x.cast("complex64") * 1j).real.numpy().any()
    assert (x + 2j).imag.reshape(10, 100)[3:5].sum(1).tolist() == [200.0, 200.0]


@pytest.mark.parametrize("size", [15, 16, 33])
def test_the_sum_of_a_part_that_is_one_number(any_device: str, size: int) -> None:
    """Its terms do not depend on the loop in whose vectors the other part is summed."""
    assert Tensor(np.ones(size, np.float32), device=any_device).cast("complex64").sum().tolist() == size
