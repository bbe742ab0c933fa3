"""Sizes that vary: the second size of a computation makes a general plan, later ones compile nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from varied_sizes import Array, floats, noise, tensor

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.compile import kernels, plans, varying
from rulegrad.nn import functional

pytestmark = pytest.mark.usefixtures("sizes_vary")


def same(found: Tensor, wanted: Array, atol: float = 1e-5) -> None:
    array = found.numpy()
    assert array.shape == wanted.shape
    np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=atol)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.swapaxes(-1, -2) * np.float32(0.25)) @ v


def attention_of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2)) * 0.25).softmax(-1) @ v


def causal(q: Array, k: Array, v: Array) -> Array:
    mask = np.tril(np.ones((q.shape[1], q.shape[1]), bool))
    return softmax(np.where(mask, q @ k.swapaxes(-1, -2) * np.float32(0.25), np.float32(-1e30))) @ v


def causal_of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    t = q.shape[1]
    mask = Tensor.arange(t, device=q.device).reshape(t, 1) >= Tensor.arange(t, device=q.device).reshape(1, t)
    return mask.where((q @ k.transpose(-1, -2)) * 0.25, -1e30).softmax(-1) @ v


def norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1))


def norm_of(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True, correction=0) + 1).sqrt()


kernel = floats(5, 3, 3, 3)
pointwise_kernel = floats(6, 4, 1, 1)
transposed_kernel = floats(3, 4, 2, 2)


def windows_of(x: Array, size: int, step: int = 1) -> Array:
    """The windows of planes: batch, channel, row, column, row in the window, column in it."""
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::step, ::step]


def convolution(x: Array) -> Array:
    windows = windows_of(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), 3)
    return np.einsum("bchwij,ocij->bohw", windows, kernel, dtype=np.float32)


def group_norm(x: Array) -> Array:
    grouped = x.reshape(len(x), 2, -1)
    centred = grouped - grouped.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5))).reshape(x.shape)


#: computation: ours, NumPy's, and the arguments by the size
CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Array], Callable[[int], list[Array]]]] = {
    "elements": (lambda x: x * 2 + 1, lambda x: x * 2 + 1, lambda t: [floats(t)]),
    "elements of rows": (lambda x: (x * 2).relu(), lambda x: np.maximum(x * 2, 0), lambda t: [floats(t, 7)]),
    "rows and bias": (lambda x, b: x + b, lambda x, b: x + b, lambda t: [floats(5, t), floats(t)]),
    "sum of rows": (lambda x: x.sum(-1), lambda x: x.sum(-1), lambda t: [floats(8, t)]),
    "sum of columns": (lambda x: x.sum(0), lambda x: x.sum(0), lambda t: [floats(t, 40)]),
    "sum of all": (lambda x: x.sum(), lambda x: x.sum(), lambda t: [floats(3, t)]),
    "mean": (lambda x: x.mean(-1), lambda x: x.mean(-1), lambda t: [floats(8, t)]),
    "largest": (lambda x: x.max(-1), lambda x: x.max(-1), lambda t: [floats(8, t)]),
    "place of the largest": (lambda x: x.argmax(1), lambda x: x.argmax(1), lambda t: [floats(3, t)]),
    "softmax": (lambda x: x.softmax(-1), softmax, lambda t: [floats(8, t)]),
    "layer norm": (norm_of, norm, lambda t: [floats(4, t)]),
    "layer norm of t rows": (norm_of, norm, lambda t: [floats(t, 48)]),
    "product, rows": (lambda a, b: a @ b, lambda a, b: a @ b, lambda t: [floats(t, 64), floats(64, 48)]),
    "product, depth": (lambda a, b: a @ b, lambda a, b: a @ b, lambda t: [floats(32, t), floats(t, 48)]),
    "product, columns": (lambda a, b: a @ b, lambda a, b: a @ b, lambda t: [floats(32, 20), floats(20, t)]),
    "product, all": (lambda a, b: a @ b, lambda a, b: a @ b, lambda t: [floats(t, t + 1), floats(t + 1, t + 2)]),
    "product, by rows": (lambda a, b: a @ b.T, lambda a, b: a @ b.T, lambda t: [floats(t, 64), floats(48, 64)]),
    "running sum": (lambda x: x.cumsum(-1), lambda x: x.cumsum(-1), lambda t: [floats(4, t)]),
    "reshaped": (lambda x: (x * 2).reshape(-1) + 1, lambda x: (x * 2).reshape(-1) + 1, lambda t: [floats(t, 8)]),
    "joined": (
        lambda x, y: Tensor.cat([x, y], dim=1), lambda x, y: np.concatenate([x, y], 1),
        lambda t: [floats(3, t), floats(3, 2)],
    ),
    "counted": (
        lambda x: x + Tensor.arange(x.shape[0], device=x.device), lambda x: x + np.arange(len(x), dtype=np.float32),
        lambda t: [floats(t)],
    ),
    "prefix": (
        lambda x, y: x[:, : y.shape[0]] * y, lambda x, y: x[:, : y.shape[0]] * y, lambda t: [np.ones((4, 128), "f"), floats(t)],
    ),
    "gathered": (
        lambda x, i: x[i], lambda x, i: x[i], lambda t: [floats(50, 8), noise.integers(0, 50, t).astype(np.int32)],
    ),
    "distances of t": (
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        lambda t: [floats(t, 6), floats(40, 6)],
    ),
    "distances to t": (
        lambda x, y: abs(x[:, None] - y[None]).max(-1), lambda x, y: abs(x[:, None] - y[None]).max(-1),
        lambda t: [floats(40, 6), floats(t, 6)],
    ),
    "short lines": (
        lambda x, y: (x * y).sin(), lambda x, y: np.sin(x * y), lambda t: [floats(t, 5), floats(5)],
    ),
    "gathered of t": (
        lambda x, i: x[i], lambda x, i: x[i], lambda t: [floats(t, 8), noise.integers(0, t, 5).astype(np.int32)],
    ),
    "attention, one query": (attention_of, attention, lambda t: [floats(2, 1, 16), floats(2, t, 16), floats(2, t, 16)]),
    "attention": (attention_of, attention, lambda t: [floats(2, t, 16) for _ in range(3)]),
    "causal attention": (causal_of, causal, lambda t: [floats(2, t, 16) for _ in range(3)]),
    "causal attention of t lines": (causal_of, causal, lambda t: [floats(t, 2 * t, 16) for _ in range(3)]),
    "convolution": (
        lambda x: x.conv2d(tensor(kernel, str(x.device)), padding=1), convolution, lambda t: [floats(2, 3, t, t)],
    ),
    "convolution of t images": (
        lambda x: x.conv2d(tensor(kernel, str(x.device)), padding=1), convolution, lambda t: [floats(t, 3, t + 3, 9)],
    ),
    "pointwise convolution": (
        lambda x: x.conv2d(tensor(pointwise_kernel)), lambda x: np.einsum("bchw,ocij->bohw", x, pointwise_kernel),
        lambda t: [floats(2, 4, t, t)],
    ),
    "largest of windows": (
        lambda x: x.max_pool2d(3, 1, 1),
        lambda x: windows_of(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf), 3).max((-1, -2)),
        lambda t: [floats(2, 3, t, t)],
    ),
    "repeated": (
        lambda x: x.repeat_interleave(2, 1).repeat_interleave(2, 2), lambda x: x.repeat(2, 1).repeat(2, 2),
        lambda t: [floats(3, t, t)],
    ),
    "transposed convolution": (
        lambda x: x.conv_transpose2d(tensor(transposed_kernel), stride=2),
        lambda x: np.einsum("bihw,ioac->bohawc", x, transposed_kernel).reshape(len(x), 4, 2 * x.shape[2], -1),
        lambda t: [floats(2, 3, t, t)],
    ),
    "group norm": (lambda x: functional.group_norm(x, 2), group_norm, lambda t: [floats(2, 4, t, t)]),
    "axes as one": (
        lambda x: x.reshape(x.shape[0], -1).transpose(0, 1) * 2, lambda x: x.reshape(len(x), -1).T * 2,
        lambda t: [floats(3, t, t)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_plan_serves_all_sizes(name: str, built: list[int]) -> None:
    ours, numpys, arguments = CASES[name]
    for t in (5, 6):
        arrays = arguments(t)
        same(ours(*map(tensor, arrays)), numpys(*arrays))
    built.clear()
    for t in (*range(2, 41), 64, 100):
        arrays = arguments(t)
        same(ours(*map(tensor, arrays)), numpys(*arrays))
    assert built == []


#: computations of images whose kernels read vectors at all sizes
IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "largest of windows": lambda x: x.max_pool2d(3, 1, 1),
    "mean of windows": lambda x: x.avg_pool2d(2),
    "repeated": lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3),
}


@pytest.mark.parametrize("name", IMAGES)
def test_kernels_of_images_of_any_size_have_vectors(name: str, built: list[int]) -> None:
    compute = IMAGES[name]

    for t in (134, 142):
        compute(tensor(floats(2, 3, t, t))).realize()
    for t in (4, 10, 32, 58, 100):
        image = floats(2, 3, t, t)
        expected = compute(tensor(image, "numpy")).numpy()
        built.clear()
        with rg.profile() as found:
            computed = compute(tensor(image)).realize()
        assert not re.search(r"\(VECTOR\(\w+, \d+\)\)\{[^;]*\bdata\d+\[", "".join(k.source for k in found.kernels)), t
        same(computed, expected)
        assert built == []


def serves_all_sizes(name: str, device: str) -> None:
    """One plan, and as many kernels as it has, give right values at several sizes."""
    ours, numpys, arguments = CASES[name]
    with rg.config(general_plans=1):
        for t in (5, 6, 2, 33, 70):
            arrays = arguments(t)
            same(ours(*[tensor(array, device) for array in arrays]), numpys(*arrays))
        known, refused = len(plans._executables), varying.reasons()
        for t in (7, 40):
            arrays = arguments(t)
            same(ours(*[tensor(array, device) for array in arrays]), numpys(*arrays))
        assert len(plans._executables) == known, refused


#: of the tactics of OpenCL on a CPU
ON_OPENCL = [
    "elements of rows", "rows and bias", "sum of columns", "softmax", "layer norm of t rows", "product, rows",
    "product, columns", "product, depth", "joined", "gathered", "distances to t", "causal attention", "convolution of t images",
    "largest of windows", "group norm",
]  # fmt: skip


@pytest.mark.parametrize("device", ["opencl"], indirect=True)
@pytest.mark.parametrize("name", ON_OPENCL)
def test_on_opencl(name: str, device: str) -> None:
    serves_all_sizes(name, device)


def test_sizes_from_one_on(built: list[int]) -> None:
    # what is computed of one element may be another graph
    for t in (1, 2, 3, *range(1, 41)):
        x = floats(4, t)
        same(tensor(x).softmax(-1), softmax(x))
    assert len(built) <= 3


def test_attention_over_a_cache_grown_by_cat(built: list[int]) -> None:
    heads, width, counts = 4, 16, []
    caches: list[Tensor] = []
    arrays = [floats(heads, 0, width), floats(heads, 0, width)]
    for _ in range(40):
        query, *new = (floats(heads, 1, width) for _ in range(3))
        arrays = [np.concatenate(both, 1) for both in zip(arrays, new, strict=True)]
        added = [tensor(array) for array in new]
        caches = [Tensor.cat(both, dim=1) for both in zip(caches, added, strict=True)] if caches else added
        result = attention_of(tensor(query), *caches)
        result.realize(*caches)
        same(result, attention(query, *arrays))
        counts.append(len(built))
    assert counts[2] == counts[-1]  # nothing after the third token


def test_a_small_cache_that_nobody_asks_for(built: list[int]) -> None:
    """It is computed anew from the last eight lines, until that costs as much as a launch: eight graphs in turn."""
    cache, array, counts = tensor(np.zeros((1, 4), np.float32)), np.zeros((1, 4), np.float32), []
    for t in range(40):
        line = np.array([[1, 2, 3, t]], np.float32)
        cache, array = Tensor.cat([cache, tensor(line)], dim=0), np.concatenate([array, line])
        same((cache @ cache.T).softmax(-1), softmax(array @ array.T))
        counts.append(len(built))
    assert counts[20] == counts[-1]


def test_a_scalar_that_changes(built: list[int]) -> None:
    x = floats(8)
    for k in range(6):
        same(tensor(x) * (0.1 + k), x * np.float32(0.1 + k))
    assert len(built) == 2
    for scalar in (np.nan, -0.0, np.inf):
        found, wanted = (tensor(x) * scalar).numpy(), x * np.float32(scalar)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_two_sizes(built: list[int]) -> None:
    for t, u in ((5, 9), (6, 11), (7, 7), (50, 3), (9, 5), (16, 16)):
        a, b = floats(t, 16), floats(16, u)
        same(tensor(a) @ tensor(b), a @ b)
    assert len(built) == 2


def test_sizes_equal_to_a_constant(built: list[int]) -> None:
    for t in (5, 6, 16, 4, 2, 16):
        x, y = floats(t, 4, 16), floats(4, 16)
        same((tensor(x) * tensor(y)).sum(1), (x * y).sum(1))
    assert len(built) == 2


def test_a_result_smaller_than_what_is_computed_on_the_way(built: list[int]) -> None:
    for t in (5, 6, 2, 3, 40):
        x = floats(t, 16)
        y, z = tensor(x), x
        y, z = y - y.max(axis=0, keepdims=True), z - z.max(0, keepdims=True)
        y, z = y + y.sum(axis=0, keepdims=True), z + z.sum(0, keepdims=True)
        same(y @ y.transpose(0, 1), z @ z.T)


def test_sizes_above_the_bound_have_a_plan_of_their_own(built: list[int]) -> None:
    for t in (5, 6, 100, 4096, 4097, 5000, 6000):
        x = floats(t)
        same(tensor(x) + 1, x + 1)
    assert len(built) == 3  # the plan of 4097 and more has larger bounds


def test_counts_of_lanes_to_the_end_of_a_buffer_of_more_than_2_to_the_31_elements(built: list[int]) -> None:
    weight = floats(2, 128, 3)
    for n in (1, 2, 3):
        x = floats(n, 128, 7508)
        windows = np.lib.stride_tricks.sliding_window_view(x, 3, 2)
        same(tensor(x).conv1d(tensor(weight)), np.einsum("nclk,ock->nol", windows, weight, optimize=True), 1e-4)
    assert len(built) == 2  # the plan for all sizes is for up to 4096 of them, 4e9 elements


def test_many_sizes_that_agree_by_chance(built: list[int]) -> None:
    """As of experts that elements are sent to: the third size of the first two graphs is the sum of two others."""
    for sizes in ((5, 4, 9, 7), (6, 3, 9, 8), (7, 8, 3, 4), (2, 9, 5, 6), (11, 3, 4, 8), (4, 5, 6, 7)):
        parts = [floats(n, 3) for n in sizes]
        found = [(tensor(part) * (k + 2)).sum(0) for k, part in enumerate(parts)]
        same(found[0] + found[1] * found[2] - found[3], _of_parts(parts), 1e-3)
    assert len(built) <= 3


def _of_parts(parts: list[Array]) -> Array:
    first, second, third, fourth = ((part * (k + 2)).sum(0) for k, part in enumerate(parts))
    return np.asarray(first + second * third - fourth)


def test_the_second_size_is_none(built: list[int]) -> None:
    for t in (5, 0, 6, 7):
        x = floats(t, 3)
        same(Tensor.cat([tensor(x), tensor(x)]) * 2, np.concatenate([x, x]) * 2)


def test_no_elements(built: list[int]) -> None:
    for t in (5, 6, 3, 2, 1, 0):
        x = floats(t + 1, 3)
        same(tensor(x)[1:] * 2, x[1:] * 2)


def test_a_size_that_is_used_often_has_kernels_of_its_own(built: list[int]) -> None:
    x = floats(7)
    for t in (5, 6):
        (tensor(floats(t)) + 1).realize()
    for _ in range(2 * varying.OFTEN):
        same(tensor(x) + 1, x + 1)
    assert len(built) == 3


def test_an_index_out_of_range_is_told(built: list[int]) -> None:
    for t in (5, 6, 9):
        table = tensor(floats(t, 3)).realize()
        with pytest.raises(rg.errors.IndexRangeError):
            table[tensor(np.array([0, t], np.int32))].numpy()
        same(table[tensor(np.array([t - 1], np.int32))], table.numpy()[[t - 1]])


def test_a_buffer_that_no_kernel_reads(built: list[int]) -> None:
    place = tensor(np.zeros((), np.int64))  # of one element, which there is no need to look at
    for t in (5, 6, 9):
        x, y = floats(t, 17 + t), floats(1, 17 + t)
        same((tensor(x) @ tensor(y).T)[4, 0:1][place], (x @ y.T)[4, 0])


def test_parts_that_move(built: list[int]) -> None:
    x = floats(200)
    for begin, end in ((23, 35), (24, 38), (40, 41), (2, 190), (7, 20)):
        same(tensor(x)[begin:end] * 2, x[begin:end] * 2)


def test_two_places_of_a_small_axis(built: list[int]) -> None:
    matrix, counts = floats(12, 12), []
    for p, q in [(7, 4), (2, 9), (5, 6), (10, 3), (8, 11), (4, 10), (3, 2)]:
        turned, wanted = Tensor.eye(12, device="c"), np.eye(12, dtype=np.float32)
        turned[p, q] = wanted[p, q] = 0.5
        same(turned @ tensor(matrix), wanted @ matrix)
        counts.append(sum(built))
    assert counts[-1] == counts[3]


def twice(x: Array) -> Array:
    means = np.pad(windows_of(x, 2, 2).mean((-1, -2)), ((0, 0), (0, 0), (0, 0), (1, 1)))
    return windows_of(means, 3, 2).mean((-1, -2))


#: computation: ours and NumPy's of images whose height and width are even
STEPS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "convolution": (
        lambda x: x.conv2d(tensor(kernel), stride=2),
        lambda x: np.einsum("bchwij,ocij->bohw", windows_of(x, 3, 2), kernel, dtype=np.float32),
    ),
    "largest": (lambda x: x.max_pool2d(2), lambda x: windows_of(x, 2, 2).max((-1, -2))),
    "mean": (lambda x: x.avg_pool2d(2), lambda x: windows_of(x, 2, 2).mean((-1, -2))),
    "mean of means": (lambda x: functional.pad(x.avg_pool2d(2), (1, 1)).avg_pool2d(3, 2), twice),
}


@pytest.mark.parametrize("name", STEPS)
def test_images_of_any_batch_height_and_width(name: str, built: list[int]) -> None:
    ours, numpys = STEPS[name]
    for b, t, u in ((2, 12, 16), (3, 20, 32)):
        x = floats(b, 3, t, u)
        same(ours(tensor(x)), numpys(x))
    built.clear()
    for b, t, u in ((4, 16, 40), (5, 28, 20), (2, 24, 12), (3, 64, 8)):
        x = floats(b, 3, t, u)
        same(ours(tensor(x)), numpys(x))
    assert built == [], varying.reasons()


def test_sizes_that_are_much_larger_have_a_plan_of_their_own(built: list[int]) -> None:
    def sums(t: int, u: int) -> None:
        x = floats(t, u)
        same(tensor(x).sum(-1), x.sum(-1))

    for t, u in ((5, 7), (6, 9)):
        sums(t, u)
    built.clear()
    sums(200, 8)
    assert built == []
    sums(2000, 8)  # tasks and tiles are for some hundred rows
    assert len(built) == 1


def test_what_is_refused_is_compiled_for_its_size(
    built: list[int], cache_with_rules: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_SLOWER", 1)
    monkeypatch.setattr(kernels, "_DEARER", 0)
    with rg.config(cache=cache_with_rules()):  # a refusal is kept on disk, and others would find it
        for t in (5, 6, 7):
            x = floats(2000, t)
            same(tensor(x).roll(1, 1) + 1, np.roll(x, 1, 1) + 1)
    assert len(built) == 3
    assert "`pieces` where they do not, and" in varying.reasons()[-1]


def test_it_is_a_setting(built: list[int]) -> None:
    with rg.config(general_plans=0):
        for t in (5, 6, 7):
            same(tensor(np.ones(t, np.float32)) + 1, np.full(t, 2, np.float32))
    assert len(built) == 3


def test_debug_tells_of_general_plans(built: list[int], capfd: pytest.CaptureFixture[str]) -> None:
    with rg.config(debug=1):
        for t in (5, 6):
            (tensor(floats(t)) + 1).realize()
    assert "general plan, t in [2, 4096], 1 kernel (test_varying.py:" in capfd.readouterr().err


def test_a_capture_of_another_size_compiles_nothing(built: list[int], tmp_path: Path) -> None:
    layers = [nn.Conv2d(3, 8, 3, padding=1, device="c"), nn.Conv2d(8, 4, 3, padding=1, device="c")]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1]).eval()
    captured = rg.jit(model)
    with rg.no_grad():
        for t in (9, 11, 13, 24):
            x = floats(1, 3, t, t)
            if t == 13:
                built.clear()
            same(captured(tensor(x)), model(tensor(x)).numpy())
        assert built == []
        for _ in range(varying.OFTEN):  # a size that is used often has kernels of its own
            found = captured(tensor(x))
        assert len(built) == 1 and built[0] > 0
        same(found, model(tensor(x)).numpy())
    captured.save(tmp_path / "captured")
    other = rg.jit(model)
    other.load(tmp_path / "captured")
    x = floats(1, 3, 24, 24)
    same(other(tensor(x)), model(tensor(x)).numpy())


def test_gradients_go_through_a_capture_of_another_size(built: list[int]) -> None:
    weight = floats(6, 3, 3, 3)

    def gradients(function: Callable[[Tensor, Tensor], Tensor], t: int) -> list[Array]:
        x, w = (Tensor(array, device="c", requires_grad=True) for array in (np.ones((2, 3, t, t), "f"), weight))
        function(x, w).sum().backward()
        assert x.grad is not None and w.grad is not None
        return [x.grad.numpy(), w.grad.numpy()]

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        return (x * x).conv2d(w, padding=1).relu()

    captured = rg.jit(convolved)
    for t in (6, 7, 9, 12):
        for found, wanted in zip(gradients(captured, t), gradients(convolved, t), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
