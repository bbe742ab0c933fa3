"""The rung of memory: what is copied in comes out again, buffers are apart, and what is freed can be had again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.runtime.device import Device
from rulegrad.workbench.conformance.report import Rung, problem_of
from rulegrad.workbench.conformance.values import random_bits

_COUNTS = (1, 3, 1000, 100_003)  # elements
_ROUNDS = 50


def check_memory(device: Device, target: syntax.Target, folder: Path, rung: Rung) -> None:
    """Tries every dtype that the target keeps in memory, in a few sizes."""
    for dtype in sorted((target.dtypes | set(target.types)) - {"index", "void"}):
        rung.tried += 1
        try:
            problem = _copies(device, dtype)
        except Exception as error:  # of a stranger's code, whatever it is
            rung.found(f"copies of {dtype}", problem_of(error, folder))
            return
        if problem:
            rung.found(f"copies of {dtype}", problem, "see copy_in and copy_out of rulegrad.runtime.device.Device")
    rung.tried += 1
    try:
        problem = _lifetimes(device)
    except Exception as error:  # of a stranger's code, whatever it is
        rung.found("allocate and free", problem_of(error, folder))
        return
    if problem:
        rung.found("allocate and free", problem, "see allocate and free of rulegrad.runtime.device.Device")


def _copies(device: Device, dtype: str) -> str:
    generator = np.random.default_rng(0)
    for count in _COUNTS:
        wanted = random_bits(dtype, count, generator)
        given, found = wanted.copy(), np.zeros_like(wanted)
        handle = device.allocate(wanted.nbytes)
        device.copy_in(handle, given)
        given[...] = np.zeros((), given.dtype)  # the array may change once copy_in returns
        device.copy_out(handle, found)
        device.free(handle)
        if not np.array_equal(found.view(np.uint8), wanted.view(np.uint8)):
            wrong = int((found.view(np.uint8) != wanted.view(np.uint8)).sum())
            return f"of {wanted.nbytes:,} bytes {wrong:,} came back changed ({count} elements of {as_dtype(dtype)})"
    return ""


def _lifetimes(device: Device) -> str:
    """Two buffers do not share memory; a smaller array goes to the start of one; memory is given back."""
    first, second = device.allocate(64), device.allocate(64)
    device.copy_in(first, np.full(64, 1, np.uint8))
    device.copy_in(second, np.full(64, 2, np.uint8))
    device.copy_in(first, np.full(16, 3, np.uint8))
    found = np.zeros(64, np.uint8)
    device.copy_out(first, found)
    device.free(first)
    device.free(second)
    if found.tolist() != [3] * 16 + [1] * 48:
        return f"after copies to two buffers, the first one holds {found.tolist()}"
    for _ in range(_ROUNDS):
        device.free(device.allocate(1 << 20))
    device.synchronize()
    return ""
