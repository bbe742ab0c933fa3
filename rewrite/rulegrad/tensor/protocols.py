"""What Python's own modules ask of a tensor: the buffer protocol, pickle, copy, format, `in`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import GradientError
from rulegrad.tensor.autograd import Autograd
from rulegrad.tensor.realize import Realize

if TYPE_CHECKING:
    from typing_extensions import Self

_WRITABLE = 1  # PyBUF_WRITABLE


class Protocols(Autograd, Realize):
    """Conversions that other code asks for without naming them."""

    __slots__ = ()

    def __buffer__(self, flags: int) -> memoryview:
        """`memoryview(tensor)`: the values, computed now and read only, in C order (PEP 688).

        Raises BufferError for a writable view, and for dtypes without a format, such as bfloat16.

        >>> from rulegrad import Tensor
        >>> view = memoryview(Tensor([[1, 2], [3, 4]], dtype="int16"))
        >>> view.format, view.shape, view.readonly
        ('h', (2, 2), True)
        """
        if flags & _WRITABLE:
            raise BufferError("the memory of a tensor cannot be written from outside; change a copy: tensor.numpy()")
        values = self.numpy()
        values.flags.writeable = False
        try:
            return values.data
        except ValueError:
            raise BufferError(
                f"{self.dtype} has no format in the buffer protocol; use tensor.numpy(), or cast it first"
            ) from None

    def __bytes__(self) -> bytes:
        """`bytes(tensor)`: the values in memory, in C order. (Python would ask a scalar for its integer.)"""
        return self.numpy().tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled are the values, the dtype, the device, and whether it is a leaf with a gradient; not `.grad`."""
        self._need_no_graph("pickle")
        return _restored, (type(self), self.numpy(), self._device, self._requires_grad)

    def __copy__(self) -> Self:
        """The same values; a leaf with a gradient gives another such leaf."""
        if self._leaf:
            return type(self)(self.detach(), requires_grad=True)
        return self._result(self._uop)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A tensor of its own, with its own `.grad`. Raises GradientError for a result that gradients flow through."""
        self._need_no_graph("deepcopy")
        copy: Self = _restored(type(self), self.numpy(), self._device, self._requires_grad)
        memo[id(self)] = copy
        if self.grad is not None:
            copy.grad = self.grad.detach().__deepcopy__(memo)
        return copy

    def _need_no_graph(self, operation: str) -> None:
        if self._requires_grad and not self._leaf:
            raise GradientError(
                f"{operation}: this tensor was computed from others with requires_grad=True, which would not be "
                "copied with it; use tensor.detach()"
            )

    def __format__(self, spec: str) -> str:
        """A scalar is formatted as its number: `f"{loss:.3f}"`; any other tensor only without a format.

        >>> from rulegrad import Tensor
        >>> f"{Tensor(2.5) * 2:.2f}"
        '5.00'
        """
        if not spec:
            return repr(self) if self.ndim else format(self.item(), "")
        if self.ndim:
            raise TypeError(
                f"the format {spec!r} is for numbers, and this tensor has the shape {self.shape}; format "
                "tensor.numpy() with numpy.array2string, or each number of tensor.tolist()"
            )
        return format(self.item(), spec)

    def __contains__(self, value: Any) -> bool:
        """Whether any element equals `value`."""
        return bool(self.equal(value).any())

    def __round__(self, digits: int = 0) -> Self:
        """`round(tensor)`: to the nearest integers, halves to even, in the same dtype."""
        if digits:
            scale = 10.0**digits
            return (self * scale).round() / scale
        return self.round()

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        """`(self // other, self % other)`"""
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        """`(other // self, other % self)`"""
        return other // self, other % self


def _restored(cls: type[Any], values: Any, device: str, requires_grad: bool) -> Any:
    """The tensor of a pickle. Raises DeviceError when there is no such device here."""
    return cls(values, device=device or None, requires_grad=requires_grad)
