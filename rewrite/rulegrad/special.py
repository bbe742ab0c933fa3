"""Special functions: `rulegrad.tensor.special` under a short name, with the names of `torch.special`.

>>> import rulegrad.special
>>> from rulegrad import Tensor
>>> rulegrad.special.ndtr(Tensor([0.0])).tolist()
[0.5]
"""

from rulegrad.tensor.special import *  # noqa: F403
from rulegrad.tensor.special import __all__ as __all__
