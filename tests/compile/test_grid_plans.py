"""Plans for GPUs of programs as people write them: the work is shared among thousands of work-items, whatever it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.nn import functional as F
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel

Shapes = tuple[tuple[int, ...], ...]


def floats(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32), device="numpy")


def numbers(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.int64), device="numpy")


def kernels_of(found: Any, target: str = "cuda") -> list[Kernel]:
    results = found if isinstance(found, (tuple, list)) else (found,)
    return compile_graph([x.uop for x in results], target)


def work_items(kernel: Kernel) -> int:
    """Of a launch, at most as many as a large GPU runs at a time: the grid counts those of work-groups too."""
    return min(math.prod(kernel.grid), 1 << 17)


def sliced_products() -> Any:
    x, y = floats(128, 100000), floats(100000, 16)
    return x @ y


def standardized() -> Any:
    x = floats(8000, 64).requires_grad_()
    z = (x - x.mean(0)) / x.std(0, correction=1)
    (z.T @ z / 1000).square().sum().backward()
    return x.grad


def classifier() -> Any:
    x, w, b = floats(4096, 256), floats(10, 256), floats(10)
    gradients = rg.grad(lambda w, b: F.cross_entropy(x @ w.T + b, numbers(4096)), (0, 1))
    return gradients(w, b)


def gate() -> Any:
    x, a, b = floats(64, 64, 56, 56), floats(16, 64), floats(64, 16)
    return x * (F.relu(x.mean((2, 3)) @ a.T) @ b.T).sigmoid()[:, :, None, None]


def clusters() -> Any:
    x, c = floats(40000, 16), floats(20, 16)
    return c.zeros_like().index_add(0, rg.cdist(x, c).argmin(1), x)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "the loss of long rows": lambda: F.cross_entropy(floats(8192, 5000), numbers(8192)),
    "the bias of a classifier": classifier,
    "quadratic forms": lambda: rg.einsum("bi,bij,bj->b", floats(2048, 64), floats(2048, 64, 64), floats(2048, 64)),
    "a product of few columns": sliced_products,
    "a product of a deep and narrow matrix with itself": standardized,
    "a gate that is computed of each image": gate,
    "rows added to the nearest center": clusters,
    "rows added by index": lambda: floats(800, 64).index_add(0, numbers(5000), floats(5000, 64)),
    "running sums of rows": lambda: floats(2048, 5000).cumsum(-1),
    "running sums of one row": lambda: floats(1000000).cumsum(0),
    "running products of columns": lambda: floats(5000, 64).cumprod(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_work_item_does_the_work_of_many(name: str) -> None:
    """None computes and moves more than 25,000 operations and bytes: some 20 microseconds, one after the other."""
    for kernel in kernels_of(PROGRAMS[name]()):
        work = max(kernel.flops, kernel.nbytes)
        assert work / work_items(kernel) < 25_000, (kernel.name, kernel.grid, kernel.local, kernel.steps)


def test_a_batch_of_rows_times_vectors_is_no_tile() -> None:
    """Nothing that is read serves two results: neighbours read neighbours."""
    (kernel,) = kernels_of((floats(4096, 64, 64) @ floats(4096, 64)[:, :, None])[:, :, 0])
    assert kernel.tactic == "short_rows"


def test_odd_products_have_tiles() -> None:
    (kernel,) = kernels_of(floats(512, 77, 33) @ floats(512, 33, 51))
    assert kernel.tactic == "tiles" and kernel.grid == (13, 20, 512)


@pytest.fixture
def sorted_as_on_a_gpu() -> Iterator[None]:
    """Rows of the interpreter are sorted by the digits and blocks of the target cuda."""
    limits, other = engine.target(devices.target_of("numpy")).limits, engine.target("cuda").limits
    before = dict(limits)
    limits.update({name: other[name] for name in ("counted_elements", "digit_bits")})
    yield
    limits.update(before)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int64", "float64"])
def test_sorting_by_comparing_within_blocks(dtype: str, sorted_as_on_a_gpu: None) -> None:
    array = (np.random.default_rng(0).normal(size=(2, 700)) * 40).astype(dtype)
    values, places = Tensor(array, device="numpy").sort()
    assert np.array_equal(values.numpy(), np.sort(array, -1))
    assert np.array_equal(places.numpy(), np.argsort(array, -1, kind="stable"))


def test_a_sort_has_no_serial_kernels(sorted_as_on_a_gpu: None) -> None:
    for kernel in kernels_of(floats(64, 5000).sort()[1]):
        assert max(kernel.flops, kernel.nbytes) / work_items(kernel) < 20_000
