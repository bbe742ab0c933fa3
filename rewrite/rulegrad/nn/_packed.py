"""Sequences of different lengths without what fills them up: the first steps of all, the second ones, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rulegrad.errors import ShapeError
from rulegrad.tensor.tensor import Tensor

__all__ = ["PackedSequence", "pack_padded_sequence", "pad_packed_sequence"]


class PackedSequence(NamedTuple):
    """Steps below each other, the longest sequence first in each, as recurrent layers take and give them.

    data: (steps of all sequences, …). batch_sizes: how many sequences have a first step, a second one, … The indices
    are the order by length, and the one back; None where the sequences came in that order.

    >>> packed = pack_padded_sequence(Tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 3, 2], [2, 1])
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **more: Any) -> PackedSequence:
        """The same with the data on another device, or of another dtype."""
        return self._replace(data=self.data.to(*args, **more))

    def lengths(self) -> np.ndarray[Any, Any]:
        """Those of the sequences, the longest first."""
        sizes = self.batch_sizes.numpy()
        return np.asarray((sizes[:, None] > np.arange(sizes[0])).sum(0))

    def alive(self, length: int | None = None) -> np.ndarray[Any, Any]:
        """Which sequences have each step: (length, batch), the longest sequence first."""
        return _alive(length or len(self.batch_sizes), self.lengths())

    def padded(self, filler: float = 0.0, length: int | None = None) -> Tensor:
        """(length, batch, …), the longest sequence first."""
        alive = self.alive(length)
        rows = np.full(alive.shape, int(self.data.shape[0]))
        rows[alive] = np.arange(alive.sum())
        last = self.data[:1].full_like(filler)
        found: Tensor = self.data.cat(last, axis=0)[Tensor(rows, device=self.data.device)]
        return found


def _alive(length: int, lengths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.arange(length)[:, None] < lengths


def steps_of(padded: Tensor, alive: np.ndarray[Any, Any]) -> Tensor:
    """The steps that sequences have, below each other: the data of a PackedSequence."""
    of_step, of_sequence = (Tensor(places, device=padded.device) for places in np.nonzero(alive))
    return padded[of_step, of_sequence]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of sequences (length, batch, …), or (batch, length, …), that are within these lengths.

    Raises ShapeError for other lengths than one for each sequence, from 1 to that of the tensor, and for some that are
    not in falling order unless `enforce_sorted` is False.

    >>> from rulegrad import nn
    >>> x, lengths = Tensor.ones(3, 4, 5), [2, 4, 1]
    >>> packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    >>> outputs, (hidden, _) = nn.LSTM(5, 6, batch_first=True)(packed)
    >>> [one.shape for one in (outputs.data, pad_packed_sequence(outputs, batch_first=True)[0], hidden)]
    [(7, 6), (3, 4, 6), (1, 3, 6)]
    """
    steps = input.transpose(0, 1) if batch_first else input
    given = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else list(lengths), np.int64)
    if given.shape != steps.shape[1:2] or (given < 1).any() or (given > steps.shape[0]).any():
        raise ShapeError(
            f"pack_padded_sequence: the lengths {given.tolist()} of {steps.shape[1]} sequences of {steps.shape[0]} "
            "steps; give one from 1 to that for each"
        )
    order = back = None
    if not enforce_sorted:
        by_length = np.argsort(-given, kind="stable")
        given, order, back = given[by_length], Tensor(by_length), Tensor(np.argsort(by_length))
        steps = steps[:, order.to(steps.device)]
    elif (np.diff(given) > 0).any():
        raise ShapeError(
            f"pack_padded_sequence: the lengths {given.tolist()} do not fall; order them, or give enforce_sorted=False"
        )
    alive = _alive(given.max(), given)
    return PackedSequence(steps_of(steps, alive), Tensor(alive.sum(1), device="numpy"), order, back)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences in their first order, filled up to the longest, or to `total_length`, and their lengths.

    Raises ShapeError for a total length that is shorter.

    >>> packed = pack_padded_sequence(Tensor([[1, 9], [2, 3]]), [1, 2], batch_first=True, enforce_sorted=False)
    >>> [one.tolist() for one in pad_packed_sequence(packed, batch_first=True)]
    [[[1, 0], [2, 3]], [1, 2]]
    """
    if total_length is not None and total_length < len(sequence.batch_sizes):
        raise ShapeError(
            f"pad_packed_sequence: total_length={total_length}; the longest has {len(sequence.batch_sizes)} steps"
        )
    padded, lengths = sequence.padded(padding_value, total_length), Tensor(sequence.lengths(), device="numpy")
    if sequence.unsorted_indices is not None:
        padded = padded[:, sequence.unsorted_indices.to(padded.device)]
        lengths = lengths[sequence.unsorted_indices.to("numpy")]
    return (padded.transpose(0, 1) if batch_first else padded), lengths
