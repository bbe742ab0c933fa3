"""Attention with several heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_probability, require_sizes
from rulegrad.nn._linear import Linear
from rulegrad.nn._module import Described
from rulegrad.tensor.attention import attention_shares
from rulegrad.tensor.graph_functions import built_once
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
        dtype: Any = None,
    ) -> None:
        require_sizes("MultiheadAttention", 1, embed_dim=embed_dim, num_heads=num_heads)
        require_probability("MultiheadAttention", dropout=dropout)
        if embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} features")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        inputs = (embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim)
        require_sizes("MultiheadAttention", kdim=inputs[1], vdim=inputs[2])
        self.head_dim, (_, self.kdim, self.vdim) = embed_dim // num_heads, inputs
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

    def _reset_parameters(self) -> None:
        """The first values anew, as PyTorch's sources ask for them."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name, None)
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for learnt in (self.bias_k, self.bias_v):
            if learnt is not None:
                init.xavier_normal_(learnt)

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
        names = [f"{role}_proj_weight" for role in "qkv"]
        weights: dict[str, Any] = {name: getattr(self, name, None) for name in names}
        if query.ndim == 3 and self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        result, shares = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            self.in_proj_weight is None,
            **weights,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return result.transpose(0, 1) if query.ndim == 3 and self.batch_first else result, shares


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`nn.MultiheadAttention` as a function of its parameters: (L, batch, embed_dim), or without a batch.

    With `use_separate_proj_weight` the weights are q_proj_weight, k_proj_weight and v_proj_weight. static_k, static_v:
    (batch * heads, S, embed_dim / heads), keys and values that are taken as they are. Raises ShapeError, ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> x, weight = Tensor.ones(3, 1, 4), Tensor.ones(12, 4)
    >>> how = (4, 2, weight, None, None, None, False, 0.0, Tensor.eye(4), None)
    >>> result, shares = F.multi_head_attention_forward(x, x, x, *how)
    >>> result.shape, shares.shape
    ((3, 1, 4), (1, 3, 3))
    """
    if num_heads < 1 or embed_dim_to_check % num_heads:
        raise ShapeError(f"{_NAME}: {num_heads} heads do not divide {embed_dim_to_check} features")
    is_batch = query.ndim > 2
    if not is_batch:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    attended = _attended if training and dropout_p else _attended_once  # which draws no numbers
    found = attended(
        (query, key, value),
        (embed_dim_to_check, num_heads),
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight,
        in_proj_bias,
        ((static_k, bias_k), (static_v, bias_v), add_zero_attn),
        dropout_p if training else 0.0,
        (out_proj_weight, out_proj_bias),
        (attn_mask, key_padding_mask, is_causal),
        (need_weights, average_attn_weights),
    )
    result, shares = found[0], found[1] if need_weights else None
    if not is_batch:
        return result.squeeze(1), None if shares is None else shares.squeeze(0)
    return result, shares


def _attended(
    inputs: tuple[Tensor, Tensor, Tensor],
    sizes: tuple[int, int],
    in_proj: Any,
    in_proj_bias: Tensor | None,
    appended: tuple[Any, Any, bool],
    dropout: float,
    out_proj: tuple[Tensor, Tensor | None],
    masks: tuple[Tensor | None, Tensor | None, bool],
    shown: tuple[bool, bool],
) -> tuple[Tensor, ...]:
    """The attended values (L, batch, embed_dim), and the shares if they are shown."""
    (query, key, _), (embed_dim, num_heads) = inputs, sizes
    weights = list(in_proj.split(embed_dim)) if isinstance(in_proj, Tensor) else in_proj
    own, keys, values = _projected([x.transpose(0, 1) for x in inputs], weights, in_proj_bias)
    (static_k, bias_k), (static_v, bias_v), add_zero_attn = appended
    key_heads = _heads_to_attend(keys, static_k, bias_k, add_zero_attn, num_heads)
    value_heads = _heads_to_attend(values, static_v, bias_v, add_zero_attn, num_heads)
    seen = len(key) if static_k is None else static_k.shape[1]
    attn_mask, key_padding_mask, is_causal = masks
    mask = _mask(attn_mask, key_padding_mask, is_causal, num_heads, len(query), seen, query.device)
    added = key_heads.shape[2] - seen
    if mask is not None and added:
        # Every query sees positions appended to the keys.
        mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, added)])
    dropped = attention_shares(_heads(own, num_heads), key_heads, mask, False, None).dropout(dropout, True)
    mixed = (dropped @ value_heads).transpose(1, 2).flatten(2)
    result = mixed.linear(*out_proj).transpose(0, 1)
    need_weights, average = shown
    if not need_weights:
        return (result,)
    return result, dropped.mean(1) if average else dropped


_attended_once = built_once(_attended)


def _heads_to_attend(
    projected: Tensor, static: Tensor | None, row: Tensor | None, add_zero: bool, num_heads: int
) -> Tensor:
    """Keys or values (batch, heads, S, features), with a learned row and a row of zeros behind them."""
    if static is not None:
        heads = static.reshape(-1, num_heads, *static.shape[1:])
    else:
        longer = projected if row is None else projected.cat(row.expand(len(projected), 1, -1), axis=1)
        heads = _heads(longer, num_heads)
    return heads.pad([(0, 0), (0, 0), (0, 1), (0, 0)]) if add_zero else heads


_NAME = "MultiheadAttention"


def _projected(inputs: list[Tensor], weights: list[Any] | None, bias: Tensor | None) -> list[Tensor]:
    """Queries, keys and values as their linear layers make them: (batch, length, embed_dim)."""
    if weights is None or any(weight is None for weight in weights):
        raise ConfigError(
            f"{_NAME}: a weight of the queries, keys or values is None; give in_proj_weight, or the three with "
            "use_separate_proj_weight=True"
        )
    biases = [None] * 3 if bias is None else list(bias.split(bias.shape[0] // 3))
    for x, weight, name in zip(inputs, weights, ("query", "key", "value")):
        if x.ndim != 3 or x.shape[-1] != weight.shape[1]:
            raise ShapeError(
                f"{_NAME}: the {name} has the shape {x.shape}; it needs three axes (or two, without a "
                f"batch), the last of {weight.shape[1]}"
            )
    return [x.linear(weight, bias) for x, weight, bias in zip(inputs, weights, biases)]


def _heads(x: Tensor, count: int) -> Tensor:
    """(batch, length, features) as (batch, heads, length, features of a head)."""
    return x.reshape(*x.shape[:2], count, x.shape[2] // count).transpose(1, 2)


def _mask(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    heads: int,
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
            raise ConfigError(f"{_NAME}: attn_mask of shape {attn_mask.shape}; it needs (L, S) or (heads, L, S)")
        parts.append(_added(attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(-1, heads, queries, keys)))
    if key_padding_mask is not None:
        parts.append(_added(key_padding_mask).unsqueeze(1).unsqueeze(1))
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _added(mask: Tensor) -> Tensor:
    """A mask of bools (true: not seen) as numbers to add to scores."""
    return mask.where(-math.inf, Tensor(0.0)) if mask.dtype == "bool" else mask
