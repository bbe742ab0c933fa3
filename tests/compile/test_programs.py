"""Whole programs: what a device computes is what the tensor graph means, by the interpreter, whatever was fused."""

from __future__ import annotations

import numpy as np
from graphs import programs
from hypothesis import given, settings
from hypothesis import strategies as st

from rulegrad import config
from rulegrad.compile import forget_kernels
from rulegrad.compile.realize import realize
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer


def agree(outputs: list[UOp], buffers: list[Buffer]) -> None:
    contents = {buffer.uop: buffer.numpy() for buffer in buffers}
    for output, result in zip(outputs, realize(outputs), strict=True):
        np.testing.assert_array_equal(result.numpy(), evaluate(output, contents), err_msg=str(output))


@given(programs("numpy"))
@settings(max_examples=120)
def test_random_programs_on_numpy(program: tuple[list[UOp], list[Buffer]]) -> None:
    agree(*program)


@given(programs("numpy"))
@settings(max_examples=40)
def test_every_pass_keeps_the_meaning(program: tuple[list[UOp], list[Buffer]]) -> None:
    forget_kernels()
    with config(check=2):
        agree(*program)


@given(st.data())
@settings(max_examples=12)
def test_random_programs_on_opencl(data: st.DataObject) -> None:
    device = "opencl"
    agree(*data.draw(programs(device, steps=12)))
