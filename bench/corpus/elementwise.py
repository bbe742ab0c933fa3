"""Elementwise work: chains, diamonds, fan-out, broadcasts, odd shapes."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("elementwise")
graph = FAMILY.graph

PLANE = {"rows": (3, 1024), "columns": (5, 1024)}


@graph(*["rows columns"] * 4, kernels=1, **PLANE)
def two_sums_that_share_a_part(o: Library, a: Any, b: Any, c: Any, d: Any) -> Any:
    return a + b + c, a + b + d


@graph("rows columns", kernels=1, **PLANE)
def gelu_chain(o: Library, x: Any) -> Any:
    return o.gelu(x * 1.5 + 0.5)


@graph("rows columns", "rows columns", kernels=1, **PLANE)
def gated_silu(o: Library, x: Any, gate: Any) -> Any:
    return o.silu(gate) * x


@graph("rows columns", kernels=1, **PLANE)
def polynomial(o: Library, x: Any) -> Any:
    result = x * 0.5
    for k in range(12):
        result = result * x * 0.25 + 1.0 / (k + 1)
    return result


@graph("rows columns", "rows columns", kernels=1, **PLANE)
def chain_of_256_operations(o: Library, x: Any, y: Any) -> Any:
    for _ in range(64):
        x = o.maximum(x * 0.5 + y, -1.0) - 0.25
    return x


@graph("rows columns", kernels=1, **PLANE)
def diamond(o: Library, x: Any) -> Any:
    y = o.exp(x * 0.5)
    return (y + 1) * (y - 1)


@graph("rows columns", kernels=1, **PLANE)
def ladder_of_diamonds(o: Library, x: Any) -> Any:
    """Without sharing, every step doubles the work."""
    for _ in range(12):
        x = o.sin(x) * 0.5 + o.cos(x) * 0.5
    return x


@graph("rows columns", kernels=1, **PLANE)
def wide_diamond(o: Library, x: Any) -> Any:
    y = o.tanh(x)
    return sum((o.exp(y * (0.1 * k)) for k in range(1, 8)), y)


@graph("rows columns", kernels=1, **PLANE)
def two_results_of_a_costly_value(o: Library, x: Any) -> Any:
    y = o.sin(o.exp(o.tanh(x)))
    return y + 1, y * 2


@graph("rows columns", kernels=1, rows=(3, 512), columns=(5, 512))
def fan_out_to_16(o: Library, x: Any) -> Any:
    y = o.exp(x)
    return [y * (k + 1) for k in range(16)]


@graph(*["rows columns"] * 16, kernels=1, rows=(3, 512), columns=(5, 512))
def fan_in_of_16(o: Library, *tensors: Any) -> Any:
    return sum(tensors[1:], tensors[0])


@graph(*["rows columns"] * 80, rows=(2, 64), columns=(3, 64))
def fan_in_of_80(o: Library, *tensors: Any) -> Any:
    """More buffers than a kernel may take on some devices."""
    return sum(tensors[1:], tensors[0])


@graph("rows", "columns", kernels=1, **PLANE)
def outer_product(o: Library, x: Any, y: Any) -> Any:
    return o.reshape(x, x.shape[0], 1) * y


@graph("columns", "rows columns", **PLANE)
def costly_row_added_to_all(o: Library, x: Any, y: Any) -> Any:
    """Computed once for each column, or for each element."""
    return y + o.sin(o.exp(o.tanh(x)))


@graph("columns", "rows columns", kernels=1, **PLANE)
def cheap_row_added_to_all(o: Library, x: Any, y: Any) -> Any:
    return y + (x * 2 + 1)


@graph("rows columns", kernels=1, rows=(3, 1021), columns=(7, 1031))
def odd_shape(o: Library, x: Any) -> Any:
    return o.sqrt(o.abs(x) + 1) - 1


@graph("size", kernels=1, size=(3, 3))
def three_elements(o: Library, x: Any) -> Any:
    return o.exp(x) + x


@graph("rows columns", kernels=1, **PLANE)
def leaky_relu_by_where(o: Library, x: Any) -> Any:
    return o.where(x > 0, x, x * 0.01)


@graph("rows columns", "rows columns", kernels=1, **PLANE)
def lerp_and_clip(o: Library, x: Any, y: Any) -> Any:
    return o.minimum(o.maximum(x + (y - x) * 0.3, -1.0), 1.0)


@graph("rows columns", "rows columns", kernels=1, **PLANE)
def unrelated_results(o: Library, x: Any, y: Any) -> Any:
    """Two kernels that share an iteration space, but no input."""
    return x * 2 + 1, o.relu(y)
