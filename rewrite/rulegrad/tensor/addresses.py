"""Addresses of tensors in the host's memory, by which programs ask which tensors share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import DeviceError
from rulegrad.tensor.values import lent

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def data_ptr(self: Tensor) -> int:
    """The address of the first element, which stays until the tensor is changed; 0 without elements.

    Tensors that stand for the same value may have the same one. Raises DeviceError where the host cannot see it.

    >>> x = Tensor([1.0, 2.0], device="numpy")
    >>> x.data_ptr() == x.detach().data_ptr(), x.data_ptr() == x.clone().add_(1).data_ptr()
    (True, False)
    """
    if not self.size:
        return 0
    values = lent(self)
    if values is None:
        raise DeviceError(f"data_ptr: the host does not see the memory of {self.device}; write x.cpu().data_ptr()")
    return int(values.ctypes.data)


class UntypedStorage:
    """The memory of one tensor: `data_ptr()` and `nbytes()`."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def device(self) -> Any:
        """Where it is."""
        return self._tensor.device

    def data_ptr(self) -> int:
        """The address. Raises DeviceError where the host cannot see it."""
        return self._tensor.data_ptr()

    def nbytes(self) -> int:
        """How many bytes there are."""
        return int(self._tensor.nbytes)

    size = __len__ = nbytes

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a CUDA device."""
        return bool(self._tensor.is_cuda)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The tensor's memory, which is its own: views have theirs.

    >>> Tensor([1.0, 2.0]).untyped_storage().nbytes()
    8
    """
    return UntypedStorage(self)
