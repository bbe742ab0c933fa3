"""`torch.futures`: results that come later, in threads of this process."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that another thread sets.

    >>> later = Future()
    >>> doubled = later.then(lambda one: one.value() * 2)
    >>> later.set_result(3); doubled.wait()
    6
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # `Future[Tensor]`, in annotations

    def __init__(self, *, devices: Any = None) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether it is there."""
        return self._future.done()

    def wait(self) -> Any:
        """The result, once it is there; an error that was set is raised."""
        return self._future.result()

    def value(self) -> Any:
        """The result of one that is done."""
        return self._future.result(0)

    def set_result(self, result: Any) -> None:
        """Sets the result."""
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Sets an error."""
        self._future.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls a function with this once it is done."""
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of the result of `callback`, which is called with this one once it is done."""
        found = Future()

        def go_on(one: Future) -> None:
            try:
                found.set_result(callback(one))
            except Exception as error:
                found.set_exception(error)

        self.add_done_callback(go_on)
        return found


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The results of all."""
    return [one.wait() for one in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """The list of futures, once all of them are done."""
    found = Future()
    waiting = len(futures)

    def count(_: Future) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            found.set_result(list(futures))

    for one in futures:
        one.add_done_callback(count)
    if not futures:
        found.set_result([])
    return found
