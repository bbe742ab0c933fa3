"""The seam between tensors and `jit`: what a function that is being captured asks of a trace, and tells it.

A trace is an eager call whose values wait until its end. Nothing here costs more than a test where nothing is traced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rulegrad.errors import CaptureError
from rulegrad.support.locations import user_line

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.ir import UOp

T = TypeVar("T")


class Unchanging:
    """An object that stays as it is once a function has used it; tensors in it are not changed either.

    A replay needs the same object, and does not look into it. Copies of what holds it share it.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Trace(Protocol):
    """A function that is being captured."""

    def each_call(self, make: Callable[[], Any]) -> Any:
        """The tensors of `make()` as inputs that are made anew before each replay."""
        ...

    def adopt(self, make: Callable[[], T]) -> T:
        """The tensor of `make()`, as if it had been there before the trace began."""
        ...

    def uploaded(self, number: int) -> None:
        """The buffer of this number was made of values on the host, which are constants of the trace."""
        ...

    def noticed(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name` was read: a replay needs it to be the same."""
        ...

    def is_inside(self, tensor: Any) -> bool:
        """Whether a tensor was made in this trace."""
        ...

    def is_known(self, uop: UOp) -> bool:
        """Whether the values of a graph are the same in each replay, so they may be asked for."""
        ...


class _Current(threading.local):
    trace: Trace | None = None


#: The trace of this thread, if it has one.
current = _Current()


def is_tracing() -> bool:
    """Whether values wait for the end of a trace."""
    return current.trace is not None


def is_of_outside(tensor: Any) -> bool:
    """Whether a trace has a tensor that was made before it."""
    return current.trace is not None and not current.trace.is_inside(tensor)


@contextmanager
def suspended() -> Iterator[None]:
    """Inside, nothing is traced: values are computed at once."""
    trace, current.trace = current.trace, None
    try:
        yield
    finally:
        current.trace = trace


def must_compute(uop: UOp) -> bool:
    """False where nothing is traced. Inside a trace True for a graph of constants, whose values may be asked for.

    Raises CaptureError for a graph of arguments or state.
    """
    trace = current.trace
    if trace is None:
        return False
    if not trace.is_known(uop):
        raise CaptureError(
            f"jit: the value of a tensor is asked for{user_line()} inside a function that is being "
            "captured: a replay could not ask again. Use where(condition, a, b) in the place of `if`, return the "
            "tensor and ask for its value outside, or leave this part out of the captured function"
        )
    return True


def each_call(make: Callable[[], T]) -> T:
    """`make()`: tensors that the host makes; in a captured function they are made anew before each replay.

    make: takes no arguments, and gives a tensor or nested tuples, lists and dicts of them, of the same shapes, dtypes
    and devices each time. Learning rates and random numbers come into captured functions in this way.

    >>> numbers = iter([1.0, 2.0, 3.0])
    >>> @rg.jit
    ... def scaled(x):
    ...     return x * rg.each_call(lambda: Tensor([next(numbers)]))
    >>> [scaled(Tensor([10.0])).item() for _ in range(3)]
    [10.0, 20.0, 30.0]
    """
    trace = current.trace
    if trace is None:
        return make()
    made: T = trace.each_call(make)
    return made


def initial_state(make: Callable[[], T]) -> T:
    """`make()`: a tensor with the value that a part of some state has at the start.

    A captured function that makes it writes to it in place, as if it had been there before the call: so the call, which
    is not kept, is computed by the kernels of the next one.
    """
    trace = current.trace
    return make() if trace is None else trace.adopt(make)


def noticed(owner: Any, name: str, value: Any) -> None:
    """A Python value, `owner.name`, that decides what is traced: a replay needs it to be the same."""
    if current.trace is not None:
        current.trace.noticed(owner, name, value)
