"""Layers and functions of networks beyond what PyTorch's values show: draws, half precision, empty tensors, mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rulegrad.nn.functional as F
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, IndexRangeError, RulegradError, ShapeError

IMAGE = Tensor(np.arange(16.0).reshape(1, 1, 4, 4), dtype="float32", device="numpy")


def test_alpha_dropout_keeps_mean_and_variance(any_device):
    Tensor.manual_seed(3)
    x = Tensor.randn(20000)
    y = F.alpha_dropout(x, 0.4, training=True).numpy()
    assert abs(y.mean()) < 0.03 and abs(y.std() - 1.0) < 0.03
    channels = nn.FeatureAlphaDropout(0.5)(Tensor.ones(4, 8, 3)).numpy()
    assert (channels == channels[:, :, :1]).all() and len(np.unique(channels)) == 2
    assert F.alpha_dropout(x, 1.0, training=True).abs().max().item() == 0.0
    assert F.feature_alpha_dropout(x, 0.5) is x


def test_rrelu_draws_a_slope_for_each_element(any_device):
    x = Tensor.full((200,), -2.0, requires_grad=True)
    slopes = nn.RReLU(0.25, 0.5)(x)
    slopes.sum().backward()
    assert np.allclose(slopes.numpy(), -2.0 * x.grad.numpy())
    assert x.grad.min().item() < 0.3 < 0.45 < x.grad.max().item()
    assert len(np.unique(x.grad.numpy())) > 150


def test_gumbel_softmax_draws_classes(any_device):
    Tensor.manual_seed(5)
    scores = Tensor([math.log(0.7), math.log(0.3)], requires_grad=True)
    draws = F.gumbel_softmax(scores.expand(4000, 2), tau=0.7, hard=True)
    assert set(np.unique(draws.numpy())) == {0.0, 1.0} and abs(draws[:, 0].mean().item() - 0.7) < 0.03
    draws[:, 0].sum().backward()
    assert scores.grad[0].item() > 0 > scores.grad[1].item()
    assert np.allclose(F.gumbel_softmax(Tensor.ones(5, 3), dim=0).sum(0).numpy(), 1.0)


def test_fractional_pooling_draws_windows(any_device):
    Tensor.manual_seed(1)
    pooled = [F.fractional_max_pool2d(Tensor(np.arange(144.0).reshape(12, 12)[None]), 2, 5) for _ in range(9)]
    assert len({str(one.tolist()) for one in pooled}) > 1
    for one in pooled:
        rows = one.numpy()[0]
        assert (np.diff(rows, axis=0) > 0).all() and (np.diff(rows, axis=1) > 0).all() and rows[-1, -1] == 143


def test_half_precision_rounds_once(any_device):
    x, grid = IMAGE.half(), Tensor([[[[0.1, 0.3], [-0.7, 0.2]]]]).half()
    for result, wide in (
        (F.grid_sample(x, grid, align_corners=False), F.grid_sample(x.float(), grid.float(), align_corners=False)),
        (F.local_response_norm(x, 3, 1.0), F.local_response_norm(x.float(), 3, 1.0)),
    ):
        assert result.dtype == "float16"
        np.testing.assert_allclose(result.numpy(), wide.numpy(), 1e-3)


def test_places_without_a_number_read_nothing(any_device):
    grid = Tensor([[[[math.nan, 0.0], [math.inf, 0.0], [0.0, 1e30]]]])
    image = IMAGE.clone().requires_grad_()
    found = F.grid_sample(image, grid)
    found.sum().backward()
    assert found.tolist() == F.grid_sample(IMAGE, grid, "nearest").tolist() == [[[[0.0, 0.0, 0.0]]]]
    assert image.grad.abs().max().item() == 0.0


def test_nothing_in(any_device):
    none = Tensor.zeros(0, 2, 4, 4)
    assert F.group_norm(none, 1).shape == F.local_response_norm(none, 2).shape == none.shape
    assert F.grid_sample(none, Tensor.zeros(0, 3, 3, 2)).shape == (0, 2, 3, 3)
    assert F.unfold(none, 2).shape == (0, 8, 9) and F.adaptive_max_pool2d(none, 2, True)[1].shape == (0, 2, 2, 2)
    assert F.fractional_max_pool2d(none, 2, 2).shape == (0, 2, 2, 2) and F.pdist(Tensor.zeros(1, 3)).shape == (0,)
    bags = F.embedding_bag(Tensor.zeros(0, dtype="int64"), Tensor.ones(3, 2), Tensor([0, 0]), mode="max")
    assert bags.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_bag_renormalises_rows(any_device):
    bag = nn.EmbeddingBag.from_pretrained(Tensor([[3.0, 4.0], [0.0, 0.5]]), max_norm=1.0, mode="sum")
    assert np.allclose(bag(Tensor([[0, 1]])).numpy(), [[0.6, 1.3]]) and np.allclose(bag.weight[0].numpy(), [0.6, 0.8])


def test_attention_with_keys_of_before(any_device):
    Tensor.manual_seed(2)
    x, weights = Tensor.randn(3, 2, 4), [Tensor.randn(4, 4) for _ in range(3)]
    how = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights), use_separate_proj_weight=True)
    common = (4, 2, None, None, None, None, False, 0.0, Tensor.eye(4), None)
    result, shares = F.multi_head_attention_forward(x, x, x, *common, **how)
    keys, values = ((x @ w.T).reshape(3, 4, 2).transpose(0, 1) for w in weights[1:])
    again, _ = F.multi_head_attention_forward(x, x, x, *common, **how, static_k=keys, static_v=values)
    np.testing.assert_allclose(again.numpy(), result.numpy(), 1e-5, 1e-6)
    assert shares.shape == (2, 3, 3) and result.shape == (3, 2, 4)


WORDS, TABLE = Tensor([1, 0], device="numpy"), Tensor.ones(2, 3, device="numpy")
MISTAKES = {
    "grid_sample: images of shape": lambda: F.grid_sample(IMAGE, Tensor.zeros(1, 2, 2, 3)),
    "grid_sample: mode='linear'": lambda: F.grid_sample(IMAGE, Tensor.zeros(1, 2, 2, 2), "linear"),
    "bicubic is for images": lambda: F.grid_sample(IMAGE[None], Tensor.zeros(1, 1, 1, 1, 3), "bicubic"),
    "affine_grid: theta of shape": lambda: F.affine_grid(Tensor.zeros(1, 3, 3), (1, 1, 2, 2)),
    "embedding_bag: mode='min'": lambda: F.embedding_bag(WORDS, TABLE, Tensor([0]), mode="min"),
    "embedding_bag: integers of shape": lambda: F.embedding_bag(WORDS, TABLE),
    "per_sample_weights with mode": lambda: F.embedding_bag(WORDS[None], TABLE, per_sample_weights=TABLE),
    "max_unpool1d: indices of shape": lambda: F.max_unpool1d(Tensor.ones(1, 2), Tensor([[0]]), 2),
    "give one of both": lambda: F.fractional_max_pool2d(IMAGE, 2),
    "windows of .* do not fit": lambda: F.fractional_max_pool2d(IMAGE, 3, 4),
    "lp_pool2d: norm_type=0": lambda: F.lp_pool2d(IMAGE, 0, 2),
    "local_response_norm: size=0": lambda: F.local_response_norm(IMAGE, 0),
    "pdist: the shape is": lambda: F.pdist(IMAGE),
    "rrelu: lower=0.5": lambda: F.rrelu(IMAGE, 0.5, 0.1),
    "gumbel_softmax: tau=0": lambda: F.gumbel_softmax(IMAGE, 0),
    "alpha_dropout: p=2": lambda: F.alpha_dropout(IMAGE, 2, True),
    "margin=0": lambda: F.triplet_margin_with_distance_loss(IMAGE, IMAGE, IMAGE, margin=0),
    "linear_bias has the shape": lambda: F.linear_cross_entropy(TABLE, TABLE, WORDS, linear_bias=Tensor.ones(3)),
    "multilabel_margin_loss: scores": lambda: F.multilabel_margin_loss(TABLE, WORDS),
    "ZeroPad2d: padding": lambda: nn.ZeroPad2d((1, 2, 3)),
    "a weight of the queries": lambda: F.multi_head_attention_forward(
        IMAGE[0], IMAGE[0], IMAGE[0], 4, 2, None, None, None, None, False, 0.0, TABLE, None
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(any_device, message):
    with pytest.raises(RulegradError, match=message) as raised:
        MISTAKES[message]()
    assert isinstance(raised.value, (ShapeError, ConfigError))


def test_a_label_that_is_no_class(any_device):
    with pytest.raises(IndexRangeError, match="multilabel_margin_loss: 3 is out of range"):
        F.multilabel_margin_loss(Tensor(np.arange(6.0).reshape(2, 3)), Tensor([[0, -1, 9], [3, -1, 0]])).item()
