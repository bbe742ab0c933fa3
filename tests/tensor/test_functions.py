"""Mathematical functions and activations against NumPy."""

from __future__ import annotations

import math

import numpy as np

from rulegrad import Tensor

X = np.array([-3.0, -0.75, 0.0, 0.3, 1.0, 2.5, 10.0], np.float32)
POSITIVE = np.array([1e-3, 0.5, 1.0, 2.0, 50.0], np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.5, 0.5, 1.5, 2.5], np.float32)


def test_functions(device, check):
    x, p = Tensor(X), Tensor(POSITIVE)
    check(
        (x.exp(), np.exp(X)),
        (x.exp2(), np.exp2(X)),
        (p.log(), np.log(POSITIVE)),
        (p.log2(), np.log2(POSITIVE)),
        (p.sqrt(), np.sqrt(POSITIVE)),
        (p.rsqrt(), 1 / np.sqrt(POSITIVE)),
        (p.reciprocal(), 1 / POSITIVE),
        (x.square(), X * X),
        (x.sin(), np.sin(X)),
        (x.cos(), np.cos(X)),
        (p.tan(), np.tan(POSITIVE)),
        (x.tanh(), np.tanh(X)),
        (x.abs(), np.abs(X)),
        (Tensor([1, 4, 9]).sqrt(), np.array([1.0, 2.0, 3.0], "float32")),
        tolerance=5e-6,
    )


def test_rounding(device, check):
    x = Tensor(SPECIAL)
    ints = np.array([-1, 2])
    check(
        (x.floor(), np.floor(SPECIAL)),
        (x.ceil(), np.ceil(SPECIAL)),
        (x.trunc(), np.trunc(SPECIAL)),
        (x.round(), np.round(SPECIAL)),
        (Tensor(ints).floor(), ints),
    )


def test_kinds_of_values(device, check):
    ints = np.array([-1, 2])
    check(
        (Tensor(SPECIAL).isnan(), np.isnan(SPECIAL)),
        (Tensor(SPECIAL).isinf(), np.isinf(SPECIAL)),
        (Tensor(SPECIAL).isfinite(), np.isfinite(SPECIAL)),
        (Tensor(ints).isnan(), np.isnan(ints)),
        (Tensor(ints).isinf(), np.isinf(ints)),
        (Tensor(ints).isfinite(), np.isfinite(ints)),
    )


def test_activations(device, check):
    x = Tensor(X)
    sigmoid = 1 / (1 + np.exp(-X.astype(np.float64)))
    gelu = 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))
    check(
        (x.relu(), np.maximum(X, 0)),
        (x.leaky_relu(0.1), np.where(X > 0, X, X * np.float32(0.1))),
        (x.sigmoid(), sigmoid.astype(np.float32)),
        (x.silu(), (X * sigmoid).astype(np.float32)),
        (x.gelu(approximate="tanh"), gelu.astype(np.float32)),
        (x.softplus(), np.log1p(np.exp(X.astype(np.float64))).astype(np.float32)),
        tolerance=3e-6,
    )


def test_activations_do_not_overflow(device, check):
    far = np.array([-1e4, 1e4, np.nan], np.float32)
    check(
        (Tensor(far).sigmoid(), np.array([0, 1, np.nan], np.float32)),
        (Tensor(far).softplus(), np.array([0, 1e4, np.nan], np.float32)),
        (Tensor(far).relu(), np.array([0, 1e4, np.nan], np.float32)),
    )
