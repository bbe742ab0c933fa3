"""DLPack's capsules for the dtypes that NumPy does not exchange: bfloat16 and fp8.

NumPy makes and reads the capsules. What it does not know is given to it as unsigned integers of the same size, and the
code of the dtype in the capsule is changed on the way. The structures are those of DLPack's header, version 1.1.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.ir.dtype import DType, as_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array

#: DLPack's codes of kinds of numbers: that of unsigned integers, and those of the floats that NumPy has not.
_UNSIGNED: Final = 1
_CODES: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _Tensor(ctypes.Structure):
    """DLTensor, as far as the dtype."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, as far as its DLTensor; the managed tensor of older versions begins with that."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def lend(values: Array, max_version: tuple[int, int] | None) -> Any:
    """A capsule of an array of any dtype that tensors can have, for a consumer of a version of DLPack."""
    options: dict[str, Any] = {} if max_version is None or max_version[0] < 1 else {"max_version": max_version}
    dtype = as_dtype(values.dtype)
    if dtype.name not in _CODES:
        return values.__dlpack__(**options)
    capsule = values.view(f"uint{dtype.bits}").__dlpack__(**options)
    _described(capsule).code = _CODES[dtype.name]
    return capsule


class Borrowed:
    """An array of another library as NumPy's `from_dlpack` can read it; `as_it_is` gives its dtype back."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._dtype: DType | None = None

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self._owner.__dlpack_device__()
        return found

    def __dlpack__(self, **options: Any) -> Any:
        try:
            capsule = self._owner.__dlpack__(**options)
        except TypeError:  # a library of before DLPack 1.0, which knows none of these
            capsule = self._owner.__dlpack__()
        described = _described(capsule)
        for name, code in _CODES.items():
            if (described.code, described.bits) == (code, DType(name).bits):
                self._dtype, described.code = DType(name), _UNSIGNED
        return capsule

    def as_it_is(self, values: Array) -> Array:
        """The array that NumPy made, with the dtype that the owner's has."""
        return values if self._dtype is None else values.view(self._dtype.numpy)


def _described(capsule: Any) -> _Tensor:
    """The DLTensor in a capsule that nobody has taken yet."""
    pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if is_valid(capsule, b"dltensor_versioned"):
        found = _Versioned.from_address(pointer_in(capsule, b"dltensor_versioned")).tensor
    else:
        found = _Tensor.from_address(pointer_in(capsule, b"dltensor"))
    described: _Tensor = found
    return described


def read(owner: Any, device: str | None, copy: bool | None) -> Array:
    """The array of another library in NumPy's hands, in its own memory where it can be. Raises what either raises."""
    borrowed = Borrowed(owner)
    return borrowed.as_it_is(np.from_dlpack(borrowed, device=device, copy=copy))  # type: ignore[arg-type]
