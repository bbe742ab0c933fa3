"""PyTorch's `.pt` and `.pth` archives, read without torch and without running anything that they contain.

An archive is a zip file: `data.pkl` describes the structure in pickle's format, `data/KEY` are the storages. The pickle
is read by `torch_pickle`, which gives the few names that `torch.save` writes for tensors and containers a meaning, and
no other. A file of a few bytes cannot fill the memory: what it makes is limited by its size.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import FileError, FileMissingError, RulegradError
from rulegrad.ir.dtype import ALL, as_dtype
from rulegrad.nn._torch_pickle import Name, Unpickler
from rulegrad.tensor.tensor import Tensor

_STORAGES: Final = {
    "BoolStorage": "bool", "CharStorage": "int8", "ShortStorage": "int16", "IntStorage": "int32",
    "LongStorage": "int64", "ByteStorage": "uint8", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32", "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8",
}  # fmt: skip
_LOCAL_HEADER: Final = 30  # bytes, before the entry's name
#: What a file may make of itself: compressed entries, tensors that repeat their elements or share a storage.
_FREE_BYTES, _TIMES_ITS_SIZE = 64 << 20, 20
#: What damaged archives make of the module zipfile.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)


class _Storage(NamedTuple):
    """A storage class, which stands for its dtype."""

    dtype: str


def torch_load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Read a file of `torch.save`: dicts, lists, numbers and strings, with each tensor as a Tensor on `device`.

    Nothing in the file is executed, and torch is not needed. Storages are mapped into memory and copied once.
    Parameters require a gradient. Raises FileError for a file that is missing, damaged, of the format before
    torch 1.6, or that holds objects other than tensors and plain containers.
    """
    file = Path(path)
    try:
        with zipfile.ZipFile(file) as archive:
            return _Archive(file, archive, device).load()
    except FileError:
        raise
    except FileNotFoundError:
        raise FileMissingError(f"{file} cannot be read: there is no such file") from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error}") from None
    except _ZIP_ERRORS as error:
        if not zipfile.is_zipfile(file):
            raise FileError(
                f"{file} is not a zip archive; files from before torch 1.6 must be loaded and saved again by torch"
            ) from None
        raise FileError(f"{file} is damaged: {error}") from None


class _Archive:
    """One file while it is read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, device: str | None) -> None:
        self.path, self.archive, self.device = path, archive, device
        self.storages: dict[str, np.ndarray[Any, Any]] = {}
        self.bytes_left = _FREE_BYTES + _TIMES_ITS_SIZE * path.stat().st_size
        found = [info.filename for info in archive.infolist() if info.filename.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1:
            raise FileError(f"{path} is a zip archive, but not one of torch.save: it has no data.pkl")
        self.folder = found[0].removesuffix("data.pkl")
        order = self.folder + "byteorder"
        self.order = ">" if order in archive.namelist() and self.read(order) == b"big" else "<"

    def read(self, entry: str) -> bytes:
        """The bytes of an entry, which may be compressed."""
        self.take(self.archive.getinfo(entry).file_size)
        return self.archive.read(entry)

    def take(self, nbytes: int) -> None:
        """Counts what is made of the file."""
        self.bytes_left -= nbytes
        if self.bytes_left < 0:
            raise FileError(
                f"{self.path} is damaged, or made to fill the memory: its values need more than {_TIMES_ITS_SIZE} "
                "times the bytes of the file"
            )

    def load(self) -> Any:
        constructors: dict[Name, Callable[..., Any]] = {
            Name("torch", "Size"): tuple,
            Name("torch", "device"): lambda *parts: ":".join(map(str, parts)),
            Name("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            Name("torch._utils", "_rebuild_tensor_v3"): self._tensor_of_dtype,
            Name("torch._utils", "_rebuild_parameter"): self._parameter,
        }
        content = io.BytesIO(self.read(self.folder + "data.pkl"))
        try:
            return Unpickler(constructors, self._storage_of, self._named).load(content)
        except RulegradError:
            raise
        except Exception as error:  # whatever damaged bytes make of the constructors
            raise FileError(f"{self.path} is damaged: {type(error).__name__}: {error}") from None

    def _named(self, name: Name) -> Any:
        if name.module in ("torch", "torch.storage") and name.name in _STORAGES:
            return _Storage(_STORAGES[name.name])
        if name.module == "torch" and name.name in ALL:
            return as_dtype(name.name)
        raise FileError(
            f"{self.path} holds an object of {name}, which is not loaded: it could run code. "
            "Save the state_dict of the model, not the model"
        )

    def _storage_of(self, reference: Any) -> tuple[str, str]:
        """A storage, as its key and its dtype."""
        kind, storage, key, *_ = reference
        if kind != "storage" or not isinstance(storage, _Storage):
            raise FileError(f"{self.path} is damaged: {kind!r} is not a storage")
        return str(key), storage.dtype

    def storage(self, key: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a storage; read from the file itself where the entry is not compressed."""
        if key not in self.storages:
            entry = f"{self.folder}data/{key}"
            info = self.archive.getinfo(entry)
            if info.compress_type == zipfile.ZIP_STORED:
                self.storages[key] = self._stored(info)
            else:
                self.storages[key] = np.frombuffer(self.read(entry), np.uint8)
        raw = self.storages[key]
        values = as_dtype(dtype).numpy
        whole = raw[: len(raw) // values.itemsize * values.itemsize]
        found: np.ndarray[Any, Any] = whole.view(values)
        return found.byteswap() if self.order == ">" and values.itemsize > 1 else found

    def _stored(self, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
        self.take(info.file_size)
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(_LOCAL_HEADER)
            file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), os.SEEK_CUR)
            found = np.fromfile(file, np.uint8, min(info.file_size, self.path.stat().st_size))
        if len(found) != info.file_size:
            raise FileError(f"{self.path} is damaged: {info.filename} ends early")
        return found

    def tensor(
        self, storage: tuple[str, str], offset: int, size: tuple[int, ...], stride: tuple[int, ...], dtype: str
    ) -> Tensor:
        """A tensor that is a strided view of a storage, which it must lie in."""
        values = self.storage(storage[0], dtype)
        sizes, strides = tuple(map(int, size)), tuple(map(int, stride))
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        self.take(math.prod(sizes) * values.itemsize)
        if min((0, offset, *sizes, *strides)) < 0 or (0 not in sizes and last >= len(values)):
            raise FileError(f"{self.path} is damaged: a tensor of shape {sizes} lies outside its storage {storage[0]}")
        if 0 in sizes:
            return Tensor(np.empty(sizes, values.dtype), device=self.device)
        steps = [s * values.itemsize for s in strides]
        return Tensor(
            np.lib.stride_tricks.as_strided(values[offset:], sizes, steps, writeable=False), device=self.device
        )

    def _tensor(
        self, storage: tuple[str, str], offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any
    ) -> Tensor:
        return self._with_gradient(self.tensor(storage, offset, size, stride, storage[1]), requires_grad)

    def _tensor_of_dtype(
        self,
        storage: tuple[str, str],
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool,
        _hooks: Any,
        dtype: Any,
        *_: Any,
    ) -> Tensor:
        return self._with_gradient(self.tensor(storage, offset, size, stride, str(dtype)), requires_grad)

    def _parameter(self, data: Tensor, requires_grad: bool = True, *_: Any) -> Tensor:
        return self._with_gradient(data, requires_grad)

    @staticmethod
    def _with_gradient(tensor: Tensor, requires_grad: bool) -> Tensor:
        return tensor.requires_grad_() if requires_grad and tensor.dtype.is_float else tensor
