"""`torch.utils.dlpack`: tensors of other libraries."""

from __future__ import annotations

from typing import Any

from rulegrad.array_api import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """A capsule of the tensor's values."""
    return tensor.__dlpack__()
