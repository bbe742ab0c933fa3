"""Pretend classes of Apple's Metal, as PyObjC shows them: their GPU is the simulator `metal_shim`.

A launch runs when its command buffer is committed. Buffers of memory that is not theirs, kernels that a source does not have and
encoders that were not ended are errors.
"""

# ruff: noqa: N802
from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from rulegrad.errors import DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel

MTLResourceStorageModeShared = 0


def MTLSizeMake(width: int, height: int, depth: int) -> tuple[int, int, int]:
    return width, height, depth


class MTLCompileOptions:
    @staticmethod
    def new() -> MTLCompileOptions:
        return MTLCompileOptions()

    def setFastMathEnabled_(self, value: bool) -> None:
        assert value is False, "infinities and nan must be right"


class Buffer:
    def __init__(self, nbytes: int) -> None:
        self.array = np.full(nbytes, 0xA5, np.uint8)

    def contents(self) -> Any:
        return SimpleNamespace(as_buffer=lambda nbytes: memoryview(self.array)[:nbytes])


class Error:
    def __init__(self, text: str) -> None:
        self.text = text

    def localizedDescription(self) -> str:
        return self.text


class Pipeline:
    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return 512


class Library:
    def __init__(self, source: str) -> None:
        self.source = source

    def newFunctionWithName_(self, name: str) -> Any:
        return (name, self.source) if f"kernel void {name}(" in self.source else None


class CommandBuffer:
    """Commands, the encoder of commands, and the state that it sets."""

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.slots: dict[int, Any] = {}
        self.ended = self.waited = False
        self.problem: Error | None = None

    def computeCommandEncoder(self) -> CommandBuffer:
        return self

    def setComputePipelineState_(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, slot: int) -> None:
        self.slots[slot] = buffer.array[offset:]

    def dispatchThreads_threadsPerThreadgroup_(self, grid: tuple[int, ...], group: tuple[int, ...]) -> None:
        assert np.prod(group) <= self.pipeline.maxTotalThreadsPerThreadgroup()
        self.commands.append((self.pipeline, dict(self.slots), grid))

    def endEncoding(self) -> None:
        self.ended = True

    def commit(self) -> None:
        assert self.ended
        for pipeline, slots, grid in self.commands:
            kernel = Kernel(pipeline.name, None, pipeline.source, grid, (), len(slots))  # type: ignore[arg-type]
            used = len(
                re.findall(r"\[\[buffer", re.search(rf"void {pipeline.name}\((.*)\) {{", pipeline.source).group(1))
            )  # type: ignore[union-attr]
            try:
                (executable,) = devices.get("metal_shim").compile([kernel])
                executable([slots[k] for k in range(used)] + [slots[0]] * (len(slots) - used))
            except DeviceError as error:
                self.problem = Error(str(error))

    def waitUntilCompleted(self) -> None:
        self.waited = True

    def error(self) -> Error | None:
        return self.problem

    def GPUStartTime(self) -> float:
        return 2.0

    def GPUEndTime(self) -> float:
        return 2.0 + 1e-3 * len(self.commands)


class Device:
    def __init__(self) -> None:
        self.buffers: list[CommandBuffer] = []
        self.builds = 0
        self.modern = True

    def name(self) -> str:
        return "Pretend M1"

    def supportsFamily_(self, family: int) -> bool:
        return self.modern

    def recommendedMaxWorkingSetSize(self) -> int:
        return 1 << 30

    def maxBufferLength(self) -> int:
        return 1 << 28

    def newCommandQueue(self) -> Device:
        return self

    def commandBuffer(self) -> CommandBuffer:
        self.buffers.append(CommandBuffer())
        return self.buffers[-1]

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer:
        assert options == MTLResourceStorageModeShared
        return Buffer(nbytes)

    def newLibraryWithSource_options_error_(
        self, text: str, options: MTLCompileOptions, error: None
    ) -> tuple[Any, Any]:
        assert text.startswith("#include <metal_stdlib>\n") and "using namespace metal;\n" in text
        self.builds += 1
        source = text.split("#line 1\n", 1)[1]
        if "#error" in source:
            return None, Error("program_source:1:2: error: here")
        return Library(source), None

    def newComputePipelineStateWithFunction_error_(self, function: tuple[str, str], error: None) -> tuple[Any, Any]:
        return Pipeline(*function), None


DEVICE = Device()


def MTLCreateSystemDefaultDevice() -> Device:
    return DEVICE


def MTLCopyAllDevices() -> list[Device]:
    return [DEVICE]
