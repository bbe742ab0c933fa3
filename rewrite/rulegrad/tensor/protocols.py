"""What Python's own modules ask of a tensor: memory, pickle, copy, format, `in`."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import GradientError
from rulegrad.tensor.autograd import Autograd
from rulegrad.tensor.realize import Realize

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.storage import Array

#: Rows and columns of a table in a notebook.
_SHOWN: Final = 20


class Protocols(Autograd, Realize):
    """Conversions that other code asks for without naming them."""

    __slots__ = ()

    # There is no buffer protocol: `torch.asarray` takes what has it for raw bytes, whatever the dtype and the shape.
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """A copy of the values as Pillow reads memory: `Image.fromarray(tensor)`. What is written there is not seen by
        the tensor. AttributeError for the dtypes that NumPy has not itself, such as bfloat16, and for whoever is not
        Pillow: NumPy would read it instead of `__array__`, which says no to `copy=False`.

        >>> from rulegrad import Tensor
        >>> hasattr(Tensor([[1, 2], [3, 4]], dtype="uint8"), "__array_interface__")
        False
        """
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("PIL."):
            raise AttributeError("__array_interface__ is for Pillow; np.asarray(tensor) copies, tensor.numpy() too")
        if self.dtype.numpy.isbuiltin != 1:  # of ml_dtypes
            raise AttributeError(f"{self.dtype} has no code in NumPy's array interface; use tensor.numpy()")
        values = self.numpy()
        # Pillow takes `tobytes` of what names its strides; any other would need the buffer protocol.
        interface = dict(values.__array_interface__, data=values, strides=values.strides)
        del interface["descr"]
        return interface

    def tobytes(self) -> bytes:
        """The values in memory, in C order.

        >>> from rulegrad import Tensor
        >>> Tensor([1, 2], dtype="int8").tobytes()
        b'\\x01\\x02'
        """
        return self.numpy().tobytes()

    def __bytes__(self) -> bytes:
        """`bytes(tensor)`: the values in memory, in C order. (Python would ask a scalar for its integer.)"""
        return self.tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled are the values, the dtype, the device, and whether it is a leaf with a gradient; not `.grad`."""
        self._need_no_graph("pickle")
        return _restored, (type(self), self.numpy(), self._device, self._requires_grad)

    def __copy__(self) -> Self:
        """The same values; a leaf with a gradient gives another such leaf."""
        if self._leaf:
            return type(self)(self.detach(), requires_grad=True)
        return self._same()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A tensor of its own, with its own `.grad`. Raises GradientError for a result that gradients flow through."""
        self._need_no_graph("deepcopy")
        copy: Self = _restored(type(self), self.numpy(), self._device, self._requires_grad)
        memo[id(self)] = copy
        if self.grad is not None:
            copy.grad = self.grad.detach().__deepcopy__(memo)
        return copy

    def _need_no_graph(self, operation: str) -> None:
        if self.requires_grad and not self._leaf:
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

    def _repr_html_(self) -> str:
        """What notebooks show: a table of a matrix or a vector (its corners, where it is large), text of any other.

        >>> from rulegrad import Tensor
        >>> Tensor([[1, 2]], device="numpy")._repr_html_()
        '<table><caption>Tensor 1 × 2, int64, numpy</caption><tr><td>1</td><td>2</td></tr></table>'
        """
        if not 1 <= self.ndim <= 2 or not self.size:
            return f"<pre>{escape(repr(self))}</pre>"
        values = np.atleast_2d(self.numpy())
        rows, columns = (_shown(count) for count in values.shape)
        cells = ["".join(f"<td>{_cell(values, r, c)}</td>" for c in columns) for r in rows]
        gradient = ", requires grad" if self.requires_grad else ""
        shape = " × ".join(map(str, self.shape))
        caption = f"Tensor {shape}, {self.dtype}, {escape(self.device)}{gradient}"
        return f"<table><caption>{caption}</caption>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

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


def _shown(count: int) -> list[int | None]:
    """Which rows or columns are shown: None stands for those that are left out."""
    ends = _SHOWN // 2
    return [*range(count)] if count <= _SHOWN else [*range(ends), None, *range(count - ends, count)]


def _cell(values: Array, row: int | None, column: int | None) -> str:
    if row is None or column is None:
        return "…"
    value = values[row, column]
    return str(value) if values.dtype.kind == "b" else f"{value:.6g}"


def _restored(cls: type[Any], values: Any, device: str, requires_grad: bool) -> Any:
    """The tensor of a pickle. Raises DeviceError when there is no such device here."""
    return cls(values, device=device or None, requires_grad=requires_grad)
