"""DEBUG output about kernels when they are made, compiled or taken from the cache on disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulegrad.config import config
from rulegrad.support.locations import shown, user_location

if TYPE_CHECKING:
    from rulegrad.ir import UOp
    from rulegrad.runtime.kernel import Kernel


def tell_graphs(kernels: Sequence[Kernel], graphs: Sequence[UOp]) -> None:
    """At DEBUG=3 the graph of each kernel, as the rules took it apart: what is computed in which loops."""
    if config.debug >= 3:
        for kernel, graph in zip(kernels, graphs, strict=True):
            print(f"rulegrad: the graph of {kernel.name}:\n{graph}", file=sys.stderr)


def tell_sources(kernels: Sequence[Kernel]) -> None:
    """At DEBUG=4 the source of each kernel that this process has not met, before it is built."""
    if config.debug >= 4:
        for kernel in kernels:
            if kernel.source:
                print(kernel.source, file=sys.stderr)


def tell_built(kernels: int, new: int, device: str, seconds: float) -> None:
    """At DEBUG=1 a line for each graph that is met for the first time: its kernels, and the time to make them."""
    if config.debug >= 1:
        location = shown(user_location())
        where = f", for {location}" if location else ""
        count = "1 kernel" if kernels == 1 else f"{kernels} kernels"
        print(f"rulegrad: {count} on {device}, {new} of them new, in {seconds:.3f} s{where}", file=sys.stderr)
