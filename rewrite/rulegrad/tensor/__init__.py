"""Tensors: the front end that users type.

`core.py` is a node of the graph with its history. The functions of tensors are plain functions in modules, a family
each (`elementwise`, `reduce`, `movement`, `gathering`, `linalg`, …); their first parameter is the tensor. `tensor.py`
is the table that makes them methods of `Tensor`, `special_methods.py` that of Python's operators and NumPy's protocols.
"""

import sys
from types import ModuleType
from typing import Any

from rulegrad.tensor.einops_backend import introduce
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

introduce()


class _CallableModule(ModuleType):
    """This package is called as PyTorch's function of its name: `rulegrad.tensor([1.0, 2.0])`."""

    def __call__(self, data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
        """`Tensor(data)`.

        >>> import rulegrad
        >>> rulegrad.tensor([1.0, 2.0], dtype=rulegrad.float64).dtype == "float64"
        True
        """
        return Tensor(data, dtype, device, requires_grad)


sys.modules[__name__].__class__ = _CallableModule

__all__ = ["Tensor", "no_grad"]


def __dir__() -> list[str]:
    return __all__
