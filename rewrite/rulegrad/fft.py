"""Discrete Fourier transforms: `rulegrad.tensor.fft` under a short name, with NumPy's arguments and PyTorch's.

>>> import rulegrad.fft
>>> from rulegrad import Tensor
>>> rulegrad.fft.rfft(Tensor([[1.0, 1.0], [2.0, 2.0]]), dim=0).real.tolist()
[[3.0, 3.0], [-1.0, -1.0]]
"""

from rulegrad.tensor.fft import *  # noqa: F403
from rulegrad.tensor.fft import __all__ as __all__
