"""`torch.nn.attention`: names of PyTorch's kernels for attention. The compiler chooses the kernels here."""

from __future__ import annotations

from enum import Enum

from rulegrad.pytorch.backends import sdp_kernel

__all__ = ["SDPBackend", "sdpa_kernel"]

sdpa_kernel = sdp_kernel


class SDPBackend(Enum):
    """PyTorch's kernels for attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
