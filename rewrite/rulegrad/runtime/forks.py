"""Processes made by fork: most drivers' state does not survive one, and using it hangs or crashes."""

from __future__ import annotations

import os

from rulegrad.errors import DeviceError


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
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self.forked = True

    def check(self) -> None:
        """Raises DeviceError in a child made by fork."""
        if self.forked:
            raise DeviceError(
                f"{self._drivers} do not survive a fork; start processes with multiprocessing's 'spawn' method"
            )
