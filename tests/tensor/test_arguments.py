"""Arguments that are lists or arrays, that are out of range, or of a shape that would broadcast without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad.nn.functional as F
from rulegrad import Tensor, config, nn
from rulegrad.errors import ConfigError, DtypeError, RulegradError, ShapeError

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensors() -> dict[str, Any]:
    """A matrix, a vector, labels, weights, images and their kernels: what the expressions below are made of."""
    return {
        "Tensor": Tensor,
        "np": np,
        "F": F,
        "x": Tensor(MATRIX),
        "v": Tensor([0.0, 1.0, 2.0]),
        "i": Tensor([0, 1]),
        "w": Tensor.ones(4, 3),
        "image": Tensor.ones(1, 2, 5, 5),
        "kernel": Tensor.ones(4, 2, 3, 3),
    }


# ---- indices ----

OUT_OF_RANGE = [
    ("x.take([0, 9])", "take: 9 is out of range for axis 0 of size 6; use -6 to 5"),
    ("x.take(-7)", "take: -7 is out of range"),
    ("x.take(np.array([[3]]), 1)", "take: 3 is out of range for axis 1 of size 3"),
    ("x.take_along_axis([[9]], 1)", "take_along_axis: 9 is out of range for axis 1"),
    ("x.take_along_dim(np.array([[-4]]), 1)", "take_along_axis: -4 is out of range for axis 1"),
    ("x.index_select(0, [2])", "index_select: 2 is out of range for axis 0 of size 2"),
    ("x.index_select(0, 2)", "index_select: 2 is out of range for axis 0 of size 2"),
    ("x.gather(1, [[9], [0]])", "gather: 9 is out of range for axis 1"),
    ("x.gather(1, [[-1], [0]])", "gather: -1 is out of range for axis 1 of size 3; use 0 to 2"),
    ("x.embedding([2])", "embedding: 2 is out of range for axis 0 of size 2"),
    ("F.embedding([0, 4], w)", "embedding: 4 is out of range for axis 0 of size 4"),
    ("x.scatter(1, [[3]], 1.0)", "scatter: 3 is out of range for axis 1"),
    ("x.scatter_add(1, [[3]], 1.0)", "scatter_add: 3 is out of range"),
    ("x.scatter_reduce(1, [[3]], 1.0, 'amax')", "scatter_reduce: 3 is out of range"),
    ("x.put_along_axis([[3]], 5.0, 1)", "put_along_axis: 3 is out of range"),
    ("x.index_add(0, [2], [[1.0, 2.0, 3.0]])", "index_add: 2 is out of range"),
    ("x.index_copy(0, [2], [[1.0, 2.0, 3.0]])", "index_copy: 2 is out of range"),
    ("x.index_fill(0, [7], 4)", "index_fill: 7 is out of range"),
    ("x.cross_entropy([0, 3])", "cross_entropy: the label 3 for 3 classes; use 0 to 2, or ignore_index=-100"),
    ("x.cross_entropy(np.array([0, -1]))", "cross_entropy: the label -1 for 3 classes"),
    ("v.cross_entropy(3)", "cross_entropy: the label 3 for 3 classes"),
    ("x.nll_loss([3, 0], ignore_index=-1)", "nll_loss: the label 3 .* ignore_index=-1"),
    ("x.multi_margin_loss([0, 5])", "multi_margin_loss: the label 5 for 3 classes; use 0 to 2$"),
]


@pytest.mark.parametrize(("source", "text"), OUT_OF_RANGE)
def test_an_index_on_the_host_that_is_out_of_range(any_device, source, text):
    with pytest.raises(IndexError, match=text) as caught:
        eval(source, tensors())
    assert isinstance(caught.value, RulegradError)


def test_indices_on_the_host_are_as_good_as_tensors(any_device, check):
    x, line = Tensor(MATRIX), np.array([[1], [-1]])
    places = line % 3  # gather, scatter and the index_… functions take none that are negative, as in PyTorch
    expected = np.take_along_axis(MATRIX, line, 1)
    added = MATRIX.copy()
    added[1] += [1, 2, 3]
    copied = MATRIX.copy()
    copied[0] = 7
    put = MATRIX.copy()
    np.put_along_axis(put, line, 9, 1)
    check(
        (x.gather(1, places.tolist()), expected),
        (x.take_along_axis(line), expected),
        (x.take_along_dim(line.tolist(), 1), expected),
        (x.take(4), MATRIX.reshape(-1)[4]),
        (x.take([]), np.zeros(0, np.float32)),
        (x.index_select(1, [2, 0]), MATRIX[:, [2, 0]]),
        (x.index_select(1, 2), MATRIX[:, [2]]),
        (x.index_add(0, [1], [[1.0, 2.0, 3.0]]), added),
        (x.index_copy(0, [0], np.full((1, 3), 7, np.float32)), copied),
        (x.index_fill(0, 0, 7), copied),
        (x.put_along_axis(line.tolist(), 9), put),
        (x.scatter(1, places, [[9.0], [9.0]]), put),
        (x.scatter(1, places[:1], 9), np.array([[0, 9, 2], [3, 4, 5]], np.float32)),
        (F.embedding([[1, 0]], x), MATRIX[[[1, 0]]]),
        (F.one_hot([0, 2], 3), np.eye(3, dtype=np.int64)[[0, 2]]),
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x.take([0.5])", "take: the index is float32"),
        ("x.take([True, False])", "take: the index is bool"),
        ("x.gather(1, [[0.5]])", "gather: the index is float32"),
        ("x.gather(1, x)", "gather: the index is float32"),
        ("F.embedding(v, w)", "embedding: the index is float32"),
        ("v.one_hot(3)", "one_hot: the labels are float32"),
        ("x.cross_entropy(Tensor([True, False]))", "cross_entropy: the labels are bool"),
        ("x.cross_entropy([0.0, 1.0])", "cross_entropy: the labels are float32"),
    ],
)
def test_an_index_that_is_no_integer(any_device, source, text):
    with pytest.raises(DtypeError, match=text):
        eval(source, tensors())


def test_classes_that_are_counted(any_device):
    labels = Tensor([0, 2])
    assert labels.one_hot().tolist() == labels.one_hot(3).tolist() == [[True, False, False], [False, False, True]]
    with pytest.raises(ShapeError, match="one_hot: -2 classes"):
        labels.one_hot(-2)
    with pytest.raises(ShapeError, match=r"one_hot: the shape \(0,\) has no integers"):
        Tensor([], dtype="int64").one_hot()


# ---- labels ----


def test_a_label_on_the_device_that_is_no_class(device):
    scores = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
    wrong = [
        scores.cross_entropy(Tensor([1, 4, -1]), reduction="none"),
        scores.multi_margin_loss(Tensor([1, 4, 0])),
    ]
    one = scores.cross_entropy(Tensor([1, 7, 7]), ignore_index=7)
    one.backward()
    with config(check_indices=False):
        unchecked = scores.cross_entropy(Tensor([1, 4, -1]), reduction="none")
        mean = scores.multi_margin_loss(Tensor([1, 4, 0]))
    Tensor.realize(*wrong, one, scores.grad, unchecked, mean)
    with pytest.raises(IndexError, match="cross_entropy: (4|-1) is out of range for axis 1 of size 4; use 0 to 3"):
        wrong[0].numpy()
    with pytest.raises(IndexError, match="multi_margin_loss: 4 is out of range for axis 1 of size 4"):
        wrong[1].item()
    np.testing.assert_allclose(one.item(), np.log(4), 1e-6)
    np.testing.assert_allclose(scores.grad.numpy(), [[0.25, -0.75, 0.25, 0.25], [0] * 4, [0] * 4], 1e-6)
    np.testing.assert_allclose(unchecked.numpy(), [np.log(4), np.nan, np.nan], 1e-6)
    assert np.isnan(mean.item())


def test_ignored_labels_on_the_host(any_device):
    scores = Tensor(MATRIX)
    assert scores.cross_entropy([0, -100]).item() == pytest.approx(2.4076061)
    assert scores.cross_entropy([0, 5], ignore_index=5).item() == pytest.approx(2.4076061)
    assert np.isnan(scores.cross_entropy([-100, -100]).item())


# ---- shapes that would broadcast ----

BROADCAST = [
    ("image.conv2d(kernel, [1.0])", r"conv2d: a bias of shape \(1,\) for 4 outputs"),
    ("image.conv2d(kernel, Tensor.ones(4, 3, 3))", r"conv2d: a bias of shape \(4, 3, 3\) for 4 outputs"),
    ("Tensor.ones(1, 1, 4).conv1d(Tensor.ones(2, 1, 2), [1.0])", r"conv1d: a bias of shape \(1,\) for 2"),
    ("Tensor.ones(1, 1, 2, 2, 2).conv3d(Tensor.ones(2, 1, 1, 1, 1), [1.0])", "conv3d: a bias"),
    ("image.conv_transpose2d(Tensor.ones(2, 4, 3, 3), [1.0])", r"conv_transpose2d: a bias of shape \(1,\) for 4"),
    ("image.conv_transpose2d(Tensor.ones(2, 2, 3, 3), [1.0] * 2, groups=2)", "for 4 outputs"),
    ("x.linear(w, [1.0])", r"linear: a bias of shape \(1,\) for 4 outputs"),
    ("x.linear(w, x)", r"linear: a bias of shape \(2, 3\)"),
    ("x.layer_norm(3, [1.0])", r"layer_norm: weight has the shape \(1,\); it needs that of the last axes, \(3,\)"),
    ("x.layer_norm(3, v, [1.0])", "layer_norm: bias has the shape"),
    ("x.rms_norm(3, [1.0])", "rms_norm: weight has the shape"),
    ("x.masked_fill([True, False, True], v)", r"masked_fill: a value of shape \(3,\); give one number"),
    ("v.masked_scatter([[True, True, True]] * 2, v)", "masked_scatter: the source has 3 elements, and the mask"),
    ("x.masked_scatter(x > 1, [1.0, 2.0])", "masked_scatter: the source has 2 elements, and the mask is true at 4"),
    ("x.masked_scatter([True, False, True], [1.0])", "masked_scatter: the source has 1 elements"),
]
LOSSES = [
    "mse_loss",
    "l1_loss",
    "huber_loss",
    "smooth_l1_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "poisson_nll_loss",
    "soft_margin_loss",
    "hinge_embedding_loss",
]


@pytest.mark.parametrize(("source", "text"), BROADCAST)
def test_a_shape_that_is_not_the_one_that_is_meant(any_device, source, text):
    with pytest.raises(ShapeError, match=text):
        eval(source, tensors())


@pytest.mark.parametrize("name", LOSSES)
def test_a_target_has_the_shape_of_the_tensor(any_device, name):
    column = Tensor([[0.2], [0.4], [0.9]])
    with pytest.raises(ShapeError, match=rf"{name}: target has the shape \(3,\) and the tensor \(3, 1\)"):
        getattr(column, name)(Tensor([0.0, 1.0, 1.0]))
    same = getattr(column, name)([[1.0], [1.0], [1.0]]).item()
    assert getattr(column, name)(1).item() == getattr(column, name)(Tensor(1.0)).item() == same


def test_other_losses_do_not_broadcast_either(any_device):
    column, line = Tensor([[0.2], [0.4]]), Tensor([0.1, 0.3])
    for wrong, text in [
        (lambda: column.gaussian_nll_loss(line, column), "gaussian_nll_loss: target"),
        (lambda: line.gaussian_nll_loss(line, column), "gaussian_nll_loss: var of shape"),
        (lambda: column.margin_ranking_loss(line, 1), "margin_ranking_loss: other"),
        (lambda: column.margin_ranking_loss(column, line), "margin_ranking_loss: target"),
        (lambda: column.cosine_embedding_loss(line, 1), "cosine_embedding_loss: other"),
        (lambda: column.cosine_embedding_loss(column, [1, -1, 1]), "cosine_embedding_loss: target"),
        (lambda: column.triplet_margin_loss(line, column), "triplet_margin_loss: positive"),
        (lambda: line.binary_cross_entropy(line, weight=column), "binary_cross_entropy: weight of shape"),
        (lambda: column.cross_entropy(line.reshape(1, 2)), "cross_entropy: target has the shape"),
    ]:
        with pytest.raises(ShapeError, match=text):
            wrong()
    assert line.margin_ranking_loss([0.2, 0.2], [1]).item() == line.margin_ranking_loss([0.2, 0.2], 1).item()
    wide = Tensor([[0.2, 0.1], [0.3, 0.4]])
    assert wide.binary_cross_entropy(wide, weight=line).shape == wide.gaussian_nll_loss(0.0, line).shape == ()


# ---- masks ----


def test_the_condition_of_where_is_of_bools(any_device):
    x = Tensor(MATRIX)
    assert x.where(x > 2, 0).tolist() == (x > 2).where(x, 0).tolist() == [[0, 0, 0], [3, 4, 5]]
    assert Tensor([1, 2]).where([True, False], -1).tolist() == [1, -1]
    assert Tensor([True, False]).where([True, True], [False, False]).tolist() == [True, False]
    for wrong in (lambda: x.where(1, 0), lambda: Tensor.where(x, x, 0), lambda: x.where(Tensor([1, 0, 1]), 0)):
        with pytest.raises(DtypeError, match="where: the condition is float32; compare it"):
            wrong()


def test_masks_are_of_bools(any_device, check):
    x, mask = Tensor(MATRIX), np.array([True, False, True])
    filled = np.where(mask, np.float32(5), MATRIX)
    scattered = MATRIX.copy()
    scattered[np.broadcast_to(mask, MATRIX.shape)] = [9, 8, 7, 6]
    check(
        (x.masked_fill(mask.tolist(), 5), filled),
        (x.masked_fill(mask, Tensor([5.0])), filled),
        (x.masked_select(mask.tolist()), MATRIX[:, mask].reshape(-1)),
        (x.masked_scatter(mask, [9.0, 8.0, 7.0, 6.0, 1.0]), scattered),
        (x.masked_scatter([False], [9.0]), MATRIX),
        (Tensor([1, 2]).masked_fill([True, False], 7), np.array([7, 2])),
    )
    for name, rest in (("masked_fill", (0,)), ("masked_select", ()), ("masked_scatter", (x,))):
        for wrong in ([1.0, 0.0, 1.0], Tensor([1, 0, 1])):
            with pytest.raises(DtypeError, match=f"{name}: the mask is (float32|int64); compare it"):
                getattr(x, name)(wrong, *rest)
    with pytest.raises(DtypeError, match=r"masked_fill: a value of float32 does not fit a tensor of int64"):
        Tensor([1, 2]).masked_fill([True, False], 0.5)


def test_padded_bools_are_bools(any_device, check):
    mask = np.array([[True, False]])
    check(
        (Tensor(mask).pad(1), np.pad(mask, 1)), (Tensor(mask).pad(1, value=True), np.pad(mask, 1, constant_values=True))
    )
    assert Tensor(mask).pad(1, value=2).dtype == "int64"


# ---- weights ----


def test_weights_may_be_lists_and_arrays(any_device):
    x, image = Tensor(MATRIX), Tensor.ones(1, 2, 3, 3)
    kernel = np.ones((1, 2, 3, 3), np.float32)
    assert image.conv2d(kernel, [2.0]).tolist() == [[[[20.0]]]]
    assert Tensor([[[1.0, 2.0]]]).conv_transpose1d([[[1.0, 10.0]]], [1.0], stride=2).tolist() == [[[2, 11, 3, 21]]]
    assert x.linear([[1.0, 0.0, 0.0]], [1.0]).tolist() == [[1.0], [4.0]]
    assert x.layer_norm(3, [0.0] * 3, [1.0, 2.0, 3.0]).tolist() == [[1, 2, 3]] * 2
    assert x.group_norm(3, [0.0] * 3, [1.0, 2.0, 3.0]).tolist() == [[1, 2, 3]] * 2
    assert x.batch_norm([0.0] * 3, np.ones(3, np.float32), eps=0.0).tolist() == MATRIX.tolist()
    assert (-x).prelu([0.5]).tolist() == (-x).prelu(0.5).tolist() == (MATRIX * -0.5).tolist()
    assert x.mm([[1.0], [0.0], [0.0]]).tolist() == x.linear([[1.0, 0.0, 0.0]]).tolist() == [[0.0], [3.0]]
    assert x.mv([1.0, 0.0, 0.0]).tolist() == [0.0, 3.0]
    assert Tensor([1, 2]).outer([3, 4]).tolist() == [[3, 4], [6, 8]] and Tensor([1, 2]).vdot([3, 4]).item() == 11
    assert Tensor([1, 0, 0]).cross([0, 1, 0]).tolist() == [0, 0, 1] and Tensor([1, 2]).inner([3, 4]).item() == 11
    assert Tensor([1, 2]).kron([1, 10]).tolist() == [1, 10, 2, 20]
    assert Tensor.einsum("i,i->", Tensor([1, 2]), np.array([3, 4])).item() == 11
    assert Tensor([0, 1]).bincount([0.5, 2.0]).tolist() == [0.5, 2.0]
    assert Tensor([0.5]).bucketize([0.0, 1.0]).tolist() == [1]
    assert x.cross_entropy([0, 0], weight=[1.0, 2.0, 3.0]).item() == pytest.approx(2.4076061)
    attended = x.scaled_dot_product_attention(MATRIX, MATRIX, [[True, False], [False, True]])
    assert attended.tolist() == MATRIX.tolist()
    with pytest.raises(ConfigError, match="batch_norm: running statistics that are to be updated must be tensors"):
        x.batch_norm([0.0] * 3, [1.0] * 3, training=True)


NAMED = [
    ("image.conv2d(Tensor.ones(4, 2, 7, 7))", "^conv2d: a kernel of 7"),
    ("image.max_pool2d(9)", "^max_pool2d: a kernel of 9"),
    ("image.avg_pool2d(9)", "^avg_pool2d: a kernel of 9"),
    ("image.conv_transpose2d(Tensor.ones(2, 1, 1, 1), padding=4)", "^conv_transpose2d: the padding cuts off"),
    ("F.unfold(image, 9)", r"^unfold \(im2col\): a kernel of 9"),
    ("F.fold(image, (5, 5), 9)", r"^fold \(col2im\): a kernel of 9"),
    ("x.linear(Tensor.ones(4, 2))", r"^linear: a weight of shape \(4, 2\)"),
    ("x.mm([[1.0]])", "^mm: the shapes"),
    ("x.addmm(x, x)", "^addmm: the shapes"),
    ("image.baddbmm(x, x)", "^baddbmm: the shapes"),
    ("v.dot([1.0])", "^dot: the shapes"),
    ("x.sort(7)", "^sort: axis 7"),
    ("x.median(7)", "^median: axis 7"),
    ("v.trace()", r"^trace: the shape \(3,\)"),
    ("v.cosine_similarity(v)", "^cosine_similarity: axis 1"),
    ("x.quantile([0.5, 'a'])", "^quantile: q="),
    ("x @ x", "^matmul: the shapes"),
]


@pytest.mark.parametrize(("source", "text"), NAMED)
def test_a_message_names_the_function_that_was_called(any_device, source, text):
    with pytest.raises(ShapeError, match=text):
        eval(source, tensors())


# ---- two names of one argument ----

TWO_NAMES = [
    "sum(axis=0, dim=1)",
    "mean(axis=0, dim=0)",
    "var(0, dim=1)",
    "max(axis=0, dim=1)",
    "all(axis=0, dim=1)",
    "argmax(axis=0, dim=1)",
    "cumsum(axis=0, dim=1)",
    "softmax(0, dim=1)",
    "log_softmax(axis=0, dim=1)",
    "logsumexp(axis=0, dim=1)",
    "sort(0, dim=1)",
    "argsort(axis=0, dim=1)",
    "topk(1, axis=0, dim=1)",
    "median(axis=0, dim=1)",
    "quantile(0.5, axis=0, dim=1)",
    "split(1, axis=1, dim=0)",
    "chunk(2, axis=1, dim=0)",
    "unbind(axis=1, dim=0)",
    "roll(1, axis=0, dims=1)",
    "repeat_interleave(2, axis=0, dim=1)",
]


@pytest.mark.parametrize("call", TWO_NAMES)
def test_axis_and_dim_together(any_device, call):
    name = call.split("(")[0]
    with pytest.raises(ConfigError, match=rf"{name}: axis=\d and dim=\d are two names of one argument"):
        eval(f"x.{call}", tensors())


# ---- in place ----


def test_products_in_place(any_device):
    x = same = Tensor(MATRIX)
    x @= Tensor.ones(3, 3)
    assert x is same and x.tolist() == [[3.0] * 3, [12.0] * 3]
    with pytest.raises(ShapeError, match=r"@=: the result has the shape \(2,\), and the tensor \(2, 3\)"):
        x @= Tensor.ones(3)


def test_the_layer_checks_what_the_function_checks(any_device):
    layer = nn.Embedding(3, 2)
    assert layer([2, 0]).shape == (2, 2)
    with pytest.raises(IndexError, match="embedding: 3 is out of range"):
        layer([3])
