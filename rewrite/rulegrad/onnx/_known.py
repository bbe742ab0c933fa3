"""Shape arithmetic on the host: ops whose inputs are all known, with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import known

_PLAIN: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
    "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not, "Neg": np.negative, "Abs": np.abs,
    "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt, "Where": np.where,
}  # fmt: skip


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, *inputs: np.asarray(function(*inputs))


for _name, _function in _PLAIN.items():
    known(_name)(_plain(_function))


@known("Div")
def div(call: Call, a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


@known("Mod")
def mod(call: Call, a: Any, b: Any, *, fmod: int = 0) -> Any:
    return np.asarray(np.fmod(a, b) if fmod else np.mod(a, b))


@known("Max")
def max_(call: Call, *inputs: Any) -> Any:
    return np.asarray(np.maximum.reduce(np.broadcast_arrays(*inputs)))


@known("Min")
def min_(call: Call, *inputs: Any) -> Any:
    return np.asarray(np.minimum.reduce(np.broadcast_arrays(*inputs)))


@known("Identity")
def identity(call: Call, x: Any) -> Any:
    return x


@known("Concat")
def concat(call: Call, *inputs: Any, axis: int) -> Any:
    return np.concatenate(inputs, axis)


@known("Gather")
def gather(call: Call, x: Any, indices: Any, *, axis: int) -> Any:
    return np.asarray(np.take(x, indices, axis))


@known("Squeeze")
def squeeze(call: Call, x: Any, given: Any = None, *, axes: list[int] | None = None) -> Any:
    chosen = axes if given is None else np.atleast_1d(given)
    return np.squeeze(x, None if chosen is None else tuple(int(one) for one in chosen))


@known("Unsqueeze")
def unsqueeze(call: Call, x: Any, given: Any = None, *, axes: list[int] | None = None) -> Any:
    chosen: Any = axes if given is None else given
    return np.expand_dims(x, tuple(int(one) for one in np.atleast_1d(chosen)))


@known("Reshape")
def reshape(call: Call, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    return x.reshape(target_shape(x.shape, shape, bool(allowzero)))


def target_shape(before: tuple[int, ...], shape: Any, allowzero: bool) -> tuple[int, ...]:
    """The shape that Reshape gives: 0 is the size that the axis had."""
    sizes = [int(one) for one in shape]
    sizes = sizes if allowzero else [before[place] if one == 0 else one for place, one in enumerate(sizes)]
    if -1 in sizes:
        rest = int(np.prod([one for one in sizes if one != -1], dtype=np.int64))
        sizes[sizes.index(-1)] = int(np.prod(before, dtype=np.int64)) // rest if rest else 0
    return tuple(sizes)


@known("Expand")
def expand(call: Call, x: Any, shape: Any) -> Any:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(one) for one in shape)))


@known("Transpose")
def transpose(call: Call, x: Any, *, perm: list[int] | None = None) -> Any:
    return np.transpose(x, perm)


@known("Slice", since=10)
def slice_(call: Call, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    return x[slices(x.shape, starts, ends, axes, steps)]


def slices(shape: tuple[int, ...], starts: Any, ends: Any, axes: Any, steps: Any) -> tuple[slice, ...]:
    """The index that Slice means."""
    found = [slice(None)] * len(shape)
    places = range(len(starts)) if axes is None else [int(one) for one in axes]
    for place, axis in enumerate(places):
        step = 1 if steps is None else int(steps[place])
        start, stop, size = int(starts[place]), int(ends[place]), shape[axis]
        start, stop = (one + size if one < 0 else one for one in (start, stop))
        if step > 0:
            start, stop = min(max(start, 0), size), min(max(stop, 0), size)
            found[axis] = slice(start, max(start, stop), step)
        else:
            start, stop = min(max(start, 0), size - 1), min(max(stop, -1), size - 1)
            found[axis] = slice(start, None if stop < 0 else stop, step) if start > stop else slice(0, 0)
    return tuple(found)


@known("Range")
def range_(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


_REDUCTIONS: dict[str, Any] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


@known("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce(call: Call, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    function = _REDUCTIONS[call.node.op]
    given = call.node.given.get("axes") if axes is None else axes
    if given is None or len(given) == 0:
        if noop_with_empty_axes:
            return x
        given = range(x.ndim)
    return np.asarray(function(x, axis=tuple(int(one) for one in given), keepdims=bool(keepdims))).astype(x.dtype)


@known("Tile")
def tile(call: Call, x: Any, counts: Any) -> Any:
    return np.tile(x, counts)


@known("NonZero")
def nonzero(call: Call, x: Any) -> Any:
    return np.array(np.nonzero(x), np.int64)
