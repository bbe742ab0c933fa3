"""`torch.nn.utils.rnn`: sequences of different lengths, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn._packed import PackedSequence, pack_padded_sequence, pad_packed_sequence
from rulegrad.tensor.tensor import Tensor


def pad_sequence(
    sequences: Sequence[Tensor] | Tensor,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences as one tensor (length, batch, …), or (batch, length, …), filled up where they are shorter.

    Raises ShapeError for none, and ConfigError for another side.

    >>> pad_sequence([Tensor([1, 2]), Tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    given = list(sequences)
    if not given:
        raise ShapeError("pad_sequence: there is no sequence; give at least one")
    if padding_side not in ("right", "left"):
        raise ConfigError(f'pad_sequence: padding_side={padding_side!r}; use "right" or "left"')
    longest = max(sequence.shape[0] for sequence in given)
    padded = []
    for sequence in given:
        missing = longest - sequence.shape[0]
        first = (missing, 0) if padding_side == "left" else (0, missing)
        filler = padding_value if sequence.dtype.is_inexact else int(padding_value)
        padded.append(sequence.pad([first, *[(0, 0)] * (sequence.ndim - 1)], value=filler).cast(sequence.dtype))
    return Tensor.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of these lengths again.

    >>> [one.tolist() for one in unpad_sequence(Tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)]
    [[1, 2], [3]]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [row[:count] for row, count in zip(rows, counts, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """`pack_padded_sequence` of a list of sequences.

    >>> pack_sequence([Tensor([1, 2]), Tensor([3])]).data.tolist()
    [1, 3, 2]
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences again.

    >>> [one.tolist() for one in unpack_sequence(pack_sequence([Tensor([1, 2]), Tensor([3])]))]
    [[1, 2], [3]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
