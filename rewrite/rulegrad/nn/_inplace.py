"""The argument `inplace` of activations and dropout."""

from __future__ import annotations

from rulegrad.tensor.inplace import become
from rulegrad.tensor.tensor import Tensor


def in_its_place(result: Tensor, input: Tensor, inplace: bool) -> Tensor:
    """The result; with `inplace` it is the input, which has the result's values from now on, as in PyTorch.

    Raises GradientError for a leaf that requires a gradient.
    """
    return become(input, result, "inplace=True") if inplace and result is not input else result
