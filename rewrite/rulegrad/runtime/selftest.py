"""The common part of a backend's `self_test`: one small kernel on the device, from its source to its result."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulegrad.runtime.device import Device


def add_number(
    device: Device, name: str, source_of: Callable[[int], str], count: int = 64, dtype: Any = np.int32
) -> None:
    """Builds and runs a kernel that adds a number to `count` integers, and compares.

    `source_of(number)` is its source, with the result in slot 0 and what is given in slot 1. The number is a new one
    each time, so that no cache can know the kernel. Raises DeviceError when something is wrong.

    >>> from rulegrad.runtime import devices
    >>> interpreter = devices.get("numpy")  # which runs graphs, and this kernel has only a source
    >>> add_number(interpreter, "add", lambda number: f"int add(int x) {{ return x + {number}; }}")
    Traceback (most recent call last):
    rulegrad.errors.DeviceError: it computes wrong results in a test of adding integers
    """
    number = random.SystemRandom().randrange(1 << 30)
    kernel = Kernel(name, UOp("SINK", ()), source_of(number), (count,), (), 2)
    given, got = np.arange(count, dtype=dtype), np.zeros(count, dtype)
    handles = [device.allocate(given.nbytes), device.allocate(given.nbytes)]
    device.copy_in(handles[1], given)
    device.compile([kernel])[0](handles, wait=True)
    device.copy_out(handles[0], got)
    if not np.array_equal(got, given + number):
        raise DeviceError("it computes wrong results in a test of adding integers")
