"""What the tests of sizes that vary have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad import Tensor

Array = np.ndarray[Any, Any]
noise = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return noise.standard_normal(shape).astype(np.float32)


def tensor(array: Array, device: str = "c") -> Tensor:
    return Tensor(array, device=device)
