"""BERT (Devlin et al. 2018): an encoder of text, with the names of Hugging Face's `BertModel`."""

from __future__ import annotations

import rulegrad as torch
import rulegrad.nn as nn
from rulegrad.nn import functional as F


class Embeddings(nn.Module):
    """The sum of the vectors of words, of places, and of which of two sentences it is."""

    def __init__(self, words: int, places: int, width: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width)
        self.position_embeddings = nn.Embedding(places, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, tokens: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        found = self.word_embeddings(tokens) + self.token_type_embeddings(kinds) + self.position_embeddings(places)
        return self.LayerNorm(found)


class Projections(nn.Module):
    """Queries, keys and values; attention over the tokens that the mask leaves."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        query, key, value = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        return found.transpose(1, 2).reshape(batch, length, width)


class Output(nn.Module):
    """A layer whose result is added to what came before, and normalized."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return self.LayerNorm(self.dense(x) + before)


class Layer(nn.Module):
    """Attention, and a network of two layers."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": Projections(width, heads), "output": Output(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.output = Output(hidden, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    """Tokens (n, length) to vectors (n, length, width). mask: true for tokens that count; kinds: 0 or 1."""

    def __init__(
        self,
        words: int = 30522,
        places: int = 512,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int = 3072,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(words, places, width)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([Layer(width, heads, hidden) for _ in range(depth)])})

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor | None = None, kinds: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = self.embeddings(tokens, torch.zeros_like(tokens) if kinds is None else kinds)
        mask = torch.ones_like(tokens).bool() if mask is None else mask
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x
