"""NumPy's reductions that leave nan out, for tensors: `np.nanmax(tensor, axis=0)`. xarray's reductions are these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from rulegrad.ir.limits import extremes


def _filled(x: Any, value: float) -> Any:
    """`x` with `value` in the place of nan."""
    return x.isnan().where(value, x).cast(x.dtype) if x.dtype.is_inexact else x


def _product(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return _filled(a, 1).prod(axis, keepdims, dtype)


def _largest(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(a, "max", 0, axis, keepdims)


def _least(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(a, "min", 1, axis, keepdims)


def _extreme(x: Any, method: str, beyond: int, axis: Any, keepdims: bool) -> Any:
    """The largest or least of what is not nan; nan where all are."""
    if not x.dtype.is_inexact:
        return getattr(x, method)(axis, keepdims)
    found = getattr(_filled(x, extremes(x.dtype)[beyond]), method)(axis, keepdims)
    return x.isnan().all(axis, keepdims).where(math.nan, found).cast(x.dtype)


def _variance(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    if not a.dtype.is_inexact:
        return a.var(axis, keepdims=keepdims, correction=ddof)
    centred = _filled(a - a.nanmean(axis, True), 0)
    square = (centred * centred.conj()).real if a.dtype.is_complex else centred.square()
    count = a.isnan().logical_not().sum(axis, keepdims).cast(square.dtype)
    # As in NumPy, nan where there is too little to divide by.
    return (count > ddof).where(square.sum(axis, keepdims) / (count - ddof), math.nan).cast(square.dtype)


def _deviation(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return _variance(a, axis, ddof, keepdims).sqrt()


def _running_sum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _filled(a, 0).cumsum(axis, dtype=dtype)


def _running_product(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _filled(a, 1).cumprod(axis, dtype=dtype)


#: By NumPy's names, with its names of arguments.
NAN_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "nancumprod": _running_product,
    "nancumsum": _running_sum,
    "nanmax": _largest,
    "nanmin": _least,
    "nanprod": _product,
    "nanstd": _deviation,
    "nanvar": _variance,
}
