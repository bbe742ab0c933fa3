"""Loops that are cut where their counter chooses something else; vectors that are read backwards; squares that are transposed in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.runtime.profile import Profile
from rulegrad.workbench.diagnosis import meaning, samples

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "symmetric": "symmetric"}
DTYPES = [np.float32, np.float64, np.float16, np.int64, np.int8, np.bool_]


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(0, 100, shape).astype(dtype)


def tactics(p: Profile) -> list[str]:
    return [kernel.schedule.partition(":")[0] for kernel in p.kernels]


@pytest.mark.each_value
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 17), (2, 3, 40), (2, 3, 19, 56)])
def test_padding(shape: tuple[int, ...], dtype: Any, mode: str) -> None:
    x = numbers(*shape, dtype=dtype)
    pairs = [(0, 0)] * (len(shape) - 2) + [(3, 2), (1, 7)]
    result = Tensor(x, device="c").pad(pairs, mode).numpy()
    np.testing.assert_array_equal(result, np.pad(x, pairs, MODES[mode]))  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", MODES)
def test_padding_is_one_kernel_of_pieces(mode: str) -> None:
    tensor = Tensor(numbers(2, 5, 20, 56), device="c").realize()
    with rg.profile() as p:
        tensor.pad([(0, 0), (0, 0), (2, 1), (3, 2)], mode).realize()
    assert tactics(p) == ["pieces"]
    assert "VECTOR_AT(float, " in p.kernels[0].source
    assert "UNROLLED" not in p.kernels[0].source


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_padding(mode: str) -> None:
    """Each element's is the sum of those of its copies."""
    shape, pairs = (2, 9, 33), [(0, 0), (2, 3), (4, 1)]
    weights = numbers(2, 14, 38)
    places = np.pad(np.arange(2 * 9 * 33).reshape(shape), pairs, MODES[mode])  # type: ignore[call-overload]
    expected = np.bincount(places.ravel(), weights.ravel(), 2 * 9 * 33).reshape(shape)
    gradient = rg.grad(lambda x: (x.pad(pairs, mode) * Tensor(weights, device="c")).sum())
    np.testing.assert_array_equal(gradient(Tensor(numbers(*shape), device="c")).numpy(), expected)


@pytest.mark.parametrize("sizes", [(20, 30, 40), (1, 60), (3, 3, 40, 2), (50, 1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_joined_tensors(sizes: tuple[int, ...], axis: int) -> None:
    parts = [numbers(*((n, 7) if axis == 0 else (7, n))) for n in sizes]
    joined = Tensor.cat([Tensor(part, device="c") * 2 for part in parts], axis)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(parts, axis) * 2)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [5, 16, 31, 64, 100])
def test_flips(columns: int, dtype: Any) -> None:
    x = numbers(9, columns, dtype=dtype)
    tensor = Tensor(x, device="c").realize()
    np.testing.assert_array_equal(tensor.flip(1).contiguous().numpy(), x[:, ::-1])
    np.testing.assert_array_equal((tensor.flip(0, 1) == tensor).numpy(), x[::-1, ::-1] == x)


def test_lanes_of_a_flipped_line_change_places() -> None:
    tensor = Tensor(numbers(9, 100), device="c").realize()
    with rg.profile() as p:
        tensor.flip(1).contiguous().realize()
    assert tactics(p) == ["elementwise"]
    assert "REVERSE_LANES(" in p.kernels[0].source


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 32), (48, 80), (33, 50), (3, 16, 64)])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turned_by_90_degrees(turns: int, shape: tuple[int, ...], dtype: Any) -> None:
    x = numbers(*shape, dtype=dtype)
    result = Tensor(x, device="c").rot90(turns, (-2, -1)).contiguous().numpy()
    np.testing.assert_array_equal(result, np.rot90(x, turns, (-2, -1)))


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_squares_are_transposed_in_registers(dtype: Any, turns: int) -> None:
    tensor = Tensor(numbers(64, 128, dtype=dtype), device="c").realize()
    with rg.profile() as p:
        tensor.rot90(turns).contiguous().realize()
    assert tactics(p) == ["transposed_squares"]
    assert "TRANSPOSED(" in p.kernels[0].source


def stacked(x: Tensor, y: Tensor) -> Tensor:
    """Two tensors behind each other along a new first axis, the second transposed, as gradients of parts are added up."""
    return x.unsqueeze(0).pad(((0, 1), (0, 0), (0, 0), (0, 0))) + y.mT.unsqueeze(0).pad(
        ((1, 0), (0, 0), (0, 0), (0, 0))
    )


@pytest.mark.parametrize("target", ["c", "c_avx512"])
def test_a_square_is_transposed_where_another_counter_chooses_it(target: str) -> None:
    x, y = (Tensor(numbers(*shape), device="numpy") for shape in ((3, 32, 48), (3, 48, 32)))
    (kernel,) = compile_graph([stacked(x, y).uop], target)
    program = engine.run_all([kernel.graph], engine.pipeline("program"), target)[0]
    (square,) = (node for node in program.toposort() if node.op == "LOAD_TRANSPOSED")
    assert len(square.src) == 3 and square.src[2].dtype.name == "bool"
    arrays = samples.sample_arrays(kernel.graph)
    assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_transposed_and_stacked(dtype: Any) -> None:
    x, y = numbers(3, 64, 48, dtype=dtype), numbers(3, 48, 64, dtype=dtype)
    tensors = [Tensor(array, device="c").realize() for array in (x, y)]
    with rg.profile() as p:
        result = stacked(*tensors).numpy()
    assert tactics(p) == ["transposed_squares"]
    np.testing.assert_array_equal(result, np.stack([x, y.swapaxes(1, 2)]))


@pytest.mark.parametrize("by", [1, -3, 25, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_a_roll_is_two_pieces(by: int, dtype: Any) -> None:
    """The element beside another is in the place of a constant behind a gate, not in a choice of two values."""
    x = numbers(6, 50, dtype=dtype)
    tensor = Tensor(x, device="c").realize()
    with rg.profile() as p:
        result = tensor.roll(by, 1).numpy()
    assert tactics(p) == ["pieces"]
    np.testing.assert_array_equal(result, np.roll(x, by, 1))
    np.testing.assert_array_equal((tensor - tensor.roll(by, 1)).numpy(), x - np.roll(x, by, 1))
