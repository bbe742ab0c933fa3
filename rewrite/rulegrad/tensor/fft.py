"""Discrete Fourier transforms, as part of the graph: fused, on every device, with gradients.

rulegrad.tensor.fourier says how they are done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import axis_or_dim, one_axis, whole_number
from rulegrad.tensor.fourier import inverse_of_reals, transform, transform_of_reals
from rulegrad.tensor.kept_constants import built_with_constants
from rulegrad.tensor.linalg.host import is_complex, supported
from rulegrad.tensor.storage import default_float

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    #: Lengths or axes; None for those of the tensor.
    Lengths: TypeAlias = "int | Sequence[int] | None"

NORMS: Final = ("backward", "ortho", "forward")

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


# ---- one axis ----


@built_with_constants
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
    return _joined(transform(_with_axis_last(x, length, place), -1), place, _scale(length, norm, "forward"))


@built_with_constants
def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """The inverse of `fft`: x[j] = 1 / n * sum of X[k] exp(2 pi i j k / n) over k; complex.

    >>> from rulegrad import Tensor
    >>> ifft(Tensor([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    place, length = _place(x, n, axis_or_dim(axis, dim, "ifft", -1), "ifft")
    return _joined(transform(_with_axis_last(x, length, place), 1), place, _scale(length, norm, "backward"))


@built_with_constants
def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None, *, dim: int | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the `fft` of real numbers; the others are their conjugates.

    >>> from rulegrad import Tensor
    >>> rfft(Tensor([1.0, 2.0, 3.0, 4.0])).shape
    (3,)
    """
    place, length = _place(x, n, axis_or_dim(axis, dim, "rfft", -1), "rfft")
    values = _with_axis_last(x, length, place)
    scale = _scale(length, norm, "forward")
    if not is_complex(values):
        return _joined(transform_of_reals(values), place, scale)
    return _resized(_joined(transform(values, -1), place, scale), length // 2 + 1, place)


@built_with_constants
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
    scale = _scale(length, norm, "backward")
    values = inverse_of_reals(_with_axis_last(x, length // 2 + 1, place), length)
    return (values * scale if scale != 1 else values).transpose(place, -1)


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


@built_with_constants
def fftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None) -> Tensor:
    """`fft` along several axes, with the lengths `s`; all axes by default. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> fftn(Tensor([[1.0, 1.0], [1.0, 1.0]])).real.round().sum().item()
    4.0
    """
    return _in_turn(x, fft, _lengths(x, s, axis_or_dim(axes, dim, "fftn"), "fftn"), norm)


@built_with_constants
def ifftn(
    x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None, *, dim: Lengths = None
) -> Tensor:
    """The inverse of `fftn`.

    >>> from rulegrad import Tensor
    >>> ifftn(Tensor([[4.0, 0.0], [0.0, 0.0]])).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _in_turn(x, ifft, _lengths(x, s, axis_or_dim(axes, dim, "ifftn"), "ifftn"), norm)


@built_with_constants
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


@built_with_constants
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

    return Tensor(values, dtype or default_float(), device)


# ---- parts ----


def _with_axis_last(x: Tensor, length: int, place: int) -> Tensor:
    """In a dtype that has a transform, with `length` elements along the axis, which is the last one then."""
    return _resized(supported(x), length, place).transpose(place, -1)


def _joined(planes: Tensor, place: int, scale: float) -> Tensor:
    """Planes of real and imaginary parts, times `scale`, as complex numbers; the last axis moved back."""
    real, imaginary = (planes * scale if scale != 1 else planes).unbind(-2)
    return type(real).complex(real, imaginary).transpose(place, -1)


def _conjugate(x: Tensor) -> Tensor:
    return x.conj() if is_complex(x) else x


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
