"""Gather, scatter, sort, select."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.onnx import _table as table
from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import Value, op
from rulegrad.tensor.tensor import Tensor


def _counted(index: Tensor, size: int) -> Tensor:
    """Indices from the front: negative ones count from the end."""
    if not index.dtype.is_signed:
        return index.cast("int64")
    return (index < 0).where(index + size, index).cast("int64")


@op("Gather", raw=True)
def gather(call: Call, x: Value, index: Value, *, axis: int) -> Tensor:
    x = call.tensor(x)
    if isinstance(index, np.ndarray) and index.ndim == 0:
        return x[(slice(None),) * (axis % x.ndim) + (int(index),)]  # type: ignore[no-any-return]
    return x[(slice(None),) * (axis % x.ndim) + (call.tensor(index),)]  # type: ignore[no-any-return]


@op("GatherElements")
def gather_elements(call: Call, x: Tensor, index: Tensor, *, axis: int) -> Tensor:
    return x.gather(axis % x.ndim, _counted(index, x.shape[axis]))


@op("GatherND")
def gather_nd(call: Call, x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    batch = [
        Tensor(np.arange(n).reshape([-1 if a == place else 1 for a in range(index.ndim - 1)]), device=x.device)
        for place, n in enumerate(x.shape[:batch_dims])
    ]
    places = (*batch, *(index[..., place] for place in range(index.shape[-1])))
    return x[places]


@op("Scatter", "ScatterElements")
def scatter_elements(
    call: Call, x: Tensor, index: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Tensor:
    places = _counted(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis % x.ndim, places, updates)
    return x.scatter_reduce(axis % x.ndim, places, updates, _REDUCTIONS[reduction])


_REDUCTIONS: dict[str, Any] = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@op("ScatterND")
def scatter_nd(call: Call, x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    depth = index.shape[-1]
    inner = int(np.prod(x.shape[depth:], dtype=np.int64))
    flat = Tensor.zeros(*index.shape[:-1], dtype="int64", device=x.device)
    for place in range(depth):
        flat = flat * x.shape[place] + _counted(index[..., place], x.shape[place])
    rows = x.reshape(-1, inner)
    places = flat.reshape(-1, 1).expand(int(np.prod(index.shape[:-1], dtype=np.int64)), inner)
    values = updates.reshape(places.shape)
    if reduction == "none":
        return rows.scatter(0, places, values).reshape(x.shape)
    return rows.scatter_reduce(0, places, values, _REDUCTIONS[reduction]).reshape(x.shape)


@op("TensorScatter", host=(2,))
def tensor_scatter(
    call: Call, x: Tensor, update: Tensor, starts: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    axis, batch = axis % x.ndim, x.shape[0]
    first = np.zeros(batch, np.int64) if starts is None else starts.astype(np.int64)
    steps = first[:, None] + np.arange(update.shape[axis])
    steps = steps % x.shape[axis] if mode == "circular" else steps
    shape = [batch if a == 0 else -1 if a == axis else 1 for a in range(x.ndim)]
    index = np.ascontiguousarray(np.broadcast_to(steps.reshape(shape), update.shape))
    return x.scatter(axis, Tensor(index, device=x.device), update)


@op("OneHot", host=(1,))
def one_hot(call: Call, index: Tensor, depth: Any, values: Tensor, *, axis: int) -> Tensor:
    size = int(np.reshape(depth, ()))
    whole = index.cast("int64")
    whole = (whole < 0).where(whole + size, whole)
    place = axis % (index.ndim + 1)
    numbers = Tensor.arange(size, device=call.device).cast("int64")
    hot = whole.unsqueeze(place) == numbers.reshape([-1 if a == place else 1 for a in range(index.ndim + 1)])
    return hot.where(values[1], values[0])


@op("TopK", since=1)
def top_k_1(call: Call, x: Tensor, *, axis: int, k: int) -> Any:
    return tuple(x.topk(k, axis))


@op("TopK", since=10, host=(1,))
def top_k(call: Call, x: Tensor, k: Any, *, axis: int, largest: int = 1, sorted: int = 1) -> Any:
    found, places = x.topk(int(np.reshape(k, ())), axis, bool(largest))
    return found, places.cast("int64")


@op("NonZero")
def nonzero(call: Call, x: Tensor) -> Any:
    return np.array(np.nonzero(x.numpy()), np.int64)


@op("Compress", host=(1,))
def compress(call: Call, x: Tensor, condition: Any, *, axis: int | None = None) -> Tensor:
    places = np.nonzero(condition)[0]
    if axis is None:
        return x.reshape(-1)[places]
    return x[(slice(None),) * (axis % x.ndim) + (places,)]


@op("Unique", raw=True)
def unique(call: Call, x: Value, *, axis: int | None = None, sorted: int = 1) -> Any:
    values = table.to_host(x)
    found, first, inverse, counts = np.unique(values, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return found, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@op("NonMaxSuppression", host=(0, 1, 2, 3, 4))
def non_max_suppression(
    call: Call, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None,
    *, center_point_box: int
) -> Any:  # fmt: skip
    count = 0 if most is None else int(np.reshape(most, ()))
    limit = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    floor = None if least is None else float(np.reshape(least, ()))
    found: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], bool(center_point_box))
        for kind in range(scores.shape[1]):
            chosen: list[int] = []
            for place in np.argsort(-scores[batch, kind], kind="stable"):
                if len(chosen) == count or (floor is not None and scores[batch, kind, place] <= floor):
                    break
                if all(_overlap(corners[place], corners[one]) <= limit for one in chosen):
                    chosen.append(int(place))
            found += [(batch, kind, place) for place in chosen]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Any, centered: bool) -> Any:
    if centered:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    first, last = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, last), np.maximum(first, last)], 1)


def _overlap(a: Any, b: Any) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (sides <= 0).any():
        return 0.0
    both = float(np.prod(sides))
    return both / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - both)


@op("RoiAlign", host=(2,))
def roi_align(
    call: Call, x: Tensor, rois: Tensor, batches: Any, *, coordinate_transformation_mode: str = "output_half_pixel",
    mode: str, output_height: int, output_width: int, sampling_ratio: int, spatial_scale: float,
) -> Tensor:  # fmt: skip
    height, width = x.shape[2:]
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    parts = []
    for place, box in enumerate(rois.numpy() * spatial_scale - half):
        left, top, right, bottom = (float(one) for one in box)
        w, h = right - left, bottom - top
        if not half:
            w, h = max(w, 1.0), max(h, 1.0)
        ys = _samples(top, h, output_height, sampling_ratio, height)
        xs = _samples(left, w, output_width, sampling_ratio, width)
        image = x[int(batches[place])]
        if mode == "max":
            parts.append(_largest_sample(image, ys, xs, output_height, output_width))
            continue
        rows, columns = _averages(ys, height, output_height), _averages(xs, width, output_width)
        to: Any = {"dtype": x.dtype, "device": x.device}
        parts.append(Tensor(rows, **to) @ image @ Tensor(np.ascontiguousarray(columns.T), **to))
    return (
        Tensor.stack(*parts)
        if parts
        else Tensor.zeros(0, x.shape[1], output_height, output_width, dtype=x.dtype, device=x.device)
    )


def _samples(start: float, extent: float, bins: int, ratio: int, size: int) -> Any:
    """Of each sample of an axis: the two neighbours, and the share of each (none outside)."""
    each = ratio or int(np.ceil(extent / bins))
    at = start + (np.arange(bins * each) + 0.5) * (extent / bins / each)
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return low, high, (1 - (at - low)) * inside, (at - low) * inside


def _averages(samples: Any, size: int, bins: int) -> Any:
    low, high, near, far = samples
    found, each = np.zeros((bins, size)), len(low) // bins
    np.add.at(found, (np.arange(len(low)) // each, low), near / each)
    np.add.at(found, (np.arange(len(low)) // each, high), far / each)
    return found


def _largest_sample(image: Tensor, ys: Any, xs: Any, rows: int, columns: int) -> Tensor:
    best: Tensor | None = None
    for y, ny in ((ys[0], ys[2]), (ys[1], ys[3])):
        for x, nx in ((xs[0], xs[2]), (xs[1], xs[3])):
            weight = Tensor(np.outer(ny, nx), dtype=image.dtype, device=image.device)
            part = image[:, y][:, :, x] * weight
            best = part if best is None else best.maximum(part)
    assert best is not None
    blocks = best.reshape(image.shape[0], rows, best.shape[1] // rows, columns, best.shape[2] // columns)
    return blocks.max(axis=(2, 4))
