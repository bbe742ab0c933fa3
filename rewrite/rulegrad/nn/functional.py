"""PyTorch's `torch.nn.functional`: functions whose first argument is the tensor. Most are the tensors' own methods.

>>> import rulegrad.nn.functional as F
>>> from rulegrad import Tensor
>>> F.relu(Tensor([-1.0, 2.0])).tolist(), F.softmax(Tensor([1.0, 1.0]), dim=0).tolist()
([0.0, 2.0], [0.5, 0.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.nn._activation import gumbel_softmax, rrelu, softplus
from rulegrad.nn._alignment import ctc_loss
from rulegrad.nn._antialiasing import resized
from rulegrad.nn._attention import multi_head_attention_forward
from rulegrad.nn._convolution import check_padding
from rulegrad.nn._dropout import alpha_dropped, channels_of, dropped_channels
from rulegrad.nn._embedding import embedding, embedding_bag
from rulegrad.nn._inplace import in_its_place
from rulegrad.nn._linear import bilinear
from rulegrad.nn._loss_functions import (
    linear_cross_entropy,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    triplet_margin_with_distance_loss,
)
from rulegrad.nn._names import function_of
from rulegrad.nn._pooling_functions import (
    fractional_max_pool2d,
    fractional_max_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from rulegrad.nn._sampling import affine_grid, grid_sample
from rulegrad.nn._shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from rulegrad.tensor.class_losses import check_labels
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.padding import pairs_of_axes
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def __dir__() -> list[str]:
    return __all__


# ---- activations: with `inplace` the tensor has the values of the result from now on ----


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.relu`

    >>> import rulegrad.nn.functional as F
    >>> F.relu(Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return in_its_place(input.relu(), input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.relu6`

    >>> import rulegrad.nn.functional as F
    >>> F.relu6(Tensor([-1.0, 2.0, 8.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return in_its_place(input.relu6(), input, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.elu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.elu(Tensor([-1.0, 2.0])).tolist()]
    [-0.632, 2.0]
    """
    return in_its_place(input.elu(alpha), input, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.celu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.celu(Tensor([-1.0, 2.0]), alpha=2.0).tolist()]
    [-0.787, 2.0]
    """
    return in_its_place(input.celu(alpha), input, inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.selu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.selu(Tensor([-1.0, 2.0])).tolist()]
    [-1.111, 2.101]
    """
    return in_its_place(input.selu(), input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.silu`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.silu(Tensor([-1.0, 2.0])).tolist()]
    [-0.269, 1.762]
    """
    return in_its_place(input.silu(), input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.mish`

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.mish(Tensor([-1.0, 2.0])).tolist()]
    [-0.303, 1.944]
    """
    return in_its_place(input.mish(), input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.hardsigmoid`

    >>> import rulegrad.nn.functional as F
    >>> F.hardsigmoid(Tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return in_its_place(input.hardsigmoid(), input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`Tensor.hardswish`

    >>> import rulegrad.nn.functional as F
    >>> F.hardswish(Tensor([0.0, 3.0, 4.0])).tolist()
    [0.0, 3.0, 4.0]
    """
    return in_its_place(input.hardswish(), input, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`Tensor.hardtanh`

    >>> import rulegrad.nn.functional as F
    >>> F.hardtanh(Tensor([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return in_its_place(input.hardtanh(min_val, max_val), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`Tensor.leaky_relu`

    >>> import rulegrad.nn.functional as F
    >>> F.leaky_relu(Tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return in_its_place(input.leaky_relu(negative_slope), input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`Tensor.threshold`

    >>> import rulegrad.nn.functional as F
    >>> F.threshold(Tensor([0.5, 2.0]), 1.0, 9.0).tolist()
    [9.0, 2.0]
    """
    return in_its_place(input.threshold(threshold, value), input, inplace)


gelu = function_of(Tensor.gelu)
glu = function_of(Tensor.glu)
hardshrink = function_of(Tensor.hardshrink)
logsigmoid = function_of(Tensor.logsigmoid)
prelu = function_of(Tensor.prelu)
sigmoid = function_of(Tensor.sigmoid)
softshrink = function_of(Tensor.softshrink)
softsign = function_of(Tensor.softsign)
tanh = function_of(Tensor.tanh)
tanhshrink = function_of(Tensor.tanhshrink)


def softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.softmax` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> F.softmax(Tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    return input.softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.log_softmax` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.log_softmax(Tensor([1.0, 1.0])).tolist()]
    [-0.693, -0.693]
    """
    return input.log_softmax(dim, dtype)


def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """`Tensor.softmin` along `dim`, computed in `dtype` where one is given.

    >>> import rulegrad.nn.functional as F
    >>> [round(v, 3) for v in F.softmin(Tensor([0.0, 1.0])).tolist()]
    [0.731, 0.269]
    """
    return input.softmin(dim, dtype)


# ---- dropout ----


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element is zero with the probability `p`, and the others are scaled up; unless `training` is False.

    >>> import rulegrad.nn.functional as F
    >>> sorted(set(F.dropout(Tensor.ones(100)).tolist()))
    [0.0, 2.0]
    """
    return in_its_place(input.dropout(p, training), input, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, length).

    >>> import rulegrad.nn.functional as F
    >>> y = F.dropout1d(Tensor.ones(1, 8, 3)); (y == y[:, :, :1]).all().item()
    True
    """
    return in_its_place(dropped_channels(input, p, training, 1, "dropout1d"), input, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, height, width).

    >>> import rulegrad.nn.functional as F
    >>> y = F.dropout2d(Tensor.ones(1, 8, 2, 2)); (y == y[:, :, :1, :1]).all().item()
    True
    """
    return in_its_place(dropped_channels(input, p, training, 2, "dropout2d"), input, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (batch, channels, depth, height, width).

    >>> import rulegrad.nn.functional as F
    >>> F.dropout3d(Tensor.ones(1, 1, 1, 1, 2), training=False).tolist()
    [[[[[1.0, 1.0]]]]]
    """
    return in_its_place(dropped_channels(input, p, training, 3, "dropout3d"), input, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`nn.AlphaDropout` as a function; PyTorch's default is not to drop.

    >>> import rulegrad.nn.functional as F
    >>> F.alpha_dropout(Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return in_its_place(alpha_dropped(input, p, training, input.shape), input, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`nn.FeatureAlphaDropout` as a function; PyTorch's default is not to drop.

    >>> import rulegrad.nn.functional as F
    >>> y = F.feature_alpha_dropout(Tensor.ones(1, 8, 3), training=True); (y == y[:, :, :1]).all().item()
    True
    """
    shape = channels_of(input, "feature_alpha_dropout") if training and p else ()
    return in_its_place(alpha_dropped(input, p, training, shape), input, inplace)


# ---- linear maps, convolutions, pooling, normalisation, attention ----

adaptive_avg_pool1d = function_of(Tensor.adaptive_avg_pool1d)
adaptive_avg_pool2d = function_of(Tensor.adaptive_avg_pool2d)
adaptive_avg_pool3d = function_of(Tensor.adaptive_avg_pool3d)
adaptive_max_pool1d = function_of(Tensor.adaptive_max_pool1d)
adaptive_max_pool2d = function_of(Tensor.adaptive_max_pool2d)
adaptive_max_pool3d = function_of(Tensor.adaptive_max_pool3d)
avg_pool1d = function_of(Tensor.avg_pool1d)
avg_pool2d = function_of(Tensor.avg_pool2d)
avg_pool3d = function_of(Tensor.avg_pool3d)
batch_norm = function_of(Tensor.batch_norm)
conv1d = function_of(Tensor.conv1d)
conv2d = function_of(Tensor.conv2d)
conv3d = function_of(Tensor.conv3d)
conv_transpose1d = function_of(Tensor.conv_transpose1d)
conv_transpose2d = function_of(Tensor.conv_transpose2d)
conv_transpose3d = function_of(Tensor.conv_transpose3d)
group_norm = function_of(Tensor.group_norm)
instance_norm = function_of(Tensor.instance_norm)
layer_norm = function_of(Tensor.layer_norm)
linear = function_of(Tensor.linear)
local_response_norm = function_of(Tensor.local_response_norm)
max_pool1d = function_of(Tensor.max_pool1d)
max_pool2d = function_of(Tensor.max_pool2d)
max_pool3d = function_of(Tensor.max_pool3d)
max_unpool1d = function_of(Tensor.max_unpool1d)
max_unpool2d = function_of(Tensor.max_unpool2d)
max_unpool3d = function_of(Tensor.max_unpool3d)
normalize = function_of(Tensor.normalize)
rms_norm = function_of(Tensor.rms_norm)
scaled_dot_product_attention = function_of(Tensor.scaled_dot_product_attention, "query")


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """For each integer a vector of `num_classes` zeros and a one (int64); -1: as many as the largest needs.

    The classes are counted by computing the tensor. Raises ShapeError for integers that are out of range.

    >>> import rulegrad.nn.functional as F
    >>> from rulegrad import Tensor
    >>> F.one_hot(Tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    tensor = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
    check_labels(tensor, "one_hot")
    if num_classes < 0:
        if not tensor.size:
            raise ShapeError("one_hot: no integers to count the classes of; give num_classes")
        num_classes = int(tensor.max().item()) + 1
    if tensor.size and not 0 <= int(tensor.min().item()) <= int(tensor.max().item()) < num_classes:
        raise ShapeError(f"one_hot: the integers are not all from 0 to {num_classes - 1}; give more num_classes")
    return tensor.one_hot(num_classes).cast("int64")


# ---- images ----


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """PyTorch's order: pairs (before, after) for the last axis, then for the one before it, and so on.

    mode: "constant", "reflect", "replicate", "circular"; `Tensor.pad`, which takes a pair for each axis, says more, and
    goes on mirroring where this raises ShapeError: for a "reflect" that is not smaller than its axis, and a "circular"
    that is larger.

    >>> import rulegrad.nn.functional as F
    >>> from rulegrad import Tensor
    >>> F.pad(Tensor([[1, 2]]), (1, 0)).tolist()
    [[0, 1, 2]]
    """
    if mode == "constant":
        return input.constant_pad_nd(pad, 0 if value is None else value)
    every = pairs_of_axes(pad, input.shape)
    check_padding(input.shape, every, mode)
    added = [(max(before, 0), max(after, 0)) for before, after in every]
    cut = [(max(-before, 0), min(after, 0)) for before, after in every]
    if mode == "circular":
        input = input.shrink(*((first, n + last) for (first, last), n in zip(cut, input.shape)))
        return input.pad(added, mode)
    # Elements that are cut off at one end are still there for the other.
    padded = input.pad(added, mode, 0 if value is None else value)
    if not any(map(any, cut)):
        return padded
    return padded.shrink(*((first, n + last) for (first, last), n in zip(cut, padded.shape)))


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`Tensor.interpolate`; with `antialias` (bilinear and bicubic) a smaller image is a mean of all of the larger one.

    >>> import rulegrad.nn.functional as F
    >>> F.interpolate(Tensor([[[1.0, 2.0]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    if recompute_scale_factor and size is None:
        factors = scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * (input.ndim - 2)
        size, scale_factor = [int(n * f) for n, f in zip(input.shape[2:], factors)], None
    if antialias:
        return resized(input, size, scale_factor, mode, bool(align_corners))
    return input.interpolate(size, scale_factor, mode, bool(align_corners))


upsample = interpolate


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with the nearest element: PyTorch's old name.

    >>> import rulegrad.nn.functional as F
    >>> F.upsample_nearest(Tensor([[[1.0, 2.0]]]), 4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of images with `align_corners`: PyTorch's old name.

    >>> import rulegrad.nn.functional as F
    >>> F.upsample_bilinear(Tensor([[[[1.0, 2.0]]]]), (1, 3)).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


@built_once
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images as columns: `Tensor.im2col`.

    >>> import rulegrad.nn.functional as F
    >>> F.unfold(Tensor([[[[1, 2], [3, 4]]]]), (1, 2)).tolist()
    [[[1, 3], [2, 4]]]
    """
    return input.im2col(kernel_size, stride, padding, dilation)


@built_once
def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Columns added up to images: `Tensor.col2im`.

    >>> import rulegrad.nn.functional as F
    >>> F.fold(Tensor([[[1, 3], [2, 4]]]), (2, 2), (1, 2)).tolist()
    [[[[1, 2], [3, 4]]]]
    """
    return input.col2im(output_size, kernel_size, stride, padding, dilation)


# ---- losses ----

binary_cross_entropy = function_of(Tensor.binary_cross_entropy)
binary_cross_entropy_with_logits = function_of(Tensor.binary_cross_entropy_with_logits)
cosine_embedding_loss = function_of(Tensor.cosine_embedding_loss, "input1 input2")
cosine_similarity = function_of(Tensor.cosine_similarity, "x1 x2")
cross_entropy = function_of(Tensor.cross_entropy)
gaussian_nll_loss = function_of(Tensor.gaussian_nll_loss)
hinge_embedding_loss = function_of(Tensor.hinge_embedding_loss)
huber_loss = function_of(Tensor.huber_loss)
kl_div = function_of(Tensor.kl_div)
l1_loss = function_of(Tensor.l1_loss)
margin_ranking_loss = function_of(Tensor.margin_ranking_loss, "input1 input2")
mse_loss = function_of(Tensor.mse_loss)
multi_margin_loss = function_of(Tensor.multi_margin_loss)
nll_loss = function_of(Tensor.nll_loss)
pairwise_distance = function_of(Tensor.pairwise_distance, "x1 x2")
pdist = function_of(Tensor.pdist)
poisson_nll_loss = function_of(Tensor.poisson_nll_loss)
smooth_l1_loss = function_of(Tensor.smooth_l1_loss)
soft_margin_loss = function_of(Tensor.soft_margin_loss)
triplet_margin_loss = function_of(Tensor.triplet_margin_loss, "anchor")
