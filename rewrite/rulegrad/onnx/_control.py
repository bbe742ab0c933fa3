"""Branches, loops, sequences and optional values. Conditions and counts are read on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulegrad.onnx import _table as table
from rulegrad.onnx._graph import Call, Graph
from rulegrad.onnx._package import package
from rulegrad.onnx._table import Value, op
from rulegrad.tensor.tensor import Tensor


def _truth(value: Value) -> bool:
    return bool(np.reshape(table.to_host(value), ()))


@op("If", raw=True)
def if_(call: Call, condition: Value, *, then_branch: Graph, else_branch: Graph) -> Any:
    return tuple(call.run(then_branch if _truth(condition) else else_branch, ()))


@op("Loop", raw=True)
def loop(call: Call, most: Value, condition: Value, *state: Value, body: Graph) -> Any:
    count = None if most is None else int(np.reshape(table.to_host(most), ()))
    going = condition is None or _truth(condition)
    carried, rows = list(state), []
    place = 0
    while going and (count is None or place < count):
        found = call.run(body, [np.array(place), np.array(going), *carried])
        going, carried = _truth(found[0]), found[1 : 1 + len(state)]
        rows.append(found[1 + len(state) :])
        place += 1
    collected = 1 + len(state)
    return (*carried, *(stacked(call, rows, body.types[collected:]) if rows else map(_nothing, body.types[collected:])))


def _nothing(kind: Any) -> Value:
    """The empty result of a loop without a step, of the type that its body declares; sizes not said are 0."""
    tensor = kind.tensor_type
    dtype = package().helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else np.float32
    return np.zeros((0, *(one.dim_value for one in tensor.shape.dim)), dtype)


def stacked(call: Call, rows: Sequence[Sequence[Value]], outputs: Sequence[Any]) -> list[Value]:
    """The values of each step, along a new first axis, for each of the outputs."""
    return [joined(call, [row[place] for row in rows], 0, True) for place in range(len(outputs))]


def joined(call: Call, parts: Sequence[Value], axis: int, new_axis: bool) -> Value:
    """Values along one axis: on the host where all are there."""
    if all(isinstance(one, np.ndarray) for one in parts):
        return np.stack(parts, axis) if new_axis else np.concatenate(parts, axis)
    tensors = [call.tensor(one) for one in parts]
    if new_axis:
        return tensors[0].unsqueeze(axis) if len(tensors) == 1 else Tensor.stack(*tensors, axis=axis)
    return tensors[0] if len(tensors) == 1 else tensors[0].cat(*tensors[1:], axis=axis)


@op("Scan", since=8, raw=True)
def scan_8(
    call: Call, lengths: Value, *inputs: Value, body: Graph, num_scan_inputs: int, directions: list[int] | None = None
) -> Any:
    if lengths is not None:
        raise call.error("lengths of sequences are not supported in opset 8")
    batches = []
    for place in range(inputs[0].shape[0]):
        batches.append(_scan(call, [one[place] for one in inputs], body, num_scan_inputs, directions, None, None, None))
    return tuple(stacked(call, batches, body.outputs))


@op("Scan", since=9, raw=True)
def scan(
    call: Call,
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> Any:
    return tuple(
        _scan(
            call,
            inputs,
            body,
            num_scan_inputs,
            scan_input_directions,
            scan_input_axes,
            scan_output_axes,
            scan_output_directions,
        )
    )


def _scan(
    call: Call,
    inputs: Sequence[Value],
    body: Graph,
    count: int,
    directions: Sequence[int] | None,
    axes: Sequence[int] | None,
    output_axes: Sequence[int] | None,
    output_directions: Sequence[int] | None,
) -> list[Value]:
    states = len(inputs) - count
    state, read = list(inputs[:states]), inputs[states:]
    axes, directions = axes or [0] * count, directions or [0] * count
    rows = []
    for time in range(read[0].shape[axes[0]]):
        parts = [
            one[(slice(None),) * (axis % one.ndim) + (one.shape[axis] - 1 - time if back else time,)]
            for one, axis, back in zip(read, axes, directions)
        ]
        found = call.run(body, [*state, *parts])
        state = found[:states]
        rows.append(found[states:])
    outputs = len(body.outputs) - states
    backwards = output_directions or [0] * outputs
    whole = [
        joined(
            call,
            [row[place] for row in (rows[::-1] if backwards[place] else rows)],
            output_axes[place] if output_axes else 0,
            True,
        )
        for place in range(outputs)
    ]
    return [*state, *whole]


# ---- sequences ----


@op("SequenceEmpty", raw=True)
def sequence_empty(call: Call, *, dtype: int = 1) -> Any:
    return ([],)


@op("SequenceConstruct", raw=True)
def sequence_construct(call: Call, *inputs: Value) -> Any:
    return list(inputs)


@op("SequenceLength", raw=True)
def sequence_length(call: Call, values: list[Value]) -> Any:
    return np.array(len(values))


def _place(call: Call, values: list[Value], place: Value, end: int) -> int:
    number = int(np.reshape(table.to_host(place), ()))
    if not -len(values) <= number < len(values) + end:
        raise call.error(f"place {number} of a sequence of {len(values)}")
    return number + len(values) if number < 0 else number


@op("SequenceAt", raw=True)
def sequence_at(call: Call, values: list[Value], place: Value) -> Value:
    return values[_place(call, values, place, 0)]


@op("SequenceInsert", raw=True)
def sequence_insert(call: Call, values: list[Value], value: Value, place: Value = None) -> Any:
    at = len(values) if place is None else _place(call, values, place, 1)
    return [*values[:at], value, *values[at:]]


@op("SequenceErase", raw=True)
def sequence_erase(call: Call, values: list[Value], place: Value = None) -> Any:
    at = len(values) - 1 if place is None else _place(call, values, place, 0)
    return [*values[:at], *values[at + 1 :]]


@op("SplitToSequence", raw=True)
def split_to_sequence(call: Call, x: Value, sizes: Value = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    whole, axis = x.shape[axis], axis % len(x.shape)
    if sizes is None:
        lengths = [1] * whole
    else:
        given = table.to_host(sizes)
        each = int(given) if given.ndim == 0 else 0
        lengths = [min(each, whole - at) for at in range(0, whole, each)] if each else [int(one) for one in given]
    parts, at = [], 0
    for length in lengths:
        index: Any = at if sizes is None and not keepdims else slice(at, at + length)
        parts.append(x[(slice(None),) * axis + (index,)])
        at += length
    return parts


@op("ConcatFromSequence", raw=True)
def concat_from_sequence(call: Call, values: list[Value], *, axis: int, new_axis: int = 0) -> Value:
    return joined(call, values, axis, bool(new_axis))


# ---- optional values: an empty one is None ----


@op("Optional", raw=True)
def optional(call: Call, value: Value = None, *, type: Any = None) -> Any:
    return (value,)


@op("OptionalHasElement", raw=True)
def optional_has_element(call: Call, value: Value = None) -> Any:
    return np.array(value is not None)


@op("OptionalGetElement", raw=True)
def optional_get_element(call: Call, value: Value) -> Any:
    if value is None:
        raise call.error("the optional value is empty")
    return (value,)
