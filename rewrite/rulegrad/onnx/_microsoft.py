"""Ops of onnxruntime, of the domain com.microsoft, that its quantizer writes into files."""

from __future__ import annotations

from typing import Any

from rulegrad.onnx._graph import Call
from rulegrad.onnx._quantized import dynamic_quantize, matmul_integer
from rulegrad.onnx._recurrent import Product, lstm_layer, options_of
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


def _dynamic_product(call: Call, weights: Tensor, scales: Tensor, zeros: Tensor | None) -> Product:
    """Products with integers: the values are made ones by their least and their largest, all with one scale."""

    def product(x: Tensor, place: int) -> Tensor:
        quantized, scale, zero = dynamic_quantize(call, x)
        whole = matmul_integer(call, quantized, weights[place], zero, None if zeros is None else zeros[place])
        scaled: Tensor = whole.cast("float32") * (scale * scales[place])
        return scaled

    return product


@op("DynamicQuantizeLSTM", host=(4,), domain="com.microsoft")
def dynamic_quantize_lstm(
    call: Call, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lengths: Any, h: Tensor | None, c: Tensor | None,
    p: Tensor | None, w_scale: Tensor, w_zero: Tensor | None, r_scale: Tensor, r_zero: Tensor | None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0,
) -> Any:  # fmt: skip
    """An LSTM whose weights are integers, with their columns last; scales are one a direction, or one a column."""
    options = options_of(
        activation_alpha=activation_alpha, activation_beta=activation_beta, activations=activations, clip=clip,
        direction=direction, layout=0,
    )  # fmt: skip
    products = _dynamic_product(call, w, w_scale, w_zero), _dynamic_product(call, r, r_scale, r_zero)
    return lstm_layer(call, x, products, r.shape[1], b, lengths, h, c, p, input_forget, options)
