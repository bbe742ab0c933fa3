"""`torch._C`: what packages call of it."""

from __future__ import annotations

__all__ = ["_log_api_usage_once"]


def _log_api_usage_once(event: str) -> None:
    """Nothing: PyTorch counts here which of its parts are used."""
