"""The Vision Transformer (Dosovitskiy et al. 2020), with the names of torchvision's state dicts."""

from __future__ import annotations

from collections import OrderedDict

import rulegrad as torch
import rulegrad.nn as nn


class Block(nn.Module):
    """Attention and a network of two layers; each reads normalized values and adds to them."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        layers = {"0": nn.Linear(width, hidden), "1": nn.GELU(), "3": nn.Linear(hidden, width)}  # "2": dropout
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions, blocks, and a last normalization."""

    def __init__(self, length: int, depth: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.randn(1, length, width) * 0.02)
        blocks = {f"encoder_layer_{k}": Block(width, heads, hidden) for k in range(depth)}
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    """Pictures (n, channels, size, size) to scores (n, classes): patches are the words, and one more is the class."""

    def __init__(
        self,
        size: int = 224,
        patch: int = 16,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        classes: int = 1000,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder((size // patch) ** 2 + 1, depth, width, heads, hidden)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(width, classes)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def vit_b_16(classes: int = 1000) -> VisionTransformer:
    """12 blocks of width 768 over patches of 16 by 16: 86.6 million parameters."""
    return VisionTransformer(classes=classes)
