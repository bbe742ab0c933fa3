"""Values on the device c of programs whose loops are rewritten for vectors: sizes that fit, and sizes that do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, config
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.nn import functional
from rulegrad.runtime import devices

try:
    devices.get("c")
except DeviceError as problem:
    pytest.skip(str(problem), allow_module_level=True)

# On Tensors and on arrays, which have the same methods.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum of rows": lambda x: x.sum(-1),
    "sum of columns": lambda x: x.sum(0),
    "sum of all": lambda x: x.sum(),
    "largest of rows": lambda x: x.max(-1),
    "mean of squares": lambda x: (x * x).mean(-1),
    "product with itself": lambda x: x @ x.T,
    "transposed product": lambda x: x.T @ x,
    "product with a row": lambda x: x @ x[0],
    "transposed": lambda x: x.T + 1,
    "distance to the mean": lambda x: x - x.mean(-1, keepdims=True),
    "distance to the largest of a column": lambda x: x - x.max(0, keepdims=True),
    "columns by their squares": lambda x: (x - 1) * (x * x).sum(0, keepdims=True),
    "distance to the mean of channels": lambda x: (y := x.reshape(1, x.shape[0], 1, -1)) - y.mean(1, keepdims=True),
    "running sum": lambda x: x.cumsum(1),
}
SHAPES = [(1, 1), (7, 13), (64, 96), (128, 256), (100, 1000), (512, 40)]


def given(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_programs(shape: tuple[int, ...]) -> None:
    array = given(shape, "float32")
    x = Tensor(array, device="c")
    found = {name: build(x) for name, build in PROGRAMS.items()}
    Tensor.realize(*found.values())
    for name, build in PROGRAMS.items():
        np.testing.assert_allclose(found[name].numpy(), build(array), rtol=2e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float64"])
def test_dtypes(dtype: str) -> None:
    array = given((64, 128), dtype)
    x = Tensor(array, device="c")
    np.testing.assert_array_equal((x + x).numpy(), array + array)
    np.testing.assert_array_equal((x.T @ x).numpy(), array.T @ array)
    np.testing.assert_array_equal(x.max(0).numpy(), array.max(0))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("checks", [0, 1])
def test_elements_chosen_by_an_index_in_vectors(dtype: str, checks: int) -> None:
    """The rest of an index is compared in lanes of 32 bits, whatever its dtype was."""
    array = given((200,), "float32")
    places = np.random.default_rng(0).integers(-100, 100, 256).astype(dtype)
    with config(check_indices=checks):
        found = Tensor(array, device="c")[Tensor(places, device="c")].numpy()
    np.testing.assert_array_equal(found, array[places])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_in_float32(dtype: str) -> None:
    array = given((32, 64), "float32")
    x = Tensor(array, device="c").cast(dtype)
    np.testing.assert_array_equal((x * 2).cast("float32").numpy(), array * 2)
    np.testing.assert_array_equal((x.cast("float32") @ x.cast("float32").T).numpy(), array @ array.T)


@pytest.mark.parametrize("shape", [(64, 96), (3, 21, 20, 9), (2, 50, 33)])
def test_softmax_of_columns(shape: tuple[int, ...]) -> None:
    """Neighbouring results in lanes, though each element is stored after the sums that it needs."""
    array = np.random.default_rng(1).standard_normal(shape).astype("float32")
    axis = 0 if len(shape) == 2 else 1
    exponentials = np.exp(array.astype("float64"))
    x = Tensor(array, device="c", requires_grad=True)
    found = x.softmax(axis)
    assert compile_graph([found.uop], "c")[0].schedule.startswith("stored_columns: ")
    expected = exponentials / exponentials.sum(axis, keepdims=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    (found * found).sum().backward()
    slope = 2 * expected * (expected - (expected * expected).sum(axis, keepdims=True))
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-4, atol=1e-7)


def test_softmax_and_special_values() -> None:
    array = given((16, 256), "float32")
    array[3, 5], array[4, 6], array[5, :] = np.inf, np.nan, -np.inf
    found = Tensor(array, device="c").softmax(-1).numpy()
    with np.errstate(invalid="ignore"):
        powers = np.exp(array - array.max(-1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_convolution() -> None:
    x, w = given((2, 3, 16, 16), "float32"), given((16, 3, 3, 3), "float32")
    found = functional.conv2d(Tensor(x, device="c"), Tensor(w, device="c"), padding=1).numpy()
    on_numpy = functional.conv2d(Tensor(x, device="numpy"), Tensor(w, device="numpy"), padding=1).numpy()
    np.testing.assert_array_equal(found, on_numpy)


def test_how_loops_are_written() -> None:
    """A tile of a product is written out in vectors, over a copy of the columns; a sum along rows has four vectors."""
    x = Tensor(given((128, 256), "float32"), device="c")
    product = compile_graph([(x @ x.T).uop], "c")[0].source
    assert "float acc1[8192]" in product and product.count("VECTOR(float, 8) acc") >= 8 and "UNROLLED" not in product
    rows = compile_graph([x.sum(-1).uop], "c")[0]
    assert rows.source.count("VECTOR(float, 8) acc") == 4 and rows.grid == (128,)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
def test_vectors_of_a_number_that_is_computed(dtype: str) -> None:
    """C computes small integers as int, which is not a lane of theirs."""
    x, y = (Tensor(np.array([value], dtype), device="c") for value in (77, 12))
    for found, wanted in ((x ^ y, 77 ^ 12), (x | y, 77 | 12), (x + y, 89), (x * 2 - y, 142)):
        assert found.expand(50).tolist() == [int(np.array(wanted).astype(dtype))] * 50


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_places_of_a_permuted_product(dtype: str) -> None:
    """clang 19 computed some of them wrongly as vectors of its own."""
    array, vector = np.arange(20160.0).reshape(7, 12, 6, 5, 8) % 7, np.arange(8.0)
    found = Tensor(array.astype(dtype), device="c") @ Tensor(vector.astype(dtype), device="c")
    wanted = (array @ vector).transpose(2, 3, 1, 0).reshape(30, 12, 7)
    assert np.array_equal(found.permute(2, 3, 1, 0).reshape(30, 12, 7).numpy(), wanted)


def test_maxima_of_places() -> None:
    """The largest places of two axes are kept beside each other, which gcc 12.2 mixed up in vectors of its own."""
    numbers = np.random.default_rng(0)
    array = (numbers.standard_normal((7, 11, 7)) + 1j * numbers.standard_normal((7, 11, 7))).astype(np.complex64)
    rows = np.array([1, -5, 6, 5, 0, 0, -5, -4, 0, 1, 4, -6, 2, 3, 6, 2, -1, -6, 1])
    columns = np.array([8, -3, -2, 8, -10, -4, -8, -7, -11, 9, -6, 3, -3, -5, 8, -4, -11, 0, 6])
    found = Tensor(array, device="c")[Tensor(rows, device="c"), Tensor(columns, device="c"), :]
    assert np.array_equal(found.numpy(), array[rows, columns, :])


def test_products_of_small_integers_among_wide_ones() -> None:
    """Lanes are those of int64: fewer than an instruction of int32 has."""
    numbers = np.random.default_rng(2)
    a, b = (numbers.integers(-9, 9, shape).astype(np.int8) for shape in ((10, 10), (10, 16)))
    rows, columns = numbers.integers(-10, 10, (19, 1)), numbers.integers(-16, 16, (1, 19))
    left, right, i, j = (Tensor(array, device="c") for array in (a, b, rows, columns))
    with np.errstate(over="ignore"):
        wanted = (a @ b - b)[rows, columns].prod(1)
    assert np.array_equal((left @ right - right)[i, j].prod(axis=1).numpy(), wanted)


@pytest.mark.parametrize("divisor", [0, 3])
def test_vectors_of_small_integers_by_one_number(divisor: int) -> None:
    """C computes with int: a number that is chosen for all lanes is one of theirs."""
    values = np.arange(33, dtype=np.uint16)
    found = Tensor(values, device="c").realize() % Tensor(np.array(divisor, np.uint16), device="c").realize()
    np.testing.assert_array_equal(found.numpy(), values % divisor if divisor else values * 0)


@pytest.mark.parametrize("compare", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])
def test_truth_values_are_compared_in_vectors(compare: np.ufunc) -> None:
    noise = np.random.default_rng(0)
    x = noise.random((20, 7)) < 0.5
    for y in (noise.random((20, 7)) < 0.5, np.array([True]), np.array([False])):
        for a, b in ((x, y), (y, x)):
            found = getattr(Tensor(a, device="c"), compare.__name__)(Tensor(b, device="c")).numpy()
            np.testing.assert_array_equal(found, compare(a, b))
    # masks whose lanes are of different widths
    parts = [noise.standard_normal(140).astype(dtype) for dtype in ("float64", "float32", "int16", "int8")]
    masks = [x.reshape(-1), *(part > 0 for part in parts)]
    given = [Tensor(masks[0], device="c"), *(Tensor(part, device="c") > 0 for part in parts)]
    found = [getattr(a, compare.__name__)(b) for a, b in itertools.permutations(given, 2)]
    Tensor.realize(*found)
    for got, (a, b) in zip(found, itertools.permutations(masks, 2), strict=True):
        np.testing.assert_array_equal(got.numpy(), compare(a, b))


def test_a_kernel_whose_schedule_leaves_no_loop() -> None:
    """Scores of 16 keys of one number each, where all queries are one: two vectors, the second in part."""
    noise = np.random.default_rng(0)
    keys, values = noise.standard_normal((16, 1)).astype("float32"), noise.standard_normal((16, 7)).astype("float32")
    queries = Tensor.full((20, 1), 3, dtype="float32", device="c")
    found = ((queries @ Tensor(keys, device="c").T) * 0.5).softmax(-1) @ Tensor(values, device="c")
    powers = np.exp(keys[:, 0] * 1.5)
    np.testing.assert_allclose(found.numpy(), np.broadcast_to(powers @ values / powers.sum(), (20, 7)), rtol=2e-5)


def test_a_constant_in_the_last_lanes_of_rows() -> None:
    x = Tensor(np.ones((18, 30), np.uint32), device="c")
    assert not (x % (x - x)).numpy().any()


@pytest.mark.parametrize("columns", [12, 16, 20, 33])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_words_that_are_widened_in_the_last_lanes(dtype: str, columns: int) -> None:
    """clang 19 compiles no masked load of floats whose bits are words that are made wider."""
    x = np.arange(5 * columns).reshape(5, columns).astype(dtype) % 7 + 1
    for name in ("prod", "sum"):
        found = getattr(Tensor(x, device="c"), name)(axis=0).numpy()
        np.testing.assert_array_equal(found, getattr(x, name)(axis=0), strict=True)


@pytest.mark.parametrize("size", [(10, 20), (17, 19), (20, 10)])
def test_a_peeled_loop_around_that_of_the_threads(size: tuple[int, int]) -> None:
    """Both parts have the loop that a launch divides, as nodes of their own."""
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    found = Tensor(x, device="c").softmax(1).T + 0
    np.testing.assert_allclose(found.numpy(), (e / e.sum(1, keepdims=True)).T, rtol=1e-5, atol=1e-6)


def test_a_half_that_is_read_under_a_condition_is_broadcast() -> None:
    """C chooses between ints where the numbers are smaller, and gcc does not broadcast an int to shorts."""
    array = given((10, 6, 1), "float32") / 2
    x = Tensor(array, device="c").cast("float16").realize().expand((10, 6, 20))
    found = x.cat(x.round(), axis=1).cast("float32").numpy()
    np.testing.assert_array_equal(found, np.concatenate([array, np.round(array)], 1).repeat(20, 2))


def test_lanes_of_attention_that_stand_in_others() -> None:
    """A complex number of attention has lanes for its two parts: those of the total have the name of no others."""
    q, k, v = (np.random.default_rng(n).standard_normal((n, m)).astype("float32") for n, m in ((16, 6), (4, 6), (4, 7)))
    tensors = (Tensor(x, device="c") for x in (q, k, v))
    powers = np.exp(q @ k.T * 0.5)
    with config(threads=1):
        found = functional.scaled_dot_product_attention(*tensors, scale=0.5).cast("complex64").numpy()
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True) @ v, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 5, 21, 100])
def test_powers_of_two_are_exact(dtype: str, count: int) -> None:
    """In vectors of any length, with denormals, infinity, and in lanes of another dtype."""
    least, most = {"float32": (-151, 129), "float64": (-1076, 1026)}[dtype]
    n = np.random.default_rng(count).integers(least, most, count).astype("float32")
    with np.errstate(over="ignore"):
        expected = np.exp2(n.astype("longdouble")).astype(dtype)
    np.testing.assert_array_equal(Tensor(n, device="c").cast(dtype).exp2().numpy(), expected)
    np.testing.assert_array_equal(Tensor(n.astype("float64"), device="c").cast(dtype).exp2().numpy(), expected)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 6), (8, 3), (100, 7), (4, 5, 6), (3, 64), (7, 300)])
def test_sums_of_what_is_read_backwards(shape: tuple[int, ...], dtype: str) -> None:
    """gcc 12.2 adds up wrong elements in a nest of loops that reads all of them backwards: they are read forwards."""
    x, y = (np.random.default_rng(n).integers(-8, 9, shape).astype(dtype) for n in (0, 1))
    a, b = (Tensor(z, device="c").realize() for z in (x, y))
    every = tuple(range(len(shape)))
    assert a.flip(-1).sum().item() == x.sum() and (a.flip(every) * 3).sum().item() == 3 * x.sum()
    assert (a.flip(-1) * b.flip(-1)).sum().item() == (x * y).sum() and a.flip(-1).abs().sum().item() == abs(x).sum()
    row = y.reshape(-1, shape[-1])[0]
    assert (a.flip(-1) * Tensor(row, device="c")).sum().item() == (x[..., ::-1] * row).sum()
    assert (a.flip(-1) * b).sum().item() == (x[..., ::-1] * y).sum()
    running = a.cumsum(-1)
    assert (running.flip(-1) * b).sum().item() == (x.cumsum(-1)[..., ::-1] * y).sum()
