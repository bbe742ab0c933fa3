"""Resources of kernels, by the compiler's log: registers, memory of each thread, memory of each block."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """One kernel, for one architecture. Registers are of a thread, the others are bytes; spills are of stores."""

    name: str
    arch: str
    registers: int
    stack: int  #: of a thread, in memory: arrays whose elements are not known when it is compiled, and spills
    spills: int
    shared: int


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def usages(log: str) -> list[Usage]:
    """The kernels of a log of `--ptxas-options=-v`, in their order.

    >>> import importlib
    >>> from rulegrad.runtime.backends import backend
    >>> usage = importlib.import_module(backend("cuda").module.__package__ + ".usage")
    >>> log = '''Compiling entry function 'f' for 'sm_80'
    ... 16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
    ... Used 10 registers, used 1 barriers, 1024 bytes smem'''
    >>> usage.usages(log)
    [Usage(name='f', arch='sm_80', registers=10, stack=16, spills=8, shared=1024)]
    """
    found = []
    for part in re.split(r"(?=Compiling entry function)", log):
        entry, stack, used = _ENTRY.search(part), _STACK.search(part), _USED.search(part)
        if entry and stack and used:
            name, arch = entry.groups()
            memory = (int(stack.group(1)), int(stack.group(2)), int(used.group(2) or 0))
            found.append(Usage(name, arch, int(used.group(1)), *memory))
    return found
