"""The heart of a tensor: a node of the graph, what it depends on, and whether it has a gradient."""

from __future__ import annotations

import math
import sys
import weakref
from typing import TYPE_CHECKING, Any

from rulegrad._core import NodeHolder, Size, detached, part_of, viewed
from rulegrad.errors import DeviceError, DtypeError, GradientError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import devices, source_lines
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor import aliasing, device_names
from rulegrad.tensor.aliasing import View
from rulegrad.tensor.axes import CallableSize
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.constants import constant
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import (
    BackwardCall,
    GradientPoint,
    History,
    join,
    of_constant,
    own_node,
    points_below,
    reads,
)
from rulegrad.tensor.storage import PYTHON_NUMBERS, device_name, host_array, scalar_dtype, upload

if TYPE_CHECKING:
    from typing_extensions import Self

#: Leaves whose values are not in buffers of their own yet, by id. (Not a set: `==` of tensors is elementwise.)
pending_leaves: weakref.WeakValueDictionary[int, TensorCore] = weakref.WeakValueDictionary()
#: The leaf that a buffer belongs to, by buffer id: two leaves never share a buffer.
_leaf_of_buffer: weakref.WeakValueDictionary[int, TensorCore] = weakref.WeakValueDictionary()


class TensorCore(NodeHolder):
    """The state of every tensor. The operations are added by the classes that derive from it."""

    __slots__ = (
        "__weakref__",
        "_changes",
        "_device",
        "_gradient_of",
        "_history",
        "_leaf",
        "_requires_grad",
        "_view",
        "grad",
    )
    # NumPy leaves `array + tensor` to the tensor; see `numpy_functions`.
    __array_ufunc__: Any = None

    _history: History  # None of a view: that of its base
    _view: View | None
    _changes: int  # how often the values have changed
    _device: str  # "": no buffer and no wish, so the default device
    _requires_grad: bool
    _leaf: bool
    _gradient_of: tuple[BackwardCall, ...]  # the calls of `backward` that it is a gradient or the root of
    grad: Self | None

    def __init__(
        self,
        data: Any = (),
        dtype: Any = None,
        device: str | None = None,
        requires_grad: bool = False,
        *sizes: int,
    ) -> None:
        """A tensor with the values of `data`: a number, nested lists, a NumPy array, a tensor, or a UOp.

        A tensor's gradient is not taken over; a UOp that was built on the nodes of tensors with gradients is a result
        of theirs (`apply_op` is the simpler way to one).
        dtype: a name such as "float32", or a NumPy dtype. By default arrays keep theirs; Python floats give
        float32, ints int64. device: such as "opencl:0" or "numpy"; by default `data`'s or the default device.
        Several ints are sizes, as in PyTorch, of a tensor of float32 whose values are set later.
        Raises ShapeError for ragged lists, DtypeError for values that do not fit, DeviceError.

        >>> from rulegrad import Tensor
        >>> Tensor([[1, 2], [3, 4]], dtype="float32").shape
        (2, 2)
        >>> Tensor(2, 3).shape, Tensor(2).shape
        ((2, 3), ())
        """
        if type(dtype) is int:
            self._set_empty(data, dtype, device, requires_grad, *sizes)
            return
        wanted = None if dtype is None else as_dtype(dtype)
        if device is not None:
            device = device_name(device)
        self._set(None, None, device or "")
        if isinstance(data, TensorCore):
            self._adopt(data, wanted, device)
        elif isinstance(data, UOp):
            made = _from_graph(type(self), data)
            tracked, made._requires_grad = made._requires_grad, False
            self._adopt(made, wanted, device)
            self._requires_grad = tracked and as_dtype(self._uop.dtype).is_inexact
        elif type(data) in PYTHON_NUMBERS and not device and not (wanted or scalar_dtype(data)).is_complex:
            self._uop = constant(data, wanted or scalar_dtype(data), "Tensor(data)")
        else:
            buffer = upload(host_array(data, wanted), device or "")
            self._set(buffer.uop, buffer, buffer.device)
            del buffer
        if source_lines.recording():
            source_lines.note(self._uop)
        if requires_grad:
            self.requires_grad = True

    def _set_empty(self, *sizes: Any) -> None:
        """A tensor of these sizes: arguments that were not given are None and False."""
        made: Any = type(self)
        empty = made.empty(*(size for size in sizes if size is not None and size is not False))
        self._set(empty.uop, empty._past(), empty._device)

    def _set(self, uop: Any, history: History, device: str) -> None:
        self._uop = uop
        self._history = history
        self._view = None
        self._changes = 0
        self._device = device
        self._requires_grad = False
        self._leaf = False
        self._gradient_of = ()
        self.grad = None

    def _adopt(self, other: TensorCore, dtype: DType | None, device: str | None) -> None:
        """Take the value of `other`, without its gradient."""
        if device and device != other.device:
            raise DeviceError(
                f"Tensor(data): data is on {other.device} and device={device!r} was asked for; use .to({device!r})"
            )
        uop = other.uop
        if other._requires_grad:
            uop = UOp("DETACH", (uop,))
        if dtype is not None and dtype != uop.dtype:
            uop = UOp("CAST", (uop,), dtype)
        self._set(uop, of_constant(other._past()), other._device)

    # ---- results of operations ----

    @classmethod
    def _new(cls, uop: UOp, history: History = None, device: str = "") -> Self:
        """A tensor for the node `uop`, without a gradient."""
        new = cls.__new__(cls)
        new._set(uop, history, device)
        if source_lines.recording():
            source_lines.note(uop)
        return new

    def _result(self, uop: UOp, *others: TensorCore) -> Self:
        """The tensor for `uop`, which was computed from `self` and `others`."""
        new = type(self).__new__(type(self))
        history, device, tracked = self._history, self._device, self._requires_grad
        if history is None:
            history = self._past()
        is_constant = not gradients_enabled()
        if is_constant:
            history = of_constant(history)
        for other in others:
            past = other._history or other._past()
            history = join(history, of_constant(past) if is_constant else past)
            device = common_device(uop, device, other._device)
            tracked = tracked or other._requires_grad
        if tracked and is_constant:
            uop, tracked = UOp("DETACH", (uop,)), False
        new._set(uop, history, device)
        new._requires_grad = tracked and as_dtype(uop.dtype).is_inexact
        if source_lines.recording():
            source_lines.note(uop)
        return new

    def _same(self) -> Self:
        """Another tensor of the same value: what an operation gives that changes nothing, as `+=` may come later."""
        return self._result(self.uop)

    def _viewed(self, op: str, dtype: DType | None = None, **attributes: Any) -> Self:
        """A view of this tensor: one movement, with the op's attributes or, where it has to name one, a dtype."""
        made: Self | None = (
            viewed(self, op, attributes, aliasing.obstacle_of(op, attributes)) if dtype is None else None
        )
        if made is not None:
            return made
        uop = UOp(op, (self.uop,), **attributes) if dtype is None else UOp(op, (self.uop,), dtype)
        view = self._result(uop)
        aliasing.attach(view, self, ((op, dtype, attributes),))
        return view

    def _part(self, begin: tuple[int, ...], end: tuple[int, ...], shape: tuple[int, ...]) -> Self:
        """The view from `begin` to `end` of each axis, in a shape of as many elements."""
        made: Self | None = part_of(self, begin, end, shape)
        if made is not None:
            return made
        uop = self.uop
        steps: tuple[aliasing.Step, ...] = ()
        if end != uop.shape or any(begin):
            steps = (("SHRINK", None, {"begin": begin, "end": end}),)
            uop = UOp("SHRINK", (uop,), begin=begin, end=end)
        if shape != uop.shape:
            steps += (("RESHAPE", None, {"shape": shape}),)
            uop = UOp("RESHAPE", (uop,), shape=shape)
        view = self._result(uop)
        aliasing.attach(view, self, steps)
        return view

    def _shared(self) -> Self:
        """A view of the whole tensor as it is."""
        view = self._result(self.uop)
        aliasing.attach(view, self, ())
        return view

    def _past(self) -> History:
        """The history behind the graph: of a view that of its base, where it has not been computed by itself."""
        history = self._history
        if history is None and self._view is not None and self._view.base is not None:
            history = self._view.base._past()
        return history if self._requires_grad else of_constant(history)

    # ---- facts ----

    @property
    def uop(self) -> UOp:
        """The node of the graph that computes this tensor. A leaf with a gradient is put into a buffer first.

        >>> (Tensor([1, 2]) + 1).uop.op
        'ADD'
        """
        if self._view is not None:
            aliasing.renew(self)
        if self._leaf and id(self) in pending_leaves:
            if is_tracing():
                self._name_leaf()
            else:
                from rulegrad.tensor.realize import settle_leaves  # late: realize is written with this class

                settle_leaves(self.device)
        return self._uop

    @property
    def shape(self) -> Size:
        """The extents of the axes, () for a scalar: a tuple, with the number of elements in `shape.numel()`.

        >>> Tensor([[1, 2, 3]]).shape, Tensor(1).shape, Tensor([[1, 2, 3]]).shape.numel()
        ((1, 3), (), 3)
        """
        return self._uop.size

    @property
    def dtype(self) -> DType:
        """The dtype of the values.

        >>> Tensor([1, 2]).dtype, Tensor([0.5]).dtype
        (DType('int64'), DType('float32'))
        """
        return as_dtype(self._uop.dtype)

    @property
    def device(self) -> device_names.device:
        """The device that the values are on, or are computed on: "opencl:0", "numpy", …; a text with PyTorch's `type`.

        >>> Tensor([1, 2], device="numpy").device
        'numpy'
        """
        if self._view is not None and self._view.base is not None:
            return self._view.base.device
        return device_names.named(self._device or devices.default())

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> Tensor([[1, 2, 3]]).ndim
        2
        """
        return len(self.shape)

    @property
    def size(self) -> CallableSize:
        """The number of elements. `size()` is the shape and `size(dim)` an extent, as in PyTorch.

        >>> x = Tensor.ones(2, 3)
        >>> x.size, x.size(), x.size(-1)
        (6, (2, 3), 3)
        """
        return CallableSize(math.prod(self.shape), self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of one element.

        >>> Tensor([0.5]).itemsize
        4
        """
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements.

        >>> Tensor.zeros(2, 3).nbytes
        24
        """
        return self.size * self.dtype.itemsize

    # ---- gradients ----

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` follows this tensor. Setting it to True makes the tensor a leaf, which gets `.grad`.

        Only a leaf can be set to False: what was computed from others keeps their gradient, and `detach` leaves it out.

        >>> x = Tensor([1.0, 2.0])
        >>> x.requires_grad = True
        >>> (x * 2).requires_grad, x.detach().requires_grad
        (True, False)
        """
        if self._view is not None:
            aliasing.renew(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        dtype = self.dtype  # read first of all: a trace meets the tensor as it was
        if value and not dtype.is_inexact:
            raise DtypeError(f"requires_grad: a tensor of dtype {dtype} has no gradient; cast it to a float first")
        if self._view is not None:
            aliasing.renew(self)
        if value and self._view is not None and self._view.moved is not None:
            raise GradientError("requires_grad: the order or number of elements was changed in place; use x.clone()")
        if value and not self._requires_grad:
            self._requires_grad = self._leaf = True
            if self._view is not None:
                self._view.detached = True
            self._claim()
        elif not value and self._requires_grad:
            if not self._leaf:
                raise GradientError(
                    "requires_grad=False: this tensor was computed from others that require gradients; use detach()"
                )
            self._requires_grad = self._leaf = False
            pending_leaves.pop(id(self), None)
            self._disown()

    def requires_grad_(self, value: bool = True) -> Self:
        """Sets `requires_grad` and returns the tensor.

        >>> Tensor([1.0]).requires_grad_().requires_grad
        True
        """
        self.requires_grad = value
        return self

    def detach(self) -> Self:
        """The same values, without a gradient; a view: an update of either is one of both.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> _ = (x * x.detach()).sum().backward()
        >>> x.grad.tolist()
        [1.0, 2.0]
        """
        made: Self | None = detached(self)
        if made is not None:
            return made
        waits = self._leaf and id(self) in pending_leaves and not is_tracing()
        uop = self._uop if waits else self.uop
        view = self._new(UOp("DETACH", (uop,)) if self._requires_grad else uop, of_constant(self._past()), self._device)
        link = aliasing.attach(view, self, (), detached=True)
        if waits:  # until somebody asks for the node: `state_dict` of a new model draws no random numbers
            link.root = None
        return view

    def _claim(self) -> None:
        """Make this leaf the owner of a buffer, or wait for one.

        Its node stands for this leaf alone in graphs: what is computed from the values without it has another.
        """
        node = self._uop
        while node.op == "DETACH":
            node = node.src[0]
        if node.op != "BUFFER":
            pending_leaves[id(self)] = self
            return
        buffer = Buffer.of(node)
        if self._is_taken(buffer) or self._others_hold(buffer):
            buffer = buffer.alias()
        self._own(buffer)

    def _name_leaf(self) -> None:
        """Let a node of its own stand for a leaf whose values wait for the end of a trace."""
        value = self._uop  # which computes a leaf from outside of the trace
        if id(self) in pending_leaves:
            del pending_leaves[id(self)]
            self._uop = own_node(value)
            self._history = join(self._past(), GradientPoint(self._uop, None, leaf=self))

    def _own(self, buffer: Buffer) -> None:
        """Let a buffer that nobody else's graphs read stand for this leaf."""
        _leaf_of_buffer[buffer.id] = self
        self._uop, self._history = buffer.uop, GradientPoint(buffer.uop, buffer, leaf=self)

    def _others_hold(self, buffer: Buffer) -> bool:
        """Whether others than this tensor hold the buffer: tensors with the same values, graphs, views."""
        # Four hold it here: the history, the caller, and two arguments.
        return sys.getrefcount(buffer) > 4 or (self._history is not buffer and sys.getrefcount(self._history) > 2)

    def _disown(self) -> None:
        """Be no leaf any more: what is computed from now on does not depend on the one that this was."""
        if self._uop.op == "BUFFER":
            buffer = Buffer.of(self._uop)
            if self._others_hold(buffer):
                buffer = buffer.alias()
            self._uop, self._history = buffer.uop, buffer

    def _settle(self, buffer: Buffer, is_new: bool = False) -> None:
        """From now on the values are in `buffer`; is_new: which no graph reads yet."""
        uop, history = self._uop, self._past()
        if self._leaf:
            pending_leaves.pop(id(self), None)
        if self._is_taken(buffer, is_new):
            buffer = buffer.alias()
        self._uop, self._history, self._device = buffer.uop, buffer, buffer.device
        if self._leaf:
            self._own(buffer)
        elif self._requires_grad:
            self._history = GradientPoint(buffer.uop, buffer, source=uop, source_history=history)
        aliasing.settled(self)

    def _is_taken(self, buffer: Buffer, is_new: bool = False) -> bool:
        """Whether `buffer` (the result of a graph that changes nothing) stands for another tensor with a gradient."""
        if self._leaf and self._reads_base(buffer.uop):
            return True
        if _leaf_of_buffer.get(buffer.id, self) is not self:
            return True
        if self._leaf or is_new:
            return False
        # A point whose source reads the point's own buffer would get the gradients of both.
        return reads(self._past(), buffer, points_only=not self._requires_grad)

    def _reads_base(self, uop: UOp | None = None) -> bool:
        """Whether the node of a view is that of its base, too: a leaf's must be its own."""
        link = self._view
        return link is not None and link.base is not None and link.base._uop == (uop or self._uop)

    def _load(self, value: TensorCore) -> None:
        """Have the value of `value` from now on, and its gradient; a leaf stays one, and takes none."""
        uop = value.uop
        if self._device == value._device:  # it stays where it lies on a mesh
            uop = in_same_parts(self._uop, uop)
        self._changes += 1
        if self._leaf:
            if self._uop.op == "BUFFER":
                number = self._uop.attrs["id"]
                if _leaf_of_buffer.get(number) is self:
                    del _leaf_of_buffer[number]
            uop = UOp("DETACH", (uop,)) if value._requires_grad else uop
        self._uop, self._history, self._device = uop, value._past(), value._device or self._device
        if self._leaf:
            self._claim()
        else:
            self._requires_grad, self._gradient_of = value._requires_grad, value._gradient_of

    def _replace(self, value: TensorCore, name: str = "assign") -> None:
        """Take the value of `value`, without its gradient; in what this is a view of, too."""
        aliasing.check_writable(self, name)
        uop = UOp("DETACH", (value.uop,)) if value._requires_grad else value.uop
        plain = value._new(uop, value._past(), value._device)
        plain._gradient_of = self._gradient_of
        aliasing.write(self, plain)


def in_same_parts(node: UOp, value: UOp) -> UOp:
    """A value, in the parts on a mesh that a buffer is in; as it is, where it is a buffer in parts itself."""
    mesh = node.attrs["mesh"] if node.op == "BUFFER" else ()
    if not mesh or (value.op == "BUFFER" and value.attrs["mesh"]):
        return value
    return UOp("REDISTRIBUTE", (value,), mesh=mesh, placement=node.attrs["placement"])


def common_device(uop: UOp, first: str, second: str) -> str:
    if first and second and first != second:
        raise DeviceError(f"{uop.op.lower()}: the operands are on {first} and {second}; move one with .to({first!r})")
    return first or second


def _from_graph(cls: type[TensorCore], uop: UOp) -> TensorCore:
    """A tensor for a graph that was made by hand; keeps its buffers alive, and the tensors that have a gradient."""
    buffers = tuple(Buffer.of(node) for node in uop.toposort() if node.op == "BUFFER")
    devices = {buffer.device for buffer in buffers}
    if len(devices) > 1:
        raise DeviceError(f"Tensor(uop): the graph reads buffers on {' and '.join(sorted(devices))}; use one device")
    points = points_below(uop)
    tracked = bool(points) and gradients_enabled()
    graph = UOp("DETACH", (uop,)) if points and not tracked else uop
    made = cls._new(graph, (*buffers, *points), devices.pop() if devices else "")
    made._requires_grad = tracked
    return made
