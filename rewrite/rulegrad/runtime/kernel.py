"""A kernel: what the compiler hands to a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rulegrad.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulegrad.ir import UOp


#: What a store's part of a buffer may be.
_VIEWS: Final = ("RESHAPE", "PERMUTE", "FLIP", "SHRINK")


def stores_of(roots: Sequence[UOp]) -> list[UOp]:
    """The effects that are the roots of a kernel, those of groups and segments one by one."""
    return [store for root in roots for store in (stores_of(root.src) if root.op in ("GROUP", "SEGMENTS") else (root,))]


def stored_into(store: UOp) -> UOp:
    """The memory that a store of a tensor graph writes to, all of it or the part that a view shows."""
    place = store.src[0]
    while place.op in _VIEWS:
        place = place.src[0]
    return place


class TensorMap(NamedTuple):
    """A launch's description of the buffer of a slot, an array of this shape, of which a kernel copies boxes.

    Sizes are in elements; beyond `sizes` there is 0. The lines of a box are 128 bytes, whose places of 16 bytes are
    exchanged by the line's number.
    """

    slot: int
    itemsize: int
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    box: tuple[int, ...]


class Kernel(NamedTuple):
    """One launch: the graph that an interpreting device runs, and the source that a compiling one builds.

    `slots` is the number of buffers it takes: PARAM slot k is the k-th handle of a launch. `flops` and
    `nbytes` are what one launch computes and moves, for the profile; `user_line` is where the user asked;
    `local_bytes` is the local memory of a work-group that a launch has to ask for; `maps` are further arguments, after
    the buffers; `tactic` and `steps` say how its loops run, or `written` does, as text. `offsets` are the bytes before
    what a launch is given of each buffer, () for whole ones. The last slot of a kernel that `checks_indices` is for its
    flags. A kernel with `sizes` takes one more buffer, of so many sizes (int64). `grid` has the work-items at typical
    sizes; at others they are what the function `items_NAME` in its source stores, or as `positions` have it.
    `graph` is what an interpreting device runs; of a kernel that another process has made, not what it was lowered to.
    """

    name: str
    graph: UOp
    source: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    slots: int
    flops: int = 0
    nbytes: int = 0
    user_line: str = ""
    local_bytes: int = 0
    maps: tuple[TensorMap, ...] = ()
    checks_indices: bool = False
    tactic: str = ""
    steps: tuple[UOp, ...] = ()
    sizes: int = 0
    positions: UOp | None = None  # in the grid, where it depends on sizes
    offsets: tuple[int, ...] = ()
    written: str = ""

    @property
    def buffers(self) -> int:
        """How many buffers a launch takes: the last may have its sizes."""
        return self.slots + bool(self.sizes)

    @property
    def schedule(self) -> str:
        """The tactic and its steps as text, `rows: bind i0 to thread`; "" where it has none.

        >>> from rulegrad.ir import UOp
        >>> Kernel("f", UOp("SINK", ()), "", (1,), (), 0, tactic="rows").schedule
        'rows'
        """
        from rulegrad.engine.schedules import schedule_of  # late: few programs show it

        return self.written or schedule_of(self.tactic, self.steps)


def sources_of(kernels: Sequence[Kernel]) -> list[str]:
    """The different sources of kernels that are built as one program, in their order.

    Raises DeviceError when two of them have one name.

    >>> from rulegrad.ir import UOp
    >>> empty = UOp("SINK", ())
    >>> sources_of([Kernel(name, empty, f"void {name}() {{}}", (1,), (), 0) for name in ("f", "g", "f")])
    ['void f() {}', 'void g() {}']
    """
    sources: dict[str, str] = {}
    for kernel in kernels:
        if sources.setdefault(kernel.name, kernel.source) != kernel.source:
            raise DeviceError(f"two different kernels are called {kernel.name!r}; name them apart")
    return list(sources.values())


def not_built(where: str, message: str, source: str) -> DeviceError:
    """The error for a program that its compiler refuses: what the compiler says, and the source with numbered lines.

    >>> print(not_built("c", "2: expected ;", "int a;\\nint b"))
    c cannot build this program; the compiler says:
    2: expected ;
    the source:
       1  int a;
       2  int b
    """
    numbered = "\n".join(f"{k:4d}  {line}" for k, line in enumerate(source.splitlines(), 1))
    return DeviceError(
        f"{where} cannot build this program; the compiler says:\n{message.strip()}\nthe source:\n{numbered}"
    )
