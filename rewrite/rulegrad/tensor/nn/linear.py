"""Layers that multiply by matrices, and those that only look up or reshape."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.nn import init
from rulegrad.tensor.tensor import Tensor


class Identity:
    """Gives back what it is given; it takes any arguments, so it can stand in for any layer."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Linear:
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

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight, self.bias)


class Bilinear:
    """`x1 @ weight[k] @ x2 + bias[k]` for each output k; weight: (out_features, in1_features, in2_features)."""

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

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        if first.shape != (*first.shape[:-1], self.in1_features) or second.shape != (
            *first.shape[:-1],
            self.in2_features,
        ):
            raise ShapeError(
                f"Bilinear: the shapes {first.shape} and {second.shape}; they need "
                f"(…, {self.in1_features}) and (…, {self.in2_features}) with the same axes in front"
            )
        # (…, 1, in1) @ weight, as (…, out, in2), times (…, 1, in2)
        product = first @ self.weight.permute(1, 0, 2).reshape(self.in1_features, -1)
        product = product.reshape(*first.shape[:-1], self.out_features, self.in2_features)
        result = (product * second.unsqueeze(-2)).sum(-1)
        return result if self.bias is None else result + self.bias


class Embedding:
    """A vector of `embedding_dim` numbers for each integer below `num_embeddings`: rows of `weight`.

    padding_idx: a row that is zero at first and gets no gradient. Integers out of range read the nearest row.

    >>> from rulegrad import Tensor, nn
    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else self._row(padding_idx)
        values = Tensor.randn(num_embeddings, embedding_dim, dtype=dtype, device=device)
        if self.padding_idx is not None:
            rows = Tensor.arange(num_embeddings, device=device).unsqueeze(1)
            values = (rows == self.padding_idx).where(0.0, values)
        self.weight = values.requires_grad_()

    def _row(self, padding_idx: int) -> int:
        number = whole_number(padding_idx, "Embedding padding_idx")
        if not -self.num_embeddings <= number < self.num_embeddings:
            raise ShapeError(f"Embedding: padding_idx={number} is no row of {self.num_embeddings}")
        return number % self.num_embeddings

    def __call__(self, x: Tensor) -> Tensor:
        rows = self.weight.take(x, 0)
        if self.padding_idx is None:
            return rows
        return (x == self.padding_idx).unsqueeze(-1).where(rows.detach(), rows)


class Flatten:
    """The axes from `start_dim` to `end_dim` as one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten:
    """The axis `dim` as several of the sizes `unflattened_size`, one of which may be -1."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def __call__(self, x: Tensor) -> Tensor:
        axis = self.dim % x.ndim if -x.ndim <= self.dim < x.ndim else self.dim
        return x.reshape(*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :])
