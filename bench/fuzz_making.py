"""Making random tensor programs: each step picks an op, and values that fit it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from fuzz_programs import COMPLEX, DTYPES, FLOATS, INTEGERS, Array, Program, Statement, Value, numpy_dtype

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
LARGE_EXTENTS = (1, 3, 8, 16, 17, 31, 32, 33, 64, 65, 96, 130)  # of some programs: tiles, and what is left of them
MOST_ELEMENTS = 600


class Maker:
    """Makes one program.

    aliasing: with updates through views; gradients: of float32 or float64, and smooth. larger: by how much the axes
    are larger, but those of one element: most programs are the same otherwise.
    """

    def __init__(self, seed: int, aliasing: bool, gradients: bool, larger: int = 0) -> None:
        self.random = Random(seed)
        is_large = self.random.random() < 0.2
        self.extents = tuple(n + larger if n > 1 else n for n in (LARGE_EXTENTS if is_large else EXTENTS))
        self.most_elements = MOST_ELEMENTS * (20 if is_large else (1 + larger) ** 2)
        self.noise = np.random.default_rng(seed)
        self.program = Program(seed)
        self.known: dict[int, Value] = {}
        self.aliasing = aliasing and self.random.random() < 0.5
        self.program.with_gradient = gradients

    def make(self, kinds: Sequence[Kind], not_smooth: Sequence[Kind]) -> Program:
        r = self.random
        dtype = r.choice(("float32", "float64")) if self.program.with_gradient else r.choice(DTYPES + FLOATS[:4])
        for _ in range(r.randint(1, 3)):
            self.input(self.shape(), dtype if r.random() < 0.7 or self.program.with_gradient else r.choice(DTYPES))
        steps, tries = r.randint(2, 9), 0
        while steps and tries < 60:
            tries += 1
            kind = r.choice(kinds)
            if self.program.with_gradient and kind in not_smooth:
                continue
            if kind(self):
                steps -= 1
        made = [s.result for s in self.program.statements] or [n for n, _ in self.program.inputs]
        last = list(dict.fromkeys(made))
        count = 1 if self.program.with_gradient else min(len(last), r.choice((1, 1, 2, 3)))
        self.program.outputs = last[-count:]
        self.program.with_gradient &= self.known[last[-1]].is_float
        if self.program.with_gradient:
            result = self.known[last[-1]]
            weights = self.input(result.shape, result.dtype)
            self.put([last[-1], weights], "{0} * {1}", "{0} * {1}", result.shape, result.dtype, rounds=True)
            self.program.outputs = [len(self.known) - 1]
        return self.program.needed()

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            found = tuple(self.random.choice(self.extents) for _ in range(rank))
            if np.prod(found) <= self.most_elements:
                return found

    def input(self, shape: tuple[int, ...], dtype: str) -> int:
        number = len(self.known)
        self.known[number] = Value(shape, dtype)
        self.program.inputs.append((number, self.sample(shape, dtype)))
        return number

    def sample(self, shape: tuple[int, ...], dtype: str) -> Array:
        if dtype == "bool":
            return self.noise.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            if self.random.random() < 0.12:  # near the ends of the range
                info = np.iinfo(dtype)
                ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2], dtype)
                return self.noise.choice(ends, shape)
            low = 0 if dtype.startswith("u") else -9
            return self.noise.integers(low, 10, shape).astype(dtype)
        if dtype in COMPLEX:  # finite: of infinities NumPy's sums and products depend on its order
            return np.asarray(self.noise.normal(size=shape) + 1j * self.noise.normal(size=shape)).astype(dtype)
        values = self.noise.normal(size=shape)
        if not self.program.with_gradient and self.random.random() < 0.4:
            values = np.round(values * 2) / 2
        if not self.program.with_gradient and self.random.random() < 0.08:
            values = np.where(
                self.noise.random(shape) < 0.2, self.noise.choice([np.inf, -np.inf, np.nan, -0.0], shape), values
            )
        return np.asarray(values).astype(numpy_dtype(dtype))

    def pick(self, accepts: Callable[[Value], bool] = lambda value: True) -> int | None:
        """A name that fits, late ones more often."""
        found = [n for n, value in self.known.items() if accepts(value)]
        return (
            self.random.choice(found[-4:])
            if found and self.random.random() < 0.7
            else self.random.choice(found)
            if found
            else None
        )

    def partner(self, number: int, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> int:
        """Another name of the same dtype that can be broadcast with it; else a new input."""
        value = self.known[number]
        wanted, kind = value.shape if shape is None else shape, dtype or value.dtype
        same = self.pick(lambda v: v.dtype == kind and v.shape == wanted)
        if same is not None and self.random.random() < 0.7:
            return same
        if shape is None and self.random.random() < 0.5:
            wanted = tuple(1 if self.random.random() < 0.4 else n for n in wanted)[
                self.random.randint(0, len(wanted)) :
            ]
        return self.input(wanted, kind)

    def put(
        self, sources: Sequence[int], numpy: str, tensor: str, shape: tuple[int, ...], dtype: str,
        rounds: bool = False,
    ) -> bool:  # fmt: skip
        """A statement, unless its result is too large; names in the texts are written {0}, {1}, …"""
        if np.prod(shape) > self.most_elements:
            return False
        names = [f"v{n}" for n in sources]
        number = len(self.known)
        self.known[number] = Value(shape, dtype)
        statement = Statement(number, tuple(sources), numpy.format(*names), tensor.format(*names), dtype, rounds)
        self.program.statements.append(statement)
        return True


Kind = Callable[[Maker], bool]


def is_ordered(value: Value) -> bool:
    """Whether it has numbers of which one is the larger."""
    return value.dtype != "bool" and not value.is_complex


def part_of(m: Maker, value: Value) -> tuple[str, tuple[int, ...]]:
    """A basic index and the shape of what it takes."""
    items, shape = [], []
    for extent in value.shape:
        if m.random.random() < 0.25:
            items.append(str(m.random.randint(-extent, extent - 1)))
            continue
        begin = m.random.randint(0, extent - 1)
        end, step = m.random.randint(begin + 1, extent), m.random.choice((1, 1, 1, 2, -1))
        items.append(f"{begin}:{end}:{step}" if step > 0 else f"{end - 1}:{begin - 1 if begin else ''}:-1")
        shape.append(len(range(begin, end, abs(step))))
    return ", ".join(items), tuple(shape)


def axis_of(m: Maker, n: int) -> tuple[int, tuple[int, ...]]:
    axis = m.random.randrange(m.known[n].rank)
    return axis, tuple(k for j, k in enumerate(m.known[n].shape) if j != axis)
