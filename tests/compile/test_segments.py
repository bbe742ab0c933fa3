"""Kernels of different shapes in one launch: values, limits, what they may write over, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rulegrad
from rulegrad import Tensor, config, engine
from rulegrad.compile import compile_graph
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import Kernel

SHAPES = [(3, 5), (7,), (), (2, 3, 4), (600, 3), (1031,), (2, 1, 3, 1, 2)]


def arrays(dtype: str = "float32") -> list[Any]:
    random = np.random.default_rng(7)
    return [random.integers(1, 9, shape).astype(dtype) for shape in SHAPES]


def kernels(results: list[Tensor]) -> list[Kernel]:
    return compile_graph([result.uop for result in results], "opencl")


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "map": lambda x: x * 2 + 1,
    "flipped": lambda x: x.reshape(-1)[::-1] + 1,
    "sum": lambda x: x.sum(),
    "rows": lambda x: x.reshape(-1, x.shape[-1] if x.shape else 1).sum(axis=0),
    "less than the sum": lambda x: x - x.sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(device: str, name: str) -> None:
    function = FUNCTIONS[name]
    with config(device=device):
        results = [function(Tensor(array)) for array in arrays()]
        Tensor.realize(*results)
        for result, array in zip(results, arrays(), strict=True):
            np.testing.assert_allclose(result.numpy(), function(array), rtol=1e-5)


def test_maps_and_reductions_of_all_shapes_are_one_launch(device: str) -> None:
    with config(device=device, check=2):
        pairs = [(f(Tensor(x)), f(x)) for x in arrays()[:4] for f in (FUNCTIONS["map"], FUNCTIONS["rows"])]
        results, expected = map(list, zip(*pairs, strict=True))
        assert len(kernels(results)) == 1
        Tensor.realize(*results)
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result.numpy(), array, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "bool", "complex64"])
def test_dtypes(device: str, dtype: str) -> None:
    """Memory that is not computed with as it is read."""
    with config(device=device):
        tensors = [Tensor(array).cast(dtype).realize() for array in arrays("int32")[:4]]
        results = [x + x for x in tensors]
        Tensor.realize(*results)
        for result, x in zip(results, tensors, strict=True):
            np.testing.assert_array_equal(result.numpy(), x.numpy() + x.numpy())


def test_every_work_item_is_of_one_segment() -> None:
    (kernel,) = kernels([Tensor(array) * 2 for array in arrays()])
    # few elements are one work-item's; 1800 = 10 * 180 of 60 rows; 1031 is a prime
    assert kernel.grid == (1 + 1 + 1 + 1 + 4 + 1031 + 1,)
    assert kernel.name.startswith("map_of_7_kernels_")
    assert kernel.source.count("if (0 <= ") == 7


def test_a_launch_has_so_many_arguments_and_segments() -> None:
    results = [Tensor(np.ones(n, np.float32)) * 2 for n in range(2, 50)]
    found = kernels(results)
    assert len(found) == 3
    assert all(kernel.slots <= 64 for kernel in found)


def test_the_target_says_how_many_segments(tmp_path: Any) -> None:
    results = [Tensor(array) * 2 for array in arrays()]
    for segments, launches in [(1, 7), (3, 3)]:
        rules = tmp_path / f"segments{segments}.rules"
        rules.write_text(f"target opencl:\n    limit    segments {segments}\n")
        with rulegrad.load_rules(rules):
            assert len(kernels(results)) == launches


def test_what_needs_another_is_another_launch(device: str) -> None:
    with config(device=device, check=2):
        x, y = Tensor(np.arange(6, dtype=np.float32)), Tensor(np.arange(4, dtype=np.float32))
        total = (x * x).contiguous()
        results = [total, y + total[:4], y * 2]
        assert len(kernels(results)) == 2
        Tensor.realize(*results)
        np.testing.assert_array_equal(results[1].numpy(), [0, 2, 6, 12])


LENGTHS = (3, 4, 6)


@st.composite
def updates(draw: st.DrawFn) -> list[tuple[int, int, str]]:
    """Which tensor is changed, by which, and how."""
    kinds = st.sampled_from(["part", "flipped", "max", "own", "copy"])
    return draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), kinds), min_size=2, max_size=8))


def changed(x: Any, y: Any, kind: str) -> Any:
    n = min(x.shape[0], y.shape[0])
    if kind == "max":
        return x + y.max()
    if kind == "own":
        return x * 3 + 1
    if kind == "copy":
        return x + 0
    part = y[::-1][:n] if kind == "flipped" else y[:n]
    first = x[:n] + part
    return type(x).cat(first, x[n:]) if isinstance(x, Tensor) else np.concatenate([first, x[n:]])


@given(updates())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_updates_of_different_shapes(program: list[tuple[int, int, str]]) -> None:
    check_updates(program, "numpy")


@given(updates())
@settings(max_examples=6, deadline=None, derandomize=True)
def test_updates_of_different_shapes_on_opencl(program: list[tuple[int, int, str]]) -> None:
    check_updates(program, "opencl")


def check_updates(program: list[tuple[int, int, str]], device: str) -> None:
    with config(device=device):
        expected = [np.arange(n, dtype=np.int32) + n for n in LENGTHS]
        tensors = [Tensor(array.copy()) for array in expected]
        for a, b, kind in program:
            expected[a] = changed(expected[a], expected[b], kind).astype(np.int32)
            tensors[a].assign(changed(tensors[a], tensors[b], kind))
        Tensor.realize(*tensors)
        for tensor, array in zip(tensors, expected, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)


def test_two_segments_cannot_share_a_loop() -> None:
    """Each would stand inside the other: the error says which."""

    def loop(number: int) -> UOp:
        return UOp("RANGE", (UOp.const(4, "int32"),), id=number, kind="output")

    target = UOp("PARAM", (), "int32", slot=0, shape=(64,))
    stores = [
        UOp("END", (UOp("STORE", (UOp("INDEX", (target, k + loop(9))), k)), k, loop(9))) for k in (loop(1), loop(2))
    ]
    with pytest.raises(RewriteError, match="each stand inside the other"):
        engine.program("opencl").order("linearize", UOp("SINK", tuple(stores)))
