"""Values of a long chain of equal steps: kept in memory such that every step has the kernels of the one before it.

The node is CUSTOM[name="rulegrad.kept"](value, x), the value of x, whose gradient is a rule of
rules/tensor/gradient.rules.
"""

from __future__ import annotations

from rulegrad.ir import UOp
from rulegrad.tensor.tensor import Tensor


def kept(x: Tensor) -> Tensor:
    """`x` in memory, and its gradient too: so the kernels of a step, forwards and backwards, are those of others."""
    return _with_kept_gradient(x.contiguous(), x)


def linked(x: Tensor) -> Tensor:
    """`x`, whose gradient is kept in memory here: what the later steps add to it is one value, not a sum over them."""
    return _with_kept_gradient(x, x)


def _with_kept_gradient(value: Tensor, x: Tensor) -> Tensor:
    return value._result(UOp("CUSTOM", (value.uop, x.uop), name="rulegrad.kept"), x)


def split(x: Tensor) -> list[Tensor]:
    """The parts of `x` along its first axis, each in memory: a place would be a number in the kernels of a step."""
    whole = kept(x)
    return [kept(whole[place]) for place in range(x.shape[0])]
