"""Tensors that are changed in place, read before and after."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library
from .products import attention

FAMILY = Family("updates")
graph = FAMILY.graph

PLANE = {"rows": (3, 1024), "columns": (5, 512)}


@graph("rows columns", "rows columns", kernels=1, **PLANE)
def descent_in_place(o: Library, weight: Any, gradient: Any) -> Any:
    return o.assign(weight, weight - gradient * 0.01)


@graph("rows columns", "rows columns", **PLANE)
def read_before_and_after_a_write(o: Library, x: Any, y: Any) -> Any:
    before = o.sum(x, axis=1)
    o.assign(x, x * 0.5 + y)
    return before, o.sum(x, axis=1), x


@graph("columns", "rows columns", rows=(33, 2048), columns=(5, 512))
def running_mean(o: Library, mean: Any, x: Any) -> Any:
    o.assign(mean, mean * 0.9 + o.mean(x, axis=0) * 0.1)
    return mean, x - mean


@graph("rows columns", "rows columns", **PLANE)
def two_updates_one_after_the_other(o: Library, x: Any, y: Any) -> Any:
    o.assign(x, x + y)
    o.assign(y, y * x)
    return x, y


@graph("n n", n=(6, 1024))
def transposed_onto_itself(o: Library, x: Any) -> Any:
    """Every element is read where another is written."""
    return o.assign(x, o.transpose(x) * 0.5 + x)


@graph("length width", "width", "width", "width", length=(34, 1024), width=(4, 64))
def keys_written_and_attended(o: Library, cache: Any, key: Any, query: Any, bias: Any) -> Any:
    """The last row of the cache is new."""
    o.assign(cache, o.cat([cache[1:], o.reshape(key + bias, 1, -1)], 0))
    return cache, attention(o, o.reshape(query, 1, -1), cache, cache)
