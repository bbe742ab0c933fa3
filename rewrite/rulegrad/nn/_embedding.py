"""Vectors looked up in a table, one by one (`Embedding`) or bag by bag (`EmbeddingBag`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._module import Described
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.axes import one_axis, whole_number
from rulegrad.tensor.gathering import indices_along, taken_along
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.linalg import vector_norm
from rulegrad.tensor.operands import as_tensor, of_tensors
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.gathering import Indices

Mode = Literal["sum", "mean", "max"]


class _Table(Described):
    """Base of `Embedding` and `EmbeddingBag`: a table whose rows are looked up."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        device: str | None,
        dtype: Any,
    ) -> None:
        require_sizes(type(self).__name__, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else self._row(padding_idx)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        values = Tensor.randn(num_embeddings, embedding_dim, dtype=dtype, device=device)
        if self.padding_idx is not None:
            rows = Tensor.arange(num_embeddings, device=device).unsqueeze(1)
            values = (rows == self.padding_idx).where(0.0, values)
        self.weight = values.requires_grad_()
        init.settle(self, _Table)

    def reset_parameters(self) -> None:
        """Draw the rows anew, and set that of `padding_idx` to 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0.0

    @classmethod
    def _of(cls, embeddings: Tensor, freeze: bool, **options: Any) -> Self:
        if embeddings.ndim != 2:
            raise ShapeError(f"{cls.__name__}.from_pretrained: the shape {embeddings.shape} is not that of a matrix")
        layer = cls(embeddings.shape[0], embeddings.shape[1], **options)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def _row(self, padding_idx: int) -> int:
        number = whole_number(padding_idx, f"{type(self).__name__} padding_idx")
        if not -self.num_embeddings <= number < self.num_embeddings:
            raise ShapeError(f"{type(self).__name__}: padding_idx={number} is not a row of {self.num_embeddings}")
        return number % self.num_embeddings


class Embedding(_Table):
    """A vector of `embedding_dim` numbers for each integer below `num_embeddings`: rows of `weight`.

    padding_idx: a row that is zero at first and gets no gradient. max_norm: rows that are looked up are first scaled
    down to this norm (of order `norm_type`), in `weight` itself. scale_grad_by_freq: a row's gradient is divided by how
    often it is looked up. `sparse` changes nothing here. An integer out of range is an IndexRangeError.

    >>> from rulegrad import Tensor, nn
    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how = (padding_idx, max_norm, norm_type, scale_grad_by_freq, device, dtype)
        super().__init__(num_embeddings, embedding_dim, *how)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding with these rows (a matrix), which are not trained unless `freeze` is False. Raises ShapeError.

        >>> from rulegrad import Tensor, nn
        >>> nn.Embedding.from_pretrained(Tensor([[1.0, 2.0], [3.0, 4.0]]))(Tensor([1])).tolist()
        [[3.0, 4.0]]
        """
        options = {"padding_idx": padding_idx, "max_norm": max_norm, "norm_type": norm_type}
        return cls._of(embeddings, freeze, scale_grad_by_freq=scale_grad_by_freq, **options)

    def forward(self, x: Tensor) -> Tensor:
        how = (self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)
        return embedding(x, self.weight, *how)


class EmbeddingBag(_Table):
    """The sums, means or largest elements of the rows of `weight` that the integers of each bag name.

    Called with integers (bags, length); or with a vector of them and `offsets`, where each bag begins (the first at 0;
    with include_last_offset the last offset is the end of the last bag). per_sample_weights, for "sum": factors, of the
    integers' shape. Rows of `padding_idx` do not count; a bag without rows gives zeros. Raises ShapeError, ConfigError.

    >>> from rulegrad import Tensor, nn
    >>> bag = nn.EmbeddingBag.from_pretrained(Tensor([[1.0], [2.0], [4.0]]), mode="sum")
    >>> bag(Tensor([0, 1, 2, 2]), Tensor([0, 2])).tolist()
    [[3.0], [8.0]]
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: Mode = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how = (padding_idx, max_norm, norm_type, scale_grad_by_freq, device, dtype)
        super().__init__(num_embeddings, embedding_dim, *how)
        self.mode, self.include_last_offset = mode, include_last_offset
        if _weight is not None:
            self.weight = Parameter(_weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: Mode = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Bags of these rows (a matrix), which are not trained unless `freeze` is False. Raises ShapeError.

        >>> from rulegrad import nn
        >>> nn.EmbeddingBag.from_pretrained(Tensor([[1.0], [2.0]]))(Tensor([[0, 1]])).tolist()
        [[1.5]]
        """
        options: dict[str, Any] = {"max_norm": max_norm, "norm_type": norm_type, "mode": mode}
        options |= {"include_last_offset": include_last_offset, "padding_idx": padding_idx}
        return cls._of(embeddings, freeze, scale_grad_by_freq=scale_grad_by_freq, **options)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )


@of_tensors
def embedding(
    input: Indices,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at the integers in `input`, as `nn.Embedding` looks them up.

    >>> import rulegrad.nn.functional as F
    >>> F.embedding(Tensor([2, 0]), Tensor([[1, 2], [3, 4], [5, 6]])).tolist()
    [[5, 6], [1, 2]]
    """
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    if max_norm is None and padding_idx is None and not scale_grad_by_freq:
        return weight.embedding(input)
    indices = indices_along(weight, input, one_axis(0, weight.ndim, "embedding"), "embedding", wraps=False)
    if max_norm is not None:
        _limit_rows(indices, weight, max_norm, norm_type)
    rows = taken_along(weight, indices, 0)
    if scale_grad_by_freq:
        counts = Tensor.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device)
        counts = counts.scatter_add(0, indices.flatten(), counts.new_ones(indices.size))
        share = taken_along(counts, indices, 0).reciprocal().reshape(*indices.shape, *(1,) * (weight.ndim - 1))
        # The value of the rows, and a part of their gradient.
        rows = rows.detach() + (rows - rows.detach()) * share
    if padding_idx is None:
        return rows
    return (indices == padding_idx).unsqueeze(-1).where(rows.detach(), rows)


@of_tensors
@built_once
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: Mode = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """`nn.EmbeddingBag` as a function. Raises ShapeError and ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> F.embedding_bag(Tensor([[0, 1], [1, 1]]), Tensor([[1.0, 2.0], [3.0, 6.0]])).tolist()
    [[2.0, 4.0], [3.0, 6.0]]
    """
    _check_bags(input, weight, offsets, mode, per_sample_weights)
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = input != (-1 if padding_idx is None else padding_idx)
    least = -math.inf if mode == "max" else 0.0
    rows = counted.unsqueeze(-1).where(rows, least)
    if offsets is None:
        total = rows.max(1) if mode == "max" else rows.sum(1)
        counts = counted.sum(1)
    else:
        starts = as_tensor(weight, offsets, "embedding_bag").cast("int64")
        starts = starts[:-1] if include_last_offset else starts
        places = Tensor.arange(input.shape[0], device=weight.device)
        bags = starts.searchsorted(places, right=True) - 1
        index = bags.unsqueeze(1).expand(rows.shape)
        empty = Tensor.full((len(starts), weight.shape[1]), least, weight.dtype, weight.device)
        total = empty.scatter_reduce(0, index, rows, "amax" if mode == "max" else "sum")
        counts = starts.new_zeros(len(starts)).scatter_add(0, bags, counted.cast("int64"))
    counts = counts.unsqueeze(1)
    if mode == "mean":
        total = total / counts.maximum(1).cast(total.dtype)
    return (counts > 0).where(total, 0.0)


def _check_bags(input: Tensor, weight: Tensor, offsets: Any, mode: str, factors: Tensor | None) -> None:
    if mode not in get_args(Mode):
        raise ConfigError(f"embedding_bag: mode={mode!r}; use one of {', '.join(get_args(Mode))}")
    if factors is not None and mode != "sum":
        raise ConfigError(f"embedding_bag: per_sample_weights with mode={mode!r}; they are for mode='sum'")
    if weight.ndim != 2 or input.ndim not in (1, 2) or (input.ndim == 2) != (offsets is None):
        raise ShapeError(
            f"embedding_bag: integers of shape {input.shape} for a table of shape {weight.shape}; it needs a matrix, "
            "and (bags, length), or a vector of integers with offsets"
        )
    if factors is not None and factors.shape != input.shape:
        raise ShapeError(
            f"embedding_bag: per_sample_weights of shape {factors.shape} for integers of shape {input.shape}; they "
            "need the same shape"
        )


def _limit_rows(indices: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows at `indices` down to the norm `max_norm`, in place and without a gradient."""
    if not max_norm > 0.0 or not norm_type > 0.0:
        raise ConfigError(f"embedding: max_norm={max_norm}, norm_type={norm_type}; use numbers above 0")
    with no_grad():
        found = indices.flatten()
        rows = taken_along(weight, found, 0)
        norms = vector_norm(rows, norm_type, 1, keepdim=True)
        # PyTorch's: a hair below, so that rounding does not make the row too long again.
        scaled = (norms > max_norm).where(rows * (max_norm / (norms + 1e-7)), rows)
        weight.assign(weight.index_copy(0, found, scaled))
        weight.realize()
