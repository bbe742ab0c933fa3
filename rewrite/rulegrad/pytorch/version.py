"""`torch.version`: what PyTorch was built with; rulegrad is built with none of it."""

from __future__ import annotations

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
debug = False
