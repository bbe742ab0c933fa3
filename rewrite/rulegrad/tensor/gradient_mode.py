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


class _Switch(ContextDecorator):
    """Sets the mode to `_enabled` inside, and back to what it was afterwards."""

    _enabled = True

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_mode.enabled)
        _mode.enabled = self._enabled

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._before.pop()


class enable_grad(_Switch):  # noqa: N801  (PyTorch's name)
    """Inside, results require gradients as usual, even within `no_grad`. A context manager and a decorator.

    >>> from rulegrad import Tensor, enable_grad, no_grad
    >>> weight = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     (weight * 2).requires_grad
    True
    """


class no_grad(_Switch):  # noqa: N801  (PyTorch's name)
    """Inside, results do not require gradients. A context manager and a decorator.

    >>> from rulegrad import Tensor, no_grad
    >>> weight = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad():
    ...     (weight * 2).requires_grad
    False
    """

    _enabled = False
