"""Models in GGUF files, llama.cpp's: read when they are asked for, in the bits that they are stored in.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (a header of named values, then of tensors, the data).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from rulegrad.errors import DtypeError, FileError, FileMissingError
from rulegrad.ir.dtype import as_dtype
from rulegrad.nn._file_parts import read_part, state_of
from rulegrad.nn._quantized import FORMATS, QuantizedMatrix
from rulegrad.tensor.tensor import Tensor

__all__ = ["GGUFFile", "open_gguf"]


def __dir__() -> list[str]:
    return __all__


_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST = 1 << 27  # values in an array, bytes in a text: files say how many follow, and damaged ones say anything
_TEXT, _ARRAY = 8, 9
_VALUES: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_DTYPES: Final = {
    0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64", 30: "bfloat16",
}  # fmt: skip
_QUANTIZED: Final = {2: "q4_0", 3: "q4_1", 8: "q8_0", 12: "q4_k", 14: "q6_k"}
_NAMES: Final = {**_DTYPES, **_QUANTIZED}


class _Entry(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    offset: int


class GGUFFile(Mapping[str, Tensor | QuantizedMatrix]):
    """The tensors of a file by name; each is read when it is asked for, and only then.

    Matrices of few bits a number are QuantizedMatrix, others tensors. metadata: the file's values by name: numbers,
    texts, lists. A shape is in the order of rows and columns, which a file has the other way round.
    """

    def __init__(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        self.path, self.device = Path(path), device
        self.metadata: dict[str, Any] = {}
        self._entries: dict[str, _Entry] = {}
        try:
            with self.path.open("rb") as file:
                self._state = state_of(file)
                _Reader(file, self).read()
        except FileNotFoundError:
            raise FileMissingError(f"{self.path} cannot be read: there is no such file") from None
        except OSError as error:
            raise FileError(f"{self.path} cannot be read: {error}") from None

    def __getitem__(self, name: str) -> Tensor | QuantizedMatrix:
        entry = self._entries[name]
        if entry.kind in _QUANTIZED:
            shape = entry.shape if len(entry.shape) == 2 else (math.prod(entry.shape[:-1]), entry.shape[-1])
            return QuantizedMatrix.from_bytes(self._bytes(entry), _QUANTIZED[entry.kind], shape, self.device)
        dtype = _DTYPES.get(entry.kind)
        if dtype is None:
            raise DtypeError(f"{self.path}: {name} is in format {entry.kind} of ggml, which is not read here")
        values = self._bytes(entry).view(as_dtype(dtype).numpy).reshape(entry.shape)
        return Tensor(values, device=self.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"GGUFFile({str(self.path)!r}, {len(self)} tensors)"

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; no data are read."""
        return self._entries[name].shape

    def format(self, name: str) -> str:
        """The dtype or the format of a tensor: "float32", "q4_1", …; no data are read."""
        kind = self._entries[name].kind
        return _NAMES.get(kind, f"ggml {kind}")

    def _bytes(self, entry: _Entry) -> np.ndarray[Any, Any]:
        return read_part(self.path, self._state, entry.offset, _nbytes(entry))


def _nbytes(entry: _Entry) -> int:
    if entry.kind in _QUANTIZED:
        found = FORMATS[_QUANTIZED[entry.kind]]
        return math.prod(entry.shape) // found.numbers * found.nbytes
    return math.prod(entry.shape) * as_dtype(_DTYPES[entry.kind]).itemsize


class _Reader:
    """Reads the header of a file. Everything that it says is checked: FileError."""

    def __init__(self, file: BinaryIO, found: GGUFFile) -> None:
        self._data = memoryview(file.read(min(64, found._state[2])))
        self._file, self._found, self._at, self._size = file, found, 0, found._state[2]

    def read(self) -> None:
        if bytes(self._data[:4]) != _MAGIC:
            raise FileError(f"{self._found.path} is not a GGUF file")
        self._at = 4
        (version,) = self._numbers("I")
        if version not in _VERSIONS:
            raise FileError(
                f"{self._found.path} is of version {version} of GGUF, or of another byte order; 2 and 3 are read"
            )
        tensors, values = self._numbers("QQ")
        for _ in range(self._count(values)):
            name = self._text()
            self._found.metadata[name] = self._value(*self._numbers("I"))
        entries: dict[str, _Entry] = {}
        for _ in range(self._count(tensors)):
            name = self._text()
            (rank,) = self._numbers("I")
            if rank > 8:
                raise self._damaged(f"{name} has {rank} axes")
            shape = self._numbers("Q" * rank)[::-1]
            kind, offset = self._numbers("IQ")
            entries[name] = _Entry(shape, kind, offset)
        align = self._found.metadata.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1:
            raise self._damaged(f"its alignment is {align!r}")
        start = -(-self._at // align) * align
        for name, entry in entries.items():
            placed = entry._replace(offset=start + entry.offset)
            if math.prod(entry.shape) > self._size * 8 or (
                entry.kind in _NAMES and placed.offset + _nbytes(placed) > self._size
            ):
                raise self._damaged(f"the data of {name} end behind it")
            self._found._entries[name] = placed

    def _damaged(self, why: str) -> FileError:
        return FileError(f"{self._found.path} is damaged, or not complete: {why}")

    def _count(self, number: int) -> int:
        if number > min(_MOST, self._size):
            raise self._damaged(f"it says that {number} parts follow")
        return number

    def _take(self, length: int) -> memoryview:
        if self._at + length > len(self._data):
            self._file.seek(0)
            self._data = memoryview(self._file.read(max(2 * len(self._data), self._at + length, 1 << 20)))
            if self._at + length > len(self._data):
                raise self._damaged("it ends in its header")
        self._at += length
        return self._data[self._at - length : self._at]

    def _numbers(self, kinds: str) -> tuple[Any, ...]:
        return struct.unpack("<" + kinds, self._take(struct.calcsize("<" + kinds)))

    def _text(self) -> str:
        (length,) = self._numbers("Q")
        return str(self._take(self._count(length)), "utf-8", "replace")

    def _texts(self, count: int) -> list[str]:
        """Vocabularies are long: this is `_text` without calls."""
        found: list[str] = []
        data, at, length = self._data, self._at, struct.Struct("<Q").unpack_from
        while len(found) < count:
            if at + 8 <= len(data) and (end := at + 8 + length(data, at)[0]) <= len(data):
                found.append(str(data[at + 8 : end], "utf-8", "replace"))
                at = end
            else:
                self._at = at
                found.append(self._text())
                data, at = self._data, self._at
        self._at = at
        return found

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY and depth < 4:
            inner, count = self._numbers("IQ")
            count = self._count(count)
            if inner in _VALUES:
                return list(self._numbers(f"{count}{_VALUES[inner]}"))
            return self._texts(count) if inner == _TEXT else [self._value(inner, depth + 1) for _ in range(count)]
        if kind not in _VALUES:
            raise self._damaged(f"a value is of kind {kind}")
        return self._numbers(_VALUES[kind])[0]


def open_gguf(path: str | os.PathLike[str], device: str | None = None) -> GGUFFile:
    """A GGUF file, as llama.cpp has them: a mapping that reads each tensor when it is asked for, with the metadata.

    Raises FileError when the file is missing or damaged; at a tensor of a format that is not read, DtypeError. Read
    are floats, integers, Q4_0, Q4_1, Q8_0, Q4_K and Q6_K.
    """
    return GGUFFile(path, device)
