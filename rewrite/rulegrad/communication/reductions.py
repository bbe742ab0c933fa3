"""Reductions of what several ranks have: the values that every world gives, whatever carries them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from rulegrad.ir.dtype import DType

_UFUNCS: Final[dict[str, Callable[..., Any]]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def computed_in(dtype: str) -> str:
    """The dtype that reductions are computed in: float32 for floats of fewer bits, else the dtype itself.

    >>> computed_in("bfloat16"), computed_in("int8")
    ('float32', 'int8')
    """
    known = DType(dtype)
    return "float32" if known.is_float and known.bits < 32 else dtype


def reduce_into(result: np.ndarray, sources: Sequence[np.ndarray], operation: str, dtype: str) -> None:
    """The reduction of arrays of equal length, in their order.

    Small floats are reduced in float32 and rounded once. Integers wrap around, as in tensors; of bools, a sum is "or"
    and a product "and". A maximum or minimum is nan where a value is.

    >>> out = np.zeros(2, np.int8)
    >>> reduce_into(out, [np.array([100, 1], np.int8), np.array([100, 2], np.int8)], "sum", "int8")
    >>> out.tolist()
    [-56, 3]
    """
    ufunc = _UFUNCS[operation]
    wide = np.dtype(DType(computed_in(dtype)).numpy)
    with np.errstate(all="ignore"):
        if len(sources) == 1 or result.dtype != wide:
            total = sources[0].astype(wide)
        else:
            total = ufunc(sources[0], sources[1], out=result)
            sources = sources[1:]
        for source in sources[1:]:
            ufunc(total, source.astype(wide, copy=False), out=total)
        if total is not result:
            result[:] = total.astype(result.dtype)
