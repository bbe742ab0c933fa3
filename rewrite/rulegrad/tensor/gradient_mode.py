"""Whether operations on tensors with gradients are recorded: `with no_grad(): ...` switches it off."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


def gradients_enabled() -> bool:
    """False inside `no_grad` (of this thread)."""
    return _mode.enabled


class no_grad(ContextDecorator):  # noqa: N801  (PyTorch's name)
    """Inside, results do not require gradients. A context manager and a decorator.

    >>> from rulegrad import Tensor, no_grad
    >>> weight = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad():
    ...     (weight * 2).requires_grad
    False
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_mode.enabled)
        _mode.enabled = False

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._before.pop()
