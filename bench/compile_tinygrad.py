"""The workloads of bench/compile.py in tinygrad, for its NULL device, which has no compiler of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Build = Callable[[], Sequence[Any]]


def prepare(workload: str) -> Build:
    """Make the inputs of a workload, and return what builds its tensors from them."""
    from tinygrad import Tensor

    def empty(*shape: int) -> Any:
        return Tensor.empty(*shape, device="NULL")

    if workload == "softmax":
        x = empty(4096, 1024)
        return lambda: [x.softmax(-1)]
    if workload == "layer_norm":
        x, scale, shift = empty(4096, 1024), empty(1024), empty(1024)
        return lambda: [x.layernorm(-1, eps=1e-5) * scale + shift]
    if workload == "matmul":
        a, b = empty(512, 512), empty(512, 512)
        return lambda: [a @ b]
    if workload == "conv2d":
        image, weight = empty(1, 64, 56, 56), empty(64, 64, 3, 3)
        return lambda: [image.conv2d(weight, padding=1)]
    return prepare_training_step()


def prepare_training_step() -> Build:
    """One step of examples/digits.py: a 64-128-10 network, cross entropy, backward, Adam, 64 images."""
    from tinygrad import Tensor, dtypes, nn
    from tinygrad.helpers import Context

    first, second = nn.Linear(64, 128), nn.Linear(128, 10)
    optimizer = nn.optim.Adam([first.weight, first.bias, second.weight, second.bias], lr=1e-3)
    # Buffers instead of the first values, so that nothing is compiled before the measured step.
    for state in nn.state.get_parameters([first, second, optimizer]):
        state.replace(Tensor.empty(*state.shape, dtype=state.dtype, device="NULL"))
    images = Tensor.empty(64, 64, device="NULL")
    labels = Tensor.empty(64, dtype=dtypes.int32, device="NULL")

    def build() -> Sequence[Any]:
        with Context(TRAINING=1):
            loss = second(first(images).relu()).sparse_categorical_crossentropy(labels)
            optimizer.zero_grad()
            loss.backward()
            return [loss, *optimizer.schedule_step()]

    return build


def compile_tensors(tensors: Sequence[Any]) -> list[str]:
    """From tensor graph to the source of each kernel; nothing runs."""
    from tinygrad.engine.realize import compile_linear
    from tinygrad.uop.ops import Ops

    linear = compile_linear(tensors[0].schedule_linear(*tensors[1:]))
    programs = [call.src[0] for call in linear.src if call.src[0].op is Ops.PROGRAM]
    return [source.arg for program in programs for source in program.src if source.op is Ops.SOURCE]


def forget() -> None:
    """Empty the tables that keep finished work; compiled patterns, which every later compile uses, stay."""
    from tinygrad.codegen import to_program_cache
    from tinygrad.codegen.late.coalesce import _drop_valid_stmts
    from tinygrad.schedule import schedule_cache
    from tinygrad.schedule.indexing import _apply_reshape, apply_movement_op
    from tinygrad.uop.divandmod import fold_divmod_general

    to_program_cache.clear()
    schedule_cache.clear()
    for function in (_drop_valid_stmts, _apply_reshape, apply_movement_op, fold_divmod_general):
        function.cache_clear()
