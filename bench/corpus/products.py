"""Products of matrices with what stands before and after them; attention; the transformer block."""

from __future__ import annotations

import math
from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("products")
graph = FAMILY.graph

MATRIX = {"n": (5, 256), "k": (6, 256), "m": (7, 256)}
HEADS = {"heads": (2, 8), "length": (34, 256), "width": (4, 32)}
#: of a transformer block: the input, then the weights that `block` takes
BLOCK = (
    "batch length width", "width", "width", "width qkv", "qkv", "width width", "width", "width", "width", "width inner",
    "inner", "inner width", "width",
)  # fmt: skip
BLOCK_SIZES = {"batch": (2, 2), "length": (3, 64), "width": (4, 128), "qkv": (12, 384), "inner": (8, 512)}


@graph("n k", "k m", kernels=1, **MATRIX)
def matrix_product(o: Library, a: Any, b: Any) -> Any:
    return a @ b


@graph("n k", "k m", "m", "n m", kernels=1, **MATRIX)
def product_with_bias_gelu_and_residual(o: Library, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
    return o.gelu(x @ weight + bias) + residual


@graph("n k", "k m", "m n", **MATRIX)
def two_products(o: Library, x: Any, first: Any, second: Any) -> Any:
    return o.relu(x @ first) @ second


@graph("n k", "k m", **MATRIX)
def product_of_computed_matrices(o: Library, x: Any, weight: Any) -> Any:
    """gelu is computed once for each element, or for each element of the result's rows."""
    return o.gelu(x) @ (weight * 0.5)


@graph("n k", "k m", "k m", **MATRIX)
def gated_products(o: Library, x: Any, weight: Any, gate: Any) -> Any:
    return o.silu(x @ gate) * (x @ weight)


@graph("n k", "k m", "k m", "k m", **MATRIX)
def three_products_of_one_matrix(o: Library, x: Any, a: Any, b: Any, c: Any) -> Any:
    return x @ a, x @ b, x @ c


@graph("n k", "k r", "r m", n=(5, 256), k=(6, 512), r=(2, 8), m=(7, 512))
def low_rank_product(o: Library, x: Any, down: Any, up: Any) -> Any:
    return (x @ down) @ up


@graph("batch n k", "batch k m", kernels=1, batch=(2, 16), n=(3, 64), k=(4, 64), m=(5, 64))
def batch_of_products(o: Library, a: Any, b: Any) -> Any:
    return a @ b


@graph("n m", "m", kernels=1, n=(33, 1024), m=(6, 1024))
def matrix_times_vector(o: Library, a: Any, x: Any) -> Any:
    return o.sum(a * x, axis=1)


@graph("n k", "k m", "m", "m", **MATRIX)
def product_and_layer_norm(o: Library, x: Any, weight: Any, scale: Any, shift: Any) -> Any:
    return o.layer_norm(x @ weight, scale, shift)


def attention(o: Library, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """softmax(q kᵀ / sqrt(width) + mask) v, over the last two axes."""
    scores = (q @ o.transpose(k)) * (1 / math.sqrt(q.shape[-1]))
    return o.softmax(scores if mask is None else scores + mask, -1) @ v


@graph("length width", "keys width", "keys width", "length keys", kernels=1,
       length=(34, 512), keys=(5, 512), width=(4, 64))  # fmt: skip
def attention_of_one_head_with_mask(o: Library, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return attention(o, q, k, v, mask)


@graph(*["heads length width"] * 3, **HEADS)
def attention_of_several_heads(o: Library, q: Any, k: Any, v: Any) -> Any:
    return attention(o, q, k, v)


@graph(*["heads length width"] * 3, **HEADS)
def causal_attention(o: Library, q: Any, k: Any, v: Any) -> Any:
    length = q.shape[1]
    places = o.arange(length, q)
    hidden = o.reshape(places, length, 1) < o.reshape(places, 1, length)
    scores = o.where(hidden, -1e9, (q @ o.transpose(k)) * (1 / math.sqrt(q.shape[-1])))
    return o.softmax(scores, -1) @ v


@graph("heads width", "heads length width", "heads length width", heads=(2, 16), length=(5, 2048), width=(4, 64))
def attention_of_one_query(o: Library, q: Any, k: Any, v: Any) -> Any:
    """A step of decoding."""
    return attention(o, o.reshape(q, q.shape[0], 1, q.shape[1]), k, v)


@graph("heads length width", "heads keys width", "heads keys width",
       heads=(2, 8), length=(3, 256), keys=(5, 128), width=(4, 32))  # fmt: skip
def cross_attention(o: Library, q: Any, k: Any, v: Any) -> Any:
    return attention(o, q, k, v)


@graph(*["heads length width"] * 3, heads=(2, 8), length=(3, 512), width=(4, 32))
def linear_attention(o: Library, q: Any, k: Any, v: Any) -> Any:
    q, k = o.exp(q), o.exp(k)
    total = o.sum(k, axis=1, keepdims=True)
    return (q @ (o.transpose(k) @ v)) / o.sum(q * total, axis=-1, keepdims=True)


def block(o: Library, x: Any, *weights: Any) -> Any:
    """A transformer block: x + attention(norm(x)), then x + mlp(norm(x)); two heads, norms before."""
    scale1, shift1, into, into_bias, out, out_bias, scale2, shift2, up, up_bias, down, down_bias = weights
    batch, length, width = x.shape
    projected = o.layer_norm(x, scale1, shift1) @ into + into_bias
    q, k, v = (o.permute(o.reshape(part, batch, length, 2, width // 2), 0, 2, 1, 3)
               for part in (projected[..., i * width : (i + 1) * width] for i in range(3)))  # fmt: skip
    heads = o.reshape(o.permute(attention(o, q, k, v), 0, 2, 1, 3), batch, length, width)
    x = x + (heads @ out + out_bias)
    return x + (o.gelu(o.layer_norm(x, scale2, shift2) @ up + up_bias) @ down + down_bias)


@graph(*BLOCK, kernels=7, **BLOCK_SIZES)
def transformer_block(o: Library, x: Any, *weights: Any) -> Any:
    return block(o, x, *weights)
