"""Fourier transforms of short, overlapping parts of a signal, and the signal from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor import fft
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.operands import as_tensor
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: The sum of squares of windows from which a signal can be found.
_LEAST = 1e-11


def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of parts of `n_fft` samples, `hop_length` apart: (…, frequencies, parts).

    self: a signal, or (batch, samples). hop_length: by default n_fft // 4. window: `win_length` factors (n_fft by
    default, of ones), with zeros around them up to n_fft. center: part t has the sample t * hop_length in its
    middle; the signal is padded by `pad_mode`, as of `pad`. normalized: divided by the root of n_fft. onesided:
    only the first n_fft // 2 + 1 frequencies, by default of real signals. return_complex: False for real and
    imaginary parts, (…, parts, 2); a real signal needs it said. align_to_window: with center=False, the first part
    begins where the window does. Raises ShapeError, ConfigError.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(8).stft(4, return_complex=True).abs().tolist()[0]
    [4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    """
    size, hop, factors = _windowing(self, "stft", n_fft, hop_length, win_length, window, align_to_window and not center)
    if self.ndim not in (1, 2):
        raise ShapeError(f"stft: the shape is {self.shape}; it needs (samples) or (batch, samples)")
    complex_values = self.dtype.is_complex or factors.dtype.is_complex
    if return_complex is None and not complex_values:
        raise ConfigError("stft: say return_complex=True (or False for real and imaginary parts) of a real signal")
    if onesided and complex_values:
        raise ConfigError("stft: onesided=True of a complex signal, whose other frequencies are not known from them")
    signal = self.reshape((-1, self.shape[-1]))
    if center:
        signal = signal.pad([(0, 0), (size // 2, size // 2)], mode=pad_mode)
    if signal.shape[1] < factors.shape[0]:
        raise ShapeError(f"stft: parts of {factors.shape[0]} samples of a signal of {signal.shape[1]}")
    parts: Any = signal.unfold(1, factors.shape[0], hop) * factors
    half = not complex_values if onesided is None else onesided
    norm = "ortho" if normalized else "backward"
    found: Any = (fft.rfft if half else fft.fft)(parts, size, -1, norm).mT
    found = found.reshape((*self.shape[:-1], *found.shape[1:]))
    return found.view_as_real() if return_complex is False else found  # type: ignore[no-any-return]


def istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which `stft` gives (…, frequencies, parts): the least squares solution (Griffin and Lim, 1984).

    length: of the signal; by default up to the middle of the last part, or its end with center=False. The other
    arguments are those that `stft` was given. return_complex: the signal is complex. Waits for the window. Raises
    ShapeError, ConfigError, also where the squares of the windows add up to 0.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0, 3.0, 4.0]).stft(4, return_complex=True).istft(4).round(decimals=3).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    size, hop, factors = _windowing(self, "istft", n_fft, hop_length, win_length, window, False)
    half = self.shape[-2:-1] != (size,) if onesided is None else onesided
    rows = size // 2 + 1 if half else size
    if not self.dtype.is_complex or self.ndim not in (2, 3) or self.shape[-2] != rows:
        raise ShapeError(f"istft: {self.dtype} of shape {self.shape}; it needs complex (…, {rows}, parts)")
    if return_complex and half:
        raise ConfigError("istft: return_complex=True needs onesided=False")
    norm = "ortho" if normalized else "backward"
    spectra: Any = self.reshape((-1, *self.shape[-2:])).mT
    parts = fft.irfft(spectra, size, -1, norm) if half else fft.ifft(spectra, size, -1, norm)
    signal: Any = parts if half or return_complex else parts.real
    count = signal.shape[1]
    squares = factors.conj() * factors if factors.dtype.is_complex else factors.square()
    weight = _overlapping(squares.expand(1, count, size), hop)
    begin = size // 2 if center else 0
    end = weight.shape[1] - begin if length is None else begin + whole_number(length, "istft")
    inside = min(end, weight.shape[1])
    weight = weight.shrink(None, (begin, inside))
    if (weight.detach().abs() < _LEAST).any().item():
        raise ConfigError("istft: the squares of the windows add up to 0 somewhere; use a smaller hop_length")
    found = _overlapping(signal * factors, hop).shrink(None, (begin, inside)) / weight
    found = found.pad([(0, 0), (0, end - inside)])
    return found.reshape((*self.shape[:-2], end - begin))  # type: ignore[no-any-return]


def _windowing(
    self: Tensor, name: str, n_fft: int, hop_length: int | None, win_length: int | None, window: Any, cut: bool | None
) -> tuple[int, int, Any]:
    """The length of the parts, their distance, and the factors of each part's samples."""
    size = whole_number(n_fft, name)
    hop = size // 4 if hop_length is None else whole_number(hop_length, name)
    long = size if win_length is None else whole_number(win_length, name)
    if size < 1 or hop < 1 or not 0 < long <= size:
        raise ShapeError(
            f"{name}: n_fft={size}, hop_length={hop}, win_length={long}; use 1 or more, and a window up to n_fft"
        )
    real = self.real if self.dtype.is_complex else self
    factors: Any = real.ones((long,), dtype=as_floating(real).dtype, device=self._device or None)
    if window is not None:
        factors = as_tensor(self, window, name)
        if factors.shape != (long,):
            raise ShapeError(f"{name}: a window of shape {factors.shape}; it needs ({long},)")
    before = (size - long) // 2
    return size, hop, factors if cut else factors.pad((before, size - long - before))


def _overlapping(parts: Any, hop: int) -> Any:
    """The sums of parts (batch, count, size) that begin `hop` samples apart: (batch, samples).

    Parts are cut into pieces of `hop` samples; piece k of part t is added to piece t + k of the signal.
    """
    batch, count, size = parts.shape
    pieces = math.ceil(size / hop)
    cut = parts.pad([(0, 0), (0, 0), (0, pieces * hop - size)]).reshape((batch, count, pieces, hop))
    # A row of pieces and `count` empty ones has the pieces of the next row one place further on.
    skewed = cut.permute(0, 2, 1, 3).pad([(0, 0), (0, 0), (0, pieces), (0, 0)])
    flat = skewed.reshape((batch, pieces * (count + pieces), hop))
    moved = flat.shrink(None, (0, pieces * (count + pieces - 1)), None)
    moved = moved.reshape((batch, pieces, count + pieces - 1, hop))
    return moved.sum(1).reshape((batch, (count + pieces - 1) * hop)).shrink(None, (0, size + hop * (count - 1)))
