"""GPT-2 (Radford et al. 2019), with the names of Hugging Face's files, and caches of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import rulegrad as torch
import rulegrad.nn as nn
from rulegrad.nn import functional as F


@dataclass
class Config:
    """The sizes; the defaults are those of GPT-2 small, 124 million parameters."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12


class Conv1D(nn.Module):
    """A linear layer whose weight is (inputs, outputs), as GPT-2's files have it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class Attention(nn.Module):
    """Attention of each token to those before it; with a cache, to those of earlier calls too."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.size = config.n_head, config.n_embd // config.n_head
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.cache: torch.Tensor | None = None  # (2, heads, length, size)

    def forward(self, x: torch.Tensor, places: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if self.cache is not None:
            self.cache[0][:, places] = key[0]
            self.cache[1][:, places] = value[0]
            key, value = self.cache[0][None], self.cache[1][None]
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.c_proj(found.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a network of two layers; each reads normalized values and adds to them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        widths = {"c_fc": Conv1D(config.n_embd, 4 * config.n_embd), "c_proj": Conv1D(4 * config.n_embd, config.n_embd)}
        self.mlp = nn.ModuleDict(widths)

    def forward(self, x: torch.Tensor, places: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x), places, mask)
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tokens (n, length) to the scores of the next ones (n, length, words)."""

    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        self.config = config = config or Config()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def make_cache(self, length: int) -> None:
        """Room for the keys and values of one text of this length; from now on calls go on where the last one ended."""
        size = self.config.n_embd // self.config.n_head
        for block in self.h:
            block.attn.cache = torch.zeros(2, self.config.n_head, length, size)

    def forward(self, tokens: torch.Tensor, start: torch.Tensor | int = 0) -> torch.Tensor:
        places = start + torch.arange(tokens.shape[1], device=tokens.device)
        cache = self.h[0].attn.cache
        mask = (
            torch.arange(tokens.shape[1] if cache is None else cache.shape[2], device=tokens.device) <= places[:, None]
        )
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x, places, mask)
        return F.linear(self.ln_f(x), self.wte.weight)
