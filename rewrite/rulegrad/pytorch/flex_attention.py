"""`torch.nn.attention.flex_attention`: attention whose scores a function of their places changes, or leaves out.

A function is called once, with all places as tensors that broadcast. Computed as it is written: where blocks of
queries need few keys, all are computed nevertheless.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from rulegrad.errors import ShapeError
from rulegrad.ir.dtype import int64
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

#: From (score, batch, head, query, key) to a score; from the last four to whether the key is read.
ScoreMod: TypeAlias = Callable[..., Any]
MaskMod: TypeAlias = Callable[..., Any]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class BlockMask:
    """Which keys the queries read: `mask_mod`, for these sizes."""

    def __init__(self, mask_mod: MaskMod, shape: tuple[int | None, int | None, int, int], block_size: Any) -> None:
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
        self.shape = shape
        self.seq_lengths = shape[2:]

    def to(self, device: Any) -> BlockMask:
        """Itself: it has no tensors."""
        return self


class AuxRequest(NamedTuple):
    """Further results asked of `flex_attention`: the logarithm of the sum of exponentials, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results that were asked for; None for the others."""

    lse: Tensor | None
    max_scores: Tensor | None


def noop_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """All keys."""
    return (q_idx >= 0) | (kv_idx >= 0)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The keys that all of them read."""
    return lambda *places: functools.reduce(operator.and_, [one(*places) for one in mask_mods or (noop_mask,)])


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The keys that one of them reads."""
    return lambda *places: functools.reduce(operator.or_, [one(*places) for one in mask_mods or (noop_mask,)])


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,  # noqa: N803
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: Any = None,
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: N803
    _compile: bool = False,
    **more: Any,
) -> BlockMask:
    """The mask of these sizes."""
    return BlockMask(mask_mod, (B, H, Q_LEN, KV_LEN), BLOCK_SIZE)


def create_mask(
    mod_fn: MaskMod,
    B: int | None,  # noqa: N803
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: Any = None,
) -> Tensor:
    """The mask as a tensor of bools, (B, H, Q_LEN, KV_LEN).

    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 3)[0, 0].tolist()
    [[True, False, False], [True, True, False]]
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_places(shape, device)).expand(shape)  # type: ignore[no-any-return]


def _places(shape: tuple[int, ...], device: Any) -> list[Tensor]:
    """The numbers along each axis, as tensors that broadcast to the shape."""
    return [
        Tensor.arange(size, dtype=int64, device=device).reshape(*(size if k == axis else 1 for k in range(len(shape))))
        for axis, size in enumerate(shape)
    ]


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
    **more: Any,
) -> Any:
    """Attention of (batch, heads, queries, width), with `score_mod(score, batch, head, query, key)` for each score.

    A query that reads no key gets zeros. enable_gqa: several heads of queries share those of keys. return_lse: also
    the logarithm of the sum of exponentials; return_aux: also what it asks for. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> x = Tensor.ones(1, 1, 3, 2)
    >>> values = Tensor([[[[1.0], [2.0], [3.0]]]])
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 3, 3)
    >>> flex_attention(x, x, values, block_mask=causal).flatten().tolist()
    [1.0, 1.5, 2.0]
    """
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise ShapeError(
            f"flex_attention: shapes {query.shape}, {key.shape}, {value.shape}; each is batch, heads, places, width"
        )
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    places = _places(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places).cast(scores.dtype)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*places), -math.inf)
    largest = scores.amax(-1, keepdim=True).detach()
    weights = (scores - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = weights.sum(-1, keepdim=True)
    found = (weights / total.masked_fill(total == 0, 1.0)).cast(value.dtype) @ value
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return found, AuxOutput(lse, largest.squeeze(-1) if return_aux.max_scores else None)
    return (found, scores.logsumexp(-1)) if return_lse else found
