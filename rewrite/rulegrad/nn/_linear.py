"""Layers that multiply by matrices, and those that only look up or reshape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import NoAxesError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._module import Described, Layer
from rulegrad.tensor.axes import integers, is_list
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import of_tensors
from rulegrad.tensor.tensor import Tensor


class Identity(Layer):
    """Gives back what it is given; it takes any arguments, so it can stand in for any layer.

    >>> from rulegrad import nn
    >>> nn.Identity("anything")(Tensor([1, 2])).tolist()
    [1, 2]
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        return x


class Linear(Layer):
    """`x @ weight.T + bias`, from (…, in_features) to (…, out_features).

    weight: (out_features, in_features), bias: (out_features,), both uniform within 1 / sqrt(in_features) at first.

    >>> from rulegrad import Tensor, nn
    >>> nn.Linear(3, 2)(Tensor.ones(5, 3)).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        bound = init.inverse_root(in_features)
        self.weight = init.bounded((out_features, in_features), bound, device, dtype)
        self.bias = init.bounded((out_features,), bound, device, dtype) if bias else None
        init.settle(self, Linear)

    def reset_parameters(self) -> None:
        """Draw the first values anew. A subclass that has this method chooses the first values by it, as in PyTorch.

        >>> from rulegrad import nn
        >>> class Zeros(nn.Linear):
        ...     def reset_parameters(self):
        ...         nn.init.zeros_(self.weight)
        >>> Zeros(2, 1).weight.tolist()
        [[0.0, 0.0]]
        """
        init.redraw(self, init.inverse_root(self.in_features))

    def forward(self, x: Tensor) -> Tensor:
        return x.linear(self.weight, self.bias)


class Bilinear(Described):
    """`x1 @ weight[k] @ x2 + bias[k]` for each output k; weight: (out_features, in1_features, in2_features).

    >>> from rulegrad import nn
    >>> nn.Bilinear(2, 3, 4)(Tensor.ones(5, 2), Tensor.ones(5, 3)).shape
    (5, 4)
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes("Bilinear", 1, in1_features=in1_features)
        require_sizes("Bilinear", in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = init.inverse_root(in1_features)
        self.weight = init.bounded((out_features, in1_features, in2_features), bound, device, dtype)
        self.bias = init.bounded((out_features,), bound, device, dtype) if bias else None
        init.settle(self, Bilinear)

    def reset_parameters(self) -> None:
        """Draw the first values of the parameters anew."""
        init.redraw(self, init.inverse_root(self.in1_features))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return bilinear(first, second, self.weight, self.bias)


@of_tensors
@built_once
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k: `nn.Bilinear` as a function. Raises ShapeError.

    >>> import rulegrad.nn.functional as F
    >>> F.bilinear(Tensor([1, 2]), Tensor([3, 4]), Tensor([[[1, 0], [0, 1]]])).tolist()
    [11]
    """
    lead = input1.shape[:-1]
    if weight.ndim != 3:
        raise ShapeError(f"bilinear: a weight of shape {weight.shape}; it needs (outputs, inputs, inputs)")
    outputs, ins1, ins2 = weight.shape
    if input1.shape != (*lead, ins1) or input2.shape != (*lead, ins2):
        raise ShapeError(
            f"bilinear: the shapes {input1.shape} and {input2.shape}; they need "
            f"(…, {ins1}) and (…, {ins2}) with the same axes in front"
        )
    # (…, 1, in1) @ weight, as (…, out, in2), times (…, 1, in2)
    product = (input1 @ weight.permute(1, 0, 2).reshape(ins1, -1)).reshape(*lead, outputs, ins2)
    result = (product * input2.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


class Flatten(Layer):
    """The axes from `start_dim` to `end_dim` as one; by default all but the batch.

    >>> from rulegrad import nn
    >>> nn.Flatten()(Tensor.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Layer):
    """The axis `dim` as several of the sizes `unflattened_size`, one of which may be -1.

    >>> from rulegrad import nn
    >>> nn.Unflatten(1, (3, -1))(Tensor.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        if not is_list(unflattened_size):
            raise NoAxesError(f"Unflatten: unflattened_size={unflattened_size!r}; use a tuple of sizes")
        self.dim, self.unflattened_size = dim, integers((unflattened_size,), "Unflatten: unflattened_size")

    def forward(self, x: Tensor) -> Tensor:
        axis = self.dim % x.ndim if -x.ndim <= self.dim < x.ndim else self.dim
        return x.reshape(*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :])
