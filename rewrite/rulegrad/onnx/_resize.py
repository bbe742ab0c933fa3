"""Resize and Upsample: places and weights are computed on the host, from the sizes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from rulegrad.onnx._graph import Call
from rulegrad.onnx._shapes import axes_of
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor


class Axis:
    """How one axis is resized."""

    def __init__(self, before: int, after: int, scale: float, roi: tuple[float, float]) -> None:
        self.before, self.after, self.scale, self.roi = before, after, scale, roi

    def places(self, mode: str) -> Any:
        """The place in the input of each output."""
        at = np.arange(self.after, dtype=np.float64)
        exact = self.before * self.scale
        if mode == "asymmetric":
            return at / self.scale
        if mode == "align_corners":
            return at * ((self.before - 1) / (exact - 1)) if exact != 1 else at * 0
        if mode == "tf_crop_and_resize":
            start, end = self.roi
            if self.after == 1:
                return np.array([0.5 * (start + end) * (self.before - 1)])
            return start * (self.before - 1) + at * (end - start) * (self.before - 1) / (self.after - 1)
        if mode == "pytorch_half_pixel" and self.after == 1:
            return at * 0
        found = (at + 0.5) / self.scale - 0.5
        if mode == "half_pixel_symmetric":
            found = found + self.before / 2 * (1 - self.after / exact)
        return found


_ROUNDINGS: dict[str, Any] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _weights(distance: Any, mode: str, cubic: float) -> Any:
    """The weight of an input at this distance."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    near = ((cubic + 2) * d - (cubic + 3)) * d * d + 1
    far = ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


@op("Upsample", since=7)
def upsample_7(call: Call, x: Tensor, *, mode: str, scales: list[float]) -> Tensor:
    return upsample(call, x, np.array(scales), mode=mode)


@op("Upsample", since=9, host=(1,))
def upsample(call: Call, x: Tensor, scales: Any, *, mode: str) -> Tensor:
    sizes = [int(np.floor(n * s)) for n, s in zip(x.shape, scales)]
    options = {"coordinates": "asymmetric", "nearest": "floor", "cubic": -0.75, "exclude": False, "antialias": False}
    for axis, (size, scale) in enumerate(zip(sizes, scales)):
        x = _resized(x, axis, Axis(x.shape[axis], size, float(scale), (0.0, 1.0)), mode, options)
    return x


@op("Resize", since=10, host=(1,))
def resize_10(call: Call, x: Tensor, scales: Any, *, mode: str) -> Tensor:
    return upsample(call, x, scales, mode=mode)


@op("Resize", since=11, host=(1, 2, 3))
def resize(
    call: Call, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: list[int] | None = None, coordinate_transformation_mode: str, cubic_coeff_a: float, exclude_outside: int,
    extrapolation_value: float, keep_aspect_ratio_policy: str = "stretch", mode: str, nearest_mode: str,
) -> Tensor:  # fmt: skip
    chosen = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    after, factors = _targets(call, [x.shape[axis] for axis in chosen], scales, sizes, keep_aspect_ratio_policy)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    options = {
        "coordinates": coordinate_transformation_mode, "nearest": nearest_mode, "cubic": cubic_coeff_a,
        "exclude": bool(exclude_outside), "antialias": bool(antialias),
    }  # fmt: skip
    outside: Any = None
    for place, axis in enumerate(chosen):
        bounds = (float(roi[place]), float(roi[place + len(chosen)])) if crop else (0.0, 1.0)
        plan = Axis(x.shape[axis], after[place], factors[place], bounds)
        if crop:
            at = plan.places(coordinate_transformation_mode)
            shape = [-1 if one == axis else 1 for one in range(x.ndim)]
            beyond = ((at < 0) | (at > plan.before - 1)).reshape(shape)
            outside = beyond if outside is None else outside | beyond
        x = _resized(x, axis, plan, mode, options)
    if outside is not None and outside.any():
        mask = Tensor(np.ascontiguousarray(np.broadcast_to(outside, x.shape)), device=x.device)
        x = mask.where(x.zeros_like() + extrapolation_value, x)
    return x


def _targets(call: Call, before: list[int], scales: Any, sizes: Any, policy: str) -> tuple[list[int], list[float]]:
    """The sizes after, and the factors."""
    if sizes is None or len(sizes) == 0:
        if scales is None or len(scales) == 0:
            raise call.error("neither sizes nor scales are given")
        factors = [float(one) for one in scales]
        return [int(np.floor(n * s)) for n, s in zip(before, factors)], factors
    wanted = [int(one) for one in sizes]
    factors = [size / n for size, n in zip(wanted, before)]
    if policy == "stretch":
        return wanted, factors
    one = min(factors) if policy == "not_larger" else max(factors)
    return [int(np.floor(n * one + 0.5)) for n in before], [one] * len(before)


def _resized(x: Tensor, axis: int, plan: Axis, mode: str, options: dict[str, Any]) -> Tensor:
    """One axis resized."""
    if plan.before == plan.after and plan.scale == 1 and options["coordinates"] != "tf_crop_and_resize":
        return x
    at: tuple[Any, ...] = (slice(None),) * axis
    before = plan.before
    places = plan.places(options["coordinates"])
    if mode == "nearest":
        index = np.clip(_ROUNDINGS[options["nearest"]](places), 0, before - 1).astype(np.int64)
        times = plan.after // before
        if times * before == plan.after and (index == np.arange(plan.after) // times).all():
            return _repeated(x, axis, times)
        return x[at + (index,)]
    matrix = _matrix(plan, places, mode, options)
    taps = int((matrix != 0).sum(1).max())
    if taps > 4:
        rows = Tensor(matrix, dtype=x.dtype, device=x.device)
        return (x.moveaxis(axis, -1) @ rows.T).moveaxis(-1, axis)
    order = np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps]
    found: Tensor | None = None
    for tap in range(taps):
        weights = np.take_along_axis(matrix, order[:, tap : tap + 1], 1).reshape(-1, *[1] * (x.ndim - axis - 1))
        part = x[at + (order[:, tap].copy(),)] * Tensor(weights, dtype=x.dtype, device=x.device)
        found = part if found is None else found + part
    assert found is not None
    return found


def _repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Each element several times, without indices."""
    wide = x.unsqueeze(axis + 1)
    shape = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    return wide.expand(*shape).reshape(*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :])


def _matrix(plan: Axis, places: Any, mode: str, options: dict[str, Any]) -> Any:
    """The weight of each input in each output."""
    shrink = min(plan.scale, 1.0) if options["antialias"] else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    first = np.floor(places).astype(np.int64) - int(np.ceil(reach)) + 1
    taps = first[:, None] + np.arange(2 * int(np.ceil(reach)))
    weights = _weights((taps - places[:, None]) * shrink, mode, options["cubic"])
    inside = (taps >= 0) & (taps < plan.before)
    if options["exclude"] or options["antialias"]:
        weights = weights * inside if options["exclude"] else weights
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((plan.after, plan.before))
    np.add.at(matrix, (np.arange(plan.after)[:, None], np.clip(taps, 0, plan.before - 1)), weights)
    return matrix
