"""Convolutions in bfloat16 on targets whose vector units multiply pairs: pairs are of channels, and the values those of float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor
from rulegrad.compile import compile_graph
from rulegrad.errors import DeviceError
from rulegrad.nn import functional
from rulegrad.runtime import devices

Geometry = tuple[Any, ...]
# images, weights, stride, padding, dilation, groups
GEOMETRIES = [
    ((2, 64, 14, 14), (24, 64, 3, 3), 1, 1, 1, 1),
    ((1, 5, 9, 11), (7, 5, 3, 3), 1, 1, 1, 1),
    ((1, 3, 20, 21), (8, 3, 7, 7), 2, 3, 1, 1),
    ((2, 16, 7, 7), (40, 16, 3, 3), 1, 1, 1, 1),
    ((1, 17, 19, 33), (10, 17, 3, 3), 2, 1, 1, 1),
    ((1, 16, 12, 40), (16, 16, 3, 3), 1, 2, 2, 1),
    ((2, 24, 13, 13), (30, 8, 3, 3), 1, 1, 1, 3),
    ((1, 2, 9, 16), (4, 2, 3, 3), 1, 1, 1, 1),
    ((1, 9, 10, 10), (9, 1, 3, 3), 1, 1, 1, 9),
    ((2, 33, 8, 9), (12, 33, 1, 1), 1, 0, 1, 1),
    ((2, 6, 50), (20, 6, 5), 1, 2, 1, 1),
]


def of_bfloat16(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def convolution(x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """In float64, as sums over sliding windows."""
    places = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + [(padding, padding)] * places)
    reach = tuple((n - 1) * dilation + 1 for n in w.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, x.ndim)))
    steps = [slice(None, None, stride)] * places + [slice(None, None, dilation)] * places
    windows = windows[(slice(None), slice(None), *steps)]
    parts = zip(np.split(windows, groups, 1), np.split(w.astype(np.float64), groups), strict=True)
    text = "bc{i}{k},oc{k}->bo{i}".format(i="xy"[:places], k="uv"[:places])
    return np.concatenate([np.einsum(text, *part, optimize=True) for part in parts], 1)


def ours(x: Tensor, w: Tensor, stride: int, padding: int, dilation: int, groups: int) -> Tensor:
    call = functional.conv2d if w.ndim == 4 else functional.conv1d
    return call(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)


@pytest.fixture
def device() -> str:
    try:
        devices.get("c")
    except DeviceError as problem:
        pytest.skip(str(problem))
    return "c"


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_values(geometry: Geometry, device: str) -> None:
    x, w = of_bfloat16(geometry[0], 1), of_bfloat16(geometry[1], 2)
    found = ours(Tensor(x, device=device), Tensor(w, device=device), *geometry[2:])
    wanted = convolution(x, w, *geometry[2:])
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize(
    "geometry", [pytest.param(g, marks=pytest.mark.long_run if k % 2 else ()) for k, g in enumerate(GEOMETRIES)]
)
def test_gradients(geometry: Geometry, device: str) -> None:
    """Those of the sum of y * g are linear in g: compared with float32's."""
    x, w = of_bfloat16(geometry[0], 1), of_bfloat16(geometry[1], 2)
    g = of_bfloat16(convolution(x, w, *geometry[2:]).shape, 3)
    found = []
    for dtype in ("bfloat16", "float32"):
        a, b, c = (Tensor(array, device=device).cast(dtype) for array in (x, w, g))
        gradients = rulegrad.grad(lambda a, b, c=c: (ours(a, b, *geometry[2:]) * c).sum(), (0, 1))(a, b)
        found.append([part.numpy().astype(np.float32) for part in gradients])
    for ones, others in zip(*found, strict=True):
        np.testing.assert_allclose(ones, others, rtol=2**-7, atol=2**-8 * np.abs(others).max())


def test_bias_and_relu(device: str) -> None:
    x, w, bias = of_bfloat16((2, 20, 9, 17), 1), of_bfloat16((6, 20, 3, 3), 2), of_bfloat16((6,), 3)
    a, b, c = (Tensor(array, device=device) for array in (x, w, bias))
    found = functional.relu(functional.conv2d(a, b, c, padding=1))
    wanted = np.maximum(convolution(x, w, 1, 1, 1, 1) + bias.astype(np.float64)[:, None, None], 0)
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=2**-7, atol=2**-5)


def schedule_and_source(geometry: Geometry, target: str = "c_avx512_bf16") -> tuple[str, str]:
    x, w = (Tensor(np.zeros(shape, ml_dtypes.bfloat16), device="numpy").realize() for shape in geometry[:2])
    *_, kernel = compile_graph([ours(x, w, *geometry[2:]).uop], target)
    return kernel.schedule, kernel.source


@pytest.mark.parametrize("geometry", GEOMETRIES[:7])
def test_pairs_are_of_channels(geometry: Geometry) -> None:
    """Words are made where a part of the images is copied: two loads that are as far apart as channels are."""
    _, source = schedule_and_source(geometry)
    assert ", vdpbf16ps, " in source
    assert ", vdpbf16ps, " not in schedule_and_source(geometry, "c_avx512")[1]


@pytest.mark.parametrize("geometry", [GEOMETRIES[7], GEOMETRIES[8]])
def test_places_of_a_window_are_not_paired(geometry: Geometry) -> None:
    """One word of two channels is not a sum, and two columns that follow each other are read in one vector."""
    assert ", vdpbf16ps, " not in schedule_and_source(geometry)[1]


def test_gradients_by_weights_have_pairs_of_places() -> None:
    """Their windows are few, of many places: these are the depth of a product."""
    x, w, g = (
        Tensor(np.zeros(s, ml_dtypes.bfloat16), device="numpy").realize()
        for s in ((2, 32, 28, 28), (32, 32, 3, 3), (2, 32, 28, 28))
    )
    gradient = rulegrad.grad(lambda w: (functional.conv2d(x, w, padding=1) * g).sum())(w)
    (kernel,) = (k for k in compile_graph([gradient.uop], "c_avx512_bf16") if k.name.startswith("reduce"))
    assert kernel.schedule.startswith("product: ")
    assert ", vdpbf16ps, " in kernel.source


def test_small_planes_are_columns_of_one_image() -> None:
    """The places of 49 columns are constants where no tile has those of two images."""
    schedule, _ = schedule_and_source(((2, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, 1))
    assert schedule.startswith("product: fuse i2, i3 as column; split column by 64 tail guard; ")


@pytest.mark.parametrize(
    ("geometry", "windows"),
    [
        (((8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, 1), "(i2.inner, k1, 1), (i3.inner, k2, 1)"),
        (((8, 64, 56, 56), (64, 64, 3, 3), 2, 1, 1, 1), "(i2.inner, k1, 2), (i3.inner, k2, 2)"),
        (((8, 64, 56, 56), (64, 64, 3, 3), 1, 2, 2, 1), "(k1, i2.inner, 2), (k2, i3.inner, 2)"),
        (((8, 64, 500), (64, 64, 5), 1, 2, 1, 1), "(i2.inner, k1, 1)"),
        (((8, 64, 500), (64, 64, 5), 2, 2, 1, 1), "(i2.inner, k1, 2)"),
    ],
)
def test_the_tactic_of_convolutions(geometry: Geometry, windows: str) -> None:
    """With strides, dilations, and of lines."""
    schedule, source = schedule_and_source(geometry)
    assert schedule.startswith("convolution: ")
    assert f"stage_windows b layout k0 windows {windows}; " in schedule
    assert ", vdpbf16ps, " in source


def test_copies_end_with_their_memory() -> None:
    """Columns behind the last one are computed, but not read: padding on the left alone is a condition without an end."""
    x, w = (Tensor(np.zeros(s, np.float32), device="numpy").realize() for s in ((2, 8, 56, 57), (64, 8, 3, 3)))
    *_, kernel = compile_graph([functional.conv2d(functional.pad(x, (2, 0, 2, 0)), w).uop], "c")
    (copied,) = (line for line in kernel.source.splitlines() if "data1[" in line)
    assert f" < {x.numel() + 116} ? data1[" in copied
    assert " - 116] : 0" in copied


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lines_are_copied_in_vectors(dtype: str) -> None:
    """Where the processor has masks: padding is lanes that are not read, and no lane is stored behind a line."""
    arrays = (np.zeros(s, np.float32) for s in ((2, 8, 30, 30), (64, 8, 3, 3)))
    x, w = (Tensor(array, device="numpy").cast(dtype).realize() for array in arrays)
    graph = functional.conv2d(x, w, padding=1).uop
    for target, has in (("c_avx512_bf16", True), ("c", False)):
        *_, kernel = compile_graph([graph], target)
        assert ("LOAD_LANES(" in kernel.source) == has
        assert ("split k2.b by 16 tail pad; vectorize k2.b.inner" in kernel.schedule) == has
