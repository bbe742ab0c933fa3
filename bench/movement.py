"""Movement operations as plain mathematics: what each does to a shape, to an array, and to an index.

A chain of movements leads from a buffer to a view of it. Pulled back through the chain, the view's index
becomes the mixed-radix expression of the buffer's address that a tensor compiler has to simplify.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from random import Random
from typing import Any

from program import Builder

Shape = tuple[int, ...]
# The index of the shape after the movement, to the index of the shape before it.
PullBack = Callable[[Builder, Sequence[int]], list[int]]


@dataclass(frozen=True)
class Movement:
    """One step: the shape that it gives, the index it reads, and the same done to a NumPy array."""

    name: str
    shape: Shape
    pull_back: PullBack
    apply: Callable[[Any], Any]


def reshape(old: Shape, new: Shape) -> Movement:
    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        return unflatten(b, flatten(b, index, new), old)

    return Movement("reshape", new, pull_back, lambda array: array.reshape(new))


def permute(old: Shape, order: Sequence[int]) -> Movement:
    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        return [index[list(order).index(axis)] for axis in range(len(old))]

    return Movement("permute", tuple(old[k] for k in order), pull_back, lambda array: array.transpose(order))


def expand(old: Shape, new: Shape) -> Movement:
    import numpy

    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        return [b.const(0) if s == 1 else i for s, i in zip(old, index)]

    return Movement("expand", new, pull_back, lambda array: numpy.broadcast_to(array, new))


def shrink(old: Shape, begin: Sequence[int], end: Sequence[int]) -> Movement:
    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        return [b.shift(i, k) for i, k in zip(index, begin)]

    cut = tuple(slice(k, e) for k, e in zip(begin, end))
    return Movement("shrink", tuple(e - k for k, e in zip(begin, end)), pull_back, lambda array: array[cut])


def pad(old: Shape, before: Sequence[int], after: Sequence[int]) -> Movement:
    import numpy

    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        for i, size, low, high in zip(index, old, before, after):
            if low:
                b.valid.append(b.node("at_least", i, b.const(low)))
            if high:
                b.valid.append(b.node("less", i, b.const(low + size)))
        return [b.shift(i, -low) for i, low in zip(index, before)]

    new = tuple(low + size + high for low, size, high in zip(before, old, after))
    widths = list(zip(before, after))
    return Movement("pad", new, pull_back, lambda array: numpy.pad(array, widths, constant_values=-1))


def flip(old: Shape, axes: Sequence[int]) -> Movement:
    import numpy

    def pull_back(b: Builder, index: Sequence[int]) -> list[int]:
        return [b.shift(b.scale(i, -1), old[axis] - 1) if axis in axes else i for axis, i in enumerate(index)]

    return Movement("flip", old, pull_back, lambda array: numpy.flip(array, axes))


def flatten(b: Builder, index: Sequence[int], shape: Shape) -> int:
    """The row-major position of an index."""
    total: int | None = None
    for i, stride in zip(index, strides(shape)):
        term = b.scale(i, stride)
        total = term if total is None else b.node("add", total, term)
    return b.const(0) if total is None else total


def unflatten(b: Builder, flat: int, shape: Shape) -> list[int]:
    """The index at a row-major position: (flat // stride) % size for each axis."""
    index = []
    for size, stride in zip(shape, strides(shape)):
        quotient = flat if stride == 1 else b.node("floordiv", flat, b.const(stride))
        index.append(b.const(0) if size == 1 else b.node("floormod", quotient, b.const(size)))
    return index


def strides(shape: Shape) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def windows(shape: Shape, axis: int, kernel: int, stride: int, dilation: int) -> list[Movement]:
    """The windows of a convolution along an axis, which becomes two: (output, kernel).

    The usual way to make them from movements alone: repeat the axis, cut it into rows that are longer by
    the dilation, so that each row begins that much later, then keep every stride-th column.
    """
    left, size, right = shape[:axis], shape[axis], shape[axis + 1 :]
    output = (size - dilation * (kernel - 1) - 1) // stride + 1
    # Each repetition is stretched when a row would otherwise be too short for all outputs.
    stretch = 1 + int(output * stride > size + dilation)
    row = size * stretch + dilation
    repeats = ceil(kernel * row / size)
    steps: list[Movement] = []

    def then(movement: Movement) -> None:
        steps.append(movement)

    def keep(current: Shape, sizes: Sequence[int]) -> None:
        end = (*left, *sizes, *right)
        then(shrink(current, (0,) * len(current), end))

    then(reshape(shape, (*left, 1, size, *right)))
    then(expand(steps[-1].shape, (*left, repeats, size, *right)))
    then(reshape(steps[-1].shape, (*left, repeats * size, *right)))
    keep(steps[-1].shape, (kernel * row,))
    then(reshape(steps[-1].shape, (*left, kernel, row, *right)))
    keep(steps[-1].shape, (kernel, output * stride))
    then(reshape(steps[-1].shape, (*left, kernel, output, stride, *right)))
    keep(steps[-1].shape, (kernel, output, 1))
    then(reshape(steps[-1].shape, (*left, kernel, output, *right)))
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(shape) + 1)]
    then(permute(steps[-1].shape, order))
    return steps


# ---- random chains ----

LARGEST = 1 << 20
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 16, 28, 32, 64)


def random_chain(random: Random) -> tuple[Shape, list[Movement]]:
    """A buffer's shape, and two to five movements that lead from it to a view."""
    rank = random.randint(1, 4)
    buffer = tuple(random.choice(SIZES) for _ in range(rank))
    while not 4 <= prod(buffer) <= LARGEST:
        buffer = tuple(random.choice(SIZES) for _ in range(rank))
    chain: list[Movement] = []
    shape = buffer
    for _ in range(random.randint(2, 5)):
        steps = random_step(random, shape)
        if steps and prod(steps[-1].shape) <= LARGEST:
            chain += steps
            shape = steps[-1].shape
    return buffer, chain


def random_step(random: Random, shape: Shape) -> list[Movement]:
    """One random movement of a shape, or a whole window; empty when it does not apply."""
    axes = range(len(shape))
    kind = random.choice(("reshape",) * 4 + ("permute",) * 3 + ("expand", "shrink", "pad", "pad", "flip", "windows"))
    if kind == "reshape":
        return [reshape(shape, random_factors(random, prod(shape)))]
    if kind == "permute":
        return [permute(shape, random.sample(axes, len(shape)))]
    if kind == "expand":
        wider = [random.choice((2, 3, 4, 8)) if s == 1 else s for s in shape]
        return [expand(shape, tuple(wider))]
    if kind == "flip":
        return [flip(shape, [random.choice(axes)])]
    if kind == "shrink":
        begin = [random.randrange((s + 1) // 2) for s in shape]
        end = [random.randint(k + (s + 1) // 2, s) for k, s in zip(begin, shape)]
        return [shrink(shape, begin, end)]
    if kind == "pad":
        chosen = random.choice(axes)
        before, after = ([random.randint(0, 2) if a == chosen else 0 for a in axes] for _ in range(2))
        return [pad(shape, before, after)]
    axis = random.choice(axes)
    kernel, stride, dilation = random.randint(2, 3), random.randint(1, 2), random.randint(1, 2)
    if shape[axis] < dilation * (kernel - 1) + 2 or len(shape) > 4:
        return []
    return windows(shape, axis, kernel, stride, dilation)


def random_factors(random: Random, size: int) -> Shape:
    """Two to five sizes whose product is `size`, in random order."""
    primes = []
    divisor, rest = 2, size
    while rest > 1:
        while rest % divisor == 0:
            primes.append(divisor)
            rest //= divisor
        divisor += 1
    factors = [1] * random.randint(2, 5)
    for prime in primes:
        factors[random.randrange(len(factors))] *= prime
    if random.random() < 0.8:
        factors = [f for f in factors if f != 1] or [1]
    return tuple(factors)
