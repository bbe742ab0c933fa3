"""Layers of transformers, and stacks of them. Names, order and defaults are PyTorch's."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._attention import MultiheadAttention
from rulegrad.nn._container import ModuleList
from rulegrad.nn._dropout import Dropout
from rulegrad.nn._linear import Linear
from rulegrad.nn._module import Described
from rulegrad.nn._normalization import LayerNorm
from rulegrad.tensor.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def _activation(name: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(name, str):
        return name
    if name not in ("relu", "gelu"):
        raise ConfigError(f"transformer: unknown activation {name!r}; use relu, gelu, or a function of a tensor")
    return Tensor.relu if name == "relu" else Tensor.gelu


class _Feeding(Described):
    """Base of both kinds of layers: attention, a feed-forward part, and as many norms and dropouts as parts."""

    _count: int
    __call__: Callable[..., Tensor]
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        make = (d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
        self.self_attn = MultiheadAttention(*make)
        if self._count == 3:
            self.multihead_attn = MultiheadAttention(*make)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        for number in range(1, self._count + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype))
        for number in range(1, self._count + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.norm_first = norm_first
        self.activation = _activation(activation)

    def _fed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Feeding):
    """Attention of a sequence to itself, and two linear layers, each added to its input and normalised.

    norm_first: normalise what goes in, not what comes out. Shapes as in `MultiheadAttention`.

    >>> from rulegrad import Tensor, nn
    >>> nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(Tensor.ones(1, 3, 8)).shape
    (1, 3, 8)
    """

    _count = 2

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attended(x: Tensor) -> Tensor:
            result, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, True, is_causal)
            return self.dropout1(result)

        if self.norm_first:
            src = src + attended(self.norm1(src))
            return src + self.dropout2(self._fed(self.norm2(src)))
        src = self.norm1(src + attended(src))
        return self.norm2(src + self.dropout2(self._fed(src)))


class TransformerDecoderLayer(_Feeding):
    """As an encoder layer, with attention to `memory` (the encoder's result) between its two parts.

    >>> from rulegrad import Tensor, nn
    >>> nn.TransformerDecoderLayer(8, 2, 16)(Tensor.ones(3, 1, 8), Tensor.ones(5, 1, 8)).shape
    (3, 1, 8)
    """

    _count = 3
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attended(x: Tensor) -> Tensor:
            result, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, True, tgt_is_causal)
            return self.dropout1(result)

        def remembered(x: Tensor) -> Tensor:
            how = (memory_key_padding_mask, False, memory_mask, True, memory_is_causal)
            result, _ = self.multihead_attn(x, memory, memory, *how)
            return self.dropout2(result)

        if self.norm_first:
            tgt = tgt + attended(self.norm1(tgt))
            tgt = tgt + remembered(self.norm2(tgt))
            return tgt + self.dropout3(self._fed(self.norm3(tgt)))
        tgt = self.norm1(tgt + attended(tgt))
        tgt = self.norm2(tgt + remembered(tgt))
        return self.norm3(tgt + self.dropout3(self._fed(tgt)))


class TransformerEncoder(Described):
    """`num_layers` copies of a layer, one after the other: `layers.0.…`; then `norm`, if given.

    >>> from rulegrad import nn
    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> nn.TransformerEncoder(layer, 2)(Tensor.ones(1, 3, 8)).shape
    (1, 3, 8)
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        require_sizes(type(self).__name__, num_layers=num_layers)
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Described):
    """`num_layers` copies of a decoder layer, one after the other: `layers.0.…`; then `norm`, if given.

    >>> from rulegrad import nn
    >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
    >>> nn.TransformerDecoder(layer, 2)(Tensor.ones(3, 1, 8), Tensor.ones(5, 1, 8)).shape
    (3, 1, 8)
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        require_sizes(type(self).__name__, num_layers=num_layers)
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Described):
    """An encoder and a decoder that attends to its result, each with a norm at its end (Vaswani et al. 2017).

    Matrices are uniform within Glorot's bound at first. Shapes as in `MultiheadAttention`; a mask of bools is true
    where a key is not seen. Raises ShapeError.

    >>> from rulegrad import Tensor, nn
    >>> model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(Tensor.ones(1, 5, 8), Tensor.ones(1, 3, 8), tgt_is_causal=True).shape
    (1, 3, 8)
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Callable[..., Tensor] | None = None,
        custom_decoder: Callable[..., Tensor] | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        how = (batch_first, norm_first, bias, device, dtype)
        norm = (d_model, layer_norm_eps, True, bias, device, dtype)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*sizes, *how), num_encoder_layers, LayerNorm(*norm)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*sizes, *how), num_decoder_layers, LayerNorm(*norm)
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        fits = src.ndim == tgt.ndim in (2, 3) and src.shape[-1] == tgt.shape[-1] == self.d_model
        if not fits or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            raise ShapeError(
                f"Transformer: the shapes {src.shape} and {tgt.shape}; they need the same batch, and {self.d_model} "
                f"features; batch_first={self.batch_first}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, bool(src_is_causal))
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: str | None = None, dtype: Any = None) -> Tensor:
        """A mask (sz, sz) to add to scores: -inf for the keys behind each query, else 0.

        >>> from rulegrad import nn
        >>> nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        return Tensor.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)
