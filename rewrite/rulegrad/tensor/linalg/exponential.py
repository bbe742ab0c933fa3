"""The exponential of matrices, by Padé's approximant on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.tensor.linalg.host import adjoint, on_host, rounded, square, supported

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor


#: The coefficients of the approximant of degree 13, and the largest norm for which it is exact to float64's rounding.
_PADE: Final = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_LARGEST: Final = 5.371920351148152


def matrix_exp(x: Tensor) -> Tensor:
    """The exponentials of square matrices, `1 + x + x @ x / 2 + …`. Synchronises. Raises ShapeError.

    By scaling and squaring, with Padé's approximant of degree 13, in float64 (Higham: The scaling and squaring method
    for the matrix exponential revisited; 2005). Infinities and nan give nan.

    >>> from rulegrad import Tensor
    >>> matrix_exp(Tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    square(x, "matrix_exp")
    (found,) = on_host("matrix_exp", _exponential, supported(x), formula=_of_exponential)
    return rounded(found, x)


def _exponential(a: Array) -> Array:
    wide = a.astype(np.result_type(a.dtype, np.float64))
    n = a.shape[-1]
    one = np.eye(n)
    norm = abs(wide).sum(-2).max(-1, initial=0)
    finite = np.isfinite(norm)[..., None, None]
    wide = np.where(finite, wide, 0)
    _, power = np.frexp(np.where(np.isfinite(norm), norm, 0) / _LARGEST)
    times = np.maximum(power, 0)
    scaled = wide * np.ldexp(1.0, -times)[..., None, None]
    b = _PADE
    a2 = scaled @ scaled
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    odd = scaled @ odd
    found = np.linalg.solve(even - odd, even + odd)
    with np.errstate(all="ignore"):
        for k in range(int(times.max(initial=0))):
            found = np.where((k < times)[..., None, None], found @ found, found)
    return np.where(finite, found, np.nan).astype(a.dtype)


def _of_exponential(operands: Any, results: Any, gradients: Any) -> Sequence[Any]:
    """The derivative at X^H in the direction of G: above the diagonal in the exponential of [[X^H, G], [0, X^H]]"""
    (x,), (g,) = operands, gradients
    n = x.shape[-1]
    back = adjoint(x)
    whole = back.cat(g, axis=-1).cat(back.zeros_like().cat(back, axis=-1), axis=-2)
    return (matrix_exp(whole)[..., :n, n:],)
