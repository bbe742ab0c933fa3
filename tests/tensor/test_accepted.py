"""Arguments that NumPy and PyTorch both take, with their results."""

from __future__ import annotations

import array
import inspect
from collections import deque

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn.functional as F
from rulegrad import Tensor, config, nn
from rulegrad.errors import ConfigError, DtypeError, IndexRangeError, ShapeError


@pytest.fixture(autouse=True)
def on_the_interpreter():
    with config(device="numpy"):
        yield


@pytest.mark.parametrize("value", [2.7, -2.7, "tensor", np.float32(-2.7), [2.7]], ids=str)
@pytest.mark.parametrize("index", [0, slice(None), [0, 2], np.array([True, False, True])], ids=str)
def test_integers_take_floats_rounded_towards_zero(index, value):
    x, wanted = Tensor([1, 2, 3]), np.array([1, 2, 3])
    x[index] = Tensor(-2.7) if value == "tensor" else value
    wanted[index] = -2.7 if value == "tensor" else value[0] if value == [2.7] else value
    assert x.dtype == "int64"
    assert x.tolist() == wanted.tolist()


def test_numbers_that_no_integer_is_like_are_refused():
    x = Tensor([1, 2, 3])
    for value in (float("nan"), float("inf"), 1e30, 1j):
        with pytest.raises(DtypeError, match="value: "):
            x[0] = value
    flags = Tensor([False, True])
    flags[0] = 0.5
    assert flags.tolist() == [True, True]


@pytest.mark.parametrize(
    "index", [((0, 1), (1, 0)), ((0, 1),), (slice(None), (2, 0)), ((), 1), ([1, 0], (2, 0))], ids=str
)
def test_tuples_are_index_lists(index):
    array = np.arange(6).reshape(2, 3)
    x = Tensor(array)
    assert x[index].tolist() == array[index].tolist()
    x[index] = 9
    array[index] = 9
    assert x.tolist() == array.tolist()


def test_a_list_that_is_no_array_is_an_index_error():
    x = Tensor(np.arange(6).reshape(2, 3))
    for index in ([slice(None), [1, 3]], [[1, 2], [1]]):
        with pytest.raises(IndexRangeError, match="not an array of indices"):
            x[index]
        with pytest.raises(IndexRangeError, match="not an array of indices"):
            x[index] = 1


REDUCTIONS = ["sum", "prod", "mean", "max", "min", "amax", "var", "std", "logsumexp", "median", "nanmedian", "norm"]
WITH_PLACES = ("max", "min", "median", "nanmedian")  # along an axis that is named dim
RUNNING = ["cumsum", "cumprod", "logcumsumexp", "flip", "squeeze"]


@pytest.mark.parametrize("axis", [0, -1])
def test_a_scalar_has_one_axis_by_name(axis):
    x = Tensor(3.0)
    for name in REDUCTIONS + RUNNING:
        found = getattr(x, name)(axis) if name in ("flip", "squeeze") else getattr(x, name)(dim=axis)
        if name in WITH_PLACES:
            found, place = found
            assert (place.shape, place.item()) == ((), 0)
        assert found.shape == ()
        assert np.isnan(found.item()) if name in ("var", "std") else found.item() == 3.0
    assert x.sum(axis, keepdims=True).shape == ()
    assert [x.softmax(axis).item(), x.log_softmax(axis).item(), x.normalize(dim=axis).item()] == [1.0, 0.0, 1.0]
    assert (x.argmax(axis).item(), x.any(axis).item(), x.count_nonzero(axis).item()) == (0, True, 1)
    assert x.quantile([0.5, 0.25], axis).tolist() == [3.0, 3.0]
    for pair in (x.cummax(axis), x.cummin(axis), x.sort(axis), x.topk(1, axis), x.mode(axis)):
        assert [(part.shape, part.item()) for part in pair] == [((), 3.0), ((), 0)]


@pytest.mark.parametrize(
    "name", [*REDUCTIONS, *RUNNING, "softmax", "argmax", "argsort", "sort", "cummax", "quantile", "topk"]
)
def test_a_scalar_has_no_second_axis(name):
    arguments = {"quantile": (0.5,), "topk": (1,), "flip": (1,), "squeeze": (1,)}.get(name, ())
    with pytest.raises(IndexRangeError, match="axis 1 does not exist"):
        getattr(Tensor(3.0), name)(*arguments, **({} if name in ("flip", "squeeze") else {"dim": 1}))


def test_gradients_pass_the_axis_of_a_scalar():
    x = Tensor(3.0, requires_grad=True)
    (x.cumsum(0) + x.sum(-1) + x.gather(0, Tensor([0, 0])).sum() + x.logcumsumexp(0)).backward()
    assert x.grad.item() == 5.0


def test_gather_and_scatter_take_indices_without_axes():
    x, one = Tensor([1.0, 2.0, 3.0]), Tensor(3.0)
    assert (x.gather(0, Tensor(1)).shape, x.gather(0, Tensor(1)).item()) == ((), 2.0)
    assert (one.gather(0, Tensor(0)).shape, one.gather(-1, Tensor([0, 0])).tolist()) == ((), [3.0, 3.0])
    assert x.scatter(0, Tensor(1), 5.0).tolist() == [1.0, 5.0, 3.0]
    assert x.scatter(0, Tensor(1), Tensor(5.0)).tolist() == [1.0, 5.0, 3.0]
    assert x.scatter_add(0, Tensor(1), Tensor(5.0)).tolist() == [1.0, 7.0, 3.0]
    assert x.scatter_reduce(0, Tensor(1), Tensor(5.0), "amax").tolist() == [1.0, 5.0, 3.0]
    changed = [one.scatter(0, Tensor(0), Tensor(5.0)), one.scatter_reduce(0, Tensor([0]), Tensor([5.0]), "sum")]
    assert [(part.shape, part.item()) for part in changed] == [((), 5.0), ((), 8.0)]
    with pytest.raises(ShapeError, match="it needs as many axes"):
        Tensor.zeros(2, 2).gather(0, Tensor(1))


def test_unfold_has_windows_of_nothing():
    assert Tensor([1, 2, 3]).unfold(0, 0, 1).shape == (4, 0)
    assert Tensor.zeros(2, 5).unfold(1, 0, 2).shape == (2, 3, 0)
    assert Tensor.zeros(0, 5).unfold(1, 2, 2).shape == (0, 2, 2)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_division_rounds_as_asked(dtype):
    a = np.array([7, 8, 1, 0, 6] if dtype == "uint8" else [7, -7, -1, -8, 0]).astype(dtype)
    b = np.array([2, 2, 4, 3, 3] if dtype == "uint8" else [2, 2, 4, -3, -3]).astype(dtype)
    for mode, rounded in (("trunc", np.trunc), ("floor", np.floor)):
        found = Tensor(a).div(Tensor(b), rounding_mode=mode)
        assert (found.dtype, found.tolist()) == (dtype, rounded(a / b).tolist())
    assert Tensor(a).divide(2, rounding_mode="trunc").tolist() == np.trunc(a / 2).tolist()
    assert Tensor(a).div_(2, rounding_mode="floor").tolist() == np.floor(a / 2).tolist()
    assert Tensor(a).divide_(2, rounding_mode="trunc").tolist() == np.trunc(a / 2).tolist()
    with pytest.raises(ConfigError, match="rounding_mode='up'"):
        Tensor(a).div(2, rounding_mode="up")


def test_deviation_and_mean_together():
    array = np.array([[1.0, 5.0], [2.0, 4.0]])
    x = Tensor(array)
    for name, wanted in (("std_mean", array.std), ("var_mean", array.var)):
        spread, mean = getattr(x, name)(dim=1, keepdim=True, correction=1)
        np.testing.assert_allclose(spread.numpy(), wanted(1, keepdims=True, ddof=1))
        assert mean.tolist() == [[3.0], [3.0]]


def test_empty_has_a_shape_and_a_dtype():
    x = Tensor.empty((2, 3), dtype="int8", device="numpy")
    assert (x.shape, x.dtype, x.numpy().shape) == ((2, 3), "int8", (2, 3))


def test_softmax_computes_in_the_dtype_it_is_given():
    x = Tensor([1, 2], dtype="int32")
    shares = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    for found in (x.softmax(0, dtype="float64"), x.log_softmax(0, "float64").exp(), F.softmax(x, 0, dtype="float64")):
        assert found.dtype == "float64"
        np.testing.assert_allclose(found.numpy(), shares, rtol=1e-14)
    assert Tensor([1.0, 2.0], dtype="float16").softmax(dtype="float32").dtype == "float32"


def test_pad_has_the_mode_second():
    x = Tensor([1.0, 2.0, 3.0])
    assert x.pad((1, 1), "reflect").tolist() == F.pad(x, (1, 1), "reflect").tolist() == [2.0, 1.0, 2.0, 3.0, 2.0]
    assert x.pad((1, 0), "constant", 5).tolist() == [5.0, 1.0, 2.0, 3.0]
    with pytest.raises(ConfigError, match="give a number as value="):
        x.pad((1, 1), 5.0)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_isinf_of_one_sign(dtype):
    x = Tensor([1, 2, 3]) if dtype == "int32" else Tensor([float("inf"), float("-inf"), float("nan")], dtype=dtype)
    some = dtype != "int32"
    assert x.isinf().tolist() == [some, some, False]
    assert x.isinf(detect_negative=False).tolist() == [some, False, False]
    assert x.isinf(detect_positive=False).tolist() == [False, some, False]
    assert x.isinf(False, False).tolist() == [False, False, False]


def test_max_unpool2d_puts_back_what_was_largest():
    x = Tensor(np.arange(30.0).reshape(1, 2, 3, 5), requires_grad=True)
    found, places = x.max_pool2d(2, return_indices=True)
    image = F.max_unpool2d(found, places, 2, output_size=(3, 5))
    wanted = np.zeros((1, 2, 3, 5))
    wanted[:, :, 1, 1:4:2] = x.numpy()[:, :, 1, 1:4:2]
    assert image.tolist() == wanted.tolist()
    image.sum().backward()
    assert x.grad.tolist() == (wanted != 0).astype(float).tolist()
    assert Tensor.ones(1, 2, 2).max_unpool2d(Tensor([[[0, 4], [8, 12]]]), 3, stride=2, padding=1).shape == (1, 3, 3)
    with pytest.raises(ShapeError, match="they must agree"):
        found.max_unpool2d(places[0], 2)


def test_nonzero_of_a_known_size():
    x = Tensor([[0, 5], [6, 7]])
    assert x.nonzero(size=2).tolist() == [[0, 1], [1, 0]]
    assert x.nonzero(size=4, fill_value=-1).tolist() == [[0, 1], [1, 0], [1, 1], [-1, -1]]
    assert [part.tolist() for part in x.nonzero(as_tuple=True, size=1)] == [[0], [1]]
    assert (Tensor.zeros(0).nonzero(size=1).tolist(), x.nonzero(size=0).shape) == ([[0]], (0, 2))
    with pytest.raises(ShapeError, match="size=-1"):
        x.nonzero(size=-1)


def test_wrong_layers_are_refused_when_they_are_made():
    with pytest.raises(ConfigError, match="padding='invalid'"):
        nn.Conv2d(1, 1, 3, padding="invalid")
    with pytest.raises(ConfigError, match="a stride of 2"):
        nn.Conv1d(1, 1, 3, padding="same", stride=2)
    for options in ({"stride": 0}, {"dilation": 0}, {"padding": -1}, {"stride": (1, 1, 1)}):
        for layer in (nn.Conv2d, nn.ConvTranspose2d):
            with pytest.raises(ShapeError, match=f"{layer.__name__}: {next(iter(options))}="):
                layer(1, 1, 3, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_stay_bytes(mode):
    image = (np.arange(12) * 23 % 256).astype(np.uint8).reshape(1, 1, 3, 4)
    found = F.interpolate(Tensor(image), (5, 7), mode=mode)
    wanted = F.interpolate(Tensor(image.astype(np.float32)), (5, 7), mode=mode).numpy().round().clip(0, 255)
    assert (found.dtype, found.tolist()) == ("uint8", wanted.astype(int).tolist())


def test_where_of_a_condition_alone_and_items_by_their_place():
    x = Tensor([[0, 5, 0], [7, 0, 9]])
    for found in (Tensor.where(x > 0), Tensor.where(x), rg.where(x > 0)):
        assert [places.tolist() for places in found] == [[0, 1, 1], [1, 0, 2]]
    with pytest.raises(TypeError, match="one of the two values is missing"):
        Tensor.where(x > 0, x)
    assert (x.item(1), x.item(1, 2), x.item((1, 0)), x.item(-1), x[1].item(0)) == (5, 9, 7, 9, 7)
    with pytest.raises(ShapeError, match="3 numbers for the shape"):
        x.item(0, 0, 0)
    with pytest.raises(IndexError):
        x.item(6)


def test_gradients_are_switched_by_a_bool():
    w = Tensor([1.0], requires_grad=True)
    with rg.set_grad_enabled(False):
        assert not rg.is_grad_enabled() and not (w * 2).requires_grad
        with rg.set_grad_enabled(True):
            assert (w * 2).requires_grad
        assert not rg.is_grad_enabled()
    switched = rg.set_grad_enabled(False)
    assert not rg.is_grad_enabled()
    doubled = rg.set_grad_enabled(True)(lambda: w * 2)
    assert doubled().requires_grad and not rg.is_grad_enabled()
    switched.__exit__()
    assert rg.is_grad_enabled() and rg.get_default_dtype() == "float32"


def test_functions_take_tensors_by_their_names_in_pytorch():
    x, w = Tensor([[1.0, 2.0]]), Tensor([[3.0, 4.0]])
    labels, one = Tensor([1]), Tensor([1.0])
    assert F.linear(input=x, weight=w).tolist() == F.linear(x, w).tolist() == [[11.0]]
    assert F.cross_entropy(input=x, target=labels).item() == F.cross_entropy(x, labels).item()
    assert F.cosine_similarity(x1=x, x2=w).item() == F.cosine_similarity(x, w).item()
    assert F.margin_ranking_loss(input1=one, input2=one, target=one).item() == 0.0
    assert F.triplet_margin_loss(anchor=x, positive=x, negative=w).item() == F.triplet_margin_loss(x, x, w).item()
    assert F.layer_norm(input=x, normalized_shape=(2,)).tolist() == F.layer_norm(x, (2,)).tolist()
    for name in F.__all__:
        assert "self" not in inspect.signature(getattr(F, name)).parameters, name
    with pytest.raises(TypeError):
        F.linear(x, w, input=x)
    assert rg.repeat_interleave(Tensor([1, 0, 2])).tolist() == [0, 2, 2] and x.numpy(force=True).tolist() == [
        [1.0, 2.0]
    ]
    with pytest.raises(ShapeError, match="it takes a vector of them"):
        x.repeat_interleave()
    assert rg.meshgrid(labels, Tensor([3, 4]))[1].shape == (1, 2) and Tensor.meshgrid(labels, x[0])[0].shape == (2, 1)


def test_every_sequence_is_an_index():
    values = np.arange(12).reshape(4, 3)
    x = Tensor(values)
    for index in (range(1, 3), array.array("i", [2, 0]), deque([1, 1]), memoryview(np.array([3, 0])), _Foreign([0, 2])):
        wanted = np.asarray(index)
        assert x[index].tolist() == values[wanted].tolist()
        changed, expected = x.clone(), values.copy()
        changed[index] = -1
        expected[wanted] = -1
        assert changed.tolist() == expected.tolist()
    assert x[range(0)].shape == x[deque()].shape == (0, 3) and x[:, range(2)].shape == (4, 2)
    for wrong in ({0, 1}, iter([0]), {0: 1}.keys(), "ab", b"ab", 1.5):
        with pytest.raises(IndexError):
            x[wrong]


class _Foreign:
    """An array of another library."""

    def __init__(self, values):
        self._values = np.array(values)
        self.ndim = self._values.ndim

    def __array__(self, dtype=None, copy=None):
        return self._values.astype(dtype or self._values.dtype)


def test_antialiasing_of_smaller_images(any_device):
    """PyTorch's values; an image that grows is interpolated as without it."""
    image = (np.arange(10, dtype=np.float32).reshape(1, 1, 2, 5)) ** 2
    wanted = {"bilinear": [19.227273, 37.227273], "bicubic": [17.919024, 38.497025]}
    for mode, values in wanted.items():
        found = F.interpolate(Tensor(image), (1, 2), mode=mode, antialias=True)
        np.testing.assert_allclose(found.numpy(), np.reshape(values, (1, 1, 1, 2)).astype("float32"), 1e-5)
    larger = [
        F.interpolate(Tensor(image), (4, 9), mode="bilinear", antialias=smooth).numpy() for smooth in (True, False)
    ]
    np.testing.assert_allclose(*larger, 1e-5, 1e-5)
    with pytest.raises(ConfigError, match="use bilinear or bicubic"):
        F.interpolate(Tensor(image), (1, 2), antialias=True)
    with pytest.raises(DtypeError, match="cast to a float first"):
        F.interpolate(Tensor([[[[1, 2]]]]), (1, 1), mode="bilinear", antialias=True)
