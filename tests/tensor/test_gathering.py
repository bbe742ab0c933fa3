"""gather, take, scatter and their relatives, against NumPy; their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import ConfigError, DtypeError, IndexRangeError, ShapeError

R = np.random.default_rng(0)
A = R.normal(size=(5, 4))
IX = R.integers(0, 5, (7, 4))
SIGNED = IX - 5 * R.integers(0, 2, (7, 4))  # negative ones count from the end
U = R.normal(size=(7, 4))


def scattered(base, index, updates, combine, axis=0):
    result = base.copy()
    for place in np.ndindex(index.shape):
        target = list(place)
        target[axis] = index[place]
        result[tuple(target)] = combine(result[tuple(target)], updates[place])
    return result


def test_reading(device, check):
    x, i, j = Tensor(A), Tensor(IX), Tensor(SIGNED)
    check(
        (x.gather(0, i), np.take_along_axis(A, IX, 0)),
        (x.gather(1, Tensor(IX[:3, :2] % 4)), np.take_along_axis(A[:3], IX[:3, :2] % 4, 1)),
        (x.take_along_axis(j[:, :1], 0), np.take_along_axis(A, np.broadcast_to(IX[:, :1], (7, 4)), 0)),
        (x.take(Tensor([[3, -1], [0, 19]])), np.take(A, [[3, -1], [0, 19]])),
        (x.take([1, 3], axis=1), A[:, [1, 3]]),
        (x.take(2, axis=0), A[2]),
        (x.index_select(1, Tensor([3, 0, 3], dtype="uint8")), A[:, [3, 0, 3]]),
        (x.embedding(Tensor([[1, 0], [4, 4]], dtype="int32")), A[[[1, 0], [4, 4]]]),
        (x.take(Tensor.zeros(0, dtype="int64"), axis=0), A[:0]),
    )


def test_places_are_read_also_where_their_element_is_not(device, check):
    """Of a product beside other rows: the place is an element of memory, whose own address holds for all rows."""
    a, b, c = (R.normal(size=shape).astype(np.float32) for shape in ((1, 9, 2, 3), (1, 9, 3, 7), (1, 9, 2, 7)))
    places = R.integers(0, 7, (2, 9, 2, 7))
    rows = (Tensor(a) @ Tensor(b)).cat(Tensor(c), axis=0)
    check((rows.gather(3, Tensor(places)), np.take_along_axis(np.concatenate([a @ b, c]), places, 3)))


@pytest.mark.parametrize("name", ["ADD", "MUL", "STORE"])
def test_scatter(device, check, name):
    combine = {"ADD": np.add, "MUL": np.multiply, "STORE": lambda _, new: new}[name]
    reduce = {"ADD": "add", "MUL": "multiply"}.get(name)
    expected = scattered(A, IX, U, combine)
    corner = A.copy()
    corner[:3, :2] = scattered(A[:3, :2], IX[:3, :2] % 4 % 2, U[:3, :2], combine, 1)
    check(
        (Tensor(A).scatter(0, Tensor(IX), Tensor(U), reduce), expected),
        (Tensor(A).scatter(1, Tensor(IX[:3, :2] % 4 % 2), Tensor(U), reduce), corner),
        (Tensor(A).scatter(0, Tensor(IX[:1]), 2.0, reduce), scattered(A, IX[:1], np.full((1, 4), 2.0), combine)),
    )


@pytest.mark.parametrize("device", ["c", "opencl"], indirect=True)
@pytest.mark.parametrize("columns", [16, 48, 130])
def test_columns_beside_each_other(device, check, columns):
    """Whole rows, and each column at places of its own, in order: at one place again and again, the last one stays."""
    base, updates = (R.integers(-9, 9, (rows, columns)).astype(np.float32) for rows in (5, 40))
    rows, places = R.integers(0, 5, 40), R.integers(0, 5, (40, columns))
    each = np.broadcast_to(rows[:, None], (40, columns))
    x, i, u, k = Tensor(base), Tensor(rows), Tensor(updates), Tensor(places)
    batch = np.stack([base, base + 1])
    check(
        (x.index_add(0, i, u), scattered(base, each, updates, lambda a, b: a + b)),
        (x.index_copy(0, i, u), scattered(base, each, updates, lambda a, b: b)),
        (x.scatter_add(0, k, u), scattered(base, places, updates, lambda a, b: a + b)),
        (x.scatter(0, k, u), scattered(base, places, updates, lambda a, b: b)),
        (x.scatter_reduce(0, k, u, "amax"), scattered(base, places, updates, max)),
        (
            Tensor(batch).index_add(1, i, Tensor(np.stack([updates, -updates]))),
            np.stack(
                [scattered(b, each, u, lambda a, b: a + b) for b, u in zip(batch, (updates, -updates), strict=True)]
            ),
        ),
    )
    with pytest.raises(IndexRangeError, match="index_add: 5 is out of range"):
        x.index_add(0, Tensor(np.full(40, 5)), u).numpy()


@pytest.mark.parametrize("device", ["c"], indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "bfloat16", "float64"])
def test_columns_beside_each_other_in_each_dtype(device, dtype):
    """In place of every second row, too."""
    base, updates = (R.integers(0, 2, (rows, 20)) for rows in (10, 40))
    rows = R.integers(0, 5, 40)
    x, u, i = Tensor(base).cast(dtype).realize(), Tensor(updates).cast(dtype).realize(), Tensor(rows)
    each = np.broadcast_to(rows[:, None], (40, 20))
    whole = scattered(base, each, updates, lambda a, b: b)
    np.testing.assert_array_equal(x.index_copy(0, i, u).cast("int64").numpy(), whole)
    largest = scattered(base, each, updates, max)
    np.testing.assert_array_equal(x.scatter_reduce(0, Tensor(each), u, "amax").cast("int64").numpy(), largest)
    if dtype != "bool":
        x[::2].index_add_(0, i, u)
        base[::2] = scattered(base[::2], each, updates, lambda a, b: a + b)
        np.testing.assert_array_equal(x.cast("int64").numpy(), base)


def test_one_value_at_one_place_again_and_again(device, check):
    """Nothing in the loop of the updates depends on its counter, and they are made in each turn all the same."""
    place = Tensor([1]).realize().expand(3)
    check(
        (Tensor([1.0, 2.0]).scatter_add(0, place, 1.5), np.float32([1.0, 6.5])),
        (Tensor([1.0, 2.0]).scatter(0, place, 2.0, "multiply"), np.float32([1.0, 16.0])),
    )


def test_scatter_reduce(device, check):
    x, i, u = Tensor(A), Tensor(IX), Tensor(U)
    count = scattered(np.ones_like(A), IX, np.ones_like(U), np.add)
    touched = count > 1
    sums = scattered(np.zeros_like(A), IX, U, np.add)
    check(
        (x.scatter_add(0, i, u), scattered(A, IX, U, np.add)),
        (x.scatter_reduce(0, i, u, "amax"), scattered(A, IX, U, np.maximum)),
        (x.scatter_reduce(0, i, u, "amin"), scattered(A, IX, U, np.minimum)),
        (x.scatter_reduce(0, i, u, "mean"), scattered(A, IX, U, np.add) / count),
        (x.scatter_reduce(0, i, u, "sum", include_self=False), np.where(touched, sums, A)),
        (x.scatter_reduce(0, i, u, "mean", include_self=False), np.where(touched, sums / np.maximum(count - 1, 1), A)),
        (
            x.scatter_reduce(0, i, u, "amax", include_self=False),
            np.where(touched, scattered(np.full_like(A, -np.inf), IX, U, np.maximum), A),
        ),
    )


def test_slices(device, check):
    rows, places = R.normal(size=(3, 4)), np.array([4, 0, 4])
    added, copied, filled = A.copy(), A.copy(), A.copy()
    np.add.at(added, places, rows * 2)
    copied[places], filled[places] = rows, 1.5
    x, i = Tensor(A), Tensor(places)
    check(
        (x.index_add(0, i, Tensor(rows), alpha=2), added),
        (x.index_copy(0, i, Tensor(rows)), copied),
        (x.index_fill(0, Tensor(places - 5), 1.5), filled),
        (x.put_along_axis(Tensor([[2]]), 3.0, axis=1), _put(A, 2)),
        (x.masked_fill(Tensor(A > 0), 0), np.where(A > 0, 0, A)),
    )


def _put(array, column):
    result = array.copy()
    result[:, column] = 3.0
    return result


def test_small_dtypes(device, check):
    x = np.zeros(3, np.float16)
    check(
        (Tensor(x).scatter_add(0, Tensor([1] * 9), 0.1), np.float16([0, 0.9, 0])),
        (Tensor([True, False]).scatter(0, Tensor([1]), True), np.array([True, True])),
        (Tensor([1, 2], dtype="int8").scatter_add(0, Tensor([1, 1]), 100), np.array([1, -54], np.int8)),
        (Tensor(np.arange(300, dtype=np.float32)).take(Tensor([-1, 5], dtype="int8")), np.float32([299, 5])),
        (Tensor([1, 2, 3]).take(Tensor([2, 0], dtype="uint64")), np.array([3, 1])),
    )


def test_in_one_kernel(any_device):
    from rulegrad.compile import compile_graph

    x, i = Tensor(A), Tensor(IX)
    assert len(compile_graph([((x * 2).gather(0, i) + 1).uop], "opencl")) == 1
    assert len(compile_graph([x.scatter_add(0, i, Tensor(U)).uop], "opencl")) == 2


CASES = {
    "gather": lambda x, u: x.gather(0, Tensor(IX)) * u,
    "scatter": lambda x, u: x.scatter(0, Tensor(IX), u * 2) * x,
    "scatter_add": lambda x, u: x.scatter_add(0, Tensor(IX), u * u) * x,
    "amax": lambda x, u: x.scatter_reduce(0, Tensor(IX), u, "amax") ** 2,
    "amin": lambda x, u: x.scatter_reduce(0, Tensor(IX), u, "amin", include_self=False) ** 2,
    "prod": lambda x, u: x.scatter_reduce(0, Tensor(IX), u, "prod"),
    "mean": lambda x, u: x.scatter_reduce(0, Tensor(IX), u, "mean") ** 2,
    "one update": lambda x, u: x.scatter(0, Tensor(IX[:1]), u) * x,
    "index": lambda x, u: x[[0, 1, 0]][:, [2, 3]] * u[:3, :2],
    "put": lambda x, u: x.index_put((Tensor([0, 2, 0]),), u[:3]) * x,
    "cumsum": lambda x, u: x.cumsum(0) * x,
    "cumprod": lambda x, u: (x * (x.detach() > -0.5)).cumprod(0) * u[:5],
    "cummax": lambda x, u: x.cummax(0)[0] * u[:5],
    "logcumsumexp": lambda x, u: x.logcumsumexp(0) * u[:5],
    "sort": lambda x, u: x.sort(0)[0] * u[:5],
    "topk": lambda x, u: x.topk(2, 1)[0] * u[:5, :2],
    "median": lambda x, u: x.median(0) * u[0],
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(any_device, name):
    x, u = Tensor(A, requires_grad=True), Tensor(U, requires_grad=True)
    CASES[name](x, u).sum().backward()
    for tensor, array in ((x, A), (u, U)):
        for place in [(0, 0), (2, 1), (4, 3)]:
            values = []
            for step in (-1e-6, 1e-6):
                moved = array.copy()
                moved[place] += step
                given = (Tensor(moved), Tensor(U)) if tensor is x else (Tensor(A), Tensor(moved))
                values.append(CASES[name](*given).sum().item())
            found = 0.0 if tensor.grad is None else tensor.grad.numpy()[place]
            assert found == pytest.approx((values[1] - values[0]) / 2e-6, abs=1e-5), (tensor is x, place)


def test_errors(any_device):
    x = Tensor(A)
    with pytest.raises(DtypeError, match="index is float64"):
        x.gather(0, x)
    with pytest.raises(ShapeError, match=r"index of shape \(3,\)"):
        x.gather(0, Tensor([0, 1, 2]))
    with pytest.raises(IndexRangeError, match="is empty"):
        Tensor.zeros(0, 3).take([0], axis=0)
    with pytest.raises(ConfigError, match="reduce='max'"):
        x.scatter_reduce(0, Tensor(IX), x, "max")
    with pytest.raises(DtypeError, match="do not fit a tensor of int64"):
        Tensor([1, 2]).scatter(0, Tensor([0]), 1.5)
    with pytest.raises(ShapeError, match="must not be smaller"):
        x.scatter(0, Tensor(IX), Tensor(U[:2]))
    with pytest.raises(ShapeError, match="give a vector"):
        x.index_select(0, Tensor(IX))


@pytest.mark.parametrize(("channels", "places"), [(2, (8, 19)), (3, (8, 19)), (2, (152,)), (2, (3, 4))])
def test_gradients_of_taken_elements_that_depend_on_others(device, channels, places):
    """The updates of the gradient have reductions in them: their loop has an order, no lanes are made of it."""
    x, weights = R.normal(size=(channels, 6, 6)), R.normal(size=(channels, 6, *places))
    i = R.integers(-6, 6, places)
    found = {}
    for name in (device, "numpy"):
        taken = Tensor(x, device=name, requires_grad=True)
        (taken[:, :, Tensor(i, device=name)].softmax(0) * Tensor(weights, device=name)).sum().backward()
        found[name] = taken.grad.numpy()
    np.testing.assert_allclose(found[device], found["numpy"], rtol=1e-9, atol=1e-9)


def test_gradients_of_a_product_of_taken_elements(device):
    """The sum inside is computed in the blocks of the sum around it and in what is left of them, each in loops of its own."""
    shapes = [(1, 4, 1, 1), (2, 1, 8, 1), (2, 1, 19, 2)]
    x, weights, more = (R.normal(size=shape).astype(np.float32) for shape in shapes)
    i = R.integers(-1, 1, (19, 8))
    last = Tensor(np.ones((1, 2), np.float32), requires_grad=True)
    (Tensor(x)[:, 1::2][:, :, :, Tensor(i)] @ Tensor(weights) @ last * Tensor(more)).sum().backward()
    columns = np.sum(x[:, 1::2][:, :, :, i] @ weights * more, axis=(0, 1, 2, 3))
    np.testing.assert_allclose(last.grad.numpy(), columns[None], rtol=1e-4, atol=1e-4)
