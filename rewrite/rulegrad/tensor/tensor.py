"""`Tensor`: an array whose operations build a graph, which is compiled and run when its values are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rulegrad.tensor.numpy_functions import NumpyFunctions


class Tensor(NumpyFunctions):
    """A lazy array on a device, with NumPy's operations and PyTorch's gradients.

    Operations build a graph of nodes (`.uop`); `realize`, `numpy`, `item`, `print` and the like compute it.

    >>> from rulegrad import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x.T).sum(axis=0).tolist()
    [16.0, 36.0]
    """

    __slots__ = ()

    @classmethod
    @contextmanager
    def train(cls, mode: bool = True) -> Iterator[None]:
        """Inside `with Tensor.train():` every module is in training mode, and `dropout` drops; with False, neither.

        >>> with Tensor.train(False):
        ...     Tensor([1.0, 2.0]).dropout(0.5).tolist()
        [1.0, 2.0]
        """
        before, cls.training = cls.training, mode
        try:
            yield
        finally:
            cls.training = before
