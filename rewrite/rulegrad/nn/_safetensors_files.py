"""Tensors in safetensors files: read when they are asked for, written through the library.

Format: https://github.com/huggingface/safetensors (eight bytes with the length of a JSON header, the header, the data).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rulegrad.errors import DtypeError, FileError, FileMissingError
from rulegrad.ir.dtype import ALL, DType, as_dtype
from rulegrad.nn._file_parts import read_part, state_of
from rulegrad.runtime.buffer import as_bools
from rulegrad.tensor.tensor import Tensor

_DTYPES: Final = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64", "C128": "complex128",
}  # fmt: skip


class SafetensorsFile(Mapping[str, Tensor]):
    """The tensors of a file by name; each is read when it is asked for, and only then.

    metadata: the file's own strings. `dtype(name)` and `shape(name)` read no data. The file must stay as it was when
    it was opened: FileError is raised where it has changed since, or is gone.
    """

    def __init__(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        self.path = Path(path)
        self.device = device
        header, self._start, self._state = _header(self.path)
        self.metadata: dict[str, str] = header.pop("__metadata__", None) or {}
        self._entries: dict[str, Any] = header

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self.array(name), device=self.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def dtype(self, name: str) -> DType:
        """The dtype of a tensor. Raises DtypeError for one that tensors here cannot have."""
        found = _DTYPES.get(self._entries[name]["dtype"])
        if found is None or found not in ALL:
            raise DtypeError(
                f"{self.path}: {name} has the dtype {self._entries[name]['dtype']}, which is not known here"
            )
        return as_dtype(found)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._entries[name]["shape"])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """A tensor's values as a NumPy array, read now. Raises FileError when the file has changed meanwhile."""
        dtype, (begin, end) = self.dtype(name), self._entries[name]["data_offsets"]
        raw = read_part(self.path, self._state, self._start + begin, end - begin)
        values = raw.view(dtype.numpy).reshape(self.shape(name))
        return as_bools(values) if dtype == "bool" else values

    def __repr__(self) -> str:
        return f"SafetensorsFile({str(self.path)!r}, {len(self)} tensors)"


def safe_load(path: str | os.PathLike[str], device: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on `device` (the default one unless named).

    Raises FileError when the file is missing or damaged, DtypeError for tensors of an unknown dtype.

    >>> import os, tempfile
    >>> from rulegrad import Tensor, nn
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> nn.state.safe_save({"scale": Tensor([1.0, 2.0])}, path)
    >>> nn.state.safe_load(path)["scale"].tolist()
    [1.0, 2.0]
    """
    return dict(safe_open(path, device))


def safe_open(path: str | os.PathLike[str], device: str | None = None) -> SafetensorsFile:
    """A safetensors file as a mapping that reads each tensor when it is asked for, with the file's metadata.

    So the file may be larger than the memory is. Raises FileError when the file is missing or damaged, DtypeError at a
    tensor of an unknown dtype.

    >>> import os, tempfile
    >>> from rulegrad import Tensor, nn
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> nn.state.safe_save({"scale": Tensor([1.0, 2.0])}, path, {"made by": "hand"})
    >>> file = nn.state.safe_open(path)
    >>> file["scale"].tolist(), file.metadata
    ([1.0, 2.0], {'made by': 'hand'})
    """
    return SafetensorsFile(path, device)


def safe_save(
    state: Mapping[str, Tensor], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file, which appears complete or not at all; metadata: strings to go with them.

    All tensors are computed in one call. Raises FileError when the file cannot be written.
    """
    # late: only files of this format need the library
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if state:
        Tensor.realize(*state.values())
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    # Beside the file, as it can take its place only from there; on disk before it does.
    written = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        save_file(arrays, written, dict(metadata) if metadata else None)
        with open(written, "rb") as file:
            os.fsync(file.fileno())
        os.replace(written, path)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path} cannot be written: {error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(written)


def _header(path: Path) -> tuple[dict[str, Any], int, tuple[int, ...]]:
    """The header of a file (the library has looked at its offsets), where the data begin, and the state of the file."""
    # late: only files of this format need the library
    from safetensors import SafetensorError
    from safetensors import safe_open as open_checked

    try:
        with open_checked(path, framework="numpy"):
            pass
        with path.open("rb") as file:
            state = state_of(file)
            length = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(length))
    except SafetensorError as error:
        raise FileError(f"{path} is not a safetensors file, or is damaged: {error}") from None
    except FileNotFoundError:
        raise FileMissingError(f"{path} cannot be read: there is no such file") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error}") from None
    return header, 8 + length, state
