"""Tensors: the front end that users type. One file a concept; `tensor.py` puts them together.

    core -> casts -> elementwise -> functions -> operators -> movement -> indexing -> joining -> creation
         -> reduce -> gathering -> inplace -> cumulative -> sorting -> sets -> advanced -> arranging -> padding
         -> einsum -> products -> convolution -> pooling -> activations -> normalization -> losses -> random
         -> attention -> autograd -> protocols -> dlpack -> matrices -> torch_views -> torch_names
         -> statistics -> inplace_functions -> inplace_combinations -> numpy_functions -> tensor

Each class adds to the one before it.
"""

from rulegrad.tensor.einops_backend import introduce
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

introduce()

__all__ = ["Tensor", "no_grad"]
