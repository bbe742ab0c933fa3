"""Linear algebra: `rulegrad.tensor.linalg` under a short name.

>>> import rulegrad.linalg
>>> from rulegrad import Tensor
>>> rulegrad.linalg.det(Tensor([[2.0, 0.0], [0.0, 3.0]])).item()
6.0
"""

from rulegrad.tensor.linalg import *  # noqa: F403
from rulegrad.tensor.linalg import __all__ as __all__
