"""`torch.__config__`: what PyTorch says of how it was built, which programs search for the libraries they know."""

from __future__ import annotations

import os

from rulegrad import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """One line, in which none of PyTorch's libraries is named.

    >>> "MKL" in show()
    False
    """
    return f"rulegrad {__version__}\n"


def parallel_info() -> str:
    """A line about threads.

    >>> "cores" in parallel_info()
    True
    """
    return f"rulegrad has {os.cpu_count()} processor cores to itself at most\n"
