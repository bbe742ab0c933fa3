"""Batch norm in training has a gradient that is solved for the sums of a channel: it is that of its steps, in every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import compile_graph


def given(*shape: int, dtype: str = "float64") -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def by_steps(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    axes, shape = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    centred = x - x.mean(axes, keepdims=True)
    standardized = centred * (centred.square().mean(axes, keepdims=True) + 1e-5).rsqrt()
    return standardized * weight.reshape(shape) + bias.reshape(shape)


def at_once(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.batch_norm(None, None, weight, bias, training=True)


@pytest.mark.parametrize("shape", [(6, 3), pytest.param((4, 3, 5), marks=pytest.mark.long_run), (2, 3, 4, 5)])
def test_first_and_second_gradients(shape: tuple[int, ...], device: str) -> None:
    arguments = [Tensor(a, device=device) for a in (given(*shape), given(shape[1]) + 2, given(shape[1]))]
    upstream = Tensor(given(*shape) + 1, device=device)
    found = []
    for function in (by_steps, at_once):

        def first(x: Tensor, weight: Tensor, bias: Tensor, function: Any = function) -> Any:
            return rg.grad(lambda *a: (function(*a).sin() * upstream).sum(), argnums=(0, 1, 2))(x, weight, bias)

        def second(*a: Tensor, first: Any = first) -> Any:
            return rg.grad(lambda *a: sum(part.square().sum() for part in first(*a)), argnums=(0, 1, 2))(*a)

        found.append([part.numpy() for part in (function(*arguments), *first(*arguments), *second(*arguments))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


def test_smaller_floats_have_the_gradients_of_the_steps() -> None:
    x, weight = Tensor(given(8, 2, dtype="float16")), Tensor(given(2, dtype="float16"))
    found = rg.grad(lambda x: at_once(x, weight, weight).sin().sum())(x).numpy()
    exact = rg.grad(lambda x: by_steps(x, weight.double(), weight.double()).sin().sum())(x.double()).numpy()
    np.testing.assert_allclose(found, exact, atol=1e-2)


def test_the_sums_of_a_channel_are_added_up_once() -> None:
    """Mean and variance, which share a kernel, the result, the gradients of weight and bias, that of x."""
    x, weight, bias = (Tensor(given(*s, dtype="float32"), requires_grad=True) for s in ((16, 64, 28, 28), (64,), (64,)))
    y = at_once(x, weight, bias)
    y.backward(Tensor(given(16, 64, 28, 28, dtype="float32")))
    kernels = compile_graph([part.uop for part in (y, x.grad, weight.grad, bias.grad)], "c")
    assert sum(kernel.name.startswith("reduce") for kernel in kernels) == 3 and len(kernels) == 5
