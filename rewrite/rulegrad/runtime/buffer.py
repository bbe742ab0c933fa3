"""Buffers: the storage behind BUFFER nodes."""

from __future__ import annotations

import itertools
import math
import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad._core import BufferBase, connect_buffers, is_in_parts, new_buffer
from rulegrad.errors import DeviceError, DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.device import Device, Handle
from rulegrad.runtime.memory_table import live
from rulegrad.runtime.several import Several
from rulegrad.support.locations import shown, user_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulegrad.runtime.index_checks import Waiting

_next_id = itertools.count(1)


def next_id() -> int:
    """A number that no buffer has: buffers that exist have smaller ones, and those that are made later larger ones.

    >>> first = next_id()
    >>> Buffer((4,), "float32", "numpy").id > first
    True
    """
    return next(_next_id)


#: Bytes of a buffer that is worth to know the line of.
LARGE = 1 << 16


def as_bools(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of bools as it is, or one with True where a byte is neither 0 nor 1: kernels count on these two.

    >>> import numpy as np
    >>> as_bools(np.array([0, 1, 2, 255], np.uint8).view(bool)).tolist()
    [False, True, True, True]
    """
    values = array.view(np.uint8)
    return np.not_equal(values, 0) if values.size and values.max() > 1 else array


class Parts(NamedTuple):
    """How a tensor lies on the devices of a mesh: each has a part of it.

    placement: for each axis of the mesh the axis of the tensor that is split along it, or -1.

    >>> Parts((5, 4), (2, 2), (0, -1)).local_shape
    (3, 4)
    """

    shape: tuple[int, ...]
    mesh: tuple[int, ...]
    placement: tuple[int, ...]

    @staticmethod
    def of(node: UOp) -> Parts | None:
        """How the values of a BUFFER node lie on a mesh; None where each device has all of them.

        >>> Parts.of(Buffer((4,), "float32", "numpy*2", Parts((4,), (2,), (0,))).uop)
        Parts(shape=(4,), mesh=(2,), placement=(0,))
        """
        mesh = node.attrs["mesh"]
        return Parts(node.shape, mesh, node.attrs["placement"]) if mesh else None

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the part of one device; the last ones of an axis may go beyond its end."""
        counts = [1] * len(self.shape)
        for size, axis in zip(self.mesh, self.placement, strict=True):
            if axis >= 0:
                counts[axis] *= size
        return tuple(-(-extent // count) for extent, count in zip(self.shape, counts, strict=True))


class Layout(NamedTuple):
    """The common properties of the buffers at one position of a plan; checked once."""

    shape: tuple[int, ...]
    dtype: DType
    device: str
    nbytes: int
    uop: UOp  #: a BUFFER node of this kind, with a number that no buffer has

    @staticmethod
    def of(shape: tuple[int, ...], dtype: str, device: str, parts: Parts | None = None) -> Layout:
        """Raises DtypeError or ShapeError for what no buffer can be. parts: of a tensor in parts, with its shape."""
        one = Buffer(shape, dtype, device, parts)
        uop = UOp("BUFFER", (), one.dtype, **{**one.uop.attrs, "id": 0})
        return Layout(one.shape, one.dtype, one.device, one.nbytes, uop)


class Buffer(BufferBase):
    """Storage for an array of `shape` and `dtype` on a device; memory is allocated at its first use.

    A graph names it by its number (`buffer.uop`), which is never used again. Whoever needs the contents
    holds the Buffer: when the last one lets go, the memory is free for others.

    >>> import numpy as np
    >>> buffer = Buffer((2,), "float32", "numpy")
    >>> buffer.copy_in(np.array([1, 2], "float32"))
    >>> buffer.numpy()
    array([1., 2.], dtype=float32)
    """

    __slots__ = ("__weakref__",)

    # The fields are the engine's; beside those that are public there are
    # _handle, the memory; _borrowed: it is somebody else's, and the handle or the owner keeps it alive; _owner.

    #: The checks of indices that the contents depend on, and whose end nobody has waited for.
    checks: tuple[Waiting, ...]

    def __init__(self, shape: Sequence[int], dtype: Any, device: str | None = None, parts: Parts | None = None) -> None:
        self.id: int = next(_next_id)
        self._handle: Handle = None
        self._borrowed = False  # the memory is somebody else's, and the handle or the owner keeps it alive
        self._owner: Buffer | None = None
        self.is_lent = False  #: others see the memory, and might write into it
        self._uop: UOp | None = None
        self.checks = ()
        self.shape: tuple[int, ...] = tuple(shape) if parts is None else parts.shape
        self.dtype: DType = as_dtype(dtype)
        self.device: str = devices.default() if device is None else devices.canonical(device)
        if self.dtype.kind in ("void", "index"):
            raise DtypeError(f"{self.dtype} cannot be stored; cast it to a dtype with a size, such as int64")
        if self.shape and min(self.shape) < 0:
            raise ShapeError(f"a shape has no negative sizes, but this one is {self.shape}")
        local = self.shape if parts is None else parts.local_shape
        self.nbytes: int = math.prod(local) * self.dtype.itemsize
        if parts is not None:
            self._uop = UOp(
                "BUFFER", (), self.dtype, id=self.id, shape=self.shape, device=self.device, mesh=parts.mesh,
                placement=parts.placement,
            )  # fmt: skip
        #: The user's file and line, of a buffer that is large enough to matter when memory runs out.
        self.made_at: tuple[str, int] | None = user_location() if self.nbytes >= LARGE else None
        live[self.id] = weakref.ref(self)

    @staticmethod
    def like(layout: Layout, has_memory: bool = False, made_at: tuple[str, int] | None = None) -> Buffer:
        """A new buffer of that layout; with memory, it is allocated now. Raises OutOfMemoryError.

        made_at: the user's file and line, which is looked for where it is not given and the buffer is large.
        """
        location = None if layout.nbytes < LARGE else made_at or user_location()
        buffer: Buffer = new_buffer(layout, has_memory, location)
        return buffer

    @staticmethod
    def of(uop: UOp) -> Buffer:
        """The live buffer of a BUFFER node. Raises DeviceError when nobody holds it any more."""
        return Buffer.numbered(uop.attrs["id"])

    @staticmethod
    def numbered(number: int) -> Buffer:
        """The live buffer with this number. Raises DeviceError when nobody holds it any more."""
        reference = live.get(number)
        found = reference() if reference is not None else None
        if found is None:
            raise DeviceError(
                f"buffer {number} is gone: nothing holds it any more. Keep the Tensor (or the Buffer) that "
                "the graph reads"
            )
        return found

    @staticmethod
    def around(array: np.ndarray[Any, Any], name: str | None = None) -> Buffer | None:
        """A buffer whose memory is that of a contiguous array; None where the device cannot use it as it is.

        >>> import numpy as np
        >>> Buffer.around(np.array([1.0, 2.0]), "numpy").numpy()
        array([1., 2.])
        """
        buffer = Buffer(array.shape, array.dtype, name)
        device: Any = devices.get(buffer.device)
        lends = getattr(device, "in_host_memory", False)
        if not lends or not array.flags.c_contiguous or not array.flags.aligned:
            return None
        if array.dtype == bool and as_bools(array) is not array:
            return None
        if buffer.nbytes:
            buffer._handle = device.share(array.reshape(-1).view(np.uint8))
            buffer._borrowed = True
        return buffer if buffer.is_allocated or not buffer.nbytes else None

    def alias(self) -> Buffer:
        """A buffer with a number of its own over the same memory, which is not overwritten as long as both are held.

        >>> import numpy as np
        >>> buffer = Buffer.around(np.array([1.0, 2.0]), "numpy")
        >>> other = buffer.alias()
        >>> other.id == buffer.id, other.numpy()
        (False, array([1., 2.]))
        """
        buffer = Buffer(self.shape, self.dtype, self.device, self.parts)
        buffer._handle, buffer._borrowed, buffer._owner = self._handle, True, self
        buffer.checks = self.checks
        return buffer

    def host_view(self, writable: bool = False) -> np.ndarray[Any, Any] | None:
        """The contents as an array over the buffer's own memory; None where the host cannot see it.

        The array keeps the buffer. It is read-only, because equal tensors may share one buffer, unless `writable` is
        for someone who has no way to be told so. Raises IndexRangeError where the contents
        depend on an index that was out of range.

        >>> import numpy as np
        >>> Buffer.around(np.array([1.0, 2.0]), "numpy").host_view()
        array([1., 2.])
        """
        memory = self._host_memory() if self.parts is None else None
        if memory is None:
            return None
        self.is_lent = True
        view = np.asarray(_Kept(self, memory)).view(self.dtype.numpy).reshape(self.shape)
        view.flags.writeable = writable
        return view

    def _host_memory(self) -> np.ndarray[Any, Any] | None:
        """The checked contents as bytes in the buffer's own memory; None where the host cannot see it."""
        self.verify()
        if not self.nbytes:
            return np.empty(0, np.uint8)
        device: Any = devices.get(self.device)
        return device.memory_of(self.handle, self.nbytes) if getattr(device, "in_host_memory", False) else None

    def part(self, function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], nbytes: int) -> Any:
        """A new array of so many bytes with what a function, of movements, makes of the contents.

        None where copying all of the contents to the host would be too much for so small a part.

        >>> import numpy as np
        >>> Buffer.around(np.array([1.0, 2.0]), "numpy").part(lambda array: array[::-1], 16)
        array([2., 1.])
        """
        if self.parts is not None:
            return None
        memory = self._host_memory() if self._handle is not None or not self.nbytes else None
        if memory is not None:
            return np.array(function(memory.view(self.dtype.numpy).reshape(self.shape)), order="C")
        return np.array(function(self.numpy()), order="C") if self.nbytes - nbytes <= LARGE else None

    @property
    def uop(self) -> UOp:
        """The BUFFER node that stands for this buffer in a graph."""
        if self._uop is None:
            self._uop = UOp("BUFFER", (), self.dtype, id=self.id, shape=self.shape, device=self.device)
        return self._uop

    @property
    def parts(self) -> Parts | None:
        """How the values lie on the devices of a mesh; None where each has all of them."""
        node = self.uop
        return Parts.of(node) if is_in_parts(node) else None

    def fill_parts(self, value: Any) -> None:
        """Fills the part of each device with a value."""
        parts = self.parts
        if parts is not None and self.nbytes:
            array = np.full(parts.local_shape, value, self.dtype.numpy)
            devices.get(self.device).copy_in(self.handle, array)  # to each part of a device that has several

    def copy_in_parts(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Takes the contents of arrays, one for each device of this process, of the shape of a part."""
        contiguous = [np.ascontiguousarray(array) for array in arrays]
        if not self.nbytes:
            return
        for (device, handle), array in zip(memory_of_parts(self.device, self.handle), contiguous, strict=True):
            device.copy_in(handle, array)

    def copied_parts(self) -> Buffer:
        """A new buffer with the same parts of the devices of this process."""
        copy = Buffer(self.shape, self.dtype, self.device, self.parts)
        copy.copy_in_parts(self.arrays_of_parts())
        return copy

    def arrays_of_parts(self) -> list[np.ndarray[Any, Any]]:
        """The parts of the devices of this process, as new arrays. Raises IndexRangeError as `numpy` does."""
        self.verify()
        shape = self.shape if self.parts is None else self.parts.local_shape
        found = []
        for device, handle in memory_of_parts(self.device, self.handle):
            found.append(np.empty(shape, self.dtype.numpy))
            if self.nbytes:
                device.copy_out(handle, found[-1])
        return found

    @property
    def handle(self) -> Handle:
        """The memory, as the device names it; allocated now if it was not. Raises OutOfMemoryError."""
        if self._handle is None:
            self._handle = devices.allocator(self.device).allocate(self.nbytes, self._described)
        return self._handle

    @property
    def kind(self) -> str:
        """`float32 3 × 4`"""
        return f"{self.dtype} {' × '.join(map(str, self.shape)) or 'scalar'}"

    def _described(self) -> str:
        return f"{self.kind} {shown(self.made_at)}"

    @property
    def is_allocated(self) -> bool:
        return self._handle is not None

    @property
    def owns_memory(self) -> bool:
        """Whether there is memory, and it is not somebody else's. An alias takes over what nobody else holds."""
        owner = self._owner
        # The owner is held by its alias, here, and by the argument.
        if owner is not None and sys.getrefcount(owner) == 3 and owner.owns_memory:
            self._handle, owner._handle = owner._handle, None
            self._borrowed, self._owner = False, None
        return self._handle is not None and not self._borrowed

    def take_memory(self, other: Buffer) -> None:
        """Takes the memory of a buffer of the same size on the same device, which has no contents any more."""
        self._handle, other._handle = other._handle, None

    def release(self) -> None:
        """Gives the memory back; the buffer has no contents any more."""
        handle, self._handle = self._handle, None
        if handle is not None and not self._borrowed:
            devices.allocator(self.device).free(handle, self.nbytes)

    def copy_in(self, array: np.ndarray[Any, Any]) -> None:
        """Takes the contents of an array of the same shape and dtype. Raises ShapeError or DtypeError."""
        if self.parts is not None:
            raise DeviceError(f"{self!r} is in parts on the devices of a mesh; give each of them its part")
        if array.shape != self.shape:
            raise ShapeError(f"an array of shape {array.shape} does not fit a buffer of shape {self.shape}")
        if array.dtype != self.dtype.numpy:
            raise DtypeError(f"an array of {array.dtype} was given to a buffer of {self.dtype}; convert it")
        if self.nbytes:
            contiguous = np.ascontiguousarray(array).reshape(self.shape)
            devices.get(self.device).copy_in(self.handle, contiguous)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The contents as a new array.

        Raises DeviceError when nothing was ever written, or each device has a part of them, and IndexRangeError where
        the contents depend on an index that was out of range.
        """
        self.verify()
        if self.parts is not None:
            raise DeviceError(f"{self!r} is in parts on the devices of a mesh; gather it first")
        array = np.empty(self.shape, self.dtype.numpy)
        if self.nbytes:
            if self._handle is None:
                raise DeviceError(f"{self!r} has no contents yet; copy_in or realize comes first")
            devices.get(self.device).copy_out(self._handle, array)
        return array

    def verify(self) -> None:
        """Waits for the checks of indices that the contents depend on. Raises IndexRangeError where one has failed."""
        for waiting in self.checks:
            waiting.verify()
        self.checks = ()

    def __repr__(self) -> str:
        return f"Buffer(id={self.id}, shape={self.shape}, dtype={self.dtype}, device={self.device!r})"


connect_buffers(Buffer, _next_id)


def memory_of_parts(name: str, handle: Handle) -> list[tuple[Device, Handle]]:
    """For each part of a device in this process the device that it is on, and its memory; all parts are at work."""
    device = devices.get(name)
    if not isinstance(device, Several):
        return [(device, handle)]
    device.flush()
    return list(zip(device.devices, handle, strict=True))


class _Kept:
    """Memory as NumPy's array interface, together with the buffer that must live as long."""

    def __init__(self, buffer: Buffer, memory: np.ndarray[Any, Any]) -> None:
        self.buffer, self.memory = buffer, memory
        self.__array_interface__ = memory.__array_interface__
