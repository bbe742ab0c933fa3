"""`torch.quasirandom`: points that fill a cube evenly, I. M. Sobol's. The numbers are SciPy's, which is needed."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points from 0 up to 1 in so many dimensions; scramble: at random, by `seed`, where SciPy's numbers are others.

    Raises ConfigError where SciPy is missing, and for more dimensions than there are numbers for.

    >>> SobolEngine(2).draw(3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25]]
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ConfigError(f"SobolEngine: {dimension} dimensions; there are 1 to {self.MAXDIM}")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        try:
            qmc = importlib.import_module("scipy.stats").qmc
        except ImportError as error:
            raise ConfigError("SobolEngine: its numbers are SciPy's; pip install scipy") from error
        self._points = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, rng=seed)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, as rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(self._points.random(n))
        self.num_generated += n
        found = Tensor(values, dtype or "float32")
        return found if out is None else out.resize_(found.shape).copy_(found)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2 ** m points."""
        return self.draw(2**m, out, dtype)

    def fast_forward(self, n: int) -> Self:
        """Passes over `n` points."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def reset(self) -> Self:
        """Begins again."""
        self._points.reset()
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        return f"SobolEngine(dimension={self.dimension}, scramble={self.scramble})"
