"""Functions of networks, written once for tensors and for PyTorch: our methods have its functions' names and arguments.

`f` is torch.nn.functional, or an object whose functions are the tensors' methods. Inputs are NumPy arrays; those of
floats are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A function to call, and its inputs."""

    call: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]


def numbers(*shape: int, low: float = -1.5, high: float = 1.5, turn: float = 0.0) -> np.ndarray:
    """Numbers without a pattern and without ties, the same on every machine: multiples of an irrational number."""
    share = (np.arange(1, int(np.prod(shape)) + 1) * 0.6180339887498949 + turn) % 1.0
    return (low + (high - low) * share).reshape(shape)


X = numbers(2, 3)
IMAGES = numbers(2, 4, 6, 5)
SIGNS = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
LABELS = np.array([2, 0, 3])
SCORES = numbers(3, 4)
SHARES = numbers(3, 4, low=0.1, high=0.9, turn=0.3)
MASK = np.array([[True, False, True, True], [False, False, True, False], [True] * 4])
QUERIES, KEYS, VALUES = numbers(2, 2, 3, 4), numbers(2, 2, 4, 4, turn=0.2), numbers(2, 2, 4, 3, turn=0.4)

_CONVOLUTIONS = {
    "conv1d": Case(lambda f, x, w, b: f.conv1d(x, w, b, stride=2, padding=1), (numbers(2, 3, 7), numbers(4, 3, 3), numbers(4))),
    "conv1d_same": Case(lambda f, x, w: f.conv1d(x, w, padding="same", dilation=3), (numbers(1, 2, 7), numbers(2, 2, 2))),
    "conv2d": Case(lambda f, x, w, b: f.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)), (IMAGES, numbers(2, 4, 3, 2), numbers(2))),
    "conv2d_groups": Case(lambda f, x, w: f.conv2d(x, w, groups=2, padding=1), (IMAGES, numbers(4, 2, 3, 3))),
    "conv2d_no_batch": Case(lambda f, x, w: f.conv2d(x, w), (numbers(2, 4, 4), numbers(3, 2, 2, 2))),
    "conv3d": Case(lambda f, x, w: f.conv3d(x, w, stride=(1, 2, 1), padding=(0, 1, 0)), (numbers(1, 2, 3, 4, 3), numbers(2, 2, 2, 2, 2))),
    "conv_transpose1d": Case(lambda f, x, w, b: f.conv_transpose1d(x, w, b, 2, 1, 1), (numbers(2, 3, 4), numbers(3, 2, 3), numbers(2))),
    "conv_transpose2d": Case(lambda f, x, w: f.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(2, 1)), (numbers(1, 2, 3, 2), numbers(2, 3, 2, 3))),
    "conv_transpose2d_groups": Case(lambda f, x, w: f.conv_transpose2d(x, w, stride=2, groups=2), (numbers(1, 4, 2, 3), numbers(4, 1, 2, 2))),
    "conv_transpose2d_cut": Case(lambda f, x, w: f.conv_transpose2d(x, w, padding=2), (numbers(1, 1, 4, 4), numbers(1, 1, 2, 2))),
    "conv_transpose3d": Case(lambda f, x, w: f.conv_transpose3d(x, w, stride=(1, 2, 2)), (numbers(1, 1, 2, 2, 2), numbers(1, 2, 2, 2, 1))),
}  # fmt: skip

_POOLING = {
    "max_pool1d": Case(lambda f, x: f.max_pool1d(x, 3, 2, padding=1), (numbers(2, 2, 7),)),
    "max_pool2d": Case(lambda f, x: f.max_pool2d(x, (3, 2), padding=1, dilation=(1, 2), ceil_mode=True), (IMAGES,)),
    "max_pool2d_stride": Case(lambda f, x: f.max_pool2d(x, 3, (1, 2)), (IMAGES,)),
    "max_pool2d_ceil": Case(lambda f, x: f.max_pool2d(x, 2, 3, 1, ceil_mode=True), (IMAGES,)),
    "max_pool3d": Case(lambda f, x: f.max_pool3d(x, 2, 1), (numbers(1, 2, 3, 3, 2),)),
    "avg_pool1d": Case(lambda f, x: f.avg_pool1d(x, 3, 2, 1), (numbers(2, 2, 7),)),
    "avg_pool2d": Case(lambda f, x: f.avg_pool2d(x, (3, 2)), (IMAGES,)),
    "avg_pool2d_ceil": Case(lambda f, x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (numbers(1, 1, 6, 6),)),
    "avg_pool2d_inside": Case(lambda f, x: f.avg_pool2d(x, 3, 2, 1, True, False), (IMAGES,)),
    "avg_pool2d_divisor": Case(lambda f, x: f.avg_pool2d(x, 2, 1, divisor_override=3), (IMAGES,)),
    "avg_pool3d": Case(lambda f, x: f.avg_pool3d(x, (1, 2, 2), padding=(0, 1, 0)), (numbers(1, 1, 2, 3, 4),)),
    "adaptive_avg_pool1d": Case(lambda f, x: f.adaptive_avg_pool1d(x, 3), (numbers(1, 2, 7),)),
    "adaptive_avg_pool2d": Case(lambda f, x: f.adaptive_avg_pool2d(x, (4, None)), (IMAGES,)),
    "adaptive_avg_pool3d": Case(lambda f, x: f.adaptive_avg_pool3d(x, 2), (numbers(1, 1, 2, 3, 4),)),
    "adaptive_max_pool1d": Case(lambda f, x: f.adaptive_max_pool1d(x, 2), (numbers(1, 2, 7),)),
    "adaptive_max_pool2d": Case(lambda f, x: f.adaptive_max_pool2d(x, (4, 1)), (IMAGES,)),
    "adaptive_max_pool3d": Case(lambda f, x: f.adaptive_max_pool3d(x, 2), (numbers(1, 1, 2, 3, 4),)),
}  # fmt: skip

_ACTIVATIONS = {
    name: Case(lambda f, x, name=name: getattr(f, name)(x), (3.0 * X,))
    for name in (
        *("relu", "relu6", "elu", "selu", "celu", "hardtanh", "hardsigmoid", "hardswish", "mish", "silu", "gelu"),
        *("softsign", "tanhshrink", "logsigmoid", "hardshrink", "softshrink", "leaky_relu", "softplus"),
    )
} | {
    "elu_alpha": Case(lambda f, x: f.elu(x, 0.3), (X,)),
    "celu_alpha": Case(lambda f, x: f.celu(x, 0.3), (X,)),
    "gelu_tanh": Case(lambda f, x: f.gelu(x, approximate="tanh"), (X,)),
    "hardtanh_limits": Case(lambda f, x: f.hardtanh(x, -0.2, 0.7), (X,)),
    "threshold": Case(lambda f, x: f.threshold(x, 0.2, -7.0), (X,)),
    "prelu": Case(lambda f, x, w: f.prelu(x, w), (X, numbers(1))),
    "prelu_channels": Case(lambda f, x, w: f.prelu(x, w), (numbers(2, 3, 2), numbers(3))),
    "glu": Case(lambda f, x: f.glu(x, dim=1), (SCORES,)),
    "softmax": Case(lambda f, x: f.softmax(x, dim=0), (SCORES,)),
    "softmin": Case(lambda f, x: f.softmin(x, dim=1), (SCORES,)),
    "log_softmax": Case(lambda f, x: f.log_softmax(x, dim=-1), (SCORES,)),
    "normalize": Case(lambda f, x: f.normalize(x), (SCORES,)),
    "normalize_3": Case(lambda f, x: f.normalize(x, 3.0, 0), (SCORES,)),
}

_NORMALIZATION = {
    "layer_norm": Case(lambda f, x, w, b: f.layer_norm(x, (3, 4), w, b), (numbers(2, 3, 4), numbers(3, 4), numbers(3, 4, turn=0.5))),
    "layer_norm_plain": Case(lambda f, x: f.layer_norm(x, (4,), eps=0.1), (SCORES,)),
    "rms_norm": Case(lambda f, x, w: f.rms_norm(x, (4,), w, 1e-3), (SCORES, numbers(4))),
    "group_norm": Case(lambda f, x, w, b: f.group_norm(x, 2, w, b), (numbers(2, 4, 3), numbers(4), numbers(4, turn=0.5))),
    "batch_norm": Case(lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True), (numbers(3, 2, 4), numbers(2), numbers(2, turn=0.5))),
    "batch_norm_running": Case(lambda f, x, m, v, w: f.batch_norm(x, m.detach(), v.detach(), w), (numbers(3, 2), numbers(2), numbers(2, low=0.5), numbers(2, turn=0.5))),
    "instance_norm": Case(lambda f, x: f.instance_norm(x, eps=1e-3), (numbers(2, 2, 3, 4),)),
}  # fmt: skip

_LOSSES = {
    "cross_entropy": Case(lambda f, x, t: f.cross_entropy(x, t), (SCORES, LABELS)),
    "cross_entropy_weights": Case(lambda f, x, t, w: f.cross_entropy(x, t, w.detach(), ignore_index=0, label_smoothing=0.1), (SCORES, LABELS, numbers(4, low=0.1))),
    "cross_entropy_ignored": Case(lambda f, x, t: f.cross_entropy(x, t, reduction="none"), (SCORES, np.array([1, -100, 2]))),
    "cross_entropy_images": Case(lambda f, x, t: f.cross_entropy(x, t, reduction="sum"), (numbers(2, 3, 2), np.array([[0, 1], [2, 2]]))),
    "cross_entropy_shares": Case(lambda f, x, t: f.cross_entropy(x, t, label_smoothing=0.2), (SCORES, SHARES)),
    "cross_entropy_one": Case(lambda f, x, t: f.cross_entropy(x, t), (numbers(4), np.array(2))),
    "nll_loss": Case(lambda f, x, t, w: f.nll_loss(x, t, w.detach()), (SCORES, LABELS, numbers(4, low=0.1))),
    "multi_margin_loss": Case(lambda f, x, t: f.multi_margin_loss(x, t, 2, 0.5), (SCORES, LABELS)),
    "binary_cross_entropy": Case(lambda f, x, t, w: f.binary_cross_entropy(x, t, w.detach()), (SHARES, numbers(3, 4, low=0.0, high=1.0), numbers(3, 4, low=0.1))),
    "binary_cross_entropy_with_logits": Case(lambda f, x, t: f.binary_cross_entropy_with_logits(x, t), (SCORES, SHARES)),
    "binary_cross_entropy_with_weights": Case(lambda f, x, t, w, p: f.binary_cross_entropy_with_logits(x, t, w.detach(), pos_weight=p.detach()), (SCORES, SHARES, numbers(4, low=0.1), numbers(4, low=0.2))),
    "soft_margin_loss": Case(lambda f, x, t: f.soft_margin_loss(x, t.detach()), (X, SIGNS)),
    "hinge_embedding_loss": Case(lambda f, x, t: f.hinge_embedding_loss(x, t, 0.7), (X, SIGNS)),
    "mse_loss": Case(lambda f, x, t: f.mse_loss(x, t), (SCORES, SHARES)),
    "l1_loss": Case(lambda f, x, t: f.l1_loss(x, t, reduction="sum"), (SCORES, SHARES)),
    "huber_loss": Case(lambda f, x, t: f.huber_loss(x, t, delta=0.4), (SCORES, SHARES)),
    "smooth_l1_loss": Case(lambda f, x, t: f.smooth_l1_loss(x, t, beta=0.4, reduction="none"), (SCORES, SHARES)),
    "poisson_nll_loss": Case(lambda f, x, t: f.poisson_nll_loss(x, t), (SCORES, SHARES)),
    "poisson_nll_loss_plain": Case(lambda f, x, t: f.poisson_nll_loss(x, t, log_input=False), (SHARES, SHARES[::-1].copy())),
    "gaussian_nll_loss": Case(lambda f, x, t, v: f.gaussian_nll_loss(x, t, v, full=True), (SCORES, SHARES, SHARES[::-1].copy())),
    "kl_div": Case(lambda f, x, t: f.kl_div(x, t, reduction="batchmean"), (SCORES, SHARES)),
    "kl_div_logarithms": Case(lambda f, x, t: f.kl_div(x, t, reduction="sum", log_target=True), (SCORES, SHARES)),
    "cosine_similarity": Case(lambda f, x, y: f.cosine_similarity(x, y, dim=0), (SCORES, SHARES)),
    "cosine_embedding_loss": Case(lambda f, x, y, t: f.cosine_embedding_loss(x, y, t, 0.1), (SCORES, SHARES, np.array([1, -1, -1]))),
    "margin_ranking_loss": Case(lambda f, x, y, t: f.margin_ranking_loss(x, y, t, 0.1), (X, numbers(2, 3, turn=0.4), SIGNS)),
    "pairwise_distance": Case(lambda f, x, y: f.pairwise_distance(x, y, 3.0), (SCORES, SHARES)),
    "triplet_margin_loss": Case(lambda f, x, y, z: f.triplet_margin_loss(x, y, z, swap=True), (SCORES, SHARES, numbers(3, 4, turn=0.7))),
}  # fmt: skip

_ATTENTION = {
    "attention": Case(lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v), (QUERIES, KEYS, VALUES)),
    "attention_causal": Case(lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True), (QUERIES, KEYS, VALUES)),
    "attention_mask": Case(lambda f, q, k, v, m: f.scaled_dot_product_attention(q, k, v, m), (QUERIES, KEYS, VALUES, MASK)),
    "attention_added": Case(lambda f, q, k, v, m: f.scaled_dot_product_attention(q, k, v, m, scale=0.3), (QUERIES, KEYS, VALUES, numbers(3, 4))),
    "attention_groups": Case(lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True), (numbers(1, 4, 2, 3), numbers(1, 2, 3, 3), numbers(1, 2, 3, 2))),
}  # fmt: skip

_INTERPOLATION = {
    "interpolate_nearest": Case(lambda f, x: f.interpolate(x, scale_factor=1.7), (IMAGES,)),
    "interpolate_exact": Case(lambda f, x: f.interpolate(x, (4, 7), mode="nearest-exact"), (IMAGES,)),
    "interpolate_linear": Case(lambda f, x: f.interpolate(x, scale_factor=1.2, mode="linear"), (numbers(1, 2, 4),)),
    "interpolate_bilinear": Case(lambda f, x: f.interpolate(x, (3, 8), mode="bilinear", align_corners=True), (IMAGES,)),
    "interpolate_trilinear": Case(lambda f, x: f.interpolate(x, (3, 5, 4), mode="trilinear"), (numbers(1, 2, 2, 3, 6),)),
    "interpolate_trilinear_corners": Case(lambda f, x: f.interpolate(x, scale_factor=(2, 1, 1.5), mode="trilinear", align_corners=True), (numbers(1, 1, 3, 2, 4),)),
    "interpolate_bicubic": Case(lambda f, x: f.interpolate(x, scale_factor=1.3, mode="bicubic"), (IMAGES,)),
    "interpolate_nearest_3d": Case(lambda f, x: f.interpolate(x, (1, 5, 4)), (numbers(1, 2, 2, 3, 6),)),
    "interpolate_area_3d": Case(lambda f, x: f.interpolate(x, (1, 2, 4), mode="area"), (numbers(1, 2, 2, 3, 6),)),
    "pad_reflect": Case(lambda f, x: f.pad(x, (2, 3, 0, 1), mode="reflect"), (numbers(1, 2, 3, 4),)),
    "pad_circular": Case(lambda f, x: f.pad(x, (4, 1, 0, 3), mode="circular"), (numbers(1, 2, 3, 4),)),
    "pad_replicate_3d": Case(lambda f, x: f.pad(x, (1, 0, 2, 2, 0, 3), mode="replicate"), (numbers(1, 2, 2, 1, 3),)),
}  # fmt: skip

_SPEECH = numbers(6, 3, 4, low=-3.0, high=3.0)
_WORDS, _SIZES, _WANTED = np.array([[1, 1, 2], [3, 2, 1], [2, 1, 1]]), np.array([6, 3, 5]), np.array([3, 3, 1])
_ALIGNMENT = {
    "ctc_loss": Case(lambda f, x, t, n, m: f.ctc_loss(f.log_softmax(x, -1), t, n, m), (_SPEECH, _WORDS, _SIZES, _WANTED)),
    "ctc_loss_sum": Case(lambda f, x, t, n, m: f.ctc_loss(f.log_softmax(x, -1), t, n, m, blank=3, reduction="sum"), (_SPEECH, np.array([[1, 1], [0, 2], [2, 2]]), _SIZES, np.array([2, 2, 0]))),
    "ctc_loss_one_after_the_other": Case(lambda f, x, t, n, m: f.ctc_loss(f.log_softmax(x, -1), t, n, m, reduction="none"), (_SPEECH, np.array([1, 2, 2, 3, 1]), _SIZES, np.array([3, 0, 2]))),
    "ctc_loss_not_infinite": Case(lambda f, x, t, n, m: f.ctc_loss(f.log_softmax(x, -1), t, n, m, reduction="none", zero_infinity=True), (_SPEECH, _WORDS, np.array([3, 3, 2]), np.array([3, 3, 2]))),
    "ctc_loss_no_batch": Case(lambda f, x, t, n, m: f.ctc_loss(f.log_softmax(x, -1), t, n, m, reduction="none"), (_SPEECH[:, 0], np.array([2, 2]), np.array(5), np.array(2))),
}  # fmt: skip

CASES = _CONVOLUTIONS | _POOLING | _ACTIVATIONS | _NORMALIZATION | _LOSSES | _ATTENTION | _INTERPOLATION | _ALIGNMENT


def weights(count: int) -> np.ndarray:
    """Fixed weights, so that the weighted sum of a result depends on every element of it differently."""
    return numbers(count, low=0.5, high=2.0, turn=0.1)


def directions(case: Case) -> list[np.ndarray]:
    """One direction for each input of floats, to which gradients are projected."""
    floats = [array for array in case.inputs if array.dtype.kind == "f"]
    return [numbers(*array.shape, low=-1.0, high=1.0, turn=0.15 * k) for k, array in enumerate(floats)]
