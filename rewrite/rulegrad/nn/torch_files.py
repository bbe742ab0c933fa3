"""PyTorch's `.pt` and `.pth` archives, read without torch and without running anything that they contain.

An archive is a zip file: `data.pkl` describes the structure in pickle's format, `data/KEY` are the storages. The pickle
is read by an unpickler that knows the few names which `torch.save` writes for tensors and containers, and no other.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from rulegrad.errors import FileError, RulegradError
from rulegrad.ir.dtype import ALL, as_dtype
from rulegrad.tensor.tensor import Tensor

_STORAGES: Final = {
    "BoolStorage": "bool", "CharStorage": "int8", "ShortStorage": "int16", "IntStorage": "int32",
    "LongStorage": "int64", "ByteStorage": "uint8", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32", "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8",
}  # fmt: skip
_LOCAL_HEADER: Final = 30  # bytes, before the entry's name


class _Storage(NamedTuple):
    """A storage class, which stands for its dtype."""

    dtype: str


def torch_load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """What `torch.save` wrote: dicts, lists, numbers and strings, with each tensor as a Tensor on `device`.

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
    except zipfile.BadZipFile:
        raise FileError(
            f"{file} is no zip archive; files from before torch 1.6 must be loaded and saved again by torch"
        ) from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error}") from None


class _Archive:
    """One file while it is read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, device: str | None) -> None:
        self.path, self.archive, self.device = path, archive, device
        self.storages: dict[str, np.ndarray[Any, Any]] = {}
        found = [info.filename for info in archive.infolist() if info.filename.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1:
            raise FileError(f"{path} is a zip archive, but not one of torch.save: it has no data.pkl")
        self.folder = found[0].removesuffix("data.pkl")
        order = self.folder + "byteorder"
        self.order = ">" if order in archive.namelist() and archive.read(order) == b"big" else "<"

    def load(self) -> Any:
        with self.archive.open(self.folder + "data.pkl") as file:
            try:
                return _Unpickler(file, self).load()
            except RulegradError:
                raise
            except Exception as error:  # whatever damaged bytes make of the unpickler
                raise FileError(f"{self.path} is damaged: {type(error).__name__}: {error}") from None

    def storage(self, key: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a storage, mapped where the entry is not compressed."""
        if key not in self.storages:
            info = self.archive.getinfo(f"{self.folder}data/{key}")
            if info.compress_type == zipfile.ZIP_STORED and info.file_size:
                with self.path.open("rb") as file:
                    file.seek(info.header_offset)
                    header = file.read(_LOCAL_HEADER)
                names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                begin = info.header_offset + _LOCAL_HEADER + names
                self.storages[key] = np.memmap(self.path, np.uint8, "r", begin, (info.file_size,))
            else:
                self.storages[key] = np.frombuffer(self.archive.read(info), np.uint8)
        raw = self.storages[key]
        values = as_dtype(dtype).numpy
        whole = raw[: len(raw) // values.itemsize * values.itemsize].view(values)
        return whole.byteswap() if self.order == ">" and values.itemsize > 1 else whole

    def tensor(
        self, storage: tuple[str, str], offset: int, size: tuple[int, ...], stride: tuple[int, ...], dtype: str
    ) -> Tensor:
        """A tensor that is a strided view of a storage, which it must lie in."""
        values = self.storage(storage[0], dtype)
        sizes, strides = tuple(map(int, size)), tuple(map(int, stride))
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        if min((0, offset, *sizes, *strides)) < 0 or (0 not in sizes and last >= len(values)):
            raise FileError(f"{self.path} is damaged: a tensor of shape {sizes} lies outside its storage {storage[0]}")
        if 0 in sizes:
            return Tensor(np.empty(sizes, values.dtype), device=self.device)
        steps = [s * values.itemsize for s in strides]
        return Tensor(
            np.lib.stride_tricks.as_strided(values[offset:], sizes, steps, writeable=False), device=self.device
        )


class _Unpickler(pickle.Unpickler):
    """Knows only the names that torch.save writes for tensors and plain containers."""

    def __init__(self, file: Any, archive: _Archive) -> None:
        super().__init__(file, encoding="utf-8")
        self.archive = archive

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): tuple,
            ("torch", "device"): lambda *parts: ":".join(map(str, parts)),
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_tensor_v3"): self._tensor_of_dtype,
            ("torch._utils", "_rebuild_parameter"): self._parameter,
        }
        if (module, name) in known:
            return known[module, name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _Storage(_STORAGES[name])
        if module == "torch" and name in ALL:
            return as_dtype(name)
        raise FileError(
            f"{self.archive.path} holds an object of {module}.{name}, which is not loaded: it could run code. "
            "Save the state_dict of the model, not the model"
        )

    def persistent_load(self, reference: Any) -> tuple[str, str]:
        """A storage, as its key and its dtype."""
        kind, storage, key, *_ = reference
        if kind != "storage" or not isinstance(storage, _Storage):
            raise FileError(f"{self.archive.path} is damaged: {kind!r} is no storage")
        return str(key), storage.dtype

    def _tensor(
        self, storage: tuple[str, str], offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any
    ) -> Tensor:
        return self._with_gradient(self.archive.tensor(storage, offset, size, stride, storage[1]), requires_grad)

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
        return self._with_gradient(self.archive.tensor(storage, offset, size, stride, str(dtype)), requires_grad)

    def _parameter(self, data: Tensor, requires_grad: bool = True, *_: Any) -> Tensor:
        return self._with_gradient(data, requires_grad)

    @staticmethod
    def _with_gradient(tensor: Tensor, requires_grad: bool) -> Tensor:
        return tensor.requires_grad_() if requires_grad and tensor.dtype.is_float else tensor
