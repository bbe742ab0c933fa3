"""The benchmarks' random expressions mean what the movements do to an array."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from random import Random

import numpy
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def import_from_bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in ("common", "expressions", "movement", "program"):
        if name not in before:
            sys.modules.pop(name, None)


def test_movement_addresses_are_what_the_movements_read() -> None:
    from expressions import evaluate
    from movement import flatten, random_chain
    from program import Builder

    random = Random(1)
    kinds = set()
    checked = 0
    while checked < 60:
        buffer, chain = random_chain(random)
        if not chain or prod(chain[-1].shape) > 1 << 14:
            continue
        kinds.update(movement.name for movement in chain)
        array = numpy.arange(prod(buffer)).reshape(buffer)
        for movement in chain:
            array = movement.apply(array)
            assert array.shape == movement.shape
        b = Builder()
        index = [b.range(axis, extent) for axis, extent in enumerate(array.shape)]
        for movement in reversed(chain):
            index = movement.pull_back(b, index)
        program = b.finish(flatten(b, index, buffer))
        grid = numpy.indices(array.shape)
        assert numpy.array_equal(numpy.broadcast_to(evaluate(program, dict(enumerate(grid))), array.shape), array)
        checked += 1
    assert kinds == {"reshape", "permute", "expand", "shrink", "pad", "flip"}


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"), [(8, 3, 1, 1), (9, 2, 2, 1), (9, 3, 2, 2), (5, 2, 1, 3)]
)
def test_windows(size: int, kernel: int, stride: int, dilation: int) -> None:
    from movement import windows

    array = numpy.arange(2 * size * 3).reshape(2, size, 3)
    made = array
    for movement in windows(array.shape, 1, kernel, stride, dilation):
        made = movement.apply(made)
    output = (size - dilation * (kernel - 1) - 1) // stride + 1
    wanted = [[o * stride + k * dilation for k in range(kernel)] for o in range(output)]
    assert numpy.array_equal(made, array[:, wanted])


def test_the_seed_decides() -> None:
    from expressions import movement_expressions, unstructured_expressions

    assert movement_expressions(20) == movement_expressions(20)
    assert unstructured_expressions(20) == unstructured_expressions(20)
    assert movement_expressions(20) != movement_expressions(20, seed=1)
