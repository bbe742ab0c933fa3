"""Attention with several heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn.linear import Linear
from rulegrad.nn.module import Described
from rulegrad.tensor.tensor import Tensor


class MultiheadAttention(Described):
    """Attention in `num_heads` parts of the features, between two linear layers; the tensors have PyTorch's names.

    in_proj_weight (3 * embed_dim, embed_dim) makes queries, keys and values (with another `kdim` or `vdim`:
    q_proj_weight, k_proj_weight, v_proj_weight), out_proj puts the heads together. add_bias_kv: a learnt key and value
    behind the others; add_zero_attn: zeros behind them. From Vaswani et al. 2017, "Attention
    Is All You Need". Raises ShapeError and ConfigError.

    >>> from rulegrad import Tensor, nn
    >>> x = Tensor.ones(2, 5, 8)
    >>> result, shares = nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> result.shape, shares.shape
    ((2, 5, 8), (2, 5, 5))
    """

    __call__: Callable[..., tuple[Tensor, Tensor | None]]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} features")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        inputs = (embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim)
        self.in_proj_weight: Tensor | None = None
        if inputs == (embed_dim,) * 3:
            self.in_proj_weight = self._projection(3 * embed_dim, embed_dim, device, dtype)
        else:
            self.q_proj_weight = self._projection(embed_dim, inputs[0], device, dtype)
            self.k_proj_weight = self._projection(embed_dim, inputs[1], device, dtype)
            self.v_proj_weight = self._projection(embed_dim, inputs[2], device, dtype)
        self.in_proj_bias = init.filled((3 * embed_dim,), 0.0, device, dtype) if bias else None
        self.add_zero_attn = add_zero_attn
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            bound = math.sqrt(6.0 / (2 * embed_dim))
            self.bias_k = init.bounded((1, 1, embed_dim), bound, device, dtype)
            self.bias_v = init.bounded((1, 1, embed_dim), bound, device, dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    @staticmethod
    def _projection(outputs: int, inputs: int, device: str | None, dtype: Any) -> Tensor:
        return init.bounded((outputs, inputs), math.sqrt(6.0 / (outputs + inputs)), device, dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, and how much each query took of each key (None without `need_weights`).

        Shapes: (L, batch, embed_dim), or (batch, L, embed_dim) with `batch_first`; without a batch (L, embed_dim).
        key_padding_mask (batch, S) and attn_mask (L, S) or (batch * heads, L, S): bools that are true where a key is
        NOT seen, or numbers that are added. is_causal: query i sees keys 0 … i; `attn_mask` is not needed then.
        """
        if query.ndim == 2:
            axis = 0 if self.batch_first else 1
            first, second, third = (x.unsqueeze(axis) for x in (query, key, value))
            hidden = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            how = (hidden, need_weights, attn_mask, average_attn_weights, is_causal)
            result, shares = self.forward(first, second, third, *how)
            return result.squeeze(axis), None if shares is None else shares.squeeze(0)
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        own, *others = self._projected(query, key, value)
        mask = self._mask(attn_mask, key_padding_mask, is_causal, query.shape[1], key.shape[1], query.device)
        longer = [self._lengthened(x, row) for x, row in zip(others, (self.bias_k, self.bias_v))]
        heads = [self._heads(x) for x in (own, *longer)]
        added = longer[0].shape[1] - key.shape[1]
        if mask is not None and added:
            # What is put behind the keys is seen by every query.
            mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, added)])
        shares = heads[0]._attention_shares(heads[1], mask, False, None)
        dropped = shares.dropout(self.dropout, self.training)
        mixed = (dropped @ heads[2]).transpose(1, 2).flatten(2)
        result = self.out_proj(mixed)
        result = result if self.batch_first else result.transpose(0, 1)
        if not need_weights:
            return result, None
        return result, dropped.mean(1) if average_attn_weights else dropped

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        if self.in_proj_weight is not None:
            weights = list(self.in_proj_weight.split(self.embed_dim))
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None] * 3 if self.in_proj_bias is None else list(self.in_proj_bias.split(self.embed_dim))
        for x, weight, name in zip((query, key, value), weights, ("query", "key", "value")):
            if x.ndim != 3 or x.shape[-1] != weight.shape[1]:
                raise ShapeError(
                    f"MultiheadAttention: the {name} has the shape {x.shape}; it needs three axes (or two, without a "
                    f"batch), the last of {weight.shape[1]}"
                )
        return [x.linear(weight, bias) for x, weight, bias in zip((query, key, value), weights, biases)]

    def _lengthened(self, x: Tensor, row: Tensor | None) -> Tensor:
        """Keys or values with the learnt row behind them, and with a row of zeros, where these were asked for."""
        if row is not None:
            x = x.cat(row.expand(x.shape[0], 1, -1), axis=1)
        return x.pad([(0, 0), (0, 1), (0, 0)]) if self.add_zero_attn else x

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, length, features) as (batch, heads, length, features of a head)."""
        return x.reshape(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def _mask(
        self,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
        queries: int,
        keys: int,
        device: str,
    ) -> Tensor | None:
        """The masks as one that is added to the scores (batch, heads, queries, keys)."""
        if is_causal and attn_mask is None:
            places = [Tensor.arange(n, device=device) for n in (queries, keys)]
            attn_mask = places[0].unsqueeze(1) < places[1]
        parts = []
        if attn_mask is not None:
            if attn_mask.ndim not in (2, 3):
                raise ConfigError(
                    f"MultiheadAttention: attn_mask of shape {attn_mask.shape}; it needs (L, S) or (heads, L, S)"
                )
            mask = attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(-1, self.num_heads, queries, keys)
            parts.append(_added(mask))
        if key_padding_mask is not None:
            parts.append(_added(key_padding_mask).unsqueeze(1).unsqueeze(1))
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _added(mask: Tensor) -> Tensor:
    """A mask of bools (true: not seen) as numbers to add to scores."""
    return mask.where(-math.inf, Tensor(0.0)) if mask.dtype == "bool" else mask
