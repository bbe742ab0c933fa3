"""Shapes and movement: reshape, slice, pad, join, split; values of one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.onnx import _table as table
from rulegrad.onnx._elementwise import dtype_of, flat
from rulegrad.onnx._graph import Call
from rulegrad.onnx._known import slices, target_shape
from rulegrad.onnx._table import Value, op
from rulegrad.tensor.tensor import Tensor


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(int(one) % rank if rank else 0 for one in axes)


@op("Identity", raw=True)
def identity(call: Call, x: Value) -> Value:
    return x


@op("Constant", raw=True)
def constant(
    call: Call,
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
) -> Value:
    for given, dtype in (
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_string, object),
        (value_strings, object),
    ):
        if given is not None:
            return np.array(given, dtype)
    return value


@op("ConstantOfShape", host=(0,))
def constant_of_shape(call: Call, shape: Any, *, value: Any = None) -> Value:
    filling = np.zeros(1, np.float32) if value is None else value
    sizes = tuple(int(one) for one in shape)
    if not table.has_tensors(filling.dtype) or (filling.dtype.kind in "iub" and np.prod(sizes) <= 64):
        return np.full(sizes, filling.reshape(()), filling.dtype)
    return Tensor.full(sizes, filling.reshape(()).item(), dtype=filling.dtype.name, device=call.device)


@op("Shape", raw=True)
def shape(call: Call, x: Value, *, start: int = 0, end: int | None = None) -> Any:
    return np.array(x.shape[start:end], np.int64)


@op("Size", raw=True)
def size(call: Call, x: Value) -> Any:
    return np.array(np.prod(x.shape, dtype=np.int64))


@op("Reshape", host=(1,))
def reshape(call: Call, x: Tensor, shape: Any, *, allowzero: int = 0) -> Tensor:
    return x.reshape(target_shape(x.shape, shape, bool(allowzero)))


@op("Flatten")
def flatten(call: Call, x: Tensor, *, axis: int) -> Tensor:
    return flat(x, axis)


@op("Squeeze", host=(1,))
def squeeze(call: Call, x: Tensor, given: Any = None, *, axes: list[int] | None = None) -> Tensor:
    chosen = axes if given is None else np.atleast_1d(given)
    if chosen is None:
        return x.reshape([one for one in x.shape if one != 1])
    gone = axes_of(chosen, x.ndim)
    if any(x.shape[axis] != 1 for axis in gone):
        raise call.error(f"axes {sorted(gone)} of {x.shape} are not all of size 1")
    return x.reshape([one for axis, one in enumerate(x.shape) if axis not in gone])


@op("Unsqueeze", host=(1,))
def unsqueeze(call: Call, x: Tensor, given: Any = None, *, axes: list[int] | None = None) -> Tensor:
    chosen: Any = axes if given is None else np.atleast_1d(given)
    rank = x.ndim + len(chosen)
    new, sizes = axes_of(chosen, rank), iter(x.shape)
    return x.reshape([1 if axis in new else next(sizes) for axis in range(rank)])


@op("Transpose")
def transpose(call: Call, x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return x.permute(*(range(x.ndim)[::-1] if perm is None else perm)) if x.ndim else x


@op("Expand", host=(1,))
def expand(call: Call, x: Tensor, shape: Any) -> Tensor:
    return x.broadcast_to(np.broadcast_shapes(x.shape, tuple(int(one) for one in shape)))


@op("Tile", host=(1,))
def tile(call: Call, x: Tensor, counts: Any) -> Tensor:
    return x.tile(*(int(one) for one in counts)) if x.ndim else x


@op("Concat")
def concat(call: Call, *inputs: Tensor, axis: int) -> Tensor:
    return inputs[0].cat(*inputs[1:], axis=axis) if len(inputs) > 1 else inputs[0]


@op("Slice", since=1)
def slice_1(call: Call, x: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None) -> Tensor:
    return x[slices(x.shape, starts, ends, axes, None)]


@op("Slice", since=10, host=(1, 2, 3, 4))
def slice_10(call: Call, x: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    return x[slices(x.shape, starts, ends, axes, steps)]


@op("Split", host=(1,))
def split(
    call: Call, x: Tensor, given: Any = None, *, axis: int, split: list[int] | None = None, num_outputs: int = 0
) -> Any:
    sizes = split if given is None else [int(one) for one in given]
    if sizes is None:
        count, whole = num_outputs or call.outputs, x.shape[axis]
        each = -(-whole // count)
        sizes = [min(each, max(whole - place * each, 0)) for place in range(count)]
    return tuple(x.split(sizes, axis))


@op("Pad", since=2)
def pad_2(call: Call, x: Tensor, *, pads: list[int], mode: str, value: float) -> Tensor:
    return padded(x, pads, mode, value)


@op("Pad", since=11, host=(1, 2, 3))
def pad_11(call: Call, x: Tensor, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> Tensor:
    if axes is not None:
        count, full = len(axes), [0] * (2 * x.ndim)
        for place, axis in enumerate(axes_of(axes, x.ndim)):
            full[axis], full[x.ndim + axis] = int(pads[place]), int(pads[count + place])
        pads = full
    return padded(x, [int(one) for one in pads], mode, 0 if value is None else value.item())


def padded(x: Tensor, pads: list[int], mode: str, value: Any) -> Tensor:
    """`x` with `pads` (all beginnings, then all ends; negative ones crop)."""
    pairs = list(zip(pads[: x.ndim], pads[x.ndim :]))
    if any(one < 0 for pair in pairs for one in pair):
        x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs))]
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(map(any, pairs)):
        return x
    if mode == "constant":
        return x.pad(tuple(pairs), value=bool(value) if x.dtype == "bool" else value)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            numbers = np.pad(np.arange(x.shape[axis]), (before, after), mode=_MODES[mode])  # type: ignore[call-overload]
            x = x[(slice(None),) * axis + (numbers,)]
    return x


_MODES: dict[str, str] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@op("CenterCropPad", host=(1,))
def center_crop_pad(call: Call, x: Tensor, shape: Any, *, axes: list[int] | None = None) -> Tensor:
    pads = [0] * (2 * x.ndim)
    for axis, wanted in zip(range(x.ndim) if axes is None else axes_of(axes, x.ndim), shape):
        more = int(wanted) - x.shape[axis]
        before = more // 2 if more >= 0 else -(-more // 2)
        pads[axis], pads[x.ndim + axis] = before, more - before
    return padded(x, pads, "constant", 0)


@op("DepthToSpace")
def depth_to_space(call: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        blocks = x.reshape(n, b, b, depth, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, depth, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, depth, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(call: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(*order).reshape(n, c * b * b, h // b, w // b)


@op("Range", host=(0, 1, 2))
def range_(call: Call, start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Value:
    count = max(int(np.ceil((limit.item() - start.item()) / delta.item())), 0)
    if start.dtype.kind != "f" and start.dtype.name != "bfloat16":
        return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    wide = Tensor.arange(count, device=call.device).cast("float64" if start.dtype == np.float64 else "float32")
    return (wide * delta.item() + start.item()).cast(start.dtype.name)


@op("EyeLike", raw=True)
def eye_like(call: Call, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    kind = (x.dtype.name if isinstance(x, np.ndarray) else x.dtype) if dtype is None else dtype_of(dtype).name
    return Tensor(np.eye(x.shape[0], x.shape[1], k=k), device=call.device).cast(kind)


@op("Trilu", host=(1,))
def trilu(call: Call, x: Tensor, k: Any = None, *, upper: int) -> Tensor:
    diagonal = 0 if k is None else int(k)
    return x.triu(diagonal) if upper else x.tril(diagonal)


@op("ReverseSequence", host=(1,))
def reverse_sequence(call: Call, x: Tensor, lengths: Any, *, batch_axis: int, time_axis: int) -> Tensor:
    size = x.shape[time_axis]
    steps = np.arange(size)
    order = np.stack([np.where(steps < n, n - 1 - steps, steps) for n in lengths.astype(int)])
    grid = np.indices(x.shape)
    index = list(grid)
    index[time_axis] = order[grid[batch_axis], grid[time_axis]]
    return x.gather(time_axis, Tensor(index[time_axis], device=call.device))
