"""Matrices of few bits a number: in memory as files have them, made floats again where they are multiplied.

The formats are those of llama.cpp (ggml-common.h): rows are cut into blocks of 32 or 256 numbers, and each block has
integers, a factor, and in some formats a smallest value. A product reads the integers: the floats are an expression in
its kernel, and no matrix of them is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.nn._linear import Linear
from rulegrad.nn._module import Described
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.tensor import Tensor

_Array = np.ndarray[Any, Any]
_Parts = dict[str, Any]


class Format(NamedTuple):
    """How a block of numbers is stored."""

    numbers: int  # in a block; 0: a row is one, and no file has it
    nbytes: int
    take: Callable[[_Array], _Parts]  # from the bytes, (…, nbytes), to arrays
    floats: Callable[..., Tensor]  # from tensors of these, by name, to the numbers, (…, numbers)


def _factor(blocks: _Array, place: int) -> _Array:
    """The half at a place of each block, as float32: processors convert halves slowly, and one serves many numbers."""
    return np.ascontiguousarray(blocks[..., place : place + 2]).view(np.float16).astype(np.float32)


def _plane(blocks: _Array, begin: int, end: int, dtype: Any = np.uint8) -> _Array:
    return np.ascontiguousarray(blocks[..., begin:end]).view(dtype)


def _nibbles(packed: Tensor) -> Tensor:
    """(…, n) bytes as (…, 2, n) numbers: the low halves of all, then the high ones."""
    return Tensor.stack([packed & 15, packed >> 4], -2)


def _rows(values: Tensor) -> Tensor:
    """(rows, blocks, …) as (rows, numbers)."""
    return values.reshape(values.shape[0], -1)


def _take_q4_0(blocks: _Array) -> _Parts:
    return {"factor": _factor(blocks, 0), "packed": _plane(blocks, 2, 18)}


@built_once
def _floats_q4_0(factor: Tensor, packed: Tensor) -> Tensor:
    return _rows((_nibbles(packed).cast("float32") - 8.0) * factor.unsqueeze(-1))


def _take_q4_1(blocks: _Array) -> _Parts:
    return {"factor": _factor(blocks, 0), "smallest": _factor(blocks, 2), "packed": _plane(blocks, 4, 20)}


@built_once
def _floats_q4_1(factor: Tensor, smallest: Tensor, packed: Tensor) -> Tensor:
    numbers = _nibbles(packed).cast("float32")
    return _rows(numbers * factor.unsqueeze(-1) + smallest.unsqueeze(-1))


def _take_q8_0(blocks: _Array) -> _Parts:
    return {"factor": _factor(blocks, 0), "integers": _plane(blocks, 2, 34, np.int8)}


@built_once
def _floats_q8_0(factor: Tensor, integers: Tensor) -> Tensor:
    return _rows(integers.cast("float32") * factor)


def _take_q4_k(blocks: _Array) -> _Parts:
    """256 numbers: eight parts of 32, each with a factor and a smallest value of six bits, by two halves."""
    scales = blocks[..., 4:16].astype(np.uint8)
    low, high, rest = scales[..., :4], scales[..., 4:8], scales[..., 8:]
    factors = np.concatenate([low & 63, (rest & 15) | (low >> 6 << 4)], -1)
    smallest = np.concatenate([high & 63, (rest >> 4) | (high >> 6 << 4)], -1)
    return {
        "factor": (_factor(blocks, 0) * factors).reshape(*blocks.shape[:-1], 4, 2),
        "smallest": (_factor(blocks, 2) * -1.0 * smallest).reshape(*blocks.shape[:-1], 4, 2),
        "packed": _plane(blocks, 16, 144).reshape(*blocks.shape[:-1], 4, 32),
    }


def _take_q6_k(blocks: _Array) -> _Parts:
    """256 numbers in two halves of four parts of 32: four bits and two bits apart, a factor for each 16."""
    shape = blocks.shape[:-1]
    factors = _plane(blocks, 192, 208, np.int8).astype(np.float32) * _factor(blocks, 208)
    return {
        "factor": factors.reshape(*shape, 2, 4, 2, 1),
        "low": _plane(blocks, 0, 128).reshape(*shape, 2, 2, 32),
        "high": _plane(blocks, 128, 192).reshape(*shape, 2, 1, 32),
    }


@built_once
def _floats_q6_k(factor: Tensor, low: Tensor, high: Tensor) -> Tensor:
    lower = Tensor.cat([(low & 15), (low >> 4)], -2)
    upper = Tensor.cat([(high >> shift) & 3 for shift in (0, 2, 4, 6)], -2)
    numbers = (lower | (upper << 4)).cast("float32") - 32.0
    return _rows(numbers.reshape(*numbers.shape[:-1], 2, 16) * factor)


@built_once
def _floats_int8(factor: Tensor, integers: Tensor) -> Tensor:
    numbers: Tensor = integers.cast("float32") * factor
    return numbers


FORMATS: Final[dict[str, Format]] = {
    "int8": Format(0, 0, dict, _floats_int8),
    "q4_0": Format(32, 18, _take_q4_0, _floats_q4_0),
    "q4_1": Format(32, 20, _take_q4_1, _floats_q4_1),
    "q8_0": Format(32, 34, _take_q8_0, _floats_q8_0),
    "q4_k": Format(256, 144, _take_q4_k, _floats_q4_1),
    "q6_k": Format(256, 210, _take_q6_k, _floats_q6_k),
}


def _format(name: str) -> Format:
    found = FORMATS.get(name)
    if found is None:
        raise DtypeError(f"there is no format {name!r} of quantized numbers; choose from {', '.join(FORMATS)}")
    return found


def _divided(values: _Array, factor: _Array) -> _Array:
    """0 where the factor is."""
    return np.divide(values, factor, out=np.zeros_like(values), where=factor != 0)


def _packed(integers: _Array) -> _Array:
    """(…, 32) integers below 16 as (…, 16) bytes."""
    packed: _Array = integers[..., :16] | integers[..., 16:] << 4
    return packed.astype(np.uint8)


def _round_q8_0(values: _Array) -> _Parts:
    factor = np.abs(values).max(-1, keepdims=True) / np.float32(127)
    return {"factor": factor, "integers": np.rint(_divided(values, factor)).astype(np.int8)}


def _round_q4_0(values: _Array) -> _Parts:
    """-8 stands for the number of largest magnitude, so that this one is exact."""
    largest = np.take_along_axis(values, np.abs(values).argmax(-1)[..., None], -1)
    factor = largest / np.float32(-8)
    integers = np.clip(np.floor(_divided(values, factor) + 8.5), 0, 15).astype(np.uint8)
    return {"factor": factor, "packed": _packed(integers)}


def _round_q4_1(values: _Array) -> _Parts:
    smallest = values.min(-1, keepdims=True)
    factor = (values.max(-1, keepdims=True) - smallest) / np.float32(15)
    integers = np.rint(_divided(values - smallest, factor)).astype(np.uint8)
    return {"factor": factor, "smallest": smallest, "packed": _packed(integers)}


#: From float32 (rows, blocks, numbers of a block) to the parts of a matrix.
ROUNDED: Final[dict[str, Callable[[_Array], _Parts]]] = {
    "int8": lambda values: {name: part[:, 0] for name, part in _round_q8_0(values).items()},
    "q8_0": _round_q8_0,
    "q4_0": _round_q4_0,
    "q4_1": _round_q4_1,
}


class QuantizedMatrix(Described):
    """A matrix (rows, columns) of few bits a number. It is not trained: no gradient flows to it.

    >>> from rulegrad import Tensor, nn
    >>> matrix = nn.QuantizedMatrix.of(Tensor.arange(64).reshape(2, 32).cast("float32"), "q8_0")
    >>> matrix.shape, matrix.nbytes, bool((matrix.floats()[0] - Tensor.arange(32)).abs().max().item() < 0.2)
    ((2, 32), 72, True)
    """

    def __init__(self, format: str, shape: Sequence[int], parts: _Parts) -> None:
        self.format, self.shape = format, tuple(shape)
        for name, part in parts.items():
            self.register_buffer(name, part if isinstance(part, Tensor) else Tensor(part))
        self._names = tuple(parts)

    @classmethod
    def from_bytes(cls, data: _Array, format: str, shape: Sequence[int], device: str | None = None) -> QuantizedMatrix:
        """A matrix of a file's bytes. Raises DtypeError for an unknown format, ShapeError for another size."""
        found = _format(format)
        rows, columns = shape
        if not found.numbers:
            raise DtypeError(f"{format!r} is not a format of files; choose from {', '.join(FORMATS)}")
        if columns % found.numbers or len(data) * found.numbers != rows * columns * found.nbytes:
            raise ShapeError(f"{len(data)} bytes are not a matrix {tuple(shape)} in {format}")
        blocks = data.reshape(rows, columns // found.numbers, found.nbytes)
        return cls(format, shape, {name: Tensor(part, device=device) for name, part in found.take(blocks).items()})

    @classmethod
    def of(cls, matrix: Tensor, format: str = "q8_0") -> QuantizedMatrix:
        """The numbers of a float matrix (rows, columns), rounded to "int8", "q8_0", "q4_0" or "q4_1".

        The largest error is half a step: 1/254 of the largest magnitude of a row for "int8", of its 32 neighbours in a
        row for "q8_0", 1/16 for "q4_0", 1/30 of the range for "q4_1". Rows have whole blocks of 32 numbers, but for
        "int8". Raises DtypeError and ShapeError.
        """
        rounded = ROUNDED.get(format)
        if rounded is None:
            raise DtypeError(f"quantization: numbers are not rounded to {format!r}; choose from {', '.join(ROUNDED)}")
        block = FORMATS[format].numbers or matrix.shape[-1]
        if matrix.ndim != 2 or not matrix.size or matrix.shape[1] % block:
            raise ShapeError(
                f"quantization: a matrix of shape {matrix.shape} has no rows of whole blocks of {block} numbers"
            )
        values = matrix.detach().cast("float32").numpy().reshape(matrix.shape[0], -1, block)
        parts = {name: Tensor(part, device=matrix.device) for name, part in rounded(values).items()}
        return cls(format, matrix.shape, parts)

    def floats(self) -> Tensor:
        """The numbers as float32, which wait: a product takes them into its kernel.

        >>> from rulegrad import Tensor, nn
        >>> nn.QuantizedMatrix.of(Tensor.ones(1, 32), "q4_1").floats().sum().item()
        32.0
        """
        return _format(self.format).floats(**{name: getattr(self, name) for name in self._names})

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by number, as float32: what an embedding looks up. An integer out of range is an IndexRangeError."""
        flat = numbers.reshape(-1)
        picked = {name: getattr(self, name)[flat] for name in self._names}
        return _format(self.format).floats(**picked).reshape(*numbers.shape, self.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(getattr(self, name).nbytes for name in self._names)


class QuantizedLinear(Described):
    """`x @ weight.T + bias`, from (…, columns) to (…, rows), by a matrix of few bits a number.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.QuantizedLinear.of(nn.Linear(64, 8))
    >>> layer(Tensor.ones(3, 64)).shape, layer.weight.format
    ((3, 8), 'q8_0')
    """

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    @classmethod
    def of(cls, layer: Linear, format: str = "q8_0") -> QuantizedLinear:
        """A layer with the numbers of another one, rounded."""
        return cls(QuantizedMatrix.of(layer.weight, format), None if layer.bias is None else layer.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.floats(), self.bias)
