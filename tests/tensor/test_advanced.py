"""Integer arrays and masks in `tensor[...]`, assignment, and in-place operations, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config, no_grad
from rulegrad.errors import DtypeError, IndexRangeError, RulegradError, ShapeError

A = np.arange(60).reshape(3, 4, 5)
MASK = A[0] % 3 == 0
INDICES = [
    [0, 2],
    np.array([[0, 1], [-1, 2]]),
    ([0, 2], slice(None), [1, -1]),
    (slice(None), [0, 1], [1, 1]),
    (slice(1, 3), np.array([[0], [3]]), [0, 4]),
    (0, [1, 2]),
    (0, slice(None), [1, 2]),
    (..., [0, 1]),
    (None, [0, 1], None),
    A > 30,
    (slice(None), MASK),
    ([True, False, True], slice(None, None, 2)),
    (1, MASK),
    True,
    False,
    np.array([], np.int64),
    [],
    ([0, 1], MASK[0][:4], slice(None, None, -1)),
]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_arrays(any_device, number):
    index = INDICES[number]
    expected = A[index]
    assert np.array_equal(Tensor(A)[index].numpy(), expected)
    values = np.arange(expected.size).reshape(expected.shape) - 100
    for value in (values, -1):
        array, tensor = A.copy(), Tensor(A)
        array[index] = value
        tensor[index] = value
        assert np.array_equal(tensor.numpy(), array)


def test_tensors_as_indices(device, check):
    x = Tensor(A)
    rows, mask = Tensor([2, -1, 0]), Tensor(MASK)
    set_rows, set_mask, set_one, added = (Tensor(A) for _ in range(4))
    set_rows[rows, Tensor([[1], [0]])] = Tensor(np.arange(30).reshape(2, 3, 5))
    set_mask[:, mask] = 7
    set_one[Tensor(A > 50)] = -1
    added[1:, ::2] += 5
    e_rows, e_mask, e_one, e_added = (A.copy() for _ in range(4))
    e_rows[np.array([2, -1, 0]), [[1], [0]]] = np.arange(30).reshape(2, 3, 5)
    e_mask[:, MASK] = 7
    e_one[A > 50] = -1
    e_added[1:, ::2] += 5
    check(
        (x[rows], A[[2, -1, 0]]),
        (x[Tensor(1)], A[1]),
        (x[:, mask], A[:, MASK]),
        (x[Tensor(A > 50)], A[A > 50]),
        (x[rows, :, Tensor([0, 1, 2])], A[[2, -1, 0], :, [0, 1, 2]]),
        (x[Tensor(True)], A[True]),
        (set_rows, e_rows),
        (set_mask, e_mask),
        (set_one, e_one),
        (added, e_added),
        (x.index_put((rows[:2], Tensor([0, 0])), Tensor([1]), accumulate=True), _added(A)),
    )


MASKED = [
    (MASK[:3, 0],),
    (slice(None), MASK),
    (A[..., 0] % 2 == 0, slice(1, None)),
    (1, MASK),
    (MASK[:3, 0], None, 2),
    (..., MASK),
    (np.array([0, 2]), MASK[:, 0], slice(None)),
    (A < 0,),
    (np.array(True), 1),
]


@pytest.mark.parametrize("number", range(len(MASKED)))
def test_masks_on_the_device_often(number):
    """A graph of a kind is known the third time; masks with as many true elements are one kind."""
    host = MASKED[number]
    index = tuple(Tensor(part) if isinstance(part, np.ndarray) else part for part in host)
    for factor in (1, 10, 100):
        assert np.array_equal(Tensor(A * factor)[index].numpy(), (A * factor)[host])
    with pytest.raises(IndexRangeError):
        Tensor(A)[:, Tensor(MASK[:, :4])]


def _added(array):
    result = array.copy()
    np.add.at(result, ([2, -1], [0, 0]), 1)
    return result


def test_masks(device, check):
    x, m = Tensor(A[0]), Tensor(MASK)
    source = np.arange(20) + 100
    expected = A[0].copy()
    expected[MASK] = source[: MASK.sum()]
    check(
        (x.masked_select(m), A[0][MASK]),
        (x.masked_scatter(m, Tensor(source)), expected),
        (x[m & False], A[0][MASK & False]),
    )


@st.composite
def views(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    index = tuple(
        draw(st.one_of(st.integers(-n, n - 1), st.slices(n))) for n in shape[: draw(st.integers(0, len(shape)))]
    )
    place = draw(st.integers(0, len(index)))
    return shape, (
        *index[:place],
        *draw(st.sampled_from([(), (None,)])),
        *index[place:],
        *draw(st.sampled_from([(), (...,)])),
    )


@given(views())
def test_assignment_to_any_view(case):
    shape, index = case
    array = np.arange(np.prod(shape)).reshape(shape)
    with config(device="numpy"):
        tensor = Tensor(array)
        value = -np.arange(array[index].size).reshape(array[index].shape)
        array = array.copy()
        array[index] = value
        tensor[index] = value
        assert np.array_equal(tensor.numpy(), array)


@given(st.data())
def test_any_arrays(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    array = np.arange(np.prod(shape)).reshape(shape)
    width = data.draw(st.integers(1, 3))

    def item(n):
        places = st.lists(st.integers(-n, n - 1), min_size=width, max_size=width)
        return data.draw(
            st.one_of(places, places.map(lambda p: np.array(p)[:, None]), st.slices(n), st.integers(-n, n - 1))
        )

    index = tuple(item(n) for n in shape)
    with config(device="numpy"):
        assert np.array_equal(Tensor(array)[index].numpy(), array[index])


def test_in_place(device, check):
    x = Tensor([1.0, 2.0])
    alias = x
    before = x + 0
    x += 1
    x.mul_(3).sub_(1, alpha=2)
    y = Tensor([1, 2, 3])
    y.copy_(Tensor([2.7])).add_(Tensor([0, 1, 2]))
    z = Tensor([[1.0, 2.0], [3.0, 4.0]])
    z.masked_fill_(z > 2, 0).scatter_(1, Tensor([[1]]), 9.0)
    check(
        (alias, np.float32([4, 7])),
        (before, np.float32([1, 2])),
        (y, np.array([2, 3, 4])),
        (z, np.float32([[1, 9], [0, 0]])),
    )
    assert Tensor([3, 4]).zero_().tolist() == [0, 0]
    assert Tensor([3, 4]).fill_(7).clamp_(max=5).tolist() == [5, 5]


def test_gradients_of_assignment(any_device):
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = w * 2
    x[1:] *= w[:2]
    x[[0]] = 0
    x.sum().backward()
    # x = (0, 2 w1 w0, 2 w2 w1)
    assert w.grad.tolist() == [4.0, 2.0 + 6.0, 4.0]
    leaf = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RulegradError, match="leaf that requires a gradient"):
        leaf += 1
    with pytest.raises(RulegradError, match="leaf that requires a gradient"):
        leaf[0] = 1
    with no_grad():
        leaf += 1
    assert leaf.tolist() == [2.0, 3.0]
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [4.0, 6.0]


def test_errors(any_device):
    x = Tensor(A)
    for index in ([3], ([0], [4]), np.array([-4]), (0, 0, 0, [0]), (..., [0], ...), [[0, 1], [9, 0]]):
        with pytest.raises(IndexRangeError):
            x[index]
    with pytest.raises(IndexRangeError, match="broadcast"):
        x[[0, 1], [0, 1, 2]]
    with pytest.raises(IndexRangeError, match="4 elements for axis 0"):
        x[[True, False, True, True]]
    with pytest.raises(IndexRangeError, match="array of float64"):
        x[[0.5]]
    with pytest.raises(IndexRangeError, match="tensor of float32"):
        x[Tensor([0.5])]
    with pytest.raises(ShapeError, match="does not fit the shape"):
        x[0] = np.zeros((3, 3))
    with pytest.raises(ShapeError, match="does not fit the shape"):
        x[[0, 1]] = np.zeros((3, 4, 5))
    with pytest.raises(ShapeError, match=r"the result has the shape \(2, 2\)"):
        Tensor([1.0, 2.0]).add_(Tensor([[1.0], [2.0]]))
    with pytest.raises(DtypeError, match="does not fit a tensor of int64"):
        Tensor([1]).add_(0.5)
