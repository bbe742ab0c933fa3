"""Utility functions: all, any, diff."""

from __future__ import annotations

from rulegrad.tensor import Tensor

from .operands import of_arrays

__all__ = ["all", "any", "diff"]


all = of_arrays(Tensor.all, "axis * keepdims")
any = of_arrays(Tensor.any, "axis * keepdims")
diff = of_arrays(Tensor.diff, "n axis * prepend append")
