"""`torch.autograd.forward_ad`: there are no dual tensors here; `func.jvp` gives derivatives along a direction."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from rulegrad.errors import GradientError
from rulegrad.tensor.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor, and the derivative that it carries, which is None."""

    primal: Tensor
    tangent: None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor, and None: packages ask whether it carries a derivative.

    >>> unpack_dual(Tensor([1.0, 2.0])).tangent is None
    True
    """
    return UnpackedDualTensor(tensor, None)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> NoReturn:
    """Not supported. Raises GradientError, which says what to use."""
    raise GradientError("forward_ad: there are no dual tensors; use rulegrad.func.jvp(function, values, tangents)")


def dual_level() -> NoReturn:
    """Not supported. Raises GradientError, which says what to use."""
    make_dual(None, None)
