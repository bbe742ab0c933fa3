"""A trace: an eager call whose values wait, and what it tells of the tensors that it reads and writes.

While something is traced, the slots `_uop` and `grad` of tensors are watched. At its first read a tensor from outside
gets a stand-in, a buffer of a number of its own on the same memory: so every leaf of the graphs names one tensor, even
where several share a buffer. What is neither argument nor state was made inside: a constant. A leaf with a gradient
has a buffer of its own already, and keeps it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from rulegrad._core import NodeHolder
from rulegrad.capture.sources import Kind, Source, kind_of
from rulegrad.errors import CaptureError
from rulegrad.ir import UOp
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer
from rulegrad.support import forks
from rulegrad.support.locations import user_line
from rulegrad.tensor import capturing
from rulegrad.tensor.aliasing import View, release, renew
from rulegrad.tensor.core import TensorCore, _leaf_of_buffer, pending_leaves
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.realize import needs_buffer, realize_all
from rulegrad.tensor.trees import flatten

_UOP: Final[Any] = NodeHolder.__dict__["_uop"]
_GRAD: Final[Any] = TensorCore.__dict__["grad"]
_SLOTS: Final = ("_history", "_device", "_requires_grad", "_leaf", "_changes", "_gradient_of", "_view")
_PART: Final = "it is an argument of a captured function and a part of another tensor"

_lock = forks.lock()


class _Watched:
    """A slot of tensors while something is traced: tells the trace of this thread of each access."""

    def __init__(self, slot: Any, name: str) -> None:
        self._slot, self._name = slot, name

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self
        trace: Any = capturing.current.trace
        if trace is not None:
            trace.read(self._name, tensor)
        return self._slot.__get__(tensor)

    def __set__(self, tensor: Any, value: Any) -> None:
        trace: Any = capturing.current.trace
        if trace is not None:
            trace.write(self._name, tensor, value)
        self._slot.__set__(tensor, value)


def _watch(more: int) -> None:
    """The slots are watched as long as any thread traces."""
    core: Any = TensorCore
    with _lock:
        source_lines.count_traces(more)
        if source_lines.anybody_traces():
            core._uop, core.grad = _Watched(_UOP, "_uop"), _Watched(_GRAD, "grad")
        else:
            del core._uop
            core.grad = _GRAD


class _Before(NamedTuple):
    """A tensor from outside as it was."""

    tensor: TensorCore
    uop: UOp
    slots: tuple[Any, ...]
    link: tuple[Any, int] | None  # of a view

    @property
    def requires_grad(self) -> bool:
        flag: bool = self.slots[_SLOTS.index("_requires_grad")]
        return flag

    @property
    def leaf(self) -> bool:
        flag: bool = self.slots[_SLOTS.index("_leaf")]
        return flag


class Trace:
    """A record of the tensors that a function reads and writes. Used as a context: inside it the function runs."""

    def __init__(self, arguments: Sequence[TensorCore], like: Trace | None = None) -> None:
        """like: a trace of the same function, whose `each_call`s serve for this one, too."""
        self._like = like
        self.known: dict[int, TensorCore] = {}  # tensors from outside that were read or written
        self.inside: dict[int, weakref.ref[TensorCore]] = {}  # tensors that were made here
        self.written: dict[int, TensorCore] = {}
        self.grads_written: dict[int, TensorCore] = {}  # tensors whose `grad` was set
        self.gradient_kinds: dict[int, Kind | None] = {}  # of the gradients that there were
        self.named: dict[int, Source] = {}  # what a buffer's number stands for
        self.tracked: set[int] = set()  # numbers of buffers that stand for tensors with gradients
        self.values: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self.calls: list[Callable[[], Any]] = []
        self.called: list[list[TensorCore]] = []
        self.trees: list[Any] = []  # what these calls gave
        self.adopted: dict[int, Any] = {}  # tensors of state that were made here, as if they had been there before
        self.constants: set[int] = set()  # numbers of buffers that were made inside, of values on the host
        self._held: list[Any] = []
        self.before: dict[int, _Before] = {}
        self._grads_before: dict[int, Any] = {}
        self.owner_of: dict[int, TensorCore] = {}  # the tensor that a gradient belongs to, by its id
        self._bases: set[int] = set()  # of arguments that are views
        self._arguments = arguments

    def __enter__(self) -> Trace:
        for number, tensor in enumerate(self._arguments):
            self._begin(tensor)
            if tensor._view is not None and tensor._view.base is not None and not tensor._leaf:
                base: Any = tensor._view.base
                while base is not None:
                    self._bases.add(id(base))
                    base = base._view.base if base._view is not None else None
                tensor._view = View(None, (), False, _PART)
            self._name(tensor, Source("argument", number))
        _watch(1)
        capturing.current.trace = self
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        capturing.current.trace = None
        _watch(-1)
        if kind is not None:
            self.put_back(all_of_them=False)

    # ---- what tensors tell ----

    def is_inside(self, tensor: TensorCore) -> bool:
        """Whether the tensor was made in this trace."""
        reference = self.inside.get(id(tensor))
        return reference is not None and reference() is tensor

    def read(self, name: str, tensor: TensorCore) -> None:
        """A slot is read: at the first time a tensor from outside gets its stand-in."""
        if self.is_inside(tensor):
            return
        if name == "grad":
            self._read_grad(tensor)
        elif id(tensor) not in self.before:
            try:
                capturing.current.trace = None
                self._meet(tensor)
            finally:
                capturing.current.trace = self

    def write(self, name: str, tensor: TensorCore, value: Any) -> None:
        """A slot is set: a tensor whose slot was empty is new."""
        if name == "_uop":
            try:
                _UOP.__get__(tensor)
            except AttributeError:
                self.inside[id(tensor)] = weakref.ref(tensor)
                return
        if self.is_inside(tensor):
            return
        if name == "grad":
            self._keep_grad(tensor)
            if value is not None and not tensor._leaf:
                raise CaptureError(
                    f"jit: backward{user_line()} inside a captured function reaches a tensor that was computed outside "
                    "from tensors with gradients; call backward outside, or pass tensor.detach()"
                )
            self.grads_written[id(tensor)] = tensor
            return
        self.read(name, tensor)
        if not _is_view(tensor) or tensor._leaf:
            if id(tensor) in self._bases:
                raise CaptureError(
                    f"jit: a captured function changes a tensor{user_line()} of which an argument is a view; pass a "
                    "clone() of the part, or index the tensor inside the function"
                )
            self.written[id(tensor)] = tensor

    def _read_grad(self, tensor: TensorCore) -> None:
        self._keep_grad(tensor)
        if id(tensor) in self.gradient_kinds or id(tensor) in self.grads_written:
            return
        gradient = self._grads_before[id(tensor)]
        self.gradient_kinds[id(tensor)] = None
        if gradient is not None:
            self.owner_of[id(gradient)] = tensor
            with capturing.suspended():
                self.gradient_kinds[id(tensor)] = kind_of(gradient)

    def _keep_grad(self, tensor: TensorCore) -> None:
        """Keeps the gradient as it is before it is set: a function that only sets it does not depend on it."""
        if id(tensor) not in self._grads_before:
            self.known[id(tensor)] = tensor
            self._grads_before[id(tensor)] = _GRAD.__get__(tensor)

    def _begin(self, tensor: TensorCore) -> None:
        link = tensor._view
        slots = tuple(getattr(tensor, name) for name in _SLOTS)
        before = None if link is None else (link.root, link.changes)
        self.before[id(tensor)] = _Before(tensor, _UOP.__get__(tensor), slots, before)
        self.known[id(tensor)] = tensor

    def _meet(self, tensor: TensorCore) -> None:
        """The first read of a tensor that is not an argument."""
        link = tensor._view
        if link is not None and link.is_alone():
            release(tensor)
            link = tensor._view
        if link is not None and link.base is not None and not tensor._leaf:
            self._follow(tensor, link)
            return
        renew(tensor)
        if needs_buffer(tensor):
            realize_all([tensor])
        self._begin(tensor)
        owner = self.owner_of.get(id(tensor))
        if owner is not None:
            self._name(tensor, Source("gradient", self._place_of(owner)))
        else:
            self._name(tensor, Source("state", tensor))

    def _follow(self, tensor: TensorCore, link: View) -> None:
        """A view from outside is what it shows of its base, also where it has values of its own in memory."""
        base: Any = link.base
        if not self.is_inside(base) and id(base) not in self.before:
            self._meet(base)
        self._begin(tensor)
        tensor._history, link.root = None, None
        renew(tensor)

    def _place_of(self, tensor: TensorCore) -> Any:
        """The number of an argument, else the tensor itself."""
        return next((k for k, one in enumerate(self._arguments) if one is tensor), tensor)

    def _name(self, tensor: TensorCore, source: Source) -> None:
        uop = _UOP.__get__(tensor)
        if tensor._leaf:  # nobody else has its buffer
            self.named[uop.attrs["id"]] = source
            self._held.append(Buffer.of(uop))
            self.tracked.add(uop.attrs["id"])
            return
        stand_in = Buffer.of(uop).alias()
        self._held.append(stand_in)
        self.named[stand_in.id] = source
        _UOP.__set__(tensor, stand_in.uop)
        tensor._history = stand_in
        if tensor._requires_grad:
            tensor._history = GradientPoint(stand_in.uop, stand_in, leaf=tensor)
            self.tracked.add(stand_in.id)

    # ---- what the function asks of the trace ----

    def is_known(self, uop: UOp) -> bool:
        """Whether a graph depends on nothing that a replay may find changed."""
        return not any(node.attrs["id"] in self.named for node in uop.toposort("BUFFER"))

    def uploaded(self, number: int) -> None:
        """A buffer was made of values on the host."""
        self.constants.add(number)

    def noticed(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name` decides what is traced."""
        self.values.setdefault((id(owner), name), (owner, name, value))

    def each_call(self, make: Callable[[], Any]) -> Any:
        """The tensors of `make()`, under names of their own."""
        with capturing.suspended():
            made = self._made(make)
            tensors, rebuild = flatten(made)
            realize_all(tensors)
            self.trees.append(made)
            stand_ins = [Buffer.of(_UOP.__get__(tensor)).alias() for tensor in tensors]
        for place, stand_in in enumerate(stand_ins):
            self.named[stand_in.id] = Source("call", (len(self.calls), place))
        self._held += stand_ins
        self.calls.append(make)
        self.called.append(tensors)
        return rebuild([type(t)._new(b.uop, b, b.device) for t, b in zip(tensors, stand_ins, strict=True)])

    def adopt(self, make: Callable[[], Any]) -> Any:
        """A tensor of state, made as if before the trace."""
        with capturing.suspended():
            tensor = make()
        self.adopted[id(tensor)] = tensor
        return tensor

    def _made(self, make: Callable[[], Any]) -> Any:
        return make() if self._like is None else self._like.trees[len(self.calls)]

    # ---- afterwards ----

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, values go on to wait, and nothing is noted any more."""
        capturing.current.trace = self
        try:
            yield
        finally:
            capturing.current.trace = None

    def put_back(self, all_of_them: bool) -> None:
        """Take the stand-ins out; with `all_of_them` tensors that were written have their old values, too."""
        for number, (tensor, uop, slots, link) in self.before.items():
            if number in self.written and not all_of_them:
                if tensor._view is not None and tensor._view.obstacle == _PART:
                    tensor._view = slots[_SLOTS.index("_view")]
                continue
            if tensor._leaf:
                pending_leaves.pop(id(tensor), None)
            _UOP.__set__(tensor, uop)
            for name, value in zip(_SLOTS, slots, strict=True):
                setattr(tensor, name, value)
            if link is not None and tensor._view is not None:
                tensor._view.root, tensor._view.changes = link
            if tensor._leaf:
                _leaf_of_buffer[uop.attrs["id"]] = tensor
        if all_of_them:
            for number, gradient in self._grads_before.items():
                _GRAD.__set__(self.known[number], gradient)


def _is_view(tensor: TensorCore) -> bool:
    return tensor._view is not None and tensor._view.base is not None
