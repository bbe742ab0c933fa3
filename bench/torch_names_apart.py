"""Names of bench/torch_names.py whose results are not compared value by value, and how they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# What is drawn from a generator: rulegrad's numbers are not PyTorch's.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip

# Memory whose contents nobody has written yet.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

Compare = Callable[[Sequence[Any], Sequence[Any], Any], "str | None"]
FACTORS: dict[str, Compare] = {}
