"""A small GPT (Radford et al. 2019): characters in, scores of the next character out.

It is written as for PyTorch: with `from torch import nn` and `from torch.nn import functional as F` in the place of the
two imports it is PyTorch's model, with the same names of parameters. The tests compare the two.
"""

from __future__ import annotations

from typing import Any

from rulegrad import nn
from rulegrad.nn import functional as F  # noqa: N812  (the name that people use)


class Block(nn.Module):
    """Attention to the characters before, then a network at each place; both add to what they are given."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout_share = heads, dropout
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.attn(self.ln_1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        dropped = self.dropout_share if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped, is_causal=True)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """Scores (batch, length, characters) of the characters that follow those of `tokens` (batch, length)."""

    def __init__(self, characters: int, block_size: int, width: int, heads: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.block_size = block_size
        self.wte = nn.Embedding(characters, width)
        self.wpe = nn.Embedding(block_size, width)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, characters, bias=False)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


if __name__ == "__main__":
    print(GPT(characters=65, block_size=64, width=64, heads=4, layers=2, dropout=0.0))
