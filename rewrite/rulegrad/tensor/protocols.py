"""Python's protocols on tensors: memory, pickle, copy, format, `in`."""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import GradientError
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.tensor.capturing import must_compute
from rulegrad.tensor.storage import is_mesh_there, parts_of, upload_in_parts

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

#: Rows and columns of a table in a notebook.
_SHOWN: Final = 20


# There is no buffer protocol: `torch.asarray` takes what has it for raw bytes, whatever the dtype and the shape.


def array_interface(self: Tensor) -> dict[str, Any]:
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


def tobytes(self: Tensor) -> bytes:
    """The values in memory, in C order.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2], dtype="int8").tobytes()
    b'\\x01\\x02'
    """
    return self.numpy().tobytes()


def pickled(self: Tensor) -> tuple[Any, ...]:
    """Pickled are the values, the dtype, the device, and whether it is a leaf with a gradient; not `.grad`.

    Of a tensor in parts on a mesh all values, and how they lie: it is in parts again where there are as many devices.
    """
    _need_no_graph(self, "pickle")
    values = self.numpy()
    parts = parts_of(self)
    rest = () if parts is None else (parts,)
    arguments = (type(self), values, self._device, self._requires_grad, *rest)
    return (_restored, arguments, dict(vars(self))) if vars(self) else (_restored, arguments)


def shallow_copy(self: Tensor) -> Tensor:
    """The same values; a leaf with a gradient gives another such leaf."""
    copy = type(self)(self.detach(), requires_grad=True) if self._leaf else self._same()
    vars(copy).update(vars(self))
    return copy


def deep_copy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A tensor of its own, with its own `.grad`. Raises GradientError for a result that gradients flow through."""
    _need_no_graph(self, "deepcopy")
    if not must_compute(self.uop) and parts_of(self.realize()) is not None:
        copy: Tensor = _around(type(self), Buffer.of(self._uop).copied_parts(), self._requires_grad)
    else:
        copy = _restored(type(self), self.numpy(), self._device, self._requires_grad)
    memo[id(self)] = copy
    vars(copy).update(deepcopy(vars(self), memo))
    if self.grad is not None:
        copy.grad = self.grad.detach().__deepcopy__(memo)
    return copy


def _need_no_graph(self: Tensor, operation: str) -> None:
    if self.requires_grad and not self._leaf:
        raise GradientError(
            f"{operation}: this tensor was computed from others with requires_grad=True, which would not be "
            "copied with it; use tensor.detach()"
        )


def formatted(self: Tensor, spec: str) -> str:
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


def html(self: Tensor) -> str:
    """The HTML for notebooks: a table of a matrix or a vector (its corners, where it is large), text of any other.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2]], device="numpy")._repr_html_()
    '<table><caption>Tensor 1 × 2, int64, numpy</caption><tr><td>1</td><td>2</td></tr></table>'
    """
    from html import escape  # late: what notebooks ask for, programs do not

    if not 1 <= self.ndim <= 2 or not self.size:
        return f"<pre>{escape(repr(self))}</pre>"
    values = np.atleast_2d(self.numpy())
    rows, columns = (_shown(count) for count in values.shape)
    cells = ["".join(f"<td>{_cell(values, r, c)}</td>" for c in columns) for r in rows]
    gradient = ", requires grad" if self.requires_grad else ""
    shape = " × ".join(map(str, self.shape))
    caption = f"Tensor {shape}, {self.dtype}, {escape(self.device)}{gradient}"
    return f"<table><caption>{caption}</caption>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def contains(self: Tensor, value: Any) -> bool:
    """Whether any element equals `value`."""
    return bool(self.equal(value).any())


def rounded_to(self: Tensor, digits: int = 0) -> Tensor:
    """`round(tensor)`: to the nearest integers, halves to even, in the same dtype."""
    if digits:
        scale = 10.0**digits
        return (self * scale).round() / scale
    return self.round()


def quotient_and_remainder(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    """`(self // other, self % other)`"""
    return self // other, self % other


def reflected_quotient_and_remainder(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
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


def _restored(cls: type[Any], values: Any, device: str, requires_grad: bool, parts: Parts | None = None) -> Any:
    """The tensor of a pickle. Raises DeviceError when there is no such device here."""
    if parts is not None and is_mesh_there(parts.mesh, device):
        return _around(cls, upload_in_parts(values, parts, device), requires_grad)
    return cls(values, device=device or None, requires_grad=requires_grad)


def _around(cls: type[Any], buffer: Buffer, requires_grad: bool) -> Any:
    tensor = cls._new(buffer.uop, buffer, buffer.device)
    tensor.requires_grad = requires_grad
    return tensor
