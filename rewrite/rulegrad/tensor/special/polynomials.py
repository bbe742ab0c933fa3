"""Orthogonal polynomials by their three-term recurrences (NIST Digital Library of Mathematical Functions, 18.9).

n: the degree, a number or a tensor of them, cut to integers; a polynomial of a negative degree is 0. The recurrence has
as many steps as the largest degree, which is read on the host where it is in a tensor. Gradients are those by `input`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.special.series import both, real_tensor, widened

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

Step = Callable[["Tensor", int, "Tensor", "Tensor"], "Tensor"]

#: More steps are a mistake: the kernel has a few operations for each.
_MOST: int = 2000


def _polynomial(name: str, input: Any, n: Any, first: Callable[[Tensor], Tensor], step: Step) -> Tensor:
    """The polynomial of degree n, from that of degree 1 and how p(k + 1) follows from p(k) and p(k - 1)."""
    given, degrees = both(input, n, name)
    x, dtype = widened(given)
    alone = isinstance(n, (int, float, np.integer, np.floating))
    most = int(n) if alone else int(degrees.detach().max().item()) if degrees.size else -1
    if most > _MOST:
        raise ShapeError(f"{name}: the degree {most} needs as many steps; the largest is {_MOST}")
    degree = degrees.detach().trunc()
    before, now = x * 0.0, x * 0.0 + 1.0
    result = before
    for k in range(most + 1):
        result = now if alone else degree.equal(k).where(now, result)
        before, now = now, first(x) if k == 0 else step(x, k, now, before)
    return result.cast(dtype)


def _chebyshev_step(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
    return x * 2.0 * now - before


def chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """Chebyshev's polynomial T, of the first kind: `cos(n * acos(input))`.

    >>> from rulegrad import Tensor
    >>> chebyshev_polynomial_t(Tensor(0.5), 2).item()
    -0.5
    """
    return _polynomial("chebyshev_polynomial_t", input, n, lambda x: x, _chebyshev_step)


def chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """Chebyshev's polynomial U, of the second kind.

    >>> from rulegrad import Tensor
    >>> chebyshev_polynomial_u(Tensor(0.5), 2).item()
    0.0
    """
    return _polynomial("chebyshev_polynomial_u", input, n, lambda x: x * 2.0, _chebyshev_step)


def chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """Chebyshev's polynomial V, of the third kind.

    >>> from rulegrad import Tensor
    >>> chebyshev_polynomial_v(Tensor(0.5), 2).item()
    -1.0
    """
    return _polynomial("chebyshev_polynomial_v", input, n, lambda x: x * 2.0 - 1.0, _chebyshev_step)


def chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """Chebyshev's polynomial W, of the fourth kind.

    >>> from rulegrad import Tensor
    >>> chebyshev_polynomial_w(Tensor(0.5), 2).item()
    1.0
    """
    return _polynomial("chebyshev_polynomial_w", input, n, lambda x: x * 2.0 + 1.0, _chebyshev_step)


def shifted_chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """`chebyshev_polynomial_t(2 * input - 1, n)`, for numbers from 0 to 1.

    >>> from rulegrad import Tensor
    >>> shifted_chebyshev_polynomial_t(Tensor(0.5), 2).item()
    -1.0
    """
    return chebyshev_polynomial_t(_shifted(input), n)


def shifted_chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """`chebyshev_polynomial_u(2 * input - 1, n)`, for numbers from 0 to 1.

    >>> from rulegrad import Tensor
    >>> shifted_chebyshev_polynomial_u(Tensor(0.5), 2).item()
    -1.0
    """
    return chebyshev_polynomial_u(_shifted(input), n)


def shifted_chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """`chebyshev_polynomial_v(2 * input - 1, n)`, for numbers from 0 to 1.

    >>> from rulegrad import Tensor
    >>> shifted_chebyshev_polynomial_v(Tensor(0.5), 2).item()
    -1.0
    """
    return chebyshev_polynomial_v(_shifted(input), n)


def shifted_chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """`chebyshev_polynomial_w(2 * input - 1, n)`, for numbers from 0 to 1.

    >>> from rulegrad import Tensor
    >>> shifted_chebyshev_polynomial_w(Tensor(0.5), 2).item()
    -1.0
    """
    return chebyshev_polynomial_w(_shifted(input), n)


def hermite_polynomial_h(input: Any, n: Any) -> Tensor:
    """Hermite's polynomial H, of the weight exp(-x**2).

    >>> from rulegrad import Tensor
    >>> hermite_polynomial_h(Tensor(2.0), 3).item()
    40.0
    """

    def step(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
        return (x * now - before * float(k)) * 2.0

    return _polynomial("hermite_polynomial_h", input, n, lambda x: x * 2.0, step)


def hermite_polynomial_he(input: Any, n: Any) -> Tensor:
    """Hermite's polynomial He, of the weight exp(-x**2 / 2).

    >>> from rulegrad import Tensor
    >>> hermite_polynomial_he(Tensor(2.0), 3).item()
    2.0
    """

    def step(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
        return x * now - before * float(k)

    return _polynomial("hermite_polynomial_he", input, n, lambda x: x, step)


def laguerre_polynomial_l(input: Any, n: Any) -> Tensor:
    """Laguerre's polynomial L.

    >>> from rulegrad import Tensor
    >>> laguerre_polynomial_l(Tensor(2.0), 2).item()
    -1.0
    """

    def step(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
        return ((2.0 * k + 1.0 - x) * now - before * float(k)) * (1.0 / (k + 1))

    return _polynomial("laguerre_polynomial_l", input, n, lambda x: 1.0 - x, step)


def legendre_polynomial_p(input: Any, n: Any) -> Tensor:
    """Legendre's polynomial P.

    >>> from rulegrad import Tensor
    >>> legendre_polynomial_p(Tensor(2.0), 2).item()
    5.5
    """

    def step(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
        return (x * (2.0 * k + 1.0) * now - before * float(k)) * (1.0 / (k + 1))

    return _polynomial("legendre_polynomial_p", input, n, lambda x: x, step)


def _shifted(input: Any) -> Any:
    """2 x - 1, of integers as of floats."""
    return (input if isinstance(input, (int, float)) else widened(real_tensor(input, "a polynomial"))[0]) * 2 - 1
