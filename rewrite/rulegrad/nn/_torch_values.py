"""The values of PyTorch's files, in every format: a pickle of containers, with tensors as views of storages.

The pickle is read by `_torch_pickle`, which gives the few names that `torch.save` writes for tensors and containers a
meaning, and no other. A file of a few bytes cannot fill the memory: what it makes is limited by its size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from rulegrad.errors import FileError, RulegradError
from rulegrad.ir.dtype import ALL, as_dtype
from rulegrad.nn._torch_pickle import Name, Unpickler
from rulegrad.tensor.tensor import Tensor

_STORAGES: Final = {
    "BoolStorage": "bool", "CharStorage": "int8", "ShortStorage": "int16", "IntStorage": "int32",
    "LongStorage": "int64", "ByteStorage": "uint8", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32", "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8",
}  # fmt: skip
#: What a file may make of itself: compressed entries, tensors that repeat their elements or share a storage.
_FREE_BYTES, _TIMES_ITS_SIZE = 64 << 20, 20


class _StorageClass(NamedTuple):
    """A storage class, which stands for its dtype."""

    dtype: str


class StorageReference(NamedTuple):
    """A storage as a pickle names it. `offset`: in elements, where it is a part of the storage `key`."""

    key: str
    dtype: str
    offset: int


class TorchFile(ABC):
    """One file while it is read."""

    def __init__(self, path: Path, device: str | None) -> None:
        self.path, self.device = path, device
        self._bytes_left = _FREE_BYTES + _TIMES_ITS_SIZE * path.stat().st_size

    @abstractmethod
    def load(self) -> Any:
        """The object that was given to `torch.save`."""

    @abstractmethod
    def storage(self, key: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a storage: (elements,)."""

    @abstractmethod
    def let_go(self, key: str) -> None:
        """A tensor has all values of a storage, so that they need not be kept for others."""

    def take(self, nbytes: int) -> None:
        """Counts what is made of the file."""
        self._bytes_left -= nbytes
        if self._bytes_left < 0:
            raise FileError(
                f"{self.path} is damaged, or made to fill the memory: its values need more than {_TIMES_ITS_SIZE} "
                "times the bytes of the file"
            )

    def damaged(self, what: object) -> FileError:
        """The error for a file that contradicts itself."""
        return FileError(f"{self.path} is damaged: {what}")

    def constructors(self) -> dict[Name, Callable[..., Any]]:
        """Constructors for the names in a pickle."""
        return {
            Name("torch", "Size"): tuple,
            Name("torch", "device"): lambda *parts: ":".join(map(str, parts)),
            Name("torch._utils", "_rebuild_tensor"): self._tensor,  # before torch 0.4
            Name("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            Name("torch._utils", "_rebuild_tensor_v3"): self._tensor_of_dtype,
            Name("torch._utils", "_rebuild_parameter"): self._parameter,
        }

    def unpickle(self, content: BinaryIO, constructors: dict[Name, Callable[..., Any]] | None = None) -> Any:
        """The value of a pickle, which ends where `content` stands afterwards."""
        names = self.constructors() if constructors is None else constructors
        try:
            return Unpickler(names, self.reference, self._named).load(content)
        except RulegradError:
            raise
        except Exception as error:  # whatever damaged bytes make of the constructors
            raise self.damaged(f"{type(error).__name__}: {error}") from None

    def _named(self, name: Name) -> Any:
        if name.module in ("torch", "torch.storage") and name.name in _STORAGES:
            return _StorageClass(_STORAGES[name.name])
        if name.module == "torch" and name.name in ALL:
            return as_dtype(name.name)
        raise FileError(
            f"{self.path} holds an object of {name}, which is not loaded: it could run code. "
            "Save the state_dict of the model, not the model"
        )

    def reference(self, described: Any) -> StorageReference:
        """The storage that a pickle refers to: its kind, its class, its key, where it was, how long it is."""
        kind, storage, key, *_ = described
        if kind != "storage" or not isinstance(storage, _StorageClass):
            raise self.damaged(f"{kind!r} is not a storage")
        return StorageReference(str(key), storage.dtype, 0)

    def _view(self, storage: StorageReference, offset: int, size: Any, stride: Any, dtype: str) -> Tensor:
        """A tensor that is a strided view of a storage, which it must lie in."""
        values = self.storage(storage.key, dtype)
        offset += storage.offset
        sizes, strides = tuple(map(int, size)), tuple(map(int, stride))
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        self.take(math.prod(sizes) * values.itemsize)
        if min((0, offset, *sizes, *strides)) < 0 or (0 not in sizes and last >= len(values)):
            raise self.damaged(f"a tensor of shape {sizes} lies outside its storage {storage.key}")
        if 0 in sizes:
            return Tensor(np.empty(sizes, values.dtype), device=self.device)
        steps = [s * values.itemsize for s in strides]
        if math.prod(sizes) == len(values):
            self.let_go(storage.key)
        return Tensor(
            np.lib.stride_tricks.as_strided(values[offset:], sizes, steps, writeable=False), device=self.device
        )

    def _tensor(
        self, storage: StorageReference, offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any
    ) -> Tensor:
        return _with_gradient(self._view(storage, offset, size, stride, storage.dtype), requires_grad)

    def _tensor_of_dtype(
        self,
        storage: StorageReference,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool,
        _hooks: Any,
        dtype: Any,
        *_: Any,
    ) -> Tensor:
        return _with_gradient(self._view(storage, offset, size, stride, str(dtype)), requires_grad)

    def _parameter(self, data: Tensor, requires_grad: bool = True, *_: Any) -> Tensor:
        return _with_gradient(data, requires_grad)


def _with_gradient(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad and tensor.dtype.is_float else tensor


def whole_values(raw: np.ndarray[Any, Any], dtype: str, *, is_big_endian: bool = False) -> np.ndarray[Any, Any]:
    """Bytes as values of a dtype; what is left over at the end belongs to none."""
    values = as_dtype(dtype).numpy
    found: np.ndarray[Any, Any] = raw[: len(raw) // values.itemsize * values.itemsize].view(values)
    return found.byteswap() if is_big_endian and values.itemsize > 1 else found
