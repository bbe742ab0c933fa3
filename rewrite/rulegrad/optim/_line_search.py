"""The line search of LBFGS: steps along a direction until one meets the strong Wolfe conditions, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from rulegrad.tensor.tensor import Tensor

#: How much of the first slope a step has to gain, and what part of that slope may be left.
_GAIN: Final = 1e-4
_LEFT: Final = 0.9


class Point(NamedTuple):
    """A step along the direction, and there: the loss, the gradient, and the gradient's part along the direction."""

    step: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, first: float, size: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """The point found, and how often the loss was computed.

    first: the step to try first. size: the largest element of the direction. most: after how many more tries to end.
    """
    bracket, done, tries = _bracket(evaluate, start, first, most)
    low = 0 if bracket[0].loss <= bracket[-1].loss else 1
    stuck = False
    while not done and tries < most:
        ends = bracket[0].step, bracket[1].step
        if abs(ends[1] - ends[0]) * size < tolerance:
            break
        step, stuck = _inside(_cubic(bracket[0], bracket[1], min(ends), max(ends)), ends, stuck)
        new = evaluate(step)
        tries += 1
        if new.loss > start.loss + _GAIN * step * start.slope or new.loss >= bracket[low].loss:
            bracket[1 - low] = new
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if abs(new.slope) <= -_LEFT * start.slope:
            done = True
        elif new.slope * (bracket[1 - low].step - bracket[low].step) >= 0.0:
            bracket[1 - low] = bracket[low]
        bracket[low] = new
    return bracket[low], tries + 1


def _bracket(
    evaluate: Callable[[float], Point], start: Point, first: float, most: int
) -> tuple[list[Point], bool, int]:
    """Two points with such a step between them, or one that is such a step; and how many steps were tried more."""
    before, now, tries = start, evaluate(first), 0
    while tries < most:
        if now.loss > start.loss + _GAIN * now.step * start.slope or (tries > 1 and now.loss >= before.loss):
            return [before, now], False, tries
        if abs(now.slope) <= -_LEFT * start.slope:
            return [now], True, tries
        if now.slope >= 0.0:
            return [before, now], False, tries
        step = _cubic(before, now, now.step + 0.01 * (now.step - before.step), now.step * 10.0)
        before, now, tries = now, evaluate(step), tries + 1
    return [start, now], False, tries


def _inside(step: float, ends: tuple[float, float], stuck: bool) -> tuple[float, bool]:
    """The step, away from the ends of the bracket where it was close to one before; and whether it is close now."""
    least, largest = min(ends), max(ends)
    margin = 0.1 * (largest - least)
    if not min(largest - step, step - least) < margin:
        return step, False
    if not (stuck or step >= largest or step <= least):
        return step, True
    return largest - margin if abs(step - largest) < abs(step - least) else least + margin, False


def _cubic(first: Point, second: Point, least: float, largest: float) -> float:
    """Where the cubic that has the losses and the slopes of two points is least, between two bounds."""
    a, b = (first, second) if first.step <= second.step else (second, first)
    with np.errstate(all="ignore"):  # slopes that are equal divide by 0
        slopes = np.float64(a.slope), np.float64(b.slope)
        mean = slopes[0] + slopes[1] - 3.0 * (np.float64(a.loss) - b.loss) / (np.float64(a.step) - b.step)
        square = mean * mean - slopes[0] * slopes[1]
        if not square >= 0.0:
            return (least + largest) / 2.0
        root = np.sqrt(square)
        place = b.step - (b.step - a.step) * ((slopes[1] + root - mean) / (slopes[1] - slopes[0] + 2.0 * root))
    return float(min(max(place, least), largest))
