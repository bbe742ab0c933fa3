"""The loss of connectionist temporal classification (Graves, Fernández, Gomez and Schmidhuber 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.nn._steps import kept, split
from rulegrad.tensor.losses import Reduction
from rulegrad.tensor.operands import of_tensors
from rulegrad.tensor.tensor import Tensor

#: The logarithm of a probability of 0. Numbers this small add up without becoming infinite, so no gradient is nan.
_NEVER = -1e30


@of_tensors
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of `targets`, over all ways to stretch them, with blanks between, to the inputs.

    log_probs: (time, batch, classes), or (time, classes), such as `log_softmax` gives. targets: integers other than
    `blank`, (batch, longest target), or all targets one after the other. The lengths, one for each sequence, are read
    at once: a list, an array or a tensor. "mean" divides each loss by the length of its target (at least 1) first. A
    target that does not fit has an infinite loss, with a gradient of 0, or with `zero_infinity` a loss of 0. In
    float32 at least. Raises ShapeError, DtypeError, ConfigError.

    >>> from rulegrad import Tensor
    >>> import rulegrad.nn.functional as F
    >>> scores = Tensor.zeros(2, 1, 2).log_softmax(-1)
    >>> round(F.ctc_loss(scores, Tensor([[1]]), [2], [1]).item(), 4)  # three ways of four: 1 1, 1 -, - 1
    0.2877
    """
    if log_probs.ndim == 2:
        one = ctc_loss(
            log_probs.unsqueeze(1),
            targets.reshape(1, -1),
            np.reshape(input_lengths, -1),
            np.reshape(target_lengths, -1),
            blank,
            reduction,
            zero_infinity,
        )
        return one.reshape(()) if reduction == "none" else one
    _check(log_probs, targets, blank, reduction)
    time, batch, _ = log_probs.shape
    sizes = _lengths("input_lengths", input_lengths, batch, time)
    wanted = _lengths("target_lengths", target_lengths, batch, None)
    labels = _rows(targets, wanted)
    losses = _losses(
        log_probs if log_probs.dtype == "float64" else log_probs.cast("float32"), labels, sizes, wanted, blank
    )
    hopeless = losses > -_NEVER / 10.0
    losses = hopeless.where(0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return (losses / Tensor(np.maximum(wanted, 1), device=losses.device).cast(losses.dtype)).mean()
    return losses.sum() if reduction == "sum" else losses


def _check(log_probs: Tensor, targets: Tensor, blank: int, reduction: str) -> None:
    if log_probs.ndim != 3 or not log_probs.size:
        raise ShapeError(f"ctc_loss: log_probs of shape {log_probs.shape}; it needs (time, batch, classes), none empty")
    if not log_probs.dtype.is_float:
        raise DtypeError(f"ctc_loss: log_probs are {log_probs.dtype}; give logarithms of probabilities, as floats")
    if targets.dtype.kind not in ("int", "uint"):
        raise DtypeError(f"ctc_loss: the targets are {targets.dtype}; cast them to an integer dtype")
    if not 0 <= blank < log_probs.shape[2]:
        raise ConfigError(f"ctc_loss: blank={blank} is none of the {log_probs.shape[2]} classes")
    if reduction not in ("mean", "sum", "none"):
        raise ConfigError(f"ctc_loss: reduction={reduction!r}; use mean, sum or none")


def _lengths(name: str, given: Any, batch: int, most: int | None) -> Any:
    found = np.asarray(given)
    if found.shape != (batch,) or found.dtype.kind not in "iu":
        raise ShapeError(f"ctc_loss: {name} of shape {found.shape} and dtype {found.dtype}; give {batch} integers")
    if found.min() < 0 or (most is not None and found.max() > most):
        raise ShapeError(
            f"ctc_loss: {name}={found.tolist()}; use numbers from 0 to {'the targets' if most is None else most}"
        )
    return found.astype(np.int64)


def _rows(targets: Tensor, wanted: Any) -> Tensor:
    """The targets as rows (batch, longest); what is behind a target's end is never read."""
    if targets.ndim == 2:
        if targets.shape[0] != len(wanted) or targets.shape[1] < wanted.max():
            raise ShapeError(f"ctc_loss: targets of shape {targets.shape} for target_lengths={wanted.tolist()}")
        return targets
    if targets.ndim != 1 or targets.shape[0] != wanted.sum():
        raise ShapeError(
            f"ctc_loss: targets of shape {targets.shape} for target_lengths={wanted.tolist()}, one after the other"
        )
    places = (np.cumsum(wanted) - wanted)[:, None] + np.arange(int(wanted.max()))
    if not targets.size:
        return targets.reshape(len(wanted), 0)
    return targets.take(Tensor(np.minimum(places, targets.shape[0] - 1), device=targets.device), 0)


def _losses(log_probs: Tensor, labels: Tensor, sizes: Any, wanted: Any, blank: int) -> Tensor:
    """One for each sequence, by the forward variables of the paper's equations 6 and 7."""
    batch, device = log_probs.shape[1], log_probs.device
    count = 2 * labels.shape[1] + 1
    # blank, label, blank, label, …, blank
    labels = labels.cast("int64")
    between = labels.unsqueeze(-1).pad([(0, 0), (0, 0), (0, 1)], value=blank).reshape(batch, -1)
    symbols = between.pad([(0, 0), (1, 0)], value=blank)
    # A label follows the label before it with no blank between where they differ.
    skips = (symbols != symbols.pad([(0, 0), (2, 0)], value=blank)[:, :count]) & (symbols != blank)
    skips = (skips & (Tensor.arange(count, device=device) > 1)).contiguous()
    there = symbols.unsqueeze(0).expand(log_probs.shape[0], batch, count)
    emitted = split(log_probs.gather(2, there).maximum(_NEVER))
    begin = (Tensor.arange(count, device=device) < 2).where(emitted[0], _NEVER)
    forward = kept((Tensor(sizes > 0, device=device).unsqueeze(1)).where(begin, _first(batch, count, log_probs)))
    for time in range(1, len(emitted)):
        moved = _sum_of_logarithms(forward, _shifted(forward, 1), skips.where(_shifted(forward, 2), _NEVER))
        active = Tensor((time < sizes)[:, None], device=device)
        forward = kept(active.where(moved + emitted[time], forward))
    ends = np.stack([2 * wanted, np.maximum(2 * wanted - 1, 0)], 1)
    last = forward.gather(1, Tensor(ends, device=device))
    only = Tensor((wanted > 0)[:, None] | np.array([True, False]), device=device)
    last = only.where(last, _NEVER)
    return -_sum_of_logarithms(last[:, 0], last[:, 1])


def _first(batch: int, count: int, like: Tensor) -> Tensor:
    """Before the first input nothing is emitted, which is the empty target's whole way."""
    row = np.full((batch, count), _NEVER)
    row[:, 0] = 0.0
    return Tensor(row, dtype=like.dtype, device=like.device)


def _shifted(forward: Tensor, by: int) -> Tensor:
    return forward.pad([(0, 0), (by, 0)], value=_NEVER)[:, : forward.shape[1]]


def _sum_of_logarithms(first: Tensor, *others: Tensor) -> Tensor:
    """log(exp(first) + …), where no number is infinite."""
    largest = first.detach()
    for other in others:
        largest = largest.maximum(other.detach())
    total = (first - largest).exp()
    for other in others:
        total = total + (other - largest).exp()
    return total.log() + largest
