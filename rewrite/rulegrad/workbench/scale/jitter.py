"""Stragglers: how much later than the mean the slowest of many ranks is."""

from __future__ import annotations

import functools

import numpy as np


@functools.lru_cache(maxsize=1024)
def expected_maximum(ranks: int) -> float:
    """The expected maximum of independent standard normal values, one a rank.

    It is the integral of 1 - Φ(x)^n over x > 0, less that of Φ(x)^n over x < 0 (David and Nagaraja, "Order statistics",
    2003); about √(2 ln n) for many.

    >>> expected_maximum(1), round(expected_maximum(2), 4), round(expected_maximum(10_000), 2)
    (0.0, 0.5642, 3.85)
    """
    if ranks == 1:
        return 0.0
    x = np.linspace(-12.0, 12.0, 48_001)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    width = x[1] - x[0]
    sums = np.cumsum((density[1:] + density[:-1]) / 2 * width)
    below = np.minimum(np.concatenate([[0.0], sums]), 1.0) ** ranks
    values = np.where(x > 0, 1 - below, -below)
    values[len(x) // 2] = 0.5 - below[len(x) // 2]  # the mean of both sides at 0
    return float(values.sum() * width)


def slowdown(jitter: float, ranks: int) -> float:
    """By how much the slowest of some ranks takes longer, whose times of a step are normal.

    jitter: their standard deviation as a share of the mean.

    >>> slowdown(0.0, 1000), round(slowdown(0.02, 1000), 3)
    (1.0, 1.065)
    """
    return 1.0 + jitter * expected_maximum(ranks)
