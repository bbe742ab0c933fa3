"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.onnx._elementwise import dtype_of
from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor import fft
from rulegrad.tensor.tensor import Tensor


@op("DFT", since=17, host=(1,))
def dft_17(call: Call, x: Tensor, length: Any = None, *, axis: int, inverse: int, onesided: int) -> Tensor:
    return _transform(x, length, axis, bool(inverse), bool(onesided))


@op("DFT", since=20, host=(1, 2))
def dft_20(call: Call, x: Tensor, length: Any = None, axis: Any = None, *, inverse: int, onesided: int) -> Tensor:
    return _transform(x, length, -2 if axis is None else int(np.reshape(axis, ())), bool(inverse), bool(onesided))


def _transform(x: Tensor, length: Any, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """The last axis has one number (real) or two (complex)."""
    axis %= x.ndim
    size = x.shape[axis] if length is None else int(np.reshape(length, ()))
    values = x[..., 0] if x.shape[-1] == 1 else Tensor.complex(x[..., 0], x[..., 1])
    if inverse and onesided:
        size = 2 * (size - 1) if length is None else size
        return fft.irfft(values, size, axis).unsqueeze(-1)
    found = (fft.ifft if inverse else fft.fft)(values, size, axis)
    if onesided:
        found = found[(slice(None),) * axis + (slice(0, size // 2 + 1),)]
    return Tensor.stack(found.real, found.imag, axis=-1)


@op("STFT", host=(1, 3))
def stft(
    call: Call, x: Tensor, step: Any, window: Tensor | None = None, length: Any = None, *, onesided: int
) -> Tensor:
    size = int(np.reshape(length, ())) if length is not None else (window.shape[0] if window is not None else 0)
    signal = x[..., 0] if x.shape[-1] == 1 else Tensor.complex(x[..., 0], x[..., 1])
    hop = int(np.reshape(step, ()))
    starts = np.arange((signal.shape[1] - size) // hop + 1) * hop
    frames = signal[:, starts[:, None] + np.arange(size)]
    frames = frames if window is None else frames * window
    found = fft.fft(frames, size, -1)
    found = found[..., : size // 2 + 1] if onesided else found
    return Tensor.stack(found.real, found.imag, axis=-1)


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@op("HannWindow", "HammingWindow", "BlackmanWindow", host=(0,))
def window(call: Call, size: Any, *, output_datatype: int, periodic: int) -> Tensor:
    count = int(np.reshape(size, ()))
    a, b, c = _WINDOWS[call.node.op]
    angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
    values = a - b * np.cos(angle) + c * np.cos(2 * angle)
    return Tensor(values.astype(dtype_of(output_datatype)), device=call.device)


def _mel(hertz: Any) -> float:
    return float(2595 * np.log10(1 + float(hertz) / 700))


@op("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    call: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any, *, output_datatype: int
) -> Tensor:
    count, spectrum = int(bins), int(length) // 2 + 1
    edges = np.linspace(_mel(low), _mel(high), count + 2)
    # The standard's steps leave the last edge out.
    first, step = edges[0], (edges[-1] - edges[0]) / (count + 2)
    hertz = 700 * (10 ** ((first + np.arange(count + 2) * step) / 2595) - 1)
    places = ((int(length) + 1) * hertz // int(rate)).astype(int)
    found = np.zeros((spectrum, count))
    for place in range(count):
        left, center, right = places[place : place + 3]
        if center == left:
            found[center, place] = 1
        for row in range(left, center + (0 if center == left else 1)):
            found[row, place] = (row - left) / (center - left)
        for row in range(center, right):
            found[row, place] = (right - row) / (right - center)
    return Tensor(found.astype(dtype_of(output_datatype)), device=call.device)
