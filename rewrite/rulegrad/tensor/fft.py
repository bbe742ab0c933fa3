"""Discrete Fourier transforms, as part of the graph: fused, on every device, with gradients.

A transform of length n is a product with a matrix where n is small or a small prime, else it is done in two steps
(Cooley and Tukey, 1965): n = a * b, transforms of length a, factors, transforms of length b. For a large prime factor
it is a convolution, of a length that is a power of two (Bluestein, 1970). Numbers are pairs of reals on the way. All
constants are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import DType
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor.axes import axis_or_dim, one_axis, whole_number
from rulegrad.tensor.linalg.host import is_complex, supported
from rulegrad.tensor.storage import default_float, upload, uploaded

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    #: The real and the imaginary part; None for an imaginary part of zeros.
    Pair: TypeAlias = "tuple[Tensor, Tensor | None]"
    #: Lengths or axes; None for those of the tensor.
    Lengths: TypeAlias = "int | Sequence[int] | None"

#: Lengths up to this one are done by one matrix; so are primes up to the other one.
_WHOLE: Final = 16
_PRIME: Final = 64

NORMS: Final = ("backward", "ortho", "forward")

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


# ---- one axis ----


def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """X[k] = sum of x[j] exp(-2 pi i j k / n) over j, along `axis`; complex.

    n: the length; x is cut, or followed by zeros. norm: where the factor 1 / n is: "backward" (in the inverse),
    "forward" (here), "ortho" (its root in both). dim: PyTorch's name of `axis`. Raises ShapeError for no elements,
    ValueError for another norm.

    >>> from rulegrad import Tensor
    >>> fft(Tensor([1.0, 2.0, 3.0, 4.0])).real.tolist()
    [10.0, -2.0, -2.0, -2.0]
    """
    place, length = _place(x, n, axis_or_dim(axis, dim, "fft", -1), "fft")
    return _join(_along(_parts(_resized(x, length, place)), place, -1, _scale(length, norm, "forward")))


def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """The inverse of `fft`: x[j] = 1 / n * sum of X[k] exp(2 pi i j k / n) over k; complex.

    >>> from rulegrad import Tensor
    >>> ifft(Tensor([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    place, length = _place(x, n, axis_or_dim(axis, dim, "ifft", -1), "ifft")
    return _join(_along(_parts(_resized(x, length, place)), place, 1, _scale(length, norm, "backward")))


def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the `fft` of real numbers; the others are their conjugates.

    >>> from rulegrad import Tensor
    >>> rfft(Tensor([1.0, 2.0, 3.0, 4.0])).shape
    (3,)
    """
    place, length = _place(x, n, axis_or_dim(axis, dim, "rfft", -1), "rfft")
    whole = _along(_parts(_resized(x, length, place)), place, -1, _scale(length, norm, "forward"))
    return _join(_each(whole, lambda part: _resized(part, length // 2 + 1, place)))


def irfft(
    x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None
) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default an even number of them, 2 * (elements - 1).

    >>> from rulegrad import Tensor
    >>> irfft(Tensor([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    place = one_axis(axis_or_dim(axis, dim, "irfft", -1), x.ndim, "irfft")
    length = _length(2 * (x.shape[place] - 1) if n is None else n, "irfft")
    real, imaginary = _parts(_resized(x, length // 2 + 1, place))
    if imaginary is None:
        imaginary = real.zeros_like()
    # The other half is the conjugate, backwards: of the elements 1 … (n - 1) // 2.
    rest = (length - 1) // 2
    if rest:
        bounds: list[tuple[int, int] | None] = [None] * x.ndim
        bounds[place] = (1, rest + 1)
        real = real.cat(real.shrink(*bounds).flip(place), axis=place)
        imaginary = imaginary.cat(-imaginary.shrink(*bounds).flip(place), axis=place)
    return _along((real, imaginary), place, 1, _scale(length, norm, "backward"))[0]


def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """The `fft`, real, of a signal that is the conjugate of itself backwards, of which the first half is given.

    >>> from rulegrad import Tensor
    >>> hfft(Tensor([1.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return irfft(_conjugate(x), n, axis, _swapped(norm), dim=dim)


def ihfft(
    x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None
) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 elements.

    >>> from rulegrad import Tensor
    >>> ihfft(Tensor([1.0, 1.0])).real.tolist()
    [1.0, 0.0]
    """
    return _conjugate(rfft(x, n, axis, _swapped(norm), dim=dim))


# ---- several axes ----


def fftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None) -> Tensor:
    """`fft` along several axes, with the lengths `s`; all axes by default. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> fftn(Tensor([[1.0, 1.0], [1.0, 1.0]])).real.round().sum().item()
    4.0
    """
    return _in_turn(x, fft, _lengths(x, s, axis_or_dim(axes, dim, "fftn"), "fftn"), norm)


def ifftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `fftn`.

    >>> from rulegrad import Tensor
    >>> ifftn(Tensor([[4.0, 0.0], [0.0, 0.0]])).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _in_turn(x, ifft, _lengths(x, s, axis_or_dim(axes, dim, "ifftn"), "ifftn"), norm)


def rfftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """`rfft` along the last of the axes, then `fft` along the others.

    >>> from rulegrad import Tensor
    >>> rfftn(Tensor([[1.0, 1.0], [1.0, 1.0]])).shape
    (2, 2)
    """
    *others, (place, length) = _lengths(x, s, axis_or_dim(axes, dim, "rfftn"), "rfftn")
    return _in_turn(rfft(x, length, place, norm), fft, others, norm)


def irfftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `rfftn`: real; the last axis has by default an even number of elements.

    >>> from rulegrad import Tensor
    >>> irfftn(Tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    *others, (place, length) = _lengths(x, s, axis_or_dim(axes, dim, "irfftn"), "irfftn")
    last = 2 * (x.shape[place] - 1) if s is None else length
    return irfft(_in_turn(x, ifft, others, norm), last, place, norm)


def hfftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The `fftn`, real, of what is the conjugate of itself backwards, of which a half of the last axis is given.

    >>> from rulegrad import Tensor
    >>> hfftn(Tensor([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(_conjugate(x), s, axes, _swapped(norm), dim=dim)


def ihfftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `hfftn`: the first half of the last axis.

    >>> from rulegrad import Tensor
    >>> ihfftn(Tensor([[1.0, 1.0], [1.0, 1.0]])).abs().sum().item()
    1.0
    """
    return _conjugate(rfftn(x, s, axes, _swapped(norm), dim=dim))


def fft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """`fftn` along two axes, by default the last two. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> fft2(Tensor([[1.0, 1.0], [1.0, 1.0]])).abs().sum().item()
    4.0
    """
    return fftn(x, s, axis_or_dim(axes, dim, "fft2", (-2, -1)), norm)


def ifft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `fft2`.

    >>> from rulegrad import Tensor
    >>> ifft2(Tensor([[4.0, 0.0], [0.0, 0.0]])).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return ifftn(x, s, axis_or_dim(axes, dim, "ifft2", (-2, -1)), norm)


def rfft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """`rfftn` along two axes, by default the last two.

    >>> from rulegrad import Tensor
    >>> rfft2(Tensor([[1.0, 1.0], [1.0, 1.0]])).abs().sum().item()
    4.0
    """
    return rfftn(x, s, axis_or_dim(axes, dim, "rfft2", (-2, -1)), norm)


def irfft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `rfft2`: real.

    >>> from rulegrad import Tensor
    >>> irfft2(Tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(x, s, axis_or_dim(axes, dim, "irfft2", (-2, -1)), norm)


def hfft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """`hfftn` along two axes, by default the last two: real.

    >>> from rulegrad import Tensor
    >>> hfft2(Tensor([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return hfftn(x, s, axis_or_dim(axes, dim, "hfft2", (-2, -1)), norm)


def ihfft2(
    x: Tensor, s: Lengths = None, axes: Lengths = (-2, -1), norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `hfft2`.

    >>> from rulegrad import Tensor
    >>> ihfft2(Tensor([[1.0, 1.0], [1.0, 1.0]])).abs().sum().item()
    1.0
    """
    return ihfftn(x, s, axis_or_dim(axes, dim, "ihfft2", (-2, -1)), norm)


def _in_turn(x: Tensor, transform: Callable[..., Tensor], axes: list[tuple[int, int]], norm: str | None) -> Tensor:
    for place, length in axes:
        x = transform(x, length, place, norm)
    return x


def _lengths(x: Tensor, s: Any, axes: Any, operation: str) -> list[tuple[int, int]]:
    """Each axis with its length."""
    s, axes = ((given,) if isinstance(given, int) else given for given in (s, axes))
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    places = [one_axis(axis, x.ndim, operation) for axis in axes]
    extents = [x.shape[place] for place in places] if s is None else list(s)
    if not places or len(extents) != len(places) or len(set(places)) != len(places):
        raise ShapeError(f"{operation}: lengths {s} for axes {axes} of the shape {x.shape}; name each axis once")
    # As in NumPy, -1 keeps an extent.
    return [(place, x.shape[place] if n == -1 else n) for place, n in zip(places, extents, strict=True)]


# ---- frequencies and order ----


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Any:
    """The frequencies of the elements of `fft`, for samples at distances `d`: 0, 1, …, -2, -1 over `n * d`.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    length = _length(n, "fftfreq")
    numbers = np.concatenate([np.arange((length + 1) // 2), np.arange(-(length // 2), 0)])
    return _created(numbers / (length * d), dtype, device)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Any:
    """The frequencies of the elements of `rfft`: 0, 1, …, n // 2 over `n * d`.

    >>> rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    length = _length(n, "rfftfreq")
    return _created(np.arange(length // 2 + 1) / (length * d), dtype, device)


def fftshift(x: Tensor, axes: Lengths = None, *, dim: Lengths = None) -> Tensor:
    """The elements moved along the axes so that frequency 0 is in the middle.

    >>> from rulegrad import Tensor
    >>> fftshift(Tensor([0, 1, -2, -1])).tolist()
    [-2, -1, 0, 1]
    """
    return _shifted(x, axis_or_dim(axes, dim, "fftshift"), lambda extent: extent // 2)


def ifftshift(x: Tensor, axes: Lengths = None, *, dim: Lengths = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> from rulegrad import Tensor
    >>> ifftshift(Tensor([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    return _shifted(x, axis_or_dim(axes, dim, "ifftshift"), lambda extent: -(extent // 2))


def _shifted(x: Tensor, axes: Any, distance: Callable[[int], int]) -> Tensor:
    named = range(x.ndim) if axes is None else axes if isinstance(axes, Sequence) else (axes,)
    for axis in named:
        place = one_axis(axis, x.ndim, "fftshift")
        x = x.roll(distance(x.shape[place]), place)
    return x


def _created(values: Array, dtype: Any, device: str | None) -> Any:
    from rulegrad.tensor.tensor import Tensor  # late: Tensor has these functions as methods

    return Tensor(values, dtype or default_float, device)


# ---- pairs of reals ----


def _parts(x: Tensor) -> Pair:
    x = supported(x)
    return (x.real, x.imag) if is_complex(x) else (x, None)


def _join(pair: Pair) -> Tensor:
    real, imaginary = pair
    return type(real).complex(real, real.zeros_like() if imaginary is None else imaginary)


def _conjugate(x: Tensor) -> Tensor:
    return x.conj() if is_complex(x) else x


def _each(pair: Pair, function: Callable[[Tensor], Tensor]) -> Pair:
    real, imaginary = pair
    return function(real), None if imaginary is None else function(imaginary)


def _times(pair: Pair, real: Tensor, imaginary: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Pair:
    """(a + b i) (real + imaginary i), with any product that is linear in both."""
    a, b = pair
    if b is None:
        return product(a, real), product(a, imaginary)
    return product(a, real) - product(b, imaginary), product(a, imaginary) + product(b, real)


# ---- the transform ----


def _along(pair: Pair, place: int, sign: int, scale: float) -> Pair:
    """The transform with exp(sign 2 pi i j k / n) along an axis, times `scale`."""
    pair = _each(pair, lambda part: part.transpose(place, -1))
    pair = _transformed(pair, sign)
    if scale != 1:
        pair = _each(pair, lambda part: part * scale)
    return _each(pair, lambda part: part.transpose(place, -1))


def _transformed(pair: Pair, sign: int) -> Pair:
    n = pair[0].shape[-1]
    if n == 1:
        return pair
    first = n if n <= _WHOLE else _factor(n)
    if first == n:
        return _by_matrix(pair, sign) if n <= _PRIME else _by_convolution(pair, sign)
    # j = j1 b + j2 and k = k1 + a k2, for n = a b.
    a, b = first, n // first
    batch = pair[0].shape[:-1]
    pair = _each(pair, lambda part: part.reshape((*batch, a, b)).mT)
    pair = _transformed(pair, sign)
    pair = _each(pair, lambda part: part.mT)
    turns = np.multiply.outer(np.arange(a), np.arange(b))
    pair = _times(pair, *_roots(turns, n, sign, pair[0]), lambda x, y: x * y)
    pair = _transformed(pair, sign)
    return _each(pair, lambda part: part.mT.reshape((*batch, n)))


def _factor(n: int) -> int:
    """The largest factor of n up to `_WHOLE`; else its smallest prime factor."""
    small = next((f for f in range(_WHOLE, 1, -1) if n % f == 0), 0)
    return small or next((f for f in range(_WHOLE + 1, math.isqrt(n) + 1) if n % f == 0), n)


def _by_matrix(pair: Pair, sign: int) -> Pair:
    n = pair[0].shape[-1]
    turns = np.multiply.outer(np.arange(n), np.arange(n))
    return _times(pair, *_roots(turns, n, sign, pair[0]), lambda x, y: x.matmul(y))


def _by_convolution(pair: Pair, sign: int) -> Pair:
    """j k = (j^2 + k^2 - (k - j)^2) / 2: a product with w^(j^2 / 2), a convolution, and a product again."""
    n = pair[0].shape[-1]
    length = 1 << (2 * n - 1).bit_length()
    squares = np.arange(n) ** 2 % (2 * n)
    chirp = _roots(squares, 2 * n, sign, pair[0])
    pair = _times(pair, *chirp, lambda x, y: x * y)
    kernel = np.zeros(length, complex)
    kernel[:n] = np.exp(-sign * 1j * np.pi * squares / n)
    kernel[length - n + 1 :] = kernel[1:n][::-1]
    spectrum = np.fft.fft(kernel) / length
    pair = _each(pair, lambda part: _resized(part, length, part.ndim - 1))
    pair = _transformed(pair, -1)
    pair = _times(pair, *_constants(spectrum, pair[0]), lambda x, y: x * y)
    pair = _transformed(pair, 1)
    pair = _each(pair, lambda part: _resized(part, n, part.ndim - 1))
    return _times(pair, *chirp, lambda x, y: x * y)


# ---- constants ----

_kept: dict[tuple[bytes, int, DType, str], tuple[Buffer, Buffer]] = {}
_MOST_KEPT: Final = 64


def _roots(turns: Array, n: int, sign: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """exp(sign 2 pi i turns / n): cosines and sines. The argument is reduced exactly."""
    key = (turns.tobytes(), sign * n, like.dtype, like.device)
    if key not in _kept:
        if len(_kept) >= _MOST_KEPT:
            _kept.pop(next(iter(_kept)))
        angles = turns % n * (2 * np.pi / n)
        _kept[key] = _uploaded(np.exp(sign * 1j * angles), like)
    return _as_tensors(_kept[key], like)


def _constants(values: Array, like: Tensor) -> tuple[Tensor, Tensor]:
    return _as_tensors(_uploaded(values, like), like)


def _uploaded(values: Array, like: Tensor) -> tuple[Buffer, Buffer]:
    real, imaginary = (np.ascontiguousarray(part).astype(like.dtype.numpy) for part in (values.real, values.imag))
    return upload(real, like.device), upload(imaginary, like.device)


def _as_tensors(buffers: tuple[Buffer, Buffer], like: Tensor) -> tuple[Tensor, Tensor]:
    # those that are kept may have been made outside of a trace, or in another one
    real, imaginary = (like._new(buffer.uop, uploaded(buffer), buffer.device) for buffer in buffers)
    return real, imaginary


# ---- arguments ----


def _place(x: Tensor, n: int | None, axis: int, operation: str) -> tuple[int, int]:
    place = one_axis(axis, x.ndim, operation)
    return place, _length(x.shape[place] if n is None else n, operation)


def _length(n: Any, operation: str) -> int:
    length = whole_number(n, operation)
    if length < 1:
        raise ShapeError(f"{operation}: {length} elements along the axis; a transform needs one or more")
    return length


def _resized(x: Tensor, length: int, place: int) -> Tensor:
    """Cut, or followed by zeros, so that the axis has `length` elements."""
    extent = x.shape[place]
    if extent == length:
        return x
    if extent < length:
        return x.pad([(0, length - extent) if k == place else (0, 0) for k in range(x.ndim)])
    return x.shrink(*[(0, length) if k == place else None for k in range(x.ndim)])


def _scale(n: int, norm: str | None, direction: str) -> float:
    norm = "backward" if norm is None else norm
    if norm not in NORMS:
        raise ValueError(f"norm is {norm!r}; use one of {', '.join(map(repr, NORMS))}")
    return 1 / math.sqrt(n) if norm == "ortho" else 1 / n if norm == direction else 1.0


def _swapped(norm: str | None) -> str:
    norm = "backward" if norm is None else norm
    return {"backward": "forward", "forward": "backward"}.get(norm, norm)
