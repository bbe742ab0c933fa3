"""Layers and optimizers, made once for ours and for PyTorch: the names and arguments are the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from torch_functions import IMAGES, LABELS, SCORES, SHARES, SIGNS, X, numbers


class Layer(NamedTuple):
    """A layer, what it is called with, and how."""

    make: Callable[[Any], Any]
    inputs: tuple[np.ndarray, ...]
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs)
    training: bool = False


STEPS, STATES = numbers(3, 2, 4), numbers(2, 2, 3)
SOURCE, TARGET = numbers(2, 4, 6), numbers(2, 3, 6, turn=0.4)
HIDDEN = np.array([[False, False, True, True], [False, False, False, False]])
SEEN = np.array([[False, True, True, True], [False, False, True, True], [False] * 4, [False] * 4])

LAYERS = {
    "Linear": Layer(lambda nn: nn.Linear(3, 2), (numbers(2, 4, 3),)),
    "Linear_no_bias": Layer(lambda nn: nn.Linear(3, 2, False), (numbers(3),)),
    "Bilinear": Layer(lambda nn: nn.Bilinear(3, 2, 4), (numbers(5, 3), numbers(5, 2))),
    "Embedding": Layer(lambda nn: nn.Embedding(5, 3, padding_idx=1), (np.array([[0, 1], [4, 2]]),)),
    "Conv1d": Layer(lambda nn: nn.Conv1d(4, 2, 3, 1, 1), (numbers(2, 4, 5),)),
    "Conv1d_reflect": Layer(lambda nn: nn.Conv1d(2, 2, 4, padding="same", padding_mode="reflect"), (numbers(2, 2, 5),)),
    "Conv2d": Layer(lambda nn: nn.Conv2d(4, 6, (3, 2), 2, groups=2, bias=False), (IMAGES,)),
    "Conv2d_circular": Layer(lambda nn: nn.Conv2d(4, 2, 3, padding=(1, 2), padding_mode="circular"), (IMAGES,)),
    "Conv2d_replicate": Layer(lambda nn: nn.Conv2d(4, 2, 3, padding=2, padding_mode="replicate"), (IMAGES,)),
    "Conv3d": Layer(lambda nn: nn.Conv3d(1, 2, 2), (numbers(1, 1, 3, 3, 3),)),
    "ConvTranspose1d": Layer(lambda nn: nn.ConvTranspose1d(2, 3, 3, 2), (numbers(1, 2, 4),)),
    "ConvTranspose2d": Layer(lambda nn: nn.ConvTranspose2d(4, 2, 3, 2, 1), (IMAGES,), lambda layer, x: layer(x, output_size=(12, 9))),
    "ConvTranspose3d": Layer(lambda nn: nn.ConvTranspose3d(1, 2, 2, 1), (numbers(1, 1, 2, 2, 2),)),
    "BatchNorm1d": Layer(lambda nn: nn.BatchNorm1d(3), (numbers(4, 3),), training=True),
    "BatchNorm1d_used": Layer(lambda nn: nn.BatchNorm1d(3, eps=0.1), (numbers(2, 3, 2),)),
    "BatchNorm2d": Layer(lambda nn: nn.BatchNorm2d(4, momentum=0.3), (IMAGES,), training=True),
    "BatchNorm2d_mean": Layer(lambda nn: nn.BatchNorm2d(4, momentum=None, affine=False), (IMAGES,), lambda layer, x: (layer(x), layer(2 * x)), True),
    "BatchNorm3d": Layer(lambda nn: nn.BatchNorm3d(2, track_running_stats=False), (numbers(2, 2, 2, 2, 2),)),
    "LayerNorm": Layer(lambda nn: nn.LayerNorm((3, 4)), (numbers(2, 3, 4),)),
    "LayerNorm_no_bias": Layer(lambda nn: nn.LayerNorm(4, 0.1, bias=False), (numbers(2, 4),)),
    "RMSNorm": Layer(lambda nn: nn.RMSNorm(4), (numbers(2, 4),)),
    "GroupNorm": Layer(lambda nn: nn.GroupNorm(2, 4), (IMAGES,)),
    "InstanceNorm1d": Layer(lambda nn: nn.InstanceNorm1d(2, affine=True, track_running_stats=True), (numbers(3, 2, 4),), training=True),
    "InstanceNorm2d": Layer(lambda nn: nn.InstanceNorm2d(4), (IMAGES,)),
    "InstanceNorm3d": Layer(lambda nn: nn.InstanceNorm3d(1, track_running_stats=True), (numbers(1, 1, 2, 2, 2),)),
    "Dropout": Layer(lambda nn: nn.Dropout(0.3), (numbers(3),)),
    "Dropout2d": Layer(lambda nn: nn.Dropout2d(0.3), (IMAGES,)),
    "Flatten": Layer(lambda nn: nn.Flatten(), (IMAGES,)),
    "Unflatten": Layer(lambda nn: nn.Unflatten(1, (2, -1)), (IMAGES,)),
    "Identity": Layer(lambda nn: nn.Identity(3, some=1), (numbers(3),)),
    "PixelShuffle": Layer(lambda nn: nn.PixelShuffle(2), (IMAGES,)),
    "PixelUnshuffle": Layer(lambda nn: nn.PixelUnshuffle(2), (numbers(1, 2, 4, 6),)),
    "ChannelShuffle": Layer(lambda nn: nn.ChannelShuffle(2), (IMAGES,)),
    "Upsample": Layer(lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), (numbers(1, 2, 3, 2),)),
    "PReLU": Layer(lambda nn: nn.PReLU(4), (IMAGES,)),
    "MaxPool2d": Layer(lambda nn: nn.MaxPool2d(3, 2, 1, return_indices=True), (IMAGES,)),
    "AvgPool2d": Layer(lambda nn: nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False), (IMAGES,)),
    "AdaptiveAvgPool2d": Layer(lambda nn: nn.AdaptiveAvgPool2d((1, 1)), (IMAGES,)),
    "Sequential": Layer(lambda nn: nn.Sequential(nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3), nn.Softmax(dim=-1)), (IMAGES,)),
    "MultiheadAttention": Layer(lambda nn: nn.MultiheadAttention(6, 2), (TARGET, SOURCE[:, :3], SOURCE[:, 1:])),
    "MultiheadAttention_masks": Layer(lambda nn: nn.MultiheadAttention(6, 3, batch_first=True), (SOURCE, SOURCE, SOURCE, HIDDEN, SEEN), lambda layer, q, k, v, hidden, seen: layer(q, k, v, key_padding_mask=hidden, attn_mask=seen, average_attn_weights=False)),
    "MultiheadAttention_sizes": Layer(lambda nn: nn.MultiheadAttention(6, 2, bias=False, kdim=4, vdim=2), (numbers(3, 6), numbers(2, 4), numbers(2, 2))),
    "MultiheadAttention_longer": Layer(lambda nn: nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True), (SOURCE, SOURCE, SOURCE, HIDDEN)),
    "TransformerEncoderLayer": Layer(lambda nn: nn.TransformerEncoderLayer(6, 2, 5, 0.0), (SOURCE,)),
    "TransformerEncoderLayer_first": Layer(lambda nn: nn.TransformerEncoderLayer(6, 3, 5, 0.0, "gelu", 1e-3, True, True, False), (SOURCE, SEEN, HIDDEN), lambda layer, x, seen, hidden: layer(x, src_mask=seen, src_key_padding_mask=hidden)),
    "TransformerDecoderLayer": Layer(lambda nn: nn.TransformerDecoderLayer(6, 2, 5, 0.0, batch_first=True), (TARGET, SOURCE)),
    "TransformerEncoder": Layer(lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 5, 0.0), 2, nn.LayerNorm(6)), (SOURCE,)),
    "TransformerDecoder": Layer(lambda nn: nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 5, 0.0, batch_first=True, norm_first=True), 2), (TARGET, SOURCE)),
    "RNN": Layer(lambda nn: nn.RNN(4, 3, 2), (STEPS,)),
    "RNN_relu": Layer(lambda nn: nn.RNN(4, 3, 1, "relu", False, True, 0.0, True), (STEPS,)),
    "LSTM": Layer(lambda nn: nn.LSTM(4, 3, 1), (STEPS, STATES[:1], STATES[1:]), lambda layer, x, h, c: layer(x, (h, c))),
    "LSTM_both": Layer(lambda nn: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), (STEPS,)),
    "LSTM_projected": Layer(lambda nn: nn.LSTM(4, 5, 2, bidirectional=True, proj_size=3), (STEPS, numbers(4, 2, 3), numbers(4, 2, 5)), lambda layer, x, h, c: layer(x, (h, c))),
    "LSTM_no_bias": Layer(lambda nn: nn.LSTM(4, 3, bias=False, proj_size=2, batch_first=True), (STEPS,)),
    "GRU": Layer(lambda nn: nn.GRU(4, 3, 2), (STEPS, STATES)),
    "GRU_no_batch": Layer(lambda nn: nn.GRU(4, 3, bidirectional=True), (STEPS[:, 0],)),
    "RNNCell": Layer(lambda nn: nn.RNNCell(4, 3), (STEPS[0], STATES[0])),
    "LSTMCell": Layer(lambda nn: nn.LSTMCell(4, 3), (STEPS[0], STATES[0], STATES[1]), lambda layer, x, h, c: layer(x, (h, c))),
    "GRUCell": Layer(lambda nn: nn.GRUCell(4, 3, bias=False), (STEPS[0],)),
}  # fmt: skip

VOLUMES = numbers(1, 2, 4, 3, 5)
LAYERS |= {
    name: Layer(lambda nn, name=name: getattr(nn, name)(), (3.0 * X,))
    for name in (
        *("CELU", "ELU", "GELU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU"),
        *("LogSigmoid", "Mish", "ReLU", "ReLU6", "Sigmoid", "SiLU", "Softplus", "Softshrink", "Softsign", "Tanh"),
        "Tanhshrink",
    )
}
LAYERS |= {
    "GLU": Layer(lambda nn: nn.GLU(0), (X,)),
    "GELU_tanh": Layer(lambda nn: nn.GELU("tanh"), (X,)),
    "Softplus_beta": Layer(lambda nn: nn.Softplus(2.0), (X,)),
    "Softmax": Layer(lambda nn: nn.Softmax(0), (X,)),
    "LogSoftmax": Layer(lambda nn: nn.LogSoftmax(1), (X,)),
    "Softmin": Layer(lambda nn: nn.Softmin(1), (X,)),
    "Threshold": Layer(lambda nn: nn.Threshold(0.3, 2.0), (X,)),
    "Dropout1d": Layer(lambda nn: nn.Dropout1d(0.3), (STEPS,)),
    "Dropout3d": Layer(lambda nn: nn.Dropout3d(0.3), (VOLUMES,)),
    "MaxPool1d": Layer(lambda nn: nn.MaxPool1d(3, 2, 1), (STEPS,)),
    "MaxPool3d": Layer(lambda nn: nn.MaxPool3d(2, 1, ceil_mode=True), (VOLUMES,)),
    "AvgPool1d": Layer(lambda nn: nn.AvgPool1d(2), (STEPS,)),
    "AvgPool3d": Layer(lambda nn: nn.AvgPool3d((2, 1, 3), divisor_override=4), (VOLUMES,)),
    "AdaptiveAvgPool1d": Layer(lambda nn: nn.AdaptiveAvgPool1d(3), (STEPS,)),
    "AdaptiveAvgPool3d": Layer(lambda nn: nn.AdaptiveAvgPool3d((2, None, 1)), (VOLUMES,)),
    "AdaptiveLogSoftmaxWithLoss": Layer(lambda nn: nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5], 2.0, True), (numbers(5, 4), np.array([0, 2, 8, 4, 1]))),
    "AdaptiveMaxPool1d": Layer(lambda nn: nn.AdaptiveMaxPool1d(2), (STEPS,)),
    "AdaptiveMaxPool2d": Layer(lambda nn: nn.AdaptiveMaxPool2d(3), (IMAGES,)),
    "AdaptiveMaxPool3d": Layer(lambda nn: nn.AdaptiveMaxPool3d(2), (VOLUMES,)),
    "BatchNorm3d_trained": Layer(lambda nn: nn.BatchNorm3d(2), (VOLUMES,), training=True),
    "Upsample_3d": Layer(lambda nn: nn.Upsample(scale_factor=(1, 2, 1.5), mode="trilinear"), (VOLUMES,)),
    "CTCLoss": Layer(lambda nn: nn.CTCLoss(blank=2, zero_infinity=True), (numbers(5, 2, 4), np.array([[1, 3], [0, 0]]), np.array([5, 2]), np.array([2, 2])), lambda loss, x, t, n, m: loss(x - x.exp().sum(-1)[..., None].log(), t, n, m)),
    "Transformer": Layer(lambda nn: nn.Transformer(6, 2, 1, 1, 5, 0.0, batch_first=True, norm_first=True), (SOURCE, TARGET, numbers(3, 3, low=-2.0, high=0.0)), lambda layer, x, y, mask: layer(x, y, tgt_mask=mask.detach())),
    "AlphaDropout": Layer(lambda nn: nn.AlphaDropout(0.3), (X,)),
    "FeatureAlphaDropout": Layer(lambda nn: nn.FeatureAlphaDropout(0.3), (IMAGES,)),
    "RReLU": Layer(lambda nn: nn.RReLU(0.2, 0.6), (X,)),
    "Softmax2d": Layer(lambda nn: nn.Softmax2d(), (IMAGES,)),
    "Softplus_threshold": Layer(lambda nn: nn.Softplus(2.0, 0.5), (X,)),
    "LocalResponseNorm": Layer(lambda nn: nn.LocalResponseNorm(3, 0.2, 0.6, 1.5), (IMAGES,)),
    "LPPool1d": Layer(lambda nn: nn.LPPool1d(3.0, 2), (numbers(2, 3, 5, low=0.1),)),
    "LPPool2d": Layer(lambda nn: nn.LPPool2d(2, (2, 3), 1), (IMAGES,)),
    "LPPool3d": Layer(lambda nn: nn.LPPool3d(2, 2, ceil_mode=True), (VOLUMES,)),
    "MaxUnpool1d": Layer(lambda nn: nn.MaxUnpool1d(2), (STEPS, np.arange(24).reshape(3, 2, 4) * 3 % 8)),
    "MaxUnpool2d": Layer(lambda nn: nn.MaxUnpool2d((2, 1), padding=(1, 0)), (numbers(2, 2, 3), np.array([[[0, 1, 2], [3, 4, 5]], [[5, 0, 4], [1, 3, 2]]]))),
    "MaxUnpool3d": Layer(lambda nn: nn.MaxUnpool3d(2), (numbers(1, 1, 1, 2, 2), np.array([[[[[3, 17], [8, 31]]]]])), lambda layer, x, places: layer(x, places, output_size=(2, 4, 5))),
    "FractionalMaxPool2d": Layer(lambda nn: nn.FractionalMaxPool2d((2, 1), (3, 2), return_indices=True), (IMAGES, numbers(2, 4, 2, low=0.0, high=1.0)), lambda layer, x, s: (setattr(layer, "_random_samples", s.detach()), layer(x))),
    "FractionalMaxPool3d": Layer(lambda nn: nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.4, 0.6)), (VOLUMES, numbers(1, 2, 3, low=0.0, high=1.0)), lambda layer, x, s: (setattr(layer, "_random_samples", s.detach()), layer(x))),
    "AdaptiveMaxPool2d_indices": Layer(lambda nn: nn.AdaptiveMaxPool2d((4, None), return_indices=True), (IMAGES,)),
    "EmbeddingBag": Layer(lambda nn: nn.EmbeddingBag(5, 3), (np.array([[0, 1, 1], [4, 2, 0]]),)),
    "EmbeddingBag_offsets": Layer(lambda nn: nn.EmbeddingBag(5, 3, mode="sum", padding_idx=2, include_last_offset=True, scale_grad_by_freq=True), (np.array([0, 1, 1, 2, 4, 2, 0, 4]), np.array([0, 3, 3, 4, 8]))),
    "EmbeddingBag_weights": Layer(lambda nn: nn.EmbeddingBag(5, 3, mode="sum"), (np.array([0, 1, 1, 4]), np.array([0, 3]), numbers(4))),
    "EmbeddingBag_max": Layer(lambda nn: nn.EmbeddingBag(5, 3, mode="max", padding_idx=1), (np.array([0, 3, 1, 1, 4, 2]), np.array([0, 3, 4]))),
    "Embedding_frequencies": Layer(lambda nn: nn.Embedding(5, 3, padding_idx=1, scale_grad_by_freq=True), (np.array([[0, 1], [0, 2]]),)),
    "Unfold": Layer(lambda nn: nn.Unfold((2, 3), dilation=(2, 1), padding=1), (IMAGES,)),
    "Fold": Layer(lambda nn: nn.Fold((4, 5), (2, 3), padding=1, stride=2), (numbers(2, 12, 9),)),
    "UpsamplingNearest2d": Layer(lambda nn: nn.UpsamplingNearest2d(scale_factor=1.7), (IMAGES,)),
    "UpsamplingBilinear2d": Layer(lambda nn: nn.UpsamplingBilinear2d((3, 8)), (IMAGES,)),
    "PairwiseDistance": Layer(lambda nn: nn.PairwiseDistance(3.0, keepdim=True), (SCORES, SHARES)),
    "CosineSimilarity": Layer(lambda nn: nn.CosineSimilarity(0), (SCORES, SHARES)),
    "MultiMarginLoss": Layer(lambda nn: nn.MultiMarginLoss(2, 0.5), (SCORES, LABELS)),
    "MultiLabelMarginLoss": Layer(lambda nn: nn.MultiLabelMarginLoss(), (SCORES, np.array([[1, 3, -1, 0], [2, 2, 0, -1], [-1, 1, 2, 3]]))),
    "MultiLabelSoftMarginLoss": Layer(lambda nn: nn.MultiLabelSoftMarginLoss(reduction="none"), (SCORES, SHARES)),
    "TripletMarginWithDistanceLoss": Layer(lambda nn: nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(1.0), swap=True, margin=0.7), (SCORES, SHARES, numbers(3, 4, turn=0.7))),
    "PoissonNLLLoss_full": Layer(lambda nn: nn.PoissonNLLLoss(full=True), (SCORES, 3.0 * SHARES), lambda loss, x, t: loss(x, t.detach())),
    "MSELoss": Layer(lambda nn: nn.MSELoss(), (SCORES, SHARES)),
    "L1Loss": Layer(lambda nn: nn.L1Loss(reduction="sum"), (SCORES, SHARES)),
    "HuberLoss": Layer(lambda nn: nn.HuberLoss(delta=0.4), (SCORES, SHARES)),
    "SmoothL1Loss": Layer(lambda nn: nn.SmoothL1Loss(beta=0.4), (SCORES, SHARES)),
    "CrossEntropyLoss": Layer(lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), (SCORES, LABELS)),
    "NLLLoss": Layer(lambda nn: nn.NLLLoss(reduction="none"), (SCORES, LABELS)),
    "BCELoss": Layer(lambda nn: nn.BCELoss(), (SHARES, SHARES[::-1].copy())),
    "BCEWithLogitsLoss": Layer(lambda nn: nn.BCEWithLogitsLoss(), (SCORES, SHARES)),
    "PoissonNLLLoss": Layer(lambda nn: nn.PoissonNLLLoss(), (SCORES, SHARES)),
    "GaussianNLLLoss": Layer(lambda nn: nn.GaussianNLLLoss(), (SCORES, SHARES, SHARES[::-1].copy())),
    "KLDivLoss": Layer(lambda nn: nn.KLDivLoss(reduction="batchmean"), (SCORES, SHARES)),
    "SoftMarginLoss": Layer(lambda nn: nn.SoftMarginLoss(), (X, SIGNS), lambda loss, x, signs: loss(x, signs.detach())),
    "HingeEmbeddingLoss": Layer(lambda nn: nn.HingeEmbeddingLoss(0.7), (X, SIGNS), lambda loss, x, signs: loss(x, signs.detach())),
    "MarginRankingLoss": Layer(lambda nn: nn.MarginRankingLoss(0.1), (X, numbers(2, 3, turn=0.4), SIGNS), lambda loss, x, y, signs: loss(x, y, signs.detach())),
    "CosineEmbeddingLoss": Layer(lambda nn: nn.CosineEmbeddingLoss(0.1), (SCORES, SHARES, np.array([1, -1, -1]))),
    "TripletMarginLoss": Layer(lambda nn: nn.TripletMarginLoss(swap=True), (SCORES, SHARES, numbers(3, 4, turn=0.7))),
}  # fmt: skip

LAYERS |= {
    f"{kind}Pad{rank}d": Layer(lambda nn, kind=kind, rank=rank: getattr(nn, f"{kind}Pad{rank}d")((1, 2, 0, 1, 2, 1)[: 2 * rank], *([0.7] if kind == "Constant" else [])), (numbers(1, 2, *(3, 2, 4)[-rank:]),))
    for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    for rank in (1, 2, 3)
}  # fmt: skip


def slopes(name: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """A direction for each parameter and each input of floats, to which gradients are projected."""
    inputs = {f"input {k}": a.shape for k, a in enumerate(LAYERS[name].inputs) if a.dtype.kind == "f"}
    return {
        key: numbers(*shape, low=-1.0, high=1.0, turn=zlib.crc32(key.encode()) % 997 / 997)
        for key, shape in (inputs | dict(shapes)).items()
    }


def first_values(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Values for the tensors of a layer, by their names: the same for ours and for PyTorch's."""
    values = {}
    for name, shape in shapes.items():
        if name.endswith("num_batches_tracked"):
            values[name] = np.zeros((), np.int64)
            continue
        low = 0.5 if name.endswith("running_var") else -0.8
        values[name] = numbers(*shape, low=low, high=1.0, turn=zlib.crc32(name.encode()) % 1000 / 1000)
    return values


def flat(results: Any) -> list[Any]:
    """The arrays in nested tuples."""
    if isinstance(results, (tuple, list)):
        return [part for result in results for part in flat(result)]
    return [] if results is None else [results]
