"""The values of tensors on the host and on other devices: numpy, item, tolist, to, assign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rulegrad import _core
from rulegrad.errors import DtypeError, OutOfMemoryError, RulegradError, ShapeError
from rulegrad.interpreter import movement
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL, as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager
from rulegrad.tensor.aliasing import renew
from rulegrad.tensor.axes import integers
from rulegrad.tensor.capturing import is_tracing, must_compute, suspended
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.device_names import cuda_device
from rulegrad.tensor.operands import as_operand
from rulegrad.tensor.printing import values_as_text
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.storage import device_name, parts_of, upload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rulegrad.tensor.tensor import Tensor

    Array: TypeAlias = NDArray[Any]


def _shown(uop: UOp) -> Array | None:
    """The values of a node that only shows a constant or what is in memory; None for others."""
    node, moves = movement.origin(uop)
    if node.op not in ("BUFFER", "CONST"):
        return None

    def moved(values: Array) -> Array:
        for move in moves:
            values = movement.function(move, 0)(values)
        return values

    if node.op == "BUFFER":
        part: Array | None = Buffer.of(node).part(moved, as_dtype(uop.dtype).itemsize * math.prod(uop.shape))
        return part
    return np.array(moved(np.asarray(node.attrs["value"]).astype(as_dtype(node.dtype).numpy)), order="C")


def realize(self: Tensor, *others: TensorCore) -> Tensor:
    """Compute this tensor (and the others) now; `Tensor.realize(a, b)` may share kernels between them.

    >>> x = Tensor([1, 2]) + 1
    >>> x.uop.op, x.realize().uop.op
    ('ADD', 'BUFFER')
    """
    if others or not eager.realize(self):
        realize_all([self, *others])
    return self


def numpy(self: Tensor, *, force: bool = False) -> Array:
    """The values as a new NumPy array (ml_dtypes' dtype for bfloat16 and fp8).

    force: PyTorch's, without which it refuses tensors with gradients and on other devices; it changes nothing here.
    Constants and parts of what is in memory are read as they are, without a kernel.

    >>> Tensor([0.5, 2.0]).numpy()
    array([0.5, 2. ], dtype=float32)
    """
    renew(self)
    if must_compute(self._uop):
        with suspended():
            return self._new(self._uop, self._past(), self._device).numpy()
    try:
        if self._uop.op != "BUFFER" and (shown := _shown(self._uop)) is not None:
            return shown
    except MemoryError as error:
        raise OutOfMemoryError(f"numpy: {error}; read a part of the tensor") from None
    except ValueError as error:  # too many axes or elements
        if isinstance(error, RulegradError):
            raise
        raise ShapeError(f"numpy: NumPy has no such array: {error}") from None
    realize_all([self])
    buffer = Buffer.of(self._uop)
    if (parts := buffer.parts) is not None:  # each device has a part
        everywhere = (-1,) * len(parts.mesh)
        node = UOp("REDISTRIBUTE", (self._uop,), mesh=parts.mesh, placement=everywhere)
        return self._new(node, buffer, self._device).numpy()
    values: Array = buffer.numpy()
    return values


def as_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    if copy is False:
        return _shared(self, dtype)
    values = self.numpy()
    return values if dtype is None else values.astype(dtype, copy=False)


def _shared(self: Tensor, dtype: Any) -> Array:
    """The values in the tensor's own memory, for reading. Raises ValueError where they would have to be copied."""
    if dtype is not None and np.dtype(dtype) != self.dtype.numpy:
        raise ValueError(f"{self.dtype} cannot become {np.dtype(dtype)} without a copy; leave out copy=False")
    values = lent(self)
    if values is None:
        raise ValueError(f"memory of {self.device} cannot be shared with NumPy; leave out copy=False")
    return values


def lent(self: Tensor, writable: bool = False) -> Array | None:
    """The values over the tensor's own memory; None where the host cannot see it."""
    if must_compute(self.uop):
        return None  # a copy will do
    realize_all([self])
    return Buffer.of(self._uop).host_view(writable)


def item(self: Tensor, *index: Any) -> Any:
    """The value of a tensor with one element, as a Python number. Raises ShapeError for more, IndexError.

    index: the place of the element, one number in C order or one for each axis, as in NumPy.

    >>> Tensor([0.5]).item(), Tensor([[1, 2], [3, 4]]).item(2), Tensor([[1, 2], [3, 4]]).item(0, 1)
    (0.5, 3, 2)
    """
    if index:
        places = integers(index, "item")
        if len(places) not in (1, self.ndim):
            raise ShapeError(f"item: {len(places)} numbers for the shape {self.shape}; give one, or one for each axis")
        whole: Any = self if len(places) == self.ndim else self.flatten()
        found: Any = whole[places].item()
        return found
    if (number := _number(self)) is not None:
        return number
    if self.size != 1:
        raise ShapeError(
            f"item: the shape {self.shape} has {self.size} elements, not one; use tolist, or index it first"
        )
    return _only(self)


def _number(self: Tensor) -> bool | int | float | None:
    """The value of a tensor with one element, where the engine reads it."""
    return None if is_tracing() else eager.number(self)


def _only(self: Tensor) -> Any:
    """The same by Python."""
    return self.tolist() if not self.ndim else self.numpy().reshape(()).tolist()


def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers (a number for a scalar).

    >>> Tensor([[1, 2], [3, 4]]).tolist(), Tensor(0.5).tolist()
    ([[1, 2], [3, 4]], 0.5)
    """
    values = self.numpy()
    # ml_dtypes' numbers stay NumPy scalars in lists; float32 holds them all.
    return (values.astype(np.float32) if values.dtype.kind == "V" else values).tolist()


def as_float(self: Tensor) -> float:
    return float(self.item())


def as_int(self: Tensor) -> int:
    return int(self.item())


def truth(self: Tensor) -> bool:
    if (number := _number(self)) is not None:
        return bool(number)
    if self.size != 1:
        raise ShapeError(
            f"bool: the truth of {self.size} elements (shape {self.shape}) is not defined; use .any() or .all()"
        )
    return bool(_only(self))


def as_index(self: Tensor) -> int:
    if self.dtype.is_float:
        raise TypeError(f"a tensor of dtype {self.dtype} is not an integer; cast it to one first")
    return int(self.item())


def to(
    self: Tensor,
    target: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    device: str | None = None,
    memory_format: Any = None,
) -> Tensor:
    """The same values on another device, in another dtype, or as those of another tensor.

    target: a device's name, a dtype, or a tensor whose device and dtype are taken. This tensor itself is returned
    when nothing changes, unless `copy` asks for a new one. Between devices the values go through the host, and the
    copy has no gradient. non_blocking: PyTorch's; nothing is waited for anyway. memory_format: PyTorch's, too;
    memory is in C order.
    Raises DeviceError for an unknown device and DtypeError for an unknown dtype.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2]).to("float64").dtype, Tensor([1, 2]).to("numpy").device
    (DType('float64'), 'numpy')
    """
    if isinstance(dtype, bool):  # `to(dtype, non_blocking, copy)`
        dtype, non_blocking, copy = None, dtype, non_blocking
    if isinstance(target, TensorCore):
        device, dtype = target.device, target.dtype
    elif target is not None and (not isinstance(target, str) or target in ALL):
        dtype = target
    elif target is not None:
        device = target
    name = device_name(device) or self.device
    moved = self if name == self.device else _moved(self, name)
    wanted = moved.dtype if dtype is None else as_dtype(dtype)
    if wanted != moved.dtype:
        return moved.cast(wanted)
    return moved._same() if copy and moved is self else moved


def _moved(self: Tensor, device: str) -> Tensor:
    buffer = upload(self.numpy(), device)
    return self._new(buffer.uop, buffer, buffer.device)


def cpu(self: Tensor) -> Tensor:
    """This tensor when its device is the CPU, through whatever backend; else a copy on `numpy`.

    >>> Tensor([1, 2]).cpu().tolist()
    [1, 2]
    """
    return self if is_cpu(self) else self.to("numpy")


def is_cpu(self: Tensor) -> bool:
    """Whether the device is the processor, through whatever backend.

    >>> Tensor([1, 2], device="numpy").is_cpu
    True
    """
    return devices.kind_of(self.device) in ("cpu", "interpreter")


def get_device(self: Tensor) -> int:
    """The number of the device, such as 0 for "cuda:0"; -1 for the processor.

    >>> Tensor([1, 2], device="numpy").get_device()
    -1
    """
    return -1 if is_cpu(self) else self.device.index or 0


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """`to("cuda")`, or to the CUDA device of this number. Raises DeviceError where there is none.

    >>> from rulegrad import Tensor, cuda
    >>> Tensor([1]).cuda().device if cuda.is_available() else "cuda:0"
    'cuda:0'
    """
    return self.to(cuda_device(device))


def itself(self: Tensor, *_: Any) -> Tensor:
    """This tensor: what PyTorch's method of this name does is not needed here.

    >>> x = Tensor([1.0])
    >>> x.pin_memory() is x
    True
    """
    return self


def assign(self: Tensor, value: TensorCore | Array | Sequence[Any]) -> Tensor:
    """Take the values of `value`, of the same shape and dtype, and forget the old ones. Returns the tensor.

    Lists and arrays are converted to the dtype. A leaf with a gradient stays one, and a tensor in parts on a mesh stays
    in these, unless `value` is in parts itself. Graphs that were built on the
    old values keep them.

    >>> x = Tensor([1, 2])
    >>> y = x + 1
    >>> x.assign([5, 6]).tolist(), y.tolist()
    ([5, 6], [2, 3])
    """
    if isinstance(value, TensorCore) and _core.assign(self, value):
        return self
    if not isinstance(value, TensorCore):
        value = type(self)(as_operand(self, value, "assign"), self.dtype, self._device or None)
    if value.shape != self.shape:
        raise ShapeError(f"assign: the shapes {self.shape} and {value.shape} differ; reshape or expand first")
    if value.dtype != self.dtype:
        raise DtypeError(f"assign: a {value.dtype} tensor into a {self.dtype} one; cast it first")
    given: Any = value
    self._replace(given.to(self.device) if parts_of(self) else given)
    return self


def text(self: Tensor) -> str:
    text = values_as_text(self.numpy(), "Tensor(")
    gradient = ", requires_grad=True" if self.requires_grad else ""
    return f"Tensor({text}, dtype={self.dtype}, device={self.device}{gradient})"
