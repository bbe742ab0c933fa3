"""Functions that the standard does not have, and that SciPy and xarray look for in a namespace all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import integers

from .operands import Array, array, axes_of

__all__ = ["diag", "einsum", "gradient", "lib", "pad", "quantile", "transpose"]


def diag(x: Array, /, k: int = 0) -> Array:
    """The diagonal `k` of a matrix, or the matrix with a vector there and zeros elsewhere. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.diag(xp.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    return array(x, "diag").diag(k)


def einsum(subscripts: str, /, *operands: Array) -> Array:
    """Sums of products, by Einstein's notation. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.einsum("ij,ij->i", xp.ones((2, 3)), xp.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    result: Array = Array.einsum(subscripts, *(array(one, "einsum") for one in operands))
    return result


def gradient(x: Array, /, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The derivatives along all axes, or those named, from samples: an array for one axis, a tuple for several.

    varargs: distances or coordinates of the samples, one for all axes or one for each. Raises ShapeError, ConfigError.

    >>> from rulegrad import array_api as xp
    >>> xp.gradient(xp.asarray([1.0, 4.0, 9.0, 16.0]), 2.0).tolist()
    [1.5, 2.0, 3.0, 3.5]
    """
    samples = array(x, "gradient")
    axes = axes_of(axis, samples.ndim, "gradient")
    given = [_distance(one) for one in varargs]
    spacing = given * len(axes) if len(given) == 1 else given
    found = samples.gradient(spacing=spacing or None, dim=axes, edge_order=edge_order)
    return found[0] if len(found) == 1 else found


def _sliding_window_view(x: Array, window_shape: Any, axis: Any = None) -> Array:
    """All windows of a shape along all axes, or those named; their axes come last. A view. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.lib.stride_tricks.sliding_window_view(xp.asarray([1, 2, 3]), 2).tolist()
    [[1, 2], [2, 3]]
    """
    result = array(x, "sliding_window_view")
    # An axis may be named twice: windows of windows.
    axes = range(result.ndim) if axis is None else integers((axis,), "sliding_window_view")
    sizes = integers((window_shape,), "sliding_window_view")
    if len(axes) != len(sizes):
        raise ShapeError(f"sliding_window_view: a window of {len(sizes)} axes along {len(axes)}; give a size for each")
    for one, size in zip(axes, sizes, strict=True):
        result = result.unfold(one, size)
    return result


#: NumPy's module of that name, of which xarray looks for one function.
lib: Final = SimpleNamespace(stride_tricks=SimpleNamespace(sliding_window_view=_sliding_window_view))


def pad(x: Array, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """`x` surrounded by constants or by its own elements, as NumPy's function of that name does it.

    pad_width: a number, a pair (before, after), or a pair for each axis; constant_values likewise. mode: "constant",
    "edge", "reflect", "symmetric" or "wrap". Raises ShapeError, ConfigError for another mode.

    >>> from rulegrad import array_api as xp
    >>> xp.pad(xp.asarray([1, 2]), (1, 2), constant_values=(7, 8)).tolist()
    [7, 1, 2, 8, 8]
    """
    result = array(x, "pad")
    widths, values = (_pairs(one, result.ndim, "pad") for one in (pad_width, constant_values))
    if mode != "constant" or len({value for both in values for value in both}) < 2:
        return result.pad(widths, mode, values[0][0] if values else 0)
    for axis, (width, value) in enumerate(zip(widths, values, strict=True)):
        for side in (0, 1):
            one = [(0, 0)] * result.ndim
            one[axis] = (0, width[1]) if side else (width[0], 0)
            result = result.pad(one, mode, value[side])
    return result


def quantile(x: Array, q: Any, /, axis: Any = None, *, method: Any = "linear", keepdims: bool = False) -> Array:
    """The values below which a share `q` of the elements lies. Raises ShapeError, DtypeError, ConfigError.

    >>> from rulegrad import array_api as xp
    >>> xp.quantile(xp.asarray([1.0, 2.0, 4.0]), 0.75).tolist()
    3.0
    """
    return array(x, "quantile").quantile(q, axis, keepdims=keepdims, interpolation=method)


def transpose(x: Array, /, axes: tuple[int, ...] | None = None) -> Array:
    """The axes of `x` in another order, the opposite one unless it is given. Raises ShapeError.

    >>> from rulegrad import array_api as xp
    >>> xp.transpose(xp.ones((2, 3, 4))).shape, xp.transpose(xp.ones((2, 3, 4)), (0, 2, 1)).shape
    ((4, 3, 2), (2, 4, 3))
    """
    one = array(x, "transpose")
    return one.permute(tuple(reversed(range(one.ndim))) if axes is None else axes)


def _distance(given: Any) -> Any:
    """The distance of coordinates that are equally far from each other; others as they are."""
    if not isinstance(given, (np.ndarray, list)) or np.ndim(given) != 1:
        return given
    steps = np.diff(given)
    return steps[0].item() if len(steps) and (steps == steps[0]).all() else given


def _pairs(given: Any, ndim: int, operation: str) -> list[tuple[Any, Any]]:
    """A number, a pair, or a pair for each axis, as pairs for each axis."""
    try:
        return [(before, after) for before, after in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]
    except ValueError:
        raise ShapeError(
            f"{operation}: {given!r} is not a number, not a pair, and not a list of {ndim} pairs"
        ) from None
