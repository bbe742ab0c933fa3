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
from rulegrad.nn._activation_functions import (
    alpha_dropout,
    celu,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    feature_alpha_dropout,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    silu,
    softmax,
    softmin,
    threshold,
)
from rulegrad.nn._alignment import ctc_loss
from rulegrad.nn._antialiasing import resized
from rulegrad.nn._attention import multi_head_attention_forward
from rulegrad.nn._convolution import check_padding
from rulegrad.nn._embedding import embedding, embedding_bag
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
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.class_losses import check_labels
from rulegrad.tensor.gathering import checked_indices
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.inplace import in_place
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
    "celu_",
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
    "elu_",
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
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
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
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
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
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def __dir__() -> list[str]:
    return __all__


# ---- activations ----

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

    The classes are counted by computing the tensor. Raises ShapeError for integers that are out of range: when the
    result is read, where `num_classes` is given.

    >>> import rulegrad.nn.functional as F
    >>> from rulegrad import Tensor
    >>> F.one_hot(Tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    tensor = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
    check_labels(tensor, "one_hot")
    num_classes = whole_number(num_classes, "one_hot")
    if num_classes < 0:
        if not tensor.size:
            raise ShapeError("one_hot: no integers to count the classes of; give num_classes")
        num_classes = int(tensor.max().item()) + 1
    tensor = checked_indices(tensor, num_classes, tensor.ndim, "one_hot", wraps=False)
    return tensor.one_hot(num_classes).cast("int64")


# ---- activations in place ----

celu_ = in_place(celu)
elu_ = in_place(elu)
hardtanh_ = in_place(hardtanh)
leaky_relu_ = in_place(leaky_relu)
relu_ = in_place(relu)
rrelu_ = in_place(rrelu)
selu_ = in_place(selu)
threshold_ = in_place(threshold)

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
