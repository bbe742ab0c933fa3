"""PyTorch's windows for spectra in `torch`: periodic, unless they are told otherwise."""

from __future__ import annotations

from typing import Any

from rulegrad.signal import windows
from rulegrad.tensor.tensor import Tensor


def hann_window(window_length: int, periodic: bool = True, *, layout: Any = None, **how: Any) -> Tensor:
    """`signal.windows.hann`; `how` are dtype, device and requires_grad.

    >>> import rulegrad
    >>> rulegrad.hann_window(2).tolist()
    [0.0, 1.0]
    """
    return windows.hann(window_length, sym=not periodic, **how)


def bartlett_window(window_length: int, periodic: bool = True, *, layout: Any = None, **how: Any) -> Tensor:
    """`signal.windows.bartlett`

    >>> import rulegrad
    >>> rulegrad.bartlett_window(2).tolist()
    [0.0, 1.0]
    """
    return windows.bartlett(window_length, sym=not periodic, **how)


def blackman_window(window_length: int, periodic: bool = True, *, layout: Any = None, **how: Any) -> Tensor:
    """`signal.windows.blackman`

    >>> import rulegrad
    >>> rulegrad.blackman_window(2).round(decimals=3)[1].item()
    1.0
    """
    return windows.blackman(window_length, sym=not periodic, **how)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float | None = None,
    *,
    layout: Any = None,
    **how: Any,
) -> Tensor:
    """`alpha - beta cos(2 pi n / N)`; beta is 0.46 by default.

    >>> import rulegrad
    >>> [round(v, 2) for v in rulegrad.hamming_window(2).tolist()]
    [0.08, 1.0]
    """
    cosine = 0.46 if beta is None else beta
    return windows.general_cosine(window_length, a=[alpha, cosine], sym=not periodic, **how)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, layout: Any = None, **how: Any
) -> Tensor:
    """`signal.windows.kaiser`

    >>> import rulegrad
    >>> [round(v, 3) for v in rulegrad.kaiser_window(2, beta=2.0).tolist()]
    [0.439, 1.0]
    """
    return windows.kaiser(window_length, beta=beta, sym=not periodic, **how)
