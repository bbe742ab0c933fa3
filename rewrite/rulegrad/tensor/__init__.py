"""Tensors: the front end that users type.

`core.py` is a node of the graph with its history. The functions of tensors are plain functions in modules, a family
each (`elementwise`, `reduce`, `movement`, `gathering`, `linalg`, …); their first parameter is the tensor. `tensor.py`
is the table that makes them methods of `Tensor`, with `layer_methods.py` for the methods that layers are made of, and
`special_methods.py` for Python's operators and NumPy's protocols.
"""

from rulegrad.tensor.einops_backend import introduce
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

introduce()

__all__ = ["Tensor", "no_grad"]


def __dir__() -> list[str]:
    return __all__
