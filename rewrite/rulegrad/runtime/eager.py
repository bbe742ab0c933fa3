"""The way of eager computations without Python: the engine's, and who turns it off.

Operators on tensors that need no conversion are nodes at once, and a result whose plan is known is computed by the
plan's program. Whoever watches each operation or launch (a profile, `DEBUG=2`, a trace of passes) sees them in Python.
"""

from __future__ import annotations

from collections.abc import Collection

from rulegrad._core import Eager
from rulegrad.config import config, on_change
from rulegrad.engine import watching
from rulegrad.runtime import profile

eager = Eager((profile._active, watching.watchers))


def follow_settings() -> None:
    """Lets the engine compute by itself, unless a setting has somebody watch."""
    _take_settings({"debug"})


def _take_settings(names: Collection[str]) -> None:
    if "device" in names:
        eager.forget_decisions()
    if not {"debug", "detect_nan"}.isdisjoint(names):
        eager.is_off = config.debug >= 2 or config.detect_nan > 0


on_change(_take_settings)
