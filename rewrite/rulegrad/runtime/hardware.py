"""The machine: its memory, and whether it could have a GPU or another accelerator, told without a driver."""

from __future__ import annotations

import os
import re
import sys
from typing import Final

#: The files in /dev by which drivers of GPUs and other accelerators are reached on Linux.
_OF_DRIVERS: Final = re.compile(
    "renderD|"  # in the folder dri: AMD's, Intel's, Mesa's
    "nvidia|nvhost|nvmap|nvgpu|"  # NVIDIA's
    "kfd|"  # AMD's, for computing
    "dxg|"  # Windows' GPUs in its Linux
    "mali|kgsl|galcore|pvr|vcio|"  # of boards and phones
    r"accel|apex_|davinci|hl\d|neuron|tenstorrent|xclmgmt|xdma"  # accelerators that draw nothing
)


def may_have_accelerator(folder: str = "/dev") -> bool:
    """Whether there could be a GPU or another accelerator: False only where Linux shows no driver of one.

    >>> may_have_accelerator("/no/such/folder") == (sys.platform != "linux")
    True
    """
    if sys.platform != "linux":
        return True
    return any(map(_OF_DRIVERS.match, (*_names(folder), *_names(os.path.join(folder, "dri")))))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def host_memory() -> int:
    """The bytes of memory that this machine has; 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
