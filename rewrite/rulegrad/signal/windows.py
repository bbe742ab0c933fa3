"""Windows for spectra and filters, under PyTorch's and SciPy's names.

`sym=True` gives a window for a filter: it is symmetric. `sym=False` gives one for a spectrum: one period, of which the
next element would be the first again. All have M elements of float32 or `dtype`; that of one element is 1. They raise
ShapeError for a negative M, DtypeError for a dtype that is not a float, and ConfigError for other arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.ir.dtype import as_dtype, float32
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.special import i0e
from rulegrad.tensor.storage import default_float
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def _window(
    name: str,
    shape: Callable[[Tensor, int], Tensor],
    count: Any,
    sym: bool,
    dtype: Any,
    device: str | None,
    requires_grad: bool,
) -> Tensor:
    """`shape(0 … count - 1, length of the symmetric window)`, computed in float32 for smaller floats."""
    number = whole_number(count, name)
    wanted = as_dtype(default_float() if dtype is None else dtype)
    if number < 0:
        raise ShapeError(f"{name}: a window of {number} elements; give 0 or more")
    if not wanted.is_float:
        raise DtypeError(f"{name}: {wanted} is not a float dtype; a window has values from 0 to 1")
    exact = wanted if wanted.bits >= float32.bits else float32
    places = Tensor.arange(number, dtype=exact, device=device)
    length = number if sym else number + 1
    new = (shape(places, length) if number > 1 else places + 1.0).cast(wanted)
    return new.requires_grad_() if requires_grad else new


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The triangle `1 - |2 n / (M - 1) - 1|`.

    >>> bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window(
        "bartlett", lambda n, m: 1.0 - (n * (2.0 / (m - 1)) - 1.0).abs(), M, sym, dtype, device, requires_grad
    )


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`general_cosine` with the factors 0.42, 0.5 and 0.08.

    >>> [round(v, 2) for v in blackman(5).abs().tolist()]
    [0.0, 0.34, 1.0, 0.34, 0.0]
    """
    return _of_cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, device, requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`sin(pi (n + 1/2) / M)`

    >>> [round(v, 3) for v in cosine(3).tolist()]
    [0.5, 1.0, 0.5]
    """
    return _window("cosine", lambda n, m: ((n + 0.5) * (math.pi / m)).sin(), M, sym, dtype, device, requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|n - center| / tau)`; the middle is at (M - 1) / 2, or at M / 2 unless `sym`, and else at `center`.

    >>> [round(v, 3) for v in exponential(3).tolist()]
    [0.368, 1.0, 0.368]
    """
    if tau <= 0:
        raise ConfigError(f"exponential: tau={tau} is not positive; give how fast it falls, above 0")
    if sym and center is not None:
        raise ConfigError("exponential: a symmetric window has its own middle; give `center` with sym=False")

    def shape(n: Tensor, length: int) -> Tensor:
        middle = (length - 1) / 2 if center is None else center
        return ((n - middle).abs() * (-1.0 / tau)).exp()

    return _window("exponential", shape, M, sym, dtype, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-t**2 / 2)`, where t is the distance to the middle in units of `std`.

    >>> [round(v, 3) for v in gaussian(3).tolist()]
    [0.607, 1.0, 0.607]
    """
    if std <= 0:
        raise ConfigError(f"gaussian: std={std} is not positive; give a standard deviation above 0")

    def shape(n: Tensor, length: int) -> Tensor:
        return (((n - (length - 1) / 2) * (1.0 / std)).square() * -0.5).exp()

    return _window("gaussian", shape, M, sym, dtype, device, requires_grad)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`a[0] - a[1] cos(t) + a[2] cos(2 t) - …` for t = 2 pi n / (M - 1).

    >>> [round(v, 2) for v in general_cosine(5, a=[0.5, 0.5]).tolist()]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    factors = tuple(a)
    if not factors:
        raise ConfigError("general_cosine: a has no factors; give one or more")
    return _of_cosines("general_cosine", M, factors, sym, dtype, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - (1 - alpha) cos(2 pi n / (M - 1))`

    >>> [round(v, 2) for v in general_hamming(3, alpha=0.75).tolist()]
    [0.5, 1.0, 0.5]
    """
    return _of_cosines("general_hamming", M, (alpha, 1.0 - alpha), sym, dtype, device, requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`0.54 - 0.46 cos(2 pi n / (M - 1))`

    >>> [round(v, 2) for v in hamming(3).tolist()]
    [0.08, 1.0, 0.08]
    """
    return _of_cosines("hamming", M, (0.54, 0.46), sym, dtype, device, requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`1/2 - 1/2 cos(2 pi n / (M - 1))`

    >>> hann(3).tolist(), hann(2, sym=False).tolist()
    ([0.0, 1.0, 0.0], [0.0, 1.0])
    """
    return _of_cosines("hann", M, (0.5, 0.5), sym, dtype, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`i0(beta sqrt(1 - t**2)) / i0(beta)`, where t goes from -1 to 1; i0 is the modified Bessel function.

    >>> [round(v, 3) for v in kaiser(3, beta=2.0).tolist()]
    [0.439, 1.0, 0.439]
    """
    if beta < 0:
        raise ConfigError(f"kaiser: beta={beta} is negative; give 0 or more")

    def shape(n: Tensor, length: int) -> Tensor:
        # 1 - t**2 = (1 - t) (1 + t), without cancellation at the ends
        argument = (n * (n.mul(-1.0) + (length - 1))).sqrt() * (2.0 * beta / (length - 1))
        scale: Tensor = i0e(argument) / i0e(argument.full_like(beta))
        return scale * (argument - beta).exp()

    return _window("kaiser", shape, M, sym, dtype, device, requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """`general_cosine` with the factors 0.3635819, 0.4891775, 0.1365995 and 0.0106411 (Nuttall 1981).

    >>> [round(v, 4) for v in nuttall(3).tolist()]
    [0.0004, 1.0, 0.0004]
    """
    factors = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _of_cosines("nuttall", M, factors, sym, dtype, device, requires_grad)


def _of_cosines(
    name: str, count: int, a: tuple[float, ...], sym: bool, dtype: Any, device: str | None, requires_grad: bool
) -> Tensor:
    def shape(n: Tensor, length: int) -> Tensor:
        total = n * 0.0 + a[0]
        for k, factor in enumerate(a[1:], 1):
            total = total + (n * (2.0 * math.pi * k / (length - 1))).cos() * (factor * (-1) ** k)
        return total

    return _window(name, shape, count, sym, dtype, device, requires_grad)
