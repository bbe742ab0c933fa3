"""Layers that multiply by matrices, and those that only look up or reshape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn.module import Described, Layer
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.axes import one_axis, whole_number
from rulegrad.tensor.gradient_mode import no_grad
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
        dtype: Any = "float32",
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        bound = init.inverse_root(in_features)
        self.weight = init.bounded((out_features, in_features), bound, device, dtype)
        self.bias = init.bounded((out_features,), bound, device, dtype) if bias else None

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
        dtype: Any = "float32",
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = init.inverse_root(in1_features)
        self.weight = init.bounded((out_features, in1_features, in2_features), bound, device, dtype)
        self.bias = init.bounded((out_features,), bound, device, dtype) if bias else None

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return bilinear(first, second, self.weight, self.bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k: `nn.Bilinear` as a function. Raises ShapeError.

    >>> import rulegrad.nn.functional as F
    >>> F.bilinear(Tensor([1, 2]), Tensor([3, 4]), Tensor([[[1, 0], [0, 1]]])).tolist()
    [11]
    """
    lead = input1.shape[:-1]
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


class Embedding(Layer):
    """A vector of `embedding_dim` numbers for each integer below `num_embeddings`: rows of `weight`.

    padding_idx: a row that is zero at first and gets no gradient. max_norm: rows that are looked up are first scaled
    down to this norm (of order `norm_type`), in `weight` itself. Integers out of range read the nearest row.

    >>> from rulegrad import Tensor, nn
    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else self._row(padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        values = Tensor.randn(num_embeddings, embedding_dim, dtype=dtype, device=device)
        if self.padding_idx is not None:
            rows = Tensor.arange(num_embeddings, device=device).unsqueeze(1)
            values = (rows == self.padding_idx).where(0.0, values)
        self.weight = values.requires_grad_()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Embedding:
        """An embedding with these rows (a matrix), which are not trained unless `freeze` is False. Raises ShapeError.

        >>> from rulegrad import Tensor, nn
        >>> nn.Embedding.from_pretrained(Tensor([[1.0, 2.0], [3.0, 4.0]]))(Tensor([1])).tolist()
        [[3.0, 4.0]]
        """
        if embeddings.ndim != 2:
            raise ShapeError(f"Embedding.from_pretrained: the shape {embeddings.shape} is not that of a matrix")
        layer = cls(embeddings.shape[0], embeddings.shape[1], padding_idx, max_norm, norm_type)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def _row(self, padding_idx: int) -> int:
        number = whole_number(padding_idx, "Embedding padding_idx")
        if not -self.num_embeddings <= number < self.num_embeddings:
            raise ShapeError(f"Embedding: padding_idx={number} is no row of {self.num_embeddings}")
        return number % self.num_embeddings

    def forward(self, x: Tensor) -> Tensor:
        return looked_up(x, self.weight, self.padding_idx, self.max_norm, self.norm_type)


def looked_up(
    indices: Tensor, weight: Tensor, padding_idx: int | None, max_norm: float | None, norm_type: float
) -> Tensor:
    """The rows of `weight`; that of `padding_idx` gets no gradient. With `max_norm` they are scaled down first."""
    indices = weight._places_along(indices, one_axis(0, weight.ndim, "embedding"), "embedding", wraps=False)
    if max_norm is not None:
        _limit_rows(indices, weight, max_norm, norm_type)
    rows = weight._at(indices, 0)
    if padding_idx is None:
        return rows
    return (indices == padding_idx).unsqueeze(-1).where(rows.detach(), rows)


def _limit_rows(indices: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows at `indices` down to the norm `max_norm`, in place and without a gradient."""
    if not max_norm > 0.0 or not norm_type > 0.0:
        raise ConfigError(f"embedding: max_norm={max_norm}, norm_type={norm_type}; use numbers above 0")
    with no_grad():
        found = indices.flatten()
        rows = weight._at(found, 0)
        norms = rows.abs().max(1, keepdims=True) if norm_type == math.inf else _norm(rows, norm_type)
        # PyTorch's: a hair below, so that rounding does not make the row too long again.
        scaled = (norms > max_norm).where(rows * (max_norm / (norms + 1e-7)), rows)
        weight.assign(weight.index_copy(0, found, scaled))
        weight.realize()


def _norm(rows: Tensor, order: float) -> Tensor:
    if order == 2.0:
        return rows.square().sum(1, keepdims=True).sqrt()
    return (rows.abs() ** order).sum(1, keepdims=True) ** (1.0 / order)


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

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        axis = self.dim % x.ndim if -x.ndim <= self.dim < x.ndim else self.dim
        return x.reshape(*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :])
