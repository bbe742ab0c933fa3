"""Attention over a sequence that is split along an axis of a mesh: keys and values go round its devices."""

from __future__ import annotations

import math
from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulegrad.distributed._mesh import Mesh, devices_along
from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor import Tensor
from rulegrad.tensor.attention import choose_attention
from rulegrad.tensor.custom_gradient import placeholder
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.placing import placed

if TYPE_CHECKING:
    from rulegrad.tensor.attention import Attention


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mesh: Mesh,
    axis: str = "sequence",
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`softmax(query @ key.T * scale) @ value` of sequences that are split along an axis of the mesh.

    Shapes: queries (…, T, E), keys (…, T, E), values (…, T, V), result (…, T, V); T is a multiple of the axis, the axes
    before it are the same. is_causal: query i sees keys 0 … i. scale: 1 / sqrt(E) by default. Each device keeps its
    part of keys and values, and sees those of the others one by one: what it has is of the length T / p, where
    `scaled_dot_product_attention` gathers T. Keys and values are sent p - 1 times to the next device, and in `backward`
    again p - 1 times, with their gradients. Sums of blocks are merged by their largest scores, so none overflows. It
    has first derivatives only. Raises ShapeError for shapes that do not fit, CommunicationError for an axis that is not
    there. Source: H. Liu, M. Zaharia, P. Abbeel, "Ring attention with blockwise transformers for near-infinite
    context", 2023.

    >>> from rulegrad.distributed import Mesh, ring_attention, shard
    >>> mesh = Mesh({"sequence": 2}, device="numpy*2")
    >>> x = Tensor.rand(4, 3)
    >>> parts = shard(x, mesh, sequence=0)
    >>> found = ring_attention(parts, parts, parts, mesh, is_causal=True)
    >>> expected = x.scaled_dot_product_attention(x, x, is_causal=True)
    >>> bool((found.to("numpy") - expected.to("numpy")).abs().max() < 1e-6)
    True
    """
    count = devices_along(mesh, axis, "ring_attention")
    _check_shapes(query, key, value, count)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    ring = _Ring(mesh, axis, count, query.shape[-2] // count, query.shape[-1], is_causal)
    queries, pairs = ring.blocks(query * factor), ring.blocks(key.cat(value, axis=-1))
    with no_grad():
        means, log_sums = ring.attend(queries, pairs)
        slope = placeholder(means, 0)
        gradients = ring.gradients(slope, queries, pairs, means, log_sums)
    graphs = (means, queries, pairs, slope, placeholder(queries, 1), placeholder(pairs, 2), *gradients)
    node = UOp("CUSTOM", tuple(graph.uop for graph in graphs), name="rulegrad.custom_gradient")
    found: Tensor = queries._result(node, pairs)
    return found.reshape(*query.shape[:-1], value.shape[-1])


class context_parallel(ContextDecorator):  # noqa: N801  (PyTorch's name)
    """Inside, `scaled_dot_product_attention` is `ring_attention` along an axis of the mesh.

    A context manager and a decorator, for the forward pass of models whose sequences are split along that axis. What
    the ring does not compute is as outside, and gathers keys and values: attention under a mask or with dropout, of
    keys that are not a sequence of the queries' shape, of a length that is not a multiple of the devices. Raises
    CommunicationError for an axis that is not there.

    >>> from rulegrad.distributed import Mesh, context_parallel, shard
    >>> mesh = Mesh({"sequence": 2}, device="numpy*2")
    >>> x = shard(Tensor.rand(4, 3), mesh, sequence=0)
    >>> with context_parallel(mesh):
    ...     x.scaled_dot_product_attention(x, x, is_causal=True).shape
    (4, 3)
    """

    def __init__(self, mesh: Mesh, axis: str = "sequence") -> None:
        self._ring = _AlongAxis(mesh, axis, devices_along(mesh, axis, "context_parallel"))
        self._before: list[Attention | None] = []

    def __enter__(self) -> context_parallel:
        self._before.append(choose_attention(self._ring))
        return self

    def __exit__(self, *_: object) -> None:
        choose_attention(self._before.pop())


@dataclass(frozen=True)
class _AlongAxis:
    """`ring_attention` on a mesh, where it has a result."""

    mesh: Mesh
    axis: str
    count: int

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
    ) -> Tensor | None:
        if not _is_sequence(query, key, value) or not query.shape[-2] or query.shape[-2] % self.count:
            return None
        return ring_attention(query, key, value, self.mesh, self.axis, is_causal=is_causal, scale=scale)


@dataclass(frozen=True)
class _Ring:
    """How a sequence lies on an axis of a mesh: `count` blocks of `length` places, keys of `width` numbers."""

    mesh: Mesh
    axis: str
    count: int
    length: int
    width: int
    is_causal: bool

    def blocks(self, x: Tensor) -> Tensor:
        """(…, T, n) as (…, count, T / count, n)."""
        return x.reshape(*x.shape[:-2], self.count, self.length, x.shape[-1])

    def scores(self, queries: Tensor, pairs: Tensor, turn: int) -> Tensor:
        """How well queries fit the keys that are `turn` devices away from home; -inf for those that they do not see."""
        scores = queries @ pairs[..., : self.width].mT
        if not self.is_causal:
            return scores
        own = placed(Tensor.arange(self.count, device=self.mesh.device), self.mesh, {self.axis: 0}).reshape(-1, 1)
        within = Tensor.arange(self.length, device=self.mesh.device)
        seen = (own - turn) % self.count * self.length + within
        return ((own * self.length + within).unsqueeze(2) >= seen.unsqueeze(1)).where(scores, -math.inf)

    def attend(self, queries: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """The means of the values, and the logarithm of the sum of the powers of each query's scores."""
        largest = total = result = None
        for turn in range(self.count):
            pairs = pairs.roll(1, -3) if turn else pairs
            scores = self.scores(queries, pairs, turn)
            # In the first block each query sees a key, its own: from there on the largest scores are finite.
            highest = scores.amax(-1, keepdim=True)
            highest = highest if largest is None else highest.maximum(largest)
            powers = (scores - highest).exp()
            sums, parts = powers.sum(-1, keepdim=True), powers @ pairs[..., self.width :]
            if largest is not None and total is not None and result is not None:
                faded = (largest - highest).exp()
                sums, parts = total * faded + sums, result * faded + parts
            largest, total, result = highest, sums, parts
        assert largest is not None and total is not None and result is not None  # an axis has a device at least
        return result / total, largest + total.log()

    def gradients(
        self, slope: Tensor, queries: Tensor, pairs: Tensor, means: Tensor, log_sums: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Those by queries, and by keys and values, where that by the means is `slope`.

        Blocks go round the other way, so that none is kept from the first time, and their gradients with them.
        """
        common = (slope * means).sum(-1, keepdim=True)
        by_queries = by_pairs = None
        away = pairs
        for turn in reversed(range(self.count)):
            away = away.roll(-1, -3) if turn else pairs
            shares = (self.scores(queries, away, turn) - log_sums).exp()
            slopes = shares * (slope @ away[..., self.width :].mT - common)
            step = slopes @ away[..., : self.width]
            own = (slopes.mT @ queries).cat(shares.mT @ slope, axis=-1)
            by_queries = step if by_queries is None else by_queries + step
            by_pairs = own if by_pairs is None else by_pairs.roll(-1, -3) + own
        assert by_queries is not None and by_pairs is not None  # an axis has a device at least
        return by_queries, by_pairs


def _is_sequence(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether keys and values are those of the queries' own places."""
    return query.ndim > 1 and key.shape == query.shape and value.shape[:-1] == query.shape[:-1]


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, count: int) -> None:
    shapes = f"queries of shape {query.shape}, keys of shape {key.shape} and values of shape {value.shape}"
    if not _is_sequence(query, key, value):
        raise ShapeError(f"ring_attention: {shapes}; they need (…, T, E), (…, T, E) and (…, T, V)")
    if query.shape[-2] % count or not query.shape[-2]:
        raise ShapeError(
            f"ring_attention: {shapes}; the sequence (axis -2) must be a multiple of the {count} devices that it is "
            "split among; pad it, or use scaled_dot_product_attention, which gathers keys and values"
        )
