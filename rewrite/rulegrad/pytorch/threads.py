"""`torch.set_num_threads` and the like: the threads that share a kernel, which are the setting `threads`."""

from __future__ import annotations

import os

from rulegrad.config import config
from rulegrad.errors import ConfigError

_beside_each_other = 1  # what `set_num_interop_threads` was given; nothing asks for it


def get_num_threads() -> int:
    """How many threads share a kernel on the processor: the setting `threads`, or as many as there are cores.

    >>> get_num_threads() >= 1
    True
    """
    return config.threads or _cores()


def set_num_threads(num: int) -> None:
    """From now on so many threads share a kernel on the processor: the setting `threads`. Raises ConfigError.

    >>> before = config.threads
    >>> set_num_threads(2); get_num_threads()
    2
    >>> config.threads = before
    """
    config.threads = _require_positive("set_num_threads", num)


def get_num_interop_threads() -> int:
    """1, or what `set_num_interop_threads` was given: kernels run one after the other.

    >>> get_num_interop_threads() >= 1
    True
    """
    return _beside_each_other


def set_num_interop_threads(num: int) -> None:
    """For programs of PyTorch: kernels run one after the other, whatever the number is. Raises ConfigError.

    >>> set_num_interop_threads(1)
    """
    global _beside_each_other
    _beside_each_other = _require_positive("set_num_interop_threads", num)


def _require_positive(name: str, num: int) -> int:
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ConfigError(f"{name}: {num!r} threads; use an int of 1 or more")
    return num


def _cores() -> int:
    """The cores that this process may run on, where the system says so."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
