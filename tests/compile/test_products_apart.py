"""Columns of one product that are stored apart, as queries, keys and values of heads, are tiles of one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph


def parts_of(x: Tensor, w: Tensor, b: Tensor, parts: int, heads: int) -> list[Tensor]:
    batch, length, _ = x.shape
    every = (x @ w + b).reshape(batch, length, parts, heads, -1).permute(2, 0, 3, 1, 4)
    return [every[k] * (k + 1) for k in range(parts)]


def arrays(batch: int, length: int, width: int, columns: int) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    return [r.standard_normal(s).astype(np.float32) for s in ((batch, length, width), (width, columns), (columns,))]


@pytest.mark.parametrize("device", ["c", "opencl"])
@pytest.mark.parametrize("sizes", [(2, 16, 32, 16), (3, 7, 33, 5)])
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_values(parts: int, sizes: tuple[int, int, int, int], device: str) -> None:
    *shape, size = sizes
    x, w, b = arrays(*shape, columns=parts * 2 * size)
    found = parts_of(*(Tensor(array, device=device) for array in (x, w, b)), parts, 2)
    Tensor.realize(*found)
    every = (x @ w + b).reshape(*shape[:2], parts, 2, size).transpose(2, 0, 3, 1, 4)
    for k, part in enumerate(found):
        np.testing.assert_allclose(part.numpy(), every[k] * (k + 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_they_are_tiles(parts: int) -> None:
    given = [Tensor(array, device="numpy") for array in arrays(2, 16, 32, columns=parts * 32)]
    (kernel,) = compile_graph([part.uop for part in parts_of(*given, parts, 2)], "c_avx512")
    assert kernel.schedule.startswith("product: ") and "UNROLLED for" not in kernel.source


def test_gates_of_a_cell() -> None:
    """They are used in one expression."""
    x, w, b = arrays(1, 24, 32, columns=96)
    tensors = [Tensor(array, device="c") for array in (x[0], w, b)]
    y = tensors[0] @ tensors[1] + tensors[2]
    result = (y[:, :32] * y[:, 32:64] + y[:, 64:]).numpy()
    y = x[0] @ w + b
    np.testing.assert_allclose(result, y[:, :32] * y[:, 32:64] + y[:, 64:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["c", "opencl"])
def test_products_of_attention_keep_their_loops(device: str) -> None:
    """Sums in softmax over a loop that another product is added up over too: all extents are equal."""
    q, k, w = (np.random.default_rng(n).standard_normal((3, 6, 6)).astype(np.float32) for n in range(3))

    def gradients(device: str) -> list[np.ndarray]:
        x, y, z = (Tensor(array, device=device, requires_grad=True) for array in (q, k, w))
        ((x @ y.transpose(-1, -2)).softmax(-1) @ y * z).sum().backward()
        return [tensor.grad.numpy() for tensor in (x, y, z)]

    for found, wanted in zip(gradients(device), gradients("numpy"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_products_that_share_factors_two_by_two(order: tuple[int, int, int]) -> None:
    x, y, v, w = (np.random.default_rng(n).standard_normal((16, 16)).astype(np.float32) for n in range(4))
    pairs = [[(x, v), (y, w), (x, w)][k] for k in order]
    found = [Tensor(a, device="c") @ Tensor(b, device="c") for a, b in pairs]
    Tensor.realize(*found)
    for result, (a, b) in zip(found, pairs, strict=True):
        np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-4, atol=1e-4)
