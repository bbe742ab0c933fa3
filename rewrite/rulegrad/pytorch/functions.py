"""`torch.functional`: functions that `rulegrad` has itself."""

from __future__ import annotations

import sys
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(sys.modules["rulegrad"], name)
