"""Random numbers, from the library's own generator: the numbers of a seed are not those of other programs."""

from __future__ import annotations

from typing import Any

from rulegrad.onnx._elementwise import dtype_of
from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


def _dtype_like(x: Tensor, dtype: int | None) -> Any:
    return x.dtype if dtype is None else dtype_of(dtype).name


@op("RandomUniform")
def random_uniform(
    call: Call, *, dtype: int, high: float, low: float, seed: float | None = None, shape: list[int]
) -> Tensor:
    return (Tensor.rand(*shape, device=call.device) * (high - low) + low).cast(dtype_of(dtype).name)


@op("RandomUniformLike")
def random_uniform_like(
    call: Call, x: Tensor, *, dtype: int | None = None, high: float, low: float, seed: float | None = None
) -> Tensor:
    return (Tensor.rand(*x.shape, device=call.device) * (high - low) + low).cast(_dtype_like(x, dtype))


@op("RandomNormal")
def random_normal(
    call: Call, *, dtype: int, mean: float, scale: float, seed: float | None = None, shape: list[int]
) -> Tensor:
    return (Tensor.randn(*shape, device=call.device) * scale + mean).cast(dtype_of(dtype).name)


@op("RandomNormalLike")
def random_normal_like(
    call: Call, x: Tensor, *, dtype: int | None = None, mean: float, scale: float, seed: float | None = None
) -> Tensor:
    return (Tensor.randn(*x.shape, device=call.device) * scale + mean).cast(_dtype_like(x, dtype))


@op("Bernoulli")
def bernoulli(call: Call, x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return (Tensor.rand(*x.shape, device=call.device) < x).cast(_dtype_like(x, dtype))


@op("Multinomial")
def multinomial(call: Call, x: Tensor, *, dtype: int, sample_size: int, seed: float | None = None) -> Tensor:
    return x.softmax(-1).multinomial(sample_size, True).cast(dtype_of(dtype).name)
