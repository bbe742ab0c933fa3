"""The garbage collector, where it has nothing to find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which looks again and again at trees that all stay: up to a third of the time.

    Then they are old at once, for it would look three times at what is new.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # what somebody has frozen would not be any more
                gc.freeze()
                gc.unfreeze()
            gc.enable()
