"""Movement: transposes, slices, padding, joining, stencils."""

from __future__ import annotations

from typing import Any

from .graph import Family
from .library import Library

FAMILY = Family("movement")
graph = FAMILY.graph

SQUARE = {"n": (6, 1024)}


@graph("rows columns", kernels=1, rows=(5, 1024), columns=(6, 1024))
def transpose(o: Library, x: Any) -> Any:
    return o.transpose(x) * 1.5


@graph("n n", kernels=1, **SQUARE)
def symmetric_part(o: Library, x: Any) -> Any:
    return (x + o.transpose(x)) * 0.5


@graph("n n", **SQUARE)
def symmetric_part_of_a_costly_value(o: Library, x: Any) -> Any:
    y = o.sin(o.exp(o.tanh(x)))
    return y + o.transpose(y)


# Of the joined parts, each is computed for all places: at large sizes the costly ones are stored.
@graph("rows columns", "rows columns", kernels=2, rows=(4, 1024), columns=(5, 512))
def joining_of_computed_parts(o: Library, x: Any, y: Any) -> Any:
    return o.cat([o.exp(x), y * 2, o.relu(x + y)], 1)


@graph("rows columns", "rows columns", kernels=2, rows=(4, 1024), columns=(5, 512))
def stack_of_computed_parts(o: Library, x: Any, y: Any) -> Any:
    return o.stack([o.sin(x), o.cos(x), x * y], 0)


@graph("rows columns", kernels=1, rows=(4, 1024), columns=(5, 1024))
def pad_and_scale(o: Library, x: Any) -> Any:
    return o.pad(o.exp(x), ((1, 2), (0, 3))) * 2 + 1


@graph("rows columns", kernels=1, rows=(6, 1024), columns=(8, 1024))
def flip_and_every_second(o: Library, x: Any) -> Any:
    return o.flip(x, 1)[:, ::2] + x[:, 1::2]


@graph("n n", kernels=1, n=(8, 1024))
def stencil_of_five_points(o: Library, x: Any) -> Any:
    return x[1:-1, 1:-1] * -4 + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]


@graph("n n", n=(9, 1024))
def blur_of_rows_then_columns(o: Library, x: Any) -> Any:
    """The first pass is recomputed three times, or kept."""
    across = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) * (1 / 3)
    return (across[:-2] + across[1:-1] + across[2:]) * (1 / 3)


@graph("n n", n=(24, 512))
def three_blurs_of_seven_points(o: Library, x: Any) -> Any:
    """Fused whole, 343 reads an element."""
    for _ in range(3):
        width = x.shape[1] - 6
        x = sum((x[:, k : k + width] for k in range(1, 7)), x[:, :width]) * (1 / 7)
    return x


# SIN and COS of the angles are the same for all heads: they are stored.
@graph("heads length width", "length half", kernels=2, heads=(2, 8), length=(5, 1024), width=(6, 64), half=(3, 32))
def rotary_embedding(o: Library, x: Any, angle: Any) -> Any:
    half = x.shape[-1] // 2
    left, right, c, s = x[..., :half], x[..., half:], o.cos(angle), o.sin(angle)
    return o.cat([left * c - right * s, right * c + left * s], -1)


@graph("batch 12 rows columns", kernels=1, batch=(2, 8), rows=(3, 128), columns=(5, 128))
def pixel_shuffle(o: Library, x: Any) -> Any:
    batch, channels, rows, columns = x.shape
    parts = o.permute(o.reshape(x, batch, channels // 4, 2, 2, rows, columns), 0, 1, 4, 2, 5, 3)
    return o.reshape(parts, batch, channels // 4, rows * 2, columns * 2)


@graph("rows columns", "rows columns", kernels=1, rows=(3, 1024), columns=(4, 512))
def interleaving(o: Library, x: Any, y: Any) -> Any:
    return o.reshape(o.stack([x + y, x - y], 2), x.shape[0], -1)


@graph("batch rows columns", kernels=1, batch=(2, 16), rows=(3, 128), columns=(4, 128))
def nearest_neighbours_twice_as_large(o: Library, x: Any) -> Any:
    batch, rows, columns = x.shape
    repeated = o.expand(o.reshape(o.relu(x), batch, rows, 1, columns, 1), batch, rows, 2, columns, 2)
    return o.reshape(repeated, batch, rows * 2, columns * 2)


@graph("n n", **SQUARE)
def sum_of_rows_of_the_transpose(o: Library, x: Any) -> Any:
    return o.sum(o.transpose(o.exp(x)), axis=1)
