"""Reductions: rows, columns, everything; nested, stacked, together, and with what follows."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("reductions")
graph = FAMILY.graph

ROWS = {"rows": (33, 2048), "columns": (7, 512)}


@graph("rows columns", kernels=1, **ROWS)
def softmax_of_rows(o: Library, x: Any) -> Any:
    return o.softmax(x, -1)


@graph("rows columns", kernels=1, **ROWS)
def log_softmax_of_rows(o: Library, x: Any) -> Any:
    return o.log_softmax(x, -1)


@graph("rows columns", "columns", "columns", kernels=1, **ROWS)
def layer_norm(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    return o.layer_norm(x, weight, bias)


@graph("rows columns", "columns", kernels=1, **ROWS)
def rms_norm(o: Library, x: Any, weight: Any) -> Any:
    return o.rms_norm(x, weight)


@graph("rows columns", "rows columns", "columns", "columns", **ROWS)
def residual_and_layer_norm(o: Library, x: Any, y: Any, weight: Any, bias: Any) -> Any:
    added = x + y
    return added, o.layer_norm(added, weight, bias)


@graph("rows columns", kernels=1, **ROWS)
def mean_and_variance(o: Library, x: Any) -> Any:
    return o.mean(x, axis=-1), o.variance(x, -1)


@graph("rows columns", kernels=1, **ROWS)
def argmax_with_max(o: Library, x: Any) -> Any:
    return o.argmax(x, axis=-1), o.max(x, axis=-1)


@graph("rows columns", kernels=1, **ROWS)
def log_of_sum_of_exponentials(o: Library, x: Any) -> Any:
    most = o.max(x, axis=-1, keepdims=True)
    return o.log(o.sum(o.exp(x - most), axis=-1, keepdims=True)) + most


@graph("rows columns", kernels=1, **ROWS)
def four_moments(o: Library, x: Any) -> Any:
    squared = x * x
    return [o.sum(y, axis=-1) for y in (x, squared, squared * x, squared * squared)]


@graph("rows columns", "rows columns >0", kernels=1, **ROWS)
def weighted_mean_of_rows(o: Library, x: Any, weight: Any) -> Any:
    return o.sum(x * weight, axis=-1) / o.sum(weight, axis=-1)


@graph("rows columns", rows=(5, 2048), columns=(7, 1024))
def sum_of_everything(o: Library, x: Any) -> Any:
    return o.sum(x)


@graph("size", size=(37, 1 << 21))
def mean_of_a_long_vector(o: Library, x: Any) -> Any:
    return o.mean(x * x)


@graph("rows columns", rows=(9, 2048), columns=(33, 512))
def mean_of_columns(o: Library, x: Any) -> Any:
    return o.mean(x, axis=0)


@graph("rows columns", rows=(33, 1024), columns=(34, 1024))
def sums_of_rows_and_of_columns(o: Library, x: Any) -> Any:
    return o.sum(x, axis=1), o.sum(x, axis=0)


@graph("rows columns", rows=(9, 512), columns=(33, 512))
def softmax_of_columns(o: Library, x: Any) -> Any:
    return o.softmax(x, 0)


@graph("rows columns", rows=(2, 4), columns=(41, 1 << 18))
def softmax_of_few_long_rows(o: Library, x: Any) -> Any:
    return o.softmax(x, -1)


@graph("rows columns", rows=(33, 65536), columns=(4, 16))
def softmax_of_many_short_rows(o: Library, x: Any) -> Any:
    return o.softmax(x, -1)


@graph("rows columns", rows=(33, 1021), columns=(11, 509))
def softmax_of_odd_rows(o: Library, x: Any) -> Any:
    return o.softmax(x, -1)


@graph("size", size=(37, 1 << 20))
def vector_of_length_one(o: Library, x: Any) -> Any:
    """The sum is over everything, and everything is read again."""
    return x / o.sqrt(o.sum(x * x))


@graph("rows columns", rows=(9, 1024), columns=(7, 512))
def largest_of_the_sums(o: Library, x: Any) -> Any:
    return o.max(o.sum(x, axis=1))


@graph("n n n", n=(4, 96))
def three_reductions_one_after_the_other(o: Library, x: Any) -> Any:
    return o.sum(o.sqrt(o.sum(o.square(o.max(x, axis=2)), axis=1)))


@graph("rows columns", rows=(33, 1024), columns=(5, 512))
def two_results_of_a_sum(o: Library, x: Any) -> Any:
    total = o.sum(x, axis=1)
    return total * 2, total + 1


@graph("rows columns", rows=(33, 1024), columns=(5, 512))
def softmax_twice(o: Library, x: Any) -> Any:
    return o.softmax(o.softmax(x, -1) * 4, -1)


@graph("batch channels size", batch=(2, 16), channels=(8, 64), size=(6, 1024))
def group_norm(o: Library, x: Any) -> Any:
    groups = o.reshape(x, x.shape[0], 4, -1)
    centred = groups - o.mean(groups, axis=-1, keepdims=True)
    return o.reshape(centred * o.rsqrt(o.mean(centred * centred, axis=-1, keepdims=True) + 1e-5), *x.shape)


@graph("batch channels size", "channels", "channels", batch=(3, 16), channels=(4, 64), size=(6, 1024))
def batch_norm_in_training(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    mean, variance = o.mean(x, axis=(0, 2), keepdims=True), o.variance(x, (0, 2), keepdims=True)
    scale = o.rsqrt(variance + 1e-5) * o.reshape(weight, 1, -1, 1)
    return (x - mean) * scale + o.reshape(bias, 1, -1, 1), o.reshape(mean, -1), o.reshape(variance, -1)


@graph("rows columns", "columns", "columns", **ROWS)
def layer_norm_and_gelu_and_sum(o: Library, x: Any, weight: Any, bias: Any) -> Any:
    return o.sum(o.gelu(o.layer_norm(x, weight, bias)), axis=-1)
