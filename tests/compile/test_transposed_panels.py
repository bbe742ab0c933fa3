"""Panels of products that are copied by transposed blocks: for which sizes, that programs mean what kernels mean, values; updates in the order of memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.workbench.diagnosis import meaning, samples

#: rows, depth, columns of x @ w.T; the lanes of c's blocks, and of those of c_avx512; 0: there are none
SIZES = [
    (9, 32, 32, 8, 16),
    (24, 48, 96, 8, 16),
    (16, 64, 64, 8, 16),
    (9, 24, 40, 8, 0),  # 16 divides neither
    (40, 32, 33, 8, 16),  # the last row is read for those behind it
    (25, 32, 71, 8, 16),
    (9, 33, 32, 0, 0),
    (1, 64, 64, 0, 0),  # rows of a matrix are read once
]


def operands(
    rows: int, depth: int, columns: int, device: str = "numpy", dtype: str = "float32"
) -> tuple[Tensor, Tensor]:
    r = np.random.default_rng(rows * depth + columns)
    x, w = (np.trunc(r.uniform(-9, 9, shape)).astype(dtype) for shape in ((rows, depth), (columns, depth)))
    return Tensor(x, device=device).realize(), Tensor(w, device=device).realize()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("target", ["c", "c_avx512"])
def test_programs_mean_what_their_kernels_mean(sizes: tuple[int, int, int, int, int], target: str) -> None:
    x, w = operands(*sizes[:3])
    (kernel,) = compile_graph([(x @ w.T).uop], target)
    program = engine.run_all([kernel.graph], engine.pipeline("program"), target)[0]
    blocks = [node.attrs["lanes"] for node in program.toposort() if node.op == "LOAD_TRANSPOSED"]
    lanes = sizes[3] if target == "c" else sizes[4]
    assert blocks == [lanes] * bool(lanes)
    arrays = samples.sample_arrays(kernel.graph)
    assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


@pytest.mark.parametrize("device", ["c"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("sizes", SIZES[1:6:2], ids=str)
def test_values(device: str, sizes: tuple[int, int, int, int, int], dtype: str) -> None:
    """Whole numbers, so that the order of sums says nothing."""
    x, w = operands(*sizes[:3], device, dtype)
    np.testing.assert_array_equal((x @ w.T).numpy(), x.numpy() @ w.numpy().T)
    gate, up = (x @ w.T), (x @ (w + 1).realize().T)
    np.testing.assert_array_equal((gate * up).numpy(), gate.numpy() * up.numpy())


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_a_cache_is_not_copied_in_a_captured_call(axis: int, count: int) -> None:
    """Keys of new tokens go into their places, and all are read, whichever axis is that of the tokens."""
    shape = [4, 4, 4]
    shape[axis] = 50000
    new = [4, 4, 4]
    new[axis] = count
    cache = Tensor(np.zeros(shape, np.float32), device="c").realize()
    wanted = np.zeros(shape, np.float32)

    @rg.jit
    def step(place: Tensor, x: Tensor) -> Tensor:
        places = place + Tensor.arange(count, device="c")
        cache[(slice(None),) * axis + (places,)] = x * 2
        return cache.sum()

    x = np.random.default_rng(axis).uniform(1, 2, new).astype(np.float32)
    for begin in (7, 100, 7):
        with rg.profile() as profile:
            found = step(Tensor(np.array([begin]), device="c"), Tensor(x, device="c")).item()
        wanted[(slice(None),) * axis + (slice(begin, begin + count),)] = x * 2
        np.testing.assert_array_equal(cache.numpy(), wanted)
        assert found == pytest.approx(wanted.sum(), rel=1e-5)
    assert all(kernel.nbytes < cache.nbytes + 10000 for kernel in profile.kernels), [k.name for k in profile.kernels]


@pytest.mark.parametrize("device", ["c", "opencl"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("size", [2, 4])
def test_a_square_as_one_vector(device: str, size: int, dtype: str, written: Callable[[str], Path]) -> None:
    """By somebody's own schedule, on targets and of dtypes that blocks are transposed for or not."""
    path = written("""
pass choose_schedule choose best:
    square: k@SINK(END(STORE(_, _), rs...)) ->
        SCHEDULED[estimate=0, tactic="square"](k, steps {fuse i0, i1 as block; vectorize block})
        if len(rs) == 2
""")
    x = np.arange(size * size).reshape(size, size).astype(dtype)
    with rg.load_rules(path), rg.profile() as profile:
        np.testing.assert_array_equal((Tensor(x, device=device).T * 2).numpy(), x.T * 2)
    assert [kernel.schedule.partition(":")[0] for kernel in profile.kernels] == ["square"]
