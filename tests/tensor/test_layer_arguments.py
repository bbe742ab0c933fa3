"""Layers that are made with sizes, probabilities or numbers that are none are refused at once, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, nn
from rulegrad.errors import RulegradError

#: Layers, what they are made with, and which of these are sizes, with the smallest.
SIZES: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("Linear", {"in_features": 3, "out_features": 4}, {"in_features": 0, "out_features": 0}),
    (
        "Bilinear",
        {"in1_features": 2, "in2_features": 3, "out_features": 4},
        {"in1_features": 1, "in2_features": 0, "out_features": 0},
    ),
    *(
        (
            f"{kind}{rank}d",
            {"in_channels": 4, "out_channels": 6, "kernel_size": 3},
            {"in_channels": 0, "out_channels": 0, "kernel_size": 1, "groups": 1},
        )
        for kind in ("Conv", "ConvTranspose")
        for rank in (1, 2, 3)
    ),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}, {"num_groups": 1, "num_channels": 0}),
    *(
        (kind, {"input_size": 3, "hidden_size": 4}, {"input_size": 1, "hidden_size": 1, "num_layers": 1})
        for kind in ("RNN", "GRU", "LSTM")
    ),
    *(
        (kind, {"input_size": 3, "hidden_size": 4}, {"input_size": 0, "hidden_size": 0})
        for kind in ("RNNCell", "GRUCell", "LSTMCell")
    ),
    (
        "MultiheadAttention",
        {"embed_dim": 4, "num_heads": 2},
        {"embed_dim": 1, "num_heads": 1, "kdim": 0, "vdim": 0},
    ),
    (
        "TransformerEncoderLayer",
        {"d_model": 4, "nhead": 2},
        {"d_model": 1, "nhead": 1, "dim_feedforward": 0},
    ),
    (
        "Transformer",
        {"d_model": 4, "nhead": 2, "dim_feedforward": 8, "num_encoder_layers": 1, "num_decoder_layers": 1},
        {"num_encoder_layers": 0, "num_decoder_layers": 0},
    ),
    ("Embedding", {"num_embeddings": 3, "embedding_dim": 2}, {"num_embeddings": 0, "embedding_dim": 0}),
    ("EmbeddingBag", {"num_embeddings": 3, "embedding_dim": 2}, {"num_embeddings": 0, "embedding_dim": 0}),
]


@pytest.mark.parametrize(("layer", "given", "sizes"), SIZES, ids=[one[0] for one in SIZES])
def test_sizes(layer: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    getattr(nn, layer)(**given)
    for name, least in sizes.items():
        for wrong in (least - 1, 2.5, "x", *([] if name in ("kdim", "vdim") else [None])):
            with pytest.raises(RulegradError) as raised:
                getattr(nn, layer)(**{**given, name: wrong})
            assert isinstance(raised.value, ValueError) and str(wrong) in str(raised.value)


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("Dropout", {"p": 1.5}),
        ("Dropout2d", {"p": "half"}),
        ("AlphaDropout", {"p": None}),
        ("LSTM", {"input_size": 3, "hidden_size": 4, "dropout": -1}),
        ("GRU", {"input_size": 3, "hidden_size": 4, "dropout": "half"}),
        ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2, "dropout": 2.0}),
        ("Transformer", {"d_model": 4, "nhead": 2, "dropout": None}),
        ("Hardtanh", {"min_val": 1.0, "max_val": 1.0}),
        ("Hardtanh", {"min_val": "low"}),
        ("HuberLoss", {"delta": "small"}),
        ("TripletMarginLoss", {"margin": 0.0}),
        ("TripletMarginLoss", {"margin": None}),
        ("MultiMarginLoss", {"p": 3}),
        ("FractionalMaxPool2d", {"kernel_size": 2}),
        ("FractionalMaxPool3d", {"kernel_size": 2, "output_size": 2, "output_ratio": 0.5}),
        ("Upsample", {"scale_factor": "twice"}),
        ("Unflatten", {"dim": 1, "unflattened_size": 4}),
        ("Unflatten", {"dim": 1, "unflattened_size": "ab"}),
    ],
)
def test_numbers(layer: str, given: dict[str, Any]) -> None:
    with pytest.raises(RulegradError, match=f"{layer}|MultiheadAttention"):
        getattr(nn, layer)(**given)


def test_upsampling_by_the_size_that_was_found() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(5.0).reshape(1, 1, 5)
    for again in (None, False, True):
        how = {"scale_factor": 1.5, "mode": "linear", "recompute_scale_factor": again}
        found = nn.Upsample(**how)(Tensor(x.numpy(), device="numpy"))
        np.testing.assert_allclose(found.numpy(), torch.nn.Upsample(**how)(x).numpy(), atol=1e-6)
