"""`torch.autograd.grad_mode`: blocks with and without gradients."""

from __future__ import annotations

from typing import Any

from rulegrad.tensor.gradient_mode import enable_grad, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


def inference_mode(mode: Any = True) -> Any:
    """`no_grad()`, or with `mode=False` `enable_grad()`, as in PyTorch; a function in its place is decorated.

    >>> import rulegrad
    >>> with rulegrad.inference_mode():
    ...     rulegrad.is_grad_enabled()
    False
    """
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()
