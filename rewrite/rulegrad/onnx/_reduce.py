"""Reductions, and cumulative ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor

Reduction = Callable[[Tensor, Any, bool], Tensor]


def _extreme(name: str) -> Reduction:
    def reduce(x: Tensor, axes: Any, keep: bool) -> Tensor:
        if x.dtype == "bool":
            return (x.any if name == "max" else x.all)(axis=axes, keepdims=keep)
        if any(x.shape[axis] == 0 for axis in axes):
            sizes = [1 if a in axes else n for a, n in enumerate(x.shape) if keep or a not in axes]
            limits = np.finfo(x.dtype.numpy) if x.dtype.is_float else np.iinfo(x.dtype.numpy)
            infinite = {"max": -np.inf, "min": np.inf}[name]
            none = infinite if x.dtype.is_float else (limits.min if name == "max" else limits.max)
            return Tensor.full(sizes, none, dtype=x.dtype, device=x.device)
        return getattr(x, name)(axis=axes, keepdims=keep)  # type: ignore[no-any-return]

    return reduce


def _log_sum(x: Tensor, axes: Any, keep: bool) -> Tensor:
    return x.sum(axis=axes, keepdims=keep).log()


def _log_sum_exp(x: Tensor, axes: Any, keep: bool) -> Tensor:
    if any(x.shape[axis] == 0 for axis in axes):
        return _log_sum(x.exp(), axes, keep)
    return x.logsumexp(axis=axes, keepdims=keep)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda x, axes, keep: x.sum(axis=axes, keepdims=keep, dtype=x.dtype),
    "ReduceMean": lambda x, axes, keep: x.mean(axis=axes, keepdims=keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axis=axes, keepdims=keep, dtype=x.dtype),
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axis=axes, keepdims=keep),
    "ReduceL2": lambda x, axes, keep: x.square().sum(axis=axes, keepdims=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axis=axes, keepdims=keep),
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduction(reduce: Reduction) -> Callable[..., Any]:
    def function(
        call: Call,
        x: Tensor,
        given: Any = None,
        *,
        axes: list[int] | None = None,
        keepdims: int,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen: Any = axes if given is None else given
        if chosen is None or len(chosen) == 0:
            chosen = () if noop_with_empty_axes else range(x.ndim)
        places = tuple(int(one) % max(x.ndim, 1) for one in chosen)
        if x.ndim == 0:
            return reduce(x.reshape(1), (0,), False)
        if not places:
            # Each element on its own: the reduction of one.
            return reduce(x.reshape(*x.shape, 1), (x.ndim,), False)
        return reduce(x, places, bool(keepdims)).cast(x.dtype)

    return function


for _name, _reduce in _REDUCTIONS.items():
    op(_name, host=(1,))(_reduction(_reduce))


@op("ArgMax", "ArgMin")
def arg_extreme(call: Call, x: Tensor, *, axis: int, keepdims: int, select_last_index: int = 0) -> Tensor:
    name = "argmax" if call.node.op == "ArgMax" else "argmin"
    if not select_last_index:
        return getattr(x, name)(axis=axis, keepdims=bool(keepdims)).cast("int64")  # type: ignore[no-any-return]
    found = getattr(x.flip(axis), name)(axis=axis, keepdims=bool(keepdims))
    return (x.shape[axis] - 1 - found).cast("int64")  # type: ignore[no-any-return]


@op("CumSum", "CumProd", host=(1,))
def cumulative(call: Call, x: Tensor, axis: Any, *, exclusive: int, reverse: int) -> Tensor:
    place = int(np.reshape(axis, ())) % x.ndim
    x = x.flip(place) if reverse else x
    if exclusive:
        pads = tuple((1, 0) if one == place else (0, 0) for one in range(x.ndim))
        first = 0 if call.node.op == "CumSum" else 1
        x = x[(slice(None),) * place + (slice(0, x.shape[place] - 1),)].pad(pads, value=first)
    found = (x.cumsum if call.node.op == "CumSum" else x.cumprod)(place, dtype=x.dtype)
    return found.flip(place) if reverse else found
