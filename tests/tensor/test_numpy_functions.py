"""NumPy's own functions on tensors: a tensor where tensors have the function, else NumPy's result."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DtypeError, GradientError, ShapeError

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) / 4 + 0.25
LINE = np.array([1.0, 2.0, 3.0])

ELEMENTWISE = [
    lambda x: np.add(LINE, x),
    lambda x: np.add(x, LINE),
    lambda x: LINE - x,
    lambda x: LINE @ x.T,
    lambda x: np.matmul(x, LINE),
    lambda x: np.power(2, x),
    lambda x: np.subtract(1, x),
    lambda x: np.exp(x),
    lambda x: np.arctan2(x, 2.0),
    lambda x: np.absolute(-x),
    lambda x: np.rint(x),
    lambda x: np.maximum(x, 1),
    lambda x: np.isnan(x),
    lambda x: LINE < x,  # noqa: SIM300
    lambda x: np.sqrt(x, dtype="float64"),
    lambda x: np.add.reduce(x),
    lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
    lambda x: np.add.accumulate(x, 1),
    lambda x: np.maximum.accumulate(x, 1),
    lambda x: np.minimum.accumulate(x),
    lambda x: np.modf(x - 1.75)[0],
    lambda x: np.modf(np.where(x > 0, x, -np.inf))[0],
    lambda x: np.modf(x * 3)[1],
    lambda x: np.multiply.outer(x, LINE),
    lambda x: np.divmod(x, 0.5)[1],
]
OTHERS = [
    lambda x: np.sum(x),
    lambda x: np.sum(x, 0, np.float64),
    lambda x: np.mean(x, axis=1, keepdims=True),
    lambda x: np.std(x, axis=0, ddof=1),
    lambda x: np.argmax(x, axis=1),
    lambda x: np.median(x),
    lambda x: np.cumsum(x, axis=0),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.concatenate((x, MATRIX)),
    lambda x: np.stack([x, x], -1),
    lambda x: np.vstack([x, LINE]),
    lambda x: np.broadcast_arrays(x, LINE)[1],
    lambda x: np.where(x > 1, x, LINE),
    lambda x: np.where(x - 0.25, x, -1),
    lambda x: np.nonzero(x > 1)[1],
    lambda x: np.transpose(x),
    lambda x: np.transpose(x, (1, 0)),
    lambda x: np.reshape(x, (3, 2)),
    lambda x: np.ravel(x),
    lambda x: np.squeeze(np.expand_dims(x, 0)),
    lambda x: np.swapaxes(x, 0, 1),
    lambda x: np.flip(x),
    lambda x: np.roll(x, 1, axis=1),
    lambda x: np.tile(x, (1, 2)),
    lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.split(x, 3, axis=1)[2],
    lambda x: np.array_split(x, 2, axis=1)[0],
    lambda x: np.clip(x, 0.5, None),
    lambda x: np.dot(x, LINE),
    lambda x: np.dot(x.T, x),
    lambda x: np.tensordot(x, x, 2),
    lambda x: np.einsum("ij,kj->ik", x, MATRIX),
    lambda x: np.sort(-x),
    lambda x: np.take(x, [2, 0], axis=1),
    lambda x: np.take_along_axis(x, np.array([[1], [0]]), 1),
    lambda x: np.tril(x),
    lambda x: np.diff(x, axis=1),
    lambda x: np.zeros_like(x),
    lambda x: np.isclose(x, LINE),
]


@pytest.mark.parametrize("number", range(len(ELEMENTWISE)))
def test_elementwise_functions(any_device, check, number):
    function = ELEMENTWISE[number]
    result = function(Tensor(MATRIX))
    assert isinstance(result, Tensor)
    check((result, function(MATRIX)))


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_other_functions(any_device, check, number):
    function = OTHERS[number]
    result = function(Tensor(MATRIX))
    assert isinstance(result, Tensor)
    check((result, function(MATRIX)))


def test_dot_of_many_axes_is_not_matmul(any_device, check):
    cube = np.arange(8.0).reshape(2, 2, 2)
    check((np.dot(Tensor(cube), cube), np.dot(cube, cube)), (np.dot(Tensor(cube), 2.0), cube * 2))


def test_facts_are_python_values(any_device):
    x = Tensor(MATRIX)
    assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6 and np.size(x, 1) == 3
    assert np.allclose(x, MATRIX) is True and np.array_equal(x, MATRIX) is True and np.array_equal(x, LINE) is False


def test_gradients_flow_through_numpys_functions(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    np.sum(np.square(np.concatenate([x, x])) * np.array([1.0, 1.0, 2.0, 2.0])).backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_arrays_are_changed_in_place(any_device):
    array = np.zeros(2)
    array += Tensor([1.0, 2.0])
    assert type(array) is np.ndarray and array.tolist() == [1.0, 2.0]
    out = np.zeros(2)
    assert np.exp(Tensor([0.0, 0.0]), out=out) is out and out.tolist() == [1.0, 1.0]


def test_tensors_as_results(any_device):
    x = same = Tensor([0.0, 0.0])
    assert np.add(np.ones(2, np.float32), 1, out=x) is same and x.tolist() == [2.0, 2.0]
    assert np.sum(np.ones((3, 2), np.float32), axis=0, out=x) is same and x.tolist() == [3.0, 3.0]
    with pytest.raises(DtypeError, match="np.copyto: a tensor is changed by x.copy_"):
        np.copyto(x, np.ones(2))


def test_what_tensors_do_not_have_numpy_computes(any_device):
    x = Tensor(MATRIX)
    np.testing.assert_array_equal(np.nanpercentile(x, 50), np.nanpercentile(MATRIX, 50))
    assert type(np.trapezoid(x)) is np.ndarray and type(np.sum(x, where=MATRIX > 1)) is np.float32
    assert np.linalg.norm(x) == np.linalg.norm(MATRIX)
    with pytest.raises(GradientError, match="np.trapezoid: NumPy computes this from the values, and the gradient"):
        np.trapezoid(Tensor(MATRIX, requires_grad=True))


def test_errors(any_device):
    x = Tensor(MATRIX)
    with pytest.raises(DtypeError, match=r"np.spacing: tensors have no such function; give .numpy\(\)"):
        np.spacing(x)
    with pytest.raises(DtypeError, match=r"np.add: where is not for tensors"):
        np.add(x, 1, where=MATRIX > 1)
    with pytest.raises(DtypeError, match=r"np.add.at: tensors have no such function"):
        np.add.at(x, 0, 1)
    with pytest.raises(ShapeError, match="np.split: 2 equal parts of axis 1"):
        np.split(x, 2, axis=1)
    with pytest.raises(TypeError, match="no implementation found"):
        np.concatenate([x, _Foreign()])


class _Foreign:
    """An array of another library."""

    def __array_function__(self, function, types, arguments, options):
        return NotImplemented
