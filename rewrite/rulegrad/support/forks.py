"""Processes made by fork: most drivers' state does not survive one, and using it hangs or crashes.

A lock that another thread holds at a fork is never let go in the child, where that thread is not. So all locks of the
package are made here, and are new ones in a child; the engine sees to its own (`rewrite/core/forks.cpp`).
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, TypeAlias

from rulegrad.errors import DeviceError

#: A lock that a thread may take again while it has it.
Lock: TypeAlias = Any
_HAS_FORK = hasattr(os, "register_at_fork")  # not on Windows
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_held_over_a_fork: weakref.WeakSet[Lock] = weakref.WeakSet()
_held: list[Lock] = []  # while a fork is made
#: How long a fork waits for other threads' imports: those of rulegrad end, those of a program need not.
_MOST_SECONDS_OF_OURS, _MOST_SECONDS_OF_IMPORT = 60.0, 2.0


def lock(waits: bool = False) -> Lock:
    """A lock that nobody has in a child made by fork, whoever had it in the parent.

    What it guards may be half done in the child. With `waits` it is not: a fork waits until nobody has the lock, which
    whoever has it must let go without waiting for another.

    >>> with lock() as taken:
    ...     taken
    True
    """
    made = threading.RLock()
    (_held_over_a_fork if waits else _locks).add(made)
    return made


def _before() -> None:
    # The locks of imports are Python's own and stay taken in the child, so other threads' imports end first.
    start = time.monotonic()
    while names := _imported_by_others():
        ours = any(name.startswith("rulegrad") for name in names)
        if time.monotonic() - start > (_MOST_SECONDS_OF_OURS if ours else _MOST_SECONDS_OF_IMPORT):
            break
        time.sleep(0.001)
    _held.extend(_held_over_a_fork)
    for one in _held:
        one.acquire()


def _import_locks() -> dict[str, Any]:
    """Python's own locks of the modules that are imported just now."""
    locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})
    return locks


def _imported_by_others() -> list[str]:
    """The modules that other threads import."""
    owners = {name: getattr(reference(), "owner", None) for name, reference in list(_import_locks().items())}
    return [name for name, owner in owners.items() if owner not in (None, threading.get_ident())]


def _after_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_in_child() -> None:
    _after_in_parent()
    for name in _imported_by_others():  # between the last look and the fork, or longer than a fork waits
        _import_locks().pop(name, None)
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]  # half of it is there: whoever needs it here imports it anew
    for one in (*_locks, *_locks_of_properties()):
        one._at_fork_reinit()  # what the standard library does with its own locks


def _locks_of_properties() -> Iterator[Any]:
    """The locks of cached properties, which they had before Python 3.12."""
    if sys.version_info >= (3, 12):
        return
    for module in [module for name, module in list(sys.modules.items()) if name.startswith("rulegrad")]:
        for owner in [value for value in vars(module).values() if isinstance(value, type)]:
            properties = [value for value in vars(owner).values() if isinstance(value, functools.cached_property)]
            yield from (getattr(one, "lock") for one in properties)  # noqa: B009  # which the types do not know


if _HAS_FORK:
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


class ForkGuard:
    """Knows whether the process is a child, by fork, of the one that made the guard: that imported the backend.

    `drivers` is what does not survive: "OpenCL drivers". `forked` may be read where a call is too much.

    >>> guard = ForkGuard("OpenCL drivers")
    >>> guard.forked
    False
    >>> guard.check()
    """

    def __init__(self, drivers: str) -> None:
        self._drivers = drivers
        self.forked = False
        if _HAS_FORK:
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self.forked = True

    def check(self) -> None:
        """Raises DeviceError in a child made by fork."""
        if self.forked:
            raise DeviceError(
                f"{self._drivers} do not survive a fork; start processes with multiprocessing's 'spawn' method"
            )
