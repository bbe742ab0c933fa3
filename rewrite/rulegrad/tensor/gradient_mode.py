"""Whether operations on tensors with gradients are recorded: `with no_grad(): ...` switches it off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from rulegrad._core import enable_gradients, gradients_enabled

F = TypeVar("F", bound=Callable[..., Any])


__all__ = ["enable_grad", "gradients_enabled", "no_grad", "set_grad_enabled"]


class _Switch(ContextDecorator):
    """Sets the mode to `_enabled` inside, and back to what it was afterwards."""

    _enabled = True

    def __new__(cls, function: Any = None) -> Any:
        """The switch; given a function, the function with the switch around it: `@no_grad` is `@no_grad()`."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(enable_gradients(self._enabled))

    def __exit__(self, *_: object) -> None:
        enable_gradients(self._before.pop())


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


class set_grad_enabled:  # noqa: N801  (PyTorch's name)
    """`enable_grad` or `no_grad`, by a bool: from now on, and as a context manager until its end.

    >>> import rulegrad
    >>> with rulegrad.set_grad_enabled(False):
    ...     rulegrad.is_grad_enabled()
    False
    >>> rulegrad.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self._before = enable_gradients(self._mode)

    def __call__(self, function: F) -> F:
        """As a decorator it changes nothing but the function."""
        enable_gradients(self._before)
        decorated: F = (enable_grad() if self._mode else no_grad())(function)
        return decorated

    def __enter__(self) -> None:
        enable_gradients(self._mode)

    def __exit__(self, *_: object) -> None:
        enable_gradients(self._before)
