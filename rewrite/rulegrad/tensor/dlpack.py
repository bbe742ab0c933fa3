"""Tensors and other libraries' arrays: DLPack in both directions, the array API's hooks, memory that is shared.

A tensor is a value: equal ones may share a buffer, and graphs that wait read it later. So memory is lent read-only, and
memory of others is borrowed only when it is asked for, by `from_dlpack` or `copy=False`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import DeviceError, DtypeError
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.several import parts_of
from rulegrad.tensor.aliasing import mark_borrowed
from rulegrad.tensor.capsules import lend, read
from rulegrad.tensor.storage import device_name, is_weak_scalar, upload
from rulegrad.tensor.values import lent

if TYPE_CHECKING:
    from types import ModuleType

    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

#: DLPack's numbers for kinds of devices.
_CPU, _OPENCL, _EXTENSION = 1, 4, 12
#: The revision of the array API standard that the namespace follows, and earlier ones that it does not contradict.
_API_VERSIONS: Final = ("2022.12", "2023.12", "2024.12", "2025.12")


def array_namespace(self: Tensor, api_version: str | None = None) -> ModuleType:
    """The namespace `rulegrad.array_api`. Raises ValueError for a revision of the standard that it does not follow.

    >>> from rulegrad import Tensor
    >>> Tensor([1]).__array_namespace__().__name__
    'rulegrad.array_api'
    """
    if api_version is not None and api_version not in _API_VERSIONS:
        raise ValueError(f"the array API of {api_version} is not known; use one of {', '.join(_API_VERSIONS)}")
    import rulegrad.array_api  # late: the standard asks an array for its namespace, which is written with arrays

    return rulegrad.array_api


def to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """The array API's name of `to`. Raises DeviceError for an unknown device, or for a stream: there are none.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2]).to_device("numpy").device
    'numpy'
    """
    _no_stream(stream, "to_device")
    return self.to(device)


def as_complex(self: Tensor) -> complex:
    return complex(self.item())


# ---- lending ----


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind of device that the memory is on, and its number, as DLPack counts them.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2], device="numpy").__dlpack_device__()
    (1, 0)
    """
    name = parts_of(self.device)[0]  # of a device in several parts, whose values are copied
    backend, _, number = name.partition(":")
    if getattr(devices.get(name), "in_host_memory", False):
        return _CPU, 0
    return (_OPENCL if backend == "opencl" else _EXTENSION), int(number or 0)


def dlpack_capsule(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of the values, in the host's memory; computes them first.

    It lends the tensor's memory read-only, when the device's memory is the host's and the capsule can say so
    (DLPack 1.0 and later); otherwise, or for `copy=True`, it has a copy. With `copy=False` an older capsule lends
    the memory too: whoever asks for that must not write there. dl_device: None for the tensor's own
    device, or (1, 0) for the host. Raises BufferError when that device cannot be had, or not with `copy=False`.

    >>> import numpy as np
    >>> from rulegrad import Tensor
    >>> np.from_dlpack(Tensor([1, 2], device="numpy"))
    array([1, 2])
    """
    _no_stream(stream, "__dlpack__")
    own = self.__dlpack_device__()
    if tuple(dl_device or own) != (_CPU, 0):
        raise BufferError(
            f"__dlpack__: memory of {self.device} can be lent as the host's only; ask for dl_device=(1, 0), "
            "or move the tensor with .to"
        )
    # Capsules of before DLPack 1.0 cannot say that they are read only.
    legacy = max_version is None or max_version[0] < 1
    lends = own == (_CPU, 0) and not copy and (not legacy or copy is False)
    values = lent(self, writable=legacy) if lends else None
    if values is None:
        if copy is False:
            raise BufferError(f"__dlpack__: memory of {self.device} cannot be lent to the host; leave out copy=False")
        values = self.numpy()
    return lend(values, max_version)


# ---- borrowing ----


def from_dlpack(cls: type[Tensor], x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of another library's array, in its memory where the device can use it as it is.

    device: the default one unless named. copy: True for a new tensor always, None when it is needed, False for
    never. While the memory is shared, changing it changes the tensor. Raises BufferError when `copy=False` needs
    one, and DtypeError for a value that is not an array.

    >>> import numpy as np
    >>> Tensor.from_dlpack(np.array([1, 2]), device="numpy").tolist()
    [1, 2]
    """
    if isinstance(x, cls):
        moved = x if device is None else x.to(device)
        if copy is False and moved is not x:
            raise BufferError(f"from_dlpack: from {x.device} to {moved.device} is a copy; leave out copy=False")
        return moved._result(moved.uop) if copy and moved is x else moved
    if not hasattr(x, "__dlpack__"):
        raise DtypeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__; use Tensor(data)")
    # NumPy asks for a copy in the host's memory where the array is elsewhere, unless that is forbidden.
    elsewhere = x.__dlpack_device__()[0] not in (_CPU, 3)
    array = read(x, "cpu" if elsewhere else None, copy if elsewhere or copy is False else None)
    try:
        return _over(cls, array, device, copy)
    except ValueError as error:
        raise BufferError(str(error)) from None


def _over(cls: type[Tensor], array: Array, device: str | None, copy: bool | None) -> Tensor:
    """A tensor in the memory of `array`, or of a copy. Raises ValueError when a copy is needed and forbidden."""
    as_dtype(array.dtype)
    name = device_name(device)
    buffer = None if copy else Buffer.around(array, name or None)
    if buffer is None:
        if copy is False:
            raise ValueError(
                f"{name or devices.default()} cannot use the memory of this array as it is (strides, alignment, or "
                "another device); leave out copy=False"
            )
        buffer = upload(np.ascontiguousarray(array).reshape(array.shape), name)
        return cls._new(buffer.uop, buffer, buffer.device)
    found = cls._new(buffer.uop, buffer, buffer.device)
    mark_borrowed(found)
    return found


def from_memory(cls: type[Tensor], data: Any, dtype: DType | None, device: str | None, copy: bool | None) -> Any:
    """A tensor of a number, nested lists, or memory; only with `copy=False` it is the memory itself.

    Raises ValueError when `copy=False` needs a copy, else as `Tensor(data)`.
    """
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        found = cls.from_dlpack(data, device=device, copy=copy)
        return found if dtype is None else found.cast(dtype)
    if copy is not False:
        return cls(_with_dtype(data), dtype, device)
    array = _with_dtype(data)
    if is_weak_scalar(array) or not hasattr(array, "dtype"):
        raise ValueError("asarray: Python numbers and lists have no memory to share; leave out copy=False")
    array = np.asarray(array)
    if dtype is not None and dtype != as_dtype(array.dtype):
        raise ValueError(f"asarray: {array.dtype} cannot become {dtype} without a copy; leave out copy=False")
    return _over(cls, array, device, copy)


def _with_dtype(data: Any) -> Any:
    """An object with the buffer protocol as an array with the dtype of its elements; anything else as it is."""
    if hasattr(data, "dtype") or isinstance(data, (int, float, complex, list, tuple, str)):
        return data
    try:
        return np.asarray(memoryview(data))
    except TypeError:
        return data


def _no_stream(stream: Any, operation: str) -> None:
    if stream is not None:
        raise DeviceError(f"{operation}: stream is {stream!r}, but results are always complete; leave it out")
