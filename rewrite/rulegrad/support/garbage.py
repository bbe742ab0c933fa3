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
            _make_old()
            gc.enable()


_freezes = False  # whether somebody does, who would find nothing frozen any more; counting takes as long as collecting


def _make_old() -> None:
    """Moves all objects to the oldest generation, without a look at them."""
    global _freezes
    _freezes = _freezes or gc.get_freeze_count() > 0
    if not _freezes:
        gc.freeze()
        gc.unfreeze()
