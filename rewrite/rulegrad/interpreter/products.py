"""Sums of products, as matrix products: what makes the interpreter's matmul fast."""

from __future__ import annotations

import math

import numpy as np

from rulegrad.interpreter.numerics import Array

_WORTH_IT = 1 << 14  # products; below it the plain way is as fast


def sum_of_products(a: Array, b: Array, axes: tuple[int, ...]) -> Array | None:
    """`(a * b).sum(axes, keepdims=True)` without making the product; None where that is not worth it.

    `a` and `b` have the same rank and broadcast; the sum is over the broadcast sizes.
    """
    shape = np.broadcast_shapes(a.shape, b.shape)
    in_a, in_b = _varies(a), _varies(b)
    shared = [k for k in axes if in_a[k] and in_b[k]]
    rows = [k for k in range(len(shape)) if in_a[k] and not in_b[k] and k not in axes]
    columns = [k for k in range(len(shape)) if in_b[k] and not in_a[k] and k not in axes]
    if math.prod(shape) < _WORTH_IT or not shared or not (rows or columns):
        return None
    batch = [k for k in range(len(shape)) if in_a[k] and in_b[k] and k not in axes]
    # A summed axis that only one operand has is summed there; one that neither has counts.
    a = _sum(a, [k for k in axes if in_a[k] and not in_b[k]])
    b = _sum(b, [k for k in axes if in_b[k] and not in_a[k]])
    times = math.prod(shape[k] for k in axes if not in_a[k] and not in_b[k])
    left = _matrices(a, batch, rows, shared)
    right = _matrices(b, batch, shared, columns)
    product = np.matmul(left, right)
    if times != 1:
        product = product * np.asarray(times).astype(product.dtype)
    order = [*batch, *rows, *columns]
    rest = [k for k in range(len(shape)) if k not in order]
    spread = product.reshape([shape[k] for k in order] + [1] * len(rest))
    return np.asarray(spread.transpose(np.argsort([*order, *rest])))


def _varies(array: Array) -> list[bool]:
    """For each axis, whether different positions can hold different values."""
    return [size > 1 and step != 0 for size, step in zip(array.shape, array.strides, strict=True)]


def _sum(array: Array, axes: list[int]) -> Array:
    return np.asarray(array.sum(tuple(axes), array.dtype, keepdims=True)) if axes else array


def _matrices(array: Array, batch: list[int], first: list[int], second: list[int]) -> Array:
    """The array as matrices (batch, first, second); all other axes hold one value."""
    order = [*batch, *first, *second]
    rest = [k for k in range(array.ndim) if k not in order]
    single = array[tuple(slice(None) if k in order else slice(0, 1) for k in range(array.ndim))]
    sizes = [math.prod(single.shape[k] for k in group) for group in (first, second)]
    matrices = single.transpose([*order, *rest]).reshape([*(single.shape[k] for k in batch), *sizes])
    return np.asarray(matrices)
