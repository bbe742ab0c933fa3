"""Layers of networks. A layer is a plain object that holds tensors; a model is any object that holds layers.

>>> from rulegrad import Tensor, nn
>>> model = nn.Sequential(nn.Linear(64, 32), Tensor.relu, nn.Linear(32, 10))
>>> len(nn.state.get_parameters(model))
4
"""

from rulegrad.tensor.nn import state
from rulegrad.tensor.nn.layers import Conv2d, Dropout, LayerNorm, Linear, Sequential

__all__ = ["Conv2d", "Dropout", "LayerNorm", "Linear", "Sequential", "state"]
