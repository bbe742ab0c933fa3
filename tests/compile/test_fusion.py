"""Numbers of kernels of common functions; an equal kernel is compiled once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph

ROWS = np.linspace(-2, 2, 64 * 10, dtype="float32").reshape(64, 10)


def rows() -> Tensor:
    return Tensor(ROWS, device="numpy")


def layer_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdims=True)
    return centred * ((centred * centred).mean(-1, keepdims=True) + 1e-5).rsqrt()


def twice(x: Tensor) -> list[Tensor]:
    return [x * 2, x + 1]


def of_one(*functions: Callable[[Tensor], Tensor]) -> Callable[[], list[Tensor]]:
    """Several results of the same rows."""

    def build() -> list[Tensor]:
        x = rows()
        return [f(x) for f in functions]

    return build


def square(n: int) -> Tensor:
    return Tensor(np.ones((n, n), "float32"), device="numpy")


CASES: dict[str, tuple[Callable[[], list[Tensor]], int]] = {
    "elementwise chain": (lambda: [((rows() * 2 + 1).exp() - 3).abs()], 1),
    "reduction with work before and after": (lambda: [(rows() * rows()).sum(-1).sqrt() + 1], 1),
    "matmul, bias, relu": (lambda: [(rows() @ rows().T + 1).relu()], 1),
    "softmax": (lambda: [rows().softmax(-1)], 1),
    "log-softmax": (lambda: [rows().log_softmax(-1)], 1),
    "layer norm": (lambda: [layer_norm(rows())], 1),
    "a sum over everything after rows": (lambda: [square(2048).softmax(-1).sum()], 3),
    "two matmuls": (lambda: [(square(256) @ square(256)).relu() @ square(256)], 2),
    "a reduction that two results use": (lambda: twice(rows().sum(-1)), 1),
    "two results of the same inputs": (of_one(lambda x: x + 1, lambda x: x * 3), 1),
    "mean and variance": (of_one(lambda x: x.mean(-1), lambda x: x.var(-1)), 1),
    "maximum and its place": (of_one(lambda x: x.max(-1), lambda x: x.argmax(-1)), 1),
    "an elementwise use of a stored product": (of_one(lambda x: x @ x.T, lambda x: (x @ x.T).relu()), 1),
    "an input alone": (lambda: [rows().reshape(10, 64)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_count(name: str) -> None:
    build, count = CASES[name]
    kernels = compile_graph([t.uop for t in build()], target="numpy")
    assert len(kernels) == count, [k.name for k in kernels]


def test_too_few_rows_are_not_shared() -> None:
    """With three rows, work-items of a row each would leave the device idle."""
    few = Tensor(np.ones((3, 1 << 20), "float32"), device="numpy")
    assert len(compile_graph([few.softmax(-1).uop], target="numpy")) > 1


def test_a_group_gives_each_of_its_results() -> None:
    """One kernel with several stores: the values are those of each result alone."""
    for device in ("numpy", "opencl:0"):
        x = Tensor(ROWS, device=device)
        results = [x.mean(-1), x.var(-1, keepdims=True), x.max(-1), x.argmax(-1), x + 1, (x + 1) * x]
        Tensor.realize(*results)
        y = ROWS.astype("float64")
        wanted = [y.mean(-1), y.var(-1, keepdims=True), y.max(-1), y.argmax(-1), y + 1, (y + 1) * y]
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result.numpy(), value, rtol=1e-5, atol=1e-6)


def test_a_large_reduction_is_split() -> None:
    """A single work-item would have to add all of it."""
    x = Tensor(np.ones(1 << 20, "float32"), device="numpy")
    assert len(compile_graph([x.sum().uop], target="opencl")) == 2
    assert x.sum().item() == 1 << 20


def test_a_residual_stream_is_stored_once_a_layer() -> None:
    """And not its terms, which each of its readers would add up again, of all layers before."""

    def kernels_of(layers: int) -> int:
        x = Tensor(np.ones((16, 512), "float32"), device="numpy")
        for _ in range(layers):
            x = x + layer_norm(x) @ weights
        return len({id(kernel) for kernel in compile_graph([x.uop], target="c")})

    weights = square(512)
    assert kernels_of(12) == kernels_of(5)


def test_norms_of_products_read_them_once() -> None:
    """The sums of a norm and its scaled rows are one kernel, after that of the product and its bias."""
    x, weights = Tensor(np.ones((128, 512), "float32"), device="numpy"), square(512)
    residual = x + (x.linear(weights) + x[0])
    for norm in (layer_norm, lambda x: x * (x * x).mean(-1, keepdims=True).rsqrt()):
        assert len(compile_graph([norm(residual).uop], target="c")) == 2
        assert len(compile_graph([(residual + norm(residual).linear(weights)).uop], target="c")) == 3


def test_means_of_images_are_stored_for_a_product() -> None:
    """The product of a squeeze-and-excitation block would compute the mean of each channel for each of its rows."""
    image, weights = Tensor(np.ones((1, 40, 3, 96), "float32"), device="numpy"), square(40)
    assert len(compile_graph([image.mean((2, 3)).linear(weights[:10]).uop], target="c")) == 2


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_product_that_is_read_in_parts_is_stored(parts: int) -> None:
    """Gates of a layer are parts of one product, which has tiles: in the kernel of the gates each part would be a loop."""
    x, weights = square(64), Tensor(np.ones((64 * parts, 64), "float32"), device="numpy")
    first, *others = x.linear(weights).chunk(parts, -1)
    gated = first
    for gate in others:
        gated = gated * gate.sigmoid()
    kernels = compile_graph([gated.uop], target="c_avx512")
    assert [kernel.schedule.partition(":")[0] for kernel in kernels] == ["product", "elementwise"]


def log_softmax_of_both(x: Tensor) -> Tensor:
    """A contrastive loss reads the same scores by rows and by columns."""
    return x.log_softmax(0) + x.log_softmax(1)


@pytest.mark.parametrize("transposed", [False, True])
def test_sums_of_rows_and_of_columns_are_no_loops_of_one_kernel(transposed: bool) -> None:
    """Each of them would be computed again in each iteration of the other's loop."""
    n = 256
    x = square(n).requires_grad_()
    both = x.log_softmax(1) + (x.T.log_softmax(1).T if transposed else x.log_softmax(0))
    both.diagonal().mean().backward()
    assert x.grad is not None
    kernels = compile_graph([x.grad.uop], target="c_avx512")
    assert len(kernels) > 1
    assert not any(kernel.schedule.startswith("none") for kernel in kernels if f"{n}x{n}" in kernel.name)


@pytest.mark.parametrize("device", ["numpy", "c", "opencl:0"])
def test_values_of_rows_and_columns(device: str) -> None:
    numbers = np.random.default_rng(0).standard_normal((67, 83)).astype(np.float32)
    x = Tensor(numbers, device=device).requires_grad_()
    (log_softmax_of_both(x) * Tensor(numbers, device=device)).sum().backward()
    assert x.grad is not None
    exact = numbers.astype(np.float64)
    wanted = 2 * exact
    for axis in (0, 1):
        weights = np.exp(exact) / np.exp(exact).sum(axis, keepdims=True)
        wanted -= weights * exact.sum(axis, keepdims=True)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_equal_layers_are_one_kernel() -> None:
    x, w = square(256), square(256)
    kernels = compile_graph([((x @ w).relu() @ w).relu().uop], target="numpy")
    assert len(kernels) == 2
    assert kernels[0] is kernels[1]


@pytest.mark.parametrize("target", ["c", "opencl", "cuda", "metal", "webgpu"])
def test_no_kernel_takes_more_buffers_than_the_target_allows(target: str) -> None:
    """A long sum, a chain that reads another tensor in each step, what is made of both, and all steps of the chain."""
    xs = [Tensor(np.full((4, 8), k % 7 - 3.0, "float32"), device="numpy") for k in range(90)]
    chains = xs[:1]
    for x in xs[1:]:
        chains.append((chains[-1] * x).tanh())
    chain, added = chains[-1], sum(xs[1:], xs[0])
    most = engine.target(target).limits["arguments"]
    for value in (added, chain, added * chain, added.sum(0) + chain, Tensor.stack(chains)):
        kernels = compile_graph([value.uop], target)
        assert len(kernels) >= 90 // most
        assert max(kernel.slots for kernel in kernels) <= most


def test_values_of_long_sums() -> None:
    arrays = np.random.default_rng(0).standard_normal((150, 4, 8)).astype("float32")
    total = sum(Tensor(array, device="c") for array in arrays)
    np.testing.assert_allclose(total.numpy(), arrays.sum(0), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
