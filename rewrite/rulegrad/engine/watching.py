"""Observers of passes: a trace is told of every pass, and of the pipeline and kernel that it ran for.

Nobody looks on by default, and then a pass costs what it costs without this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rulegrad._core import UOp

if TYPE_CHECKING:
    from rulegrad._core import Information, Inside
    from rulegrad.engine.pass_run import PassRun


class Part:
    """A part of a compilation: a pipeline, and the kernel's graph as it was cut out, once that is known."""

    __slots__ = ("kernel", "pipeline")

    def __init__(self, pipeline: str = "", kernel: UOp | None = None) -> None:
        self.pipeline = pipeline
        self.kernel = kernel


class Change(NamedTuple):
    """A rule that fired: before and after are a node each, or the nodes that a gradient rule takes and gives."""

    rule: str
    location: str
    found: UOp  # the node before, as the pass found it
    before: tuple[UOp, ...]
    after: tuple[UOp, ...]
    inside: Sequence[Inside] = ()  # parts that the rule had rewritten, or the candidates of a choose pass


def changes_of(info: Information | Inside) -> list[Change]:
    """The firings of a pass that was traced."""
    return [
        Change(rule, location, found, (before,), (after,), inside)
        for (rule, location, before, after), found, inside in zip(
            info["firings"], info["found"], info["inside"], strict=True
        )
    ]


class CompiledKernel(Protocol):
    """What watchers are told of a kernel: `runtime.kernel.Kernel` has it, which is above this package."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def schedule(self) -> str: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    @property
    def flops(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class Watcher(Protocol):
    """Events of passes and kernels, of any thread."""

    def follows(self, graph: UOp) -> Sequence[UOp]:
        """The nodes of a graph whose results after the pass are asked for."""

    def ran(self, run: PassRun) -> None:
        """A pass has run."""

    def failed(self, name: str, target: str | None, graph: UOp, problem: str) -> None:
        """The result of a pass is wrong; its run was reported before."""

    def compiled(self, graph: UOp, kernel: CompiledKernel, target: str) -> None:
        """A kernel was made from the graph that was cut out for it."""


watchers: list[Watcher] = []
#: Told of the name of each pass, when it started (on the clock of time.perf_counter) and how many seconds it took. They
#: change nothing: graphs go through passes together as ever.
clocks: list[Callable[[str, float, float], None]] = []
_part: ContextVar[Part] = ContextVar("part", default=Part())  # noqa: B039 -- nobody changes a part that has no pipeline


class part:  # noqa: N801  (a context manager; a class, for it is entered for every tensor that is computed)
    """The passes that run inside belong to a pipeline, and to a kernel: the one given, or set on the part later."""

    __slots__ = ("_part", "_token")

    def __init__(self, pipeline: str, kernel: UOp | None = None) -> None:
        self._part = Part(pipeline, kernel)

    def __enter__(self) -> Part:
        self._token = _part.set(self._part)
        return self._part

    def __exit__(self, *_: object) -> None:
        _part.reset(self._token)


def current() -> Part:
    """The part of the compilation that this thread is in."""
    return _part.get()


def asked(graph: UOp) -> list[UOp]:
    """The nodes of a graph whose results somebody wants to know."""
    return list(dict.fromkeys(node for watcher in watchers for node in watcher.follows(graph)))


def tell(
    name: str,
    target: str | None,
    graphs: tuple[UOp, UOp],
    changes: list[Change],
    visited: int,
    time: tuple[float, float],
    followed: Mapping[UOp, UOp | None] | None = None,
    error: str = "",
    info: Mapping[str, Any] | None = None,
) -> None:
    """Tells everybody of a pass that ran: the graphs before and after, and when it started and how long it took.

    info: what the engine gave, for the rewriting that led to no firing.
    """
    from rulegrad.engine.pass_run import PassRun  # late: nobody looks on in most programs

    rest = info or {}
    remaining, omitted = rest.get("remaining", ()), rest.get("omitted", (0, 0))
    run = PassRun(
        name, target, current(), *graphs, changes, visited, *time, dict(followed or {}), error, remaining, omitted
    )
    for watcher in list(watchers):
        watcher.ran(run)


def tell_failed(name: str, target: str | None, graph: UOp, problem: str) -> None:
    """Tells everybody that what a pass made of a graph is wrong."""
    for watcher in list(watchers):
        watcher.failed(name, target, graph, problem)


def tell_kernel(graph: UOp, kernel: CompiledKernel, target: str) -> None:
    """Tells everybody of a kernel that was made."""
    for watcher in list(watchers):
        watcher.compiled(graph, kernel, target)
