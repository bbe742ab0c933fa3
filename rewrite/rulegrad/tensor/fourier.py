"""The discrete Fourier transform along the last axis, as products of real matrices.

A length n = a * b * … is transformed in steps, one for each factor, in the order of Stockham (Cochran et al., "What is
the fast Fourier transform?", 1967): what a step stores is what the next one reads, and the last one stores frequencies
in their order. Each step is one product, with matrices of 2a rows and columns for real and imaginary parts; the factors
between it and the next one (twiddle factors) are in its matrices, but for the first step. Where a prime factor is
large, the transform is a convolution, of a length that is a power of two (Bluestein, 1970). All constants are computed
in float64 and rounded once.

Results are planes: (…, 2, n), all real parts before all imaginary ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.tensor.kept_constants import constant

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

#: The largest factor of a length that is a step, and so the largest prime.
_LARGEST: Final = 64
#: Real transforms up to this length are one product with the frequencies that are asked for.
_WHOLE: Final = 32
#: The overhead of a step, as if it had so many more terms in each sum.
_STEP: Final = 24
#: The lanes of a vector, of which a step whose rows are shorter wastes some.
_LANES: Final = 16


def transform(x: Tensor, sign: int) -> Tensor:
    """X[k] = sum of x[j] exp(sign 2 pi i j k / n) over j, for real or complex x (…, n): (…, 2, n)."""
    return _transformed(x.view_as_real() if x.dtype.is_complex else x.unsqueeze(-1), sign)


def transform_of_reals(x: Tensor) -> Tensor:
    """The first n // 2 + 1 elements of `transform(x, -1)` for real x (…, n): (…, 2, n // 2 + 1)."""
    n = x.shape[-1]
    half, count = n // 2, n // 2 + 1
    if 1 < n <= _WHOLE:
        matrix = constant(("half", n), x, lambda: _matrix_of_parts(_roots(n, count, n, -1))[:, 0])
        return (x @ matrix.reshape(n, 2 * count)).reshape(*x.shape[:-1], 2, count)
    if n % 2:
        return transform(x, -1).shrink(*[None] * x.ndim, (0, count))
    # Of n / 2 complex numbers: even elements are real parts, odd ones imaginary parts, told apart by their symmetries.
    found = _transformed(x.reshape(*x.shape[:-1], half, 2), -1)
    found = found.cat(found.shrink(*[None] * x.ndim, (0, 1)), axis=-1).contiguous()
    backwards = _conjugate(found.flip(-1))
    turned = _times(found - backwards, ("turns", n), lambda: -0.5j * _roots(2, count, n, -1)[1])
    return (found + backwards) * 0.5 + turned


def inverse_of_reals(x: Tensor, n: int) -> Tensor:
    """The inverse of `transform_of_reals`, times n: real numbers (…, n) of complex ones (…, n // 2 + 1).

    The imaginary parts of the first frequency, and of the last for an even n, are not looked at.
    """
    half, lead = n // 2, [None] * (x.ndim - 1)
    real, imaginary = x.real, x.imag
    rest = (n - 1) // 2  # frequencies whose conjugates are not among those given
    ends = (1, half - rest)
    imaginary = imaginary.shrink(*lead, (1, rest + 1)).pad([*[(0, 0)] * len(lead), ends])
    planes = real.stack(imaginary, axis=-2)
    if n % 2 or n <= _WHOLE:
        more = _conjugate(planes.shrink(*lead, None, (1, rest + 1)).flip(-1))
        return _transformed(planes.cat(more, axis=-1).contiguous().mT, 1).unbind(-2)[0]
    forwards = planes.shrink(*lead, None, (0, half))
    backwards = _conjugate(planes.shrink(*lead, None, (1, half + 1)).flip(-1))
    turned = _times(forwards - backwards, ("inverse turns", n), lambda: 1j * _roots(2, half, n, 1)[1])
    pairs = (forwards + backwards + turned).contiguous().mT
    return _transformed(pairs, 1).mT.reshape(*x.shape[:-1], n)


# ---- steps ----


def _transformed(x: Tensor, sign: int) -> Tensor:
    """The transform of (…, n, 2), both parts of each number, or of (…, n, 1), real numbers: (…, 2, n)."""
    *batch, n, parts = x.shape
    if n == 1:
        return _as_planes(x)
    steps = factors(n)
    if not steps:
        return _by_convolution(x, sign)
    # (batch, rest of the length, parts, results so far)
    x = _first_step(x.reshape(-1, n, parts), steps[0], sign)
    for factor in steps[1:]:
        x = _next_step(x, factor, sign)
    return x.reshape(*batch, 2, n)


def _first_step(x: Tensor, a: int, sign: int) -> Tensor:
    batch, n, parts = x.shape
    rest = n // a
    matrix = constant(("first", a, sign, parts), x, lambda: _matrix_of_parts(_roots(a, a, a, sign))[:, :parts])
    rows = x.reshape(batch, a, rest, parts).transpose(1, 2).reshape(batch, rest, a * parts)
    found = (rows @ matrix.reshape(a * parts, 2 * a)).reshape(batch, rest, 2, a).contiguous()
    if rest == 1:
        return found
    return _times(found, ("between", n, a, sign), lambda: _between(n, a, sign)).contiguous()


def _next_step(x: Tensor, a: int, sign: int) -> Tensor:
    batch, length, _, done = x.shape
    rest = length // a

    def matrices() -> Array:
        found = _matrix_of_parts(_roots(a, a, a, sign) * _between(length, a, sign)[:, None, :])
        return np.moveaxis(found, (3, 4), (1, 2))  # (rest, part, k, j, part)

    matrix = constant(("next", length, a, sign), x, matrices).reshape(rest, 2 * a, 2 * a)
    columns = x.reshape(batch, a, rest, 2, done).transpose(1, 2).reshape(batch, rest, 2 * a, done)
    return (matrix @ columns).reshape(batch, rest, 2, a * done).contiguous()


@lru_cache(maxsize=4096)
def factors(n: int) -> tuple[int, ...]:
    """The factors of n, in the order of the steps, by which the transform takes the least time; none for a large prime.

    >>> factors(4096), factors(400), factors(67)
    ((16, 16, 16), (16, 25), ())
    """
    return _best(n, 1)[1]


@lru_cache(maxsize=4096)
def _best(rest: int, done: int) -> tuple[float, tuple[int, ...]]:
    """The least cost of what is left of a transform, and its factors."""
    if rest == 1:
        return 0.0, ()
    found: tuple[float, tuple[int, ...]] = (math.inf, ())
    for a in range(2, min(rest, _LARGEST) + 1):
        if rest % a == 0:
            cost, others = _best(rest // a, done * a)
            columns = 2 * a if done == 1 else done
            padded = -(-columns // _LANES) * _LANES
            found = min(found, (cost + a * padded / columns + _STEP, (a, *others)))
    return found


# ---- a convolution ----


def _by_convolution(x: Tensor, sign: int) -> Tensor:
    """j k = (j^2 + k^2 - (k - j)^2) / 2: a product with w^(j^2 / 2), a convolution, and a product again."""
    *batch, n, _ = x.shape
    length = 1 << (2 * n - 1).bit_length()
    lead = [(0, 0)] * (len(batch) + 1)

    def chirp() -> Array:
        found: Array = np.exp(sign * 1j * np.pi * (np.arange(n) ** 2 % (2 * n)) / n)
        return found

    def spectrum() -> Array:
        kernel = np.zeros(length, complex)
        kernel[:n] = chirp().conj()
        kernel[length - n + 1 :] = kernel[1:n][::-1]
        return np.fft.fft(kernel) / length

    planes = _times(_as_planes(x), ("chirp", n, sign), chirp).pad([*lead, (0, length - n)])
    planes = _times(_transformed(planes.contiguous().mT, -1), ("spectrum", n, sign), spectrum)
    planes = _transformed(planes.contiguous().mT, 1).shrink(*[None] * len(lead), (0, n))
    return _times(planes, ("chirp", n, sign), chirp)


# ---- complex numbers as planes ----


def _as_planes(x: Tensor) -> Tensor:
    """(…, 2, n) of (…, n, 2), or of (…, n, 1), real numbers."""
    return x.mT if x.shape[-1] == 2 else x.mT.pad([(0, 0)] * (x.ndim - 2) + [(0, 1), (0, 0)])


def _conjugate(planes: Tensor) -> Tensor:
    return planes * constant(("conjugate",), planes, lambda: np.array([[1.0], [-1.0]]))


def _times(planes: Tensor, name: tuple[Any, ...], make: Callable[[], Array]) -> Tensor:
    """(…, 2, n) times complex constants (…, n), which `make` gives."""

    def parts() -> Array:
        factor = make()
        return np.stack([np.stack([factor.real] * 2, -2), np.stack([-factor.imag, factor.imag], -2)])

    same, other = constant(name, planes, parts).unbind(0)
    return planes * same + planes.flip(-2) * other


# ---- constants ----


def _roots(rows: int, columns: int, n: int, sign: int) -> Array:
    """exp(sign 2 pi i j k / n) for j below `rows` and k below `columns`. The argument is reduced exactly."""
    turns = np.multiply.outer(np.arange(rows), np.arange(columns)) % n
    return np.exp(sign * 2j * np.pi * turns / n)


def _between(length: int, a: int, sign: int) -> Array:
    """The factors between a step by a and the next: (length / a, a)."""
    return _roots(length // a, a, length, sign)


def _matrix_of_parts(matrix: Array) -> Array:
    """A complex matrix (…, j, k) for parts: (…, j, 2, 2, k), from each part of j to each part of k."""
    return np.stack(
        [np.stack([matrix.real, matrix.imag], -2), np.stack([-matrix.imag, matrix.real], -2)],
        -3,
    )
