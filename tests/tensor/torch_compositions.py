"""Functions of networks that are made of others, for tests against PyTorch on the interpreter; as in torch_functions.py."""

from __future__ import annotations

import numpy as np
from torch_functions import IMAGES, SCORES, SHARES, Case, numbers

THETA = numbers(2, 2, 3, low=-1.2, high=1.2)
GRID = numbers(2, 3, 4, 2, low=-1.4, high=1.4)
VOLUME, ROOM = numbers(1, 2, 3, 2, 4), numbers(1, 2, 2, 3, 3, low=-1.3, high=1.3, turn=0.2)
WORDS, STARTS = np.array([0, 3, 1, 1, 4, 2]), np.array([0, 3, 4])
TABLE = numbers(5, 3)
PARAMETERS = (numbers(12, 4, turn=0.1), numbers(12, turn=0.2), numbers(4, 4, turn=0.3), numbers(4, turn=0.4))
TOKENS, MEMORY = numbers(3, 2, 4), numbers(5, 2, 4, turn=0.6)


def _heads(f, q, k, w, b, o, c, **how):
    return f.multi_head_attention_forward(q, k, k, 4, 2, w, b, None, None, True, 0.0, o, c, **how)[0]


_SAMPLING = {
    "affine_grid": Case(lambda f, t: f.affine_grid(t, (2, 1, 3, 4), align_corners=False), (THETA,)),
    "affine_grid_3d": Case(lambda f, t: f.affine_grid(t, [1, 1, 2, 3, 2], align_corners=True), (numbers(1, 3, 4),)),
    **{
        f"grid_sample_{mode}_{border}": Case(lambda f, x, g, mode=mode, border=border: f.grid_sample(x, g, mode, border, border == "border"), (IMAGES, GRID))
        for mode in ("bilinear", "nearest", "bicubic")
        for border in ("zeros", "border", "reflection")
    },
    "grid_sample_3d": Case(lambda f, x, g: f.grid_sample(x, g, "bilinear", "reflection", True), (VOLUME, ROOM)),
    "grid_sample_3d_nearest": Case(lambda f, x, g: f.grid_sample(x, g, "nearest", align_corners=False), (VOLUME, ROOM)),
}  # fmt: skip

_POOLING = {
    "lp_pool1d_infinite": Case(lambda f, x: f.lp_pool1d(x, float("inf"), 2), (SCORES,)),
    "lp_pool2d": Case(lambda f, x: f.lp_pool2d(x, 4.0, 3, 2), (IMAGES,)),
    "max_unpool1d": Case(lambda f, x: f.max_unpool1d(*f.max_pool1d(x, 3, return_indices=True), 3, output_size=(2, 2, 7)), (numbers(2, 2, 7),)),
    "max_unpool3d": Case(lambda f, x: f.max_unpool3d(*f.max_pool3d(x, (2, 1, 2), return_indices=True), (2, 1, 2)), (numbers(1, 2, 4, 2, 4),)),
    "adaptive_max_pool1d_indices": Case(lambda f, x: f.adaptive_max_pool1d(x, 3, True)[0], (numbers(2, 2, 7),)),
    "adaptive_max_pool3d_indices": Case(lambda f, x: f.adaptive_max_pool3d(x, (2, 1, None), return_indices=True)[0], (numbers(1, 2, 3, 2, 3),)),
}  # fmt: skip

_OTHERS = {
    "local_response_norm": Case(lambda f, x: f.local_response_norm(x, 4, 0.3, 0.5, 2.0), (numbers(2, 5, 3),)),
    "hinge_embedding_loss_others": Case(lambda f, x, t: f.hinge_embedding_loss(x, t), (SCORES, SHARES)),
    "poisson_nll_loss_full": Case(lambda f, x, t: f.poisson_nll_loss(x, t.detach(), False, True), (SHARES, 3.0 * SHARES[::-1].copy())),
    "gaussian_nll_loss_one": Case(lambda f, x, t, v: f.gaussian_nll_loss(x, t, v), (SCORES, numbers(3, 1), SHARES[:, :1].copy())),
    "cosine_similarity_broadcast": Case(lambda f, x, y: f.cosine_similarity(x, y, dim=-2), (numbers(1, 2, 3), numbers(2, 1, 3, turn=0.3))),
    "multi_margin_loss_one": Case(lambda f, x, t: f.multi_margin_loss(x, t), (SCORES[0], np.array([2]))),
    "multilabel_margin_loss": Case(lambda f, x, t: f.multilabel_margin_loss(x, t, reduction="none"), (SCORES, np.array([[1, 3, -1, 0], [2, 2, 0, -1], [-1, 1, 2, 3]]))),
    "multilabel_soft_margin_loss": Case(lambda f, x, t, w: f.multilabel_soft_margin_loss(x, t.detach(), w.detach()), (SCORES, SHARES, numbers(4))),
    "triplet_margin_with_distance_loss": Case(lambda f, x, y, z: f.triplet_margin_with_distance_loss(x, y, z, distance_function=f.cosine_similarity, swap=True), (SCORES, SHARES, numbers(3, 4, turn=0.7))),
    "linear_cross_entropy": Case(lambda f, x, w, t, b: f.linear_cross_entropy(x, w, t, linear_bias=b, label_smoothing=0.1), (SCORES, numbers(5, 4), np.array([2, -100, 4]), numbers(5))),
    "linear_cross_entropy_shares": Case(lambda f, x, w, t: f.linear_cross_entropy(x, w, t, reduction="sum"), (SCORES, numbers(2, 3, 4), numbers(3, 2, 3, low=0.1))),
    "pdist": Case(lambda f, x: f.pdist(x), (SCORES,)),
    "pdist_3": Case(lambda f, x: f.pdist(x, 3.0), (SCORES,)),
    "pdist_infinite": Case(lambda f, x: f.pdist(x, float("inf")), (SCORES**3,)),
    "embedding_bag": Case(lambda f, x, w: f.embedding_bag(x, w, padding_idx=-1), (WORDS.reshape(2, 3), TABLE)),
    "embedding_bag_offsets": Case(lambda f, x, w, o: f.embedding_bag(x, w, o), (WORDS, TABLE, STARTS)),
    "embedding_bag_weights": Case(lambda f, x, w, o, s: f.embedding_bag(x, w, o, mode="sum", per_sample_weights=s), (WORDS, TABLE, STARTS, numbers(6))),
    "embedding_bag_max": Case(lambda f, x, w, o: f.embedding_bag(x, w, o, mode="max", include_last_offset=True), (WORDS, TABLE, np.array([0, 3, 3, 6]))),
    "multi_head_attention": Case(_heads, (TOKENS, MEMORY, *PARAMETERS)),
    "multi_head_attention_causal": Case(lambda f, q, k, m, *p: _heads(f, q, k, *p, attn_mask=m.detach(), average_attn_weights=False), (TOKENS, MEMORY, numbers(3, 5), *PARAMETERS)),
    "upsample_bilinear": Case(lambda f, x: f.interpolate(x, (4, 8), None, "bilinear", True), (IMAGES,)),
    "pad_cut_replicate": Case(lambda f, x: f.pad(x, (-3, 4, 2, -2), mode="replicate"), (numbers(1, 2, 3, 3),)),
    "pad_cut_reflect": Case(lambda f, x: f.pad(x, (-2, 3), mode="reflect"), (numbers(1, 2, 4),)),
    "prelu_one": Case(lambda f, x, w: f.prelu(x, w), (numbers(1)[0], numbers(1))),
    "softplus_threshold": Case(lambda f, x: f.softplus(x, 3.0, 0.2), (SCORES,)),
}  # fmt: skip

COMPOSITIONS = _SAMPLING | _POOLING | _OTHERS
