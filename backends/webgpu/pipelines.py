"""WGSL programs built and kept, one for each source and launch grid."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import Kernel, not_built
from rulegrad.support import forks

from .adapters import wgpu

_BLOCK = 64  # work-items of a work-group
# Of all loops of a work-item, in Mesa 22's driver for the CPU: it leaves them silently.
_MOST_ITERATIONS = 65535
_LOOP = re.compile(r" *for \(var \w+: \w+ = 0; \w+ < (\d+)")
_LOOP_OF_SIZES = re.compile(r"for \(var \w+: \w+ = \w+; \w+ < [^\d;]")


@dataclass(eq=False)
class Pipeline:
    """A kernel that is built: how many work-groups a launch has, and how buffers are bound to it."""

    native: Any
    groups: tuple[int, int, int]
    device: Any
    layout: Any

    def bound(self, handles: Sequence[Any]) -> Any:
        """The buffers as one group of bindings."""
        entries = [{"binding": k, "resource": {"buffer": handle}} for k, handle in enumerate(handles)]
        return self.device.create_bind_group(layout=self.layout, entries=entries)


class Pipelines:
    """The pipelines of one device."""

    def __init__(self, device: Any, name: str, limits: dict[str, int], ends_loops: bool) -> None:
        self._device = device
        self._name = name
        self._limits = limits
        self._ends_loops = ends_loops
        self._built: weakref.WeakValueDictionary[tuple[str, tuple[int, ...]], Pipeline] = weakref.WeakValueDictionary()
        self._layouts: dict[int, tuple[Any, Any]] = {}  # by the number of buffers
        self._lock = forks.lock()

    def get(self, kernel: Kernel) -> Pipeline:
        """The kernel, built where it was not before. Raises DeviceError, with the compiler's message and the source."""
        with self._lock:
            found = self._built.get((kernel.source, kernel.grid))
            if found is None:
                found = self._built[kernel.source, kernel.grid] = self._build(kernel)
            return found

    def _build(self, kernel: Kernel) -> Pipeline:
        most = self._limits["max-storage-buffers-per-shader-stage"]
        if kernel.buffers > most:
            raise DeviceError(
                f"kernel {kernel.name!r} takes {kernel.buffers} buffers; {self._name} binds {most} at most"
            )
        iterations = _most_iterations(kernel.source)
        if self._ends_loops and kernel.sizes and _LOOP_OF_SIZES.search(kernel.source):
            raise DeviceError(
                f"kernel {kernel.name!r} has loops as long as sizes say, and this version of Mesa's driver for the CPU "
                f"ends loops after {_MOST_ITERATIONS:,} iterations"
            )
        if self._ends_loops and iterations > _MOST_ITERATIONS:
            raise DeviceError(
                f"kernel {kernel.name!r} runs {iterations:,} iterations in one work-item, and this version of "
                f"Mesa's driver for the CPU ends loops after {_MOST_ITERATIONS:,}; compute on another device"
            )
        groups, layout, whole = self._groups(kernel), *self._layout(kernel.buffers)
        # a kernel of groups numbers groups, others work-items
        block = math.prod(kernel.local) if kernel.local else _BLOCK
        counts = [n // size for n, size in zip(kernel.grid, kernel.local or (1, 1, 1), strict=False)]
        sizes = {f"size{k}": n for k, n in enumerate((*counts, 1, 1, 1)[:3])}
        module = wgpu()
        try:
            stage = {
                "module": self._device.create_shader_module(code=kernel.source),
                "entry_point": kernel.name,
                "constants": {**sizes, "block": block},
            }
            native = self._device.create_compute_pipeline(layout=whole, compute=stage)
        except (module.GPUError, module.GPUPipelineError, RuntimeError) as error:
            raise not_built(self._name, str(error), kernel.source) from None
        return Pipeline(native, groups, self._device, layout)

    def _layout(self, slots: int) -> tuple[Any, Any]:
        """How so many buffers are bound: as a group of bindings, and as the layout of a pipeline."""
        if slots not in self._layouts:
            entry = partial(dict, visibility=wgpu().ShaderStage.COMPUTE, buffer={"type": "storage"})
            layout = self._device.create_bind_group_layout(entries=[entry(binding=k) for k in range(slots)])
            self._layouts[slots] = layout, self._device.create_pipeline_layout(bind_group_layouts=[layout])
        return self._layouts[slots]

    def _groups(self, kernel: Kernel) -> tuple[int, int, int]:
        """Work-groups for all work-items, along two axes where one does not hold them."""
        items = math.prod(kernel.grid)
        if items >= 1 << 31:
            raise DeviceError(
                f"kernel {kernel.name!r} has {items:,} work-items; {self._name} numbers fewer than {1 << 31:,}"
            )
        blocks = max(1, math.ceil(items / (math.prod(kernel.local) if kernel.local else _BLOCK)))
        rows = math.ceil(blocks / self._limits["max-compute-workgroups-per-dimension"])
        return math.ceil(blocks / rows), rows, 1


def _most_iterations(source: str) -> int:
    """How often a work-item goes through the loops of a program, all of them together."""
    total, around = 0, [1]
    for line in source.splitlines():
        loop = _LOOP.match(line)
        if loop:
            around.append(around[-1] * int(loop[1]))
            total += around[-1]
        elif line.strip() == "}" and len(around) > 1:
            around.pop()
    return total
