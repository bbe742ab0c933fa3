"""Attention: means of values, weighted by how well queries fit keys."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir.dtype import bool_
from rulegrad.ir.limits import extremes
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_tensor
from rulegrad.tensor.transcendental import in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

    #: From queries, keys, values, `is_causal` and `scale` to the result, or None where it has none for their shapes.
    Attention = Callable[[Tensor, Tensor, Tensor, bool, float | None], Tensor | None]


class _Chosen(threading.local):
    attention: Attention | None = None


_chosen = _Chosen()


def chosen_attention() -> Attention | None:
    """The implementation of `scaled_dot_product_attention` that another part of rulegrad has chosen on this thread."""
    return _chosen.attention


def choose_attention(attention: Attention | None) -> Attention | None:
    """Chooses it, and returns what was chosen before."""
    before, _chosen.attention = _chosen.attention, attention
    return before


def scaled_dot_product_attention(
    self: Tensor,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`softmax(self @ key.T * scale + mask) @ value`; this tensor has the queries.

    Shapes: queries (…, L, E), keys (…, S, E), values (…, S, V), result (…, L, V). attn_mask, which broadcasts to
    (…, L, S): bools that say which keys take part, or numbers that are added. is_causal: query i sees keys 0 … i.
    dropout_p applies whether or not inside `Tensor.train()`. scale: 1 / sqrt(E) by default. enable_gqa: fewer heads
    (axis -3) of keys and values than of queries. A query that sees no key gets zeros. The arguments are PyTorch's;
    from Vaswani et al. 2017, "Attention Is All You Need". Raises ShapeError and ConfigError.

    >>> from rulegrad import Tensor
    >>> query, key, value = Tensor.zeros(1, 2), Tensor.ones(2, 2), Tensor([[1.0], [3.0]])
    >>> query.scaled_dot_product_attention(key, value).tolist()
    [[2.0]]
    """
    name = "scaled_dot_product_attention"
    key, value = as_tensor(self, key, name), as_tensor(self, value, name)
    mask = None if attn_mask is None else as_tensor(self, attn_mask, name)
    if _chosen.attention is not None and mask is None and dropout_p == 0:
        result = _chosen.attention(self, key, value, is_causal, scale)
        if result is not None:
            return result
    shares = attention_shares(self, key, mask, is_causal, scale, enable_gqa)
    if value.ndim < 2 or value.shape[-2] != key.shape[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: keys of shape {key.shape} and values of shape {value.shape}; "
            "they need (…, S, E) and (…, S, V)"
        )
    if enable_gqa:
        value = _repeated_heads(self, value)
    return shares.dropout(dropout_p, training=True) @ value


@built_once
def attention_shares(
    self: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool = False,
) -> Tensor:
    """How much each query takes of each key's value: (…, L, S), with the sum 1 (or 0, where no key is seen)."""
    if self.ndim < 2 or key.ndim < 2 or self.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"scaled_dot_product_attention: queries of shape {self.shape} and keys of shape {key.shape}; "
            "they need (…, L, E) and (…, S, E)"
        )
    if is_causal and attn_mask is not None:
        raise ConfigError("scaled_dot_product_attention: attn_mask and is_causal=True; give one of them")
    if enable_gqa:
        key = _repeated_heads(self, key)
    factor = 1.0 / math.sqrt(self.shape[-1]) if scale is None else scale
    scores = (self * factor) @ key.mT
    if is_causal:
        places = [self.arange(n, device=self._device or None) for n in scores.shape[-2:]]
        attn_mask = places[0].unsqueeze(1) >= places[1]
    if attn_mask is None:
        return scores.softmax(-1)
    least = extremes(scores.dtype)[0]
    return _masked_softmax(attn_mask.where(scores, least) if attn_mask.dtype == bool_ else scores + attn_mask)


@in_float32
def _masked_softmax(scores: Tensor) -> Tensor:
    """The softmax of the last axis, 0 where all scores are -inf: of a query that sees no key."""
    least = extremes(scores.dtype)[0]
    largest = scores.detach().max(-1, keepdims=True)
    powers = (scores - largest.equal(least).where(0.0, largest)).exp()
    total = powers.sum(-1, keepdims=True)
    return powers / total.equal(0.0).where(1.0, total)


def _repeated_heads(self: Tensor, tensor: Tensor) -> Tensor:
    """Keys or values of one head for each head of the queries: each one for several of them in turn."""
    if self.ndim < 3 or tensor.ndim < 3 or self.shape[-3] % tensor.shape[-3]:
        raise ShapeError(
            f"scaled_dot_product_attention: enable_gqa with queries of shape {self.shape} and keys or values of "
            f"shape {tensor.shape}; the heads (axis -3) of the queries must be a multiple of theirs"
        )
    count = self.shape[-3] // tensor.shape[-3]
    *lead, heads, rows, columns = tensor.shape
    grown = tensor.unsqueeze(-3).expand(*lead, heads, count, rows, columns)
    return grown.reshape(*lead, heads * count, rows, columns)
