"""Attention of one head in one kernel, by an online softmax: its kernels, its values at hard places, its gradients."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, config, engine
from rulegrad.compile import compile_graph
from rulegrad.interpreter.numerics import Array

RANDOM = np.random.default_rng(3)
QUERIES, KEYS, WIDTH = 64, 48, 8


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Each test draws the same numbers, whichever ran before it."""
    RANDOM.bit_generator.state = np.random.default_rng(3).bit_generator.state


def normal(*shape: int, dtype: str = "float32") -> Array:
    return RANDOM.normal(size=shape).astype(dtype)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.T * q.shape[-1] ** -0.5 + mask).softmax(-1) @ v


def exactly(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """The same in float64, with nan where a whole row is masked."""
    q, k, v, mask = (x.astype("float64") for x in (q, k, v, mask))
    scores = q @ k.T * q.shape[-1] ** -0.5 + mask
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(powers / powers.sum(-1, keepdims=True) @ v)


def operands(keys: int = KEYS, dtype: str = "float32", scale: float = 1.0) -> list[Array]:
    """Queries, keys, values and a mask that hides a third of the keys; of query 3 all, of query 5 all but the last."""
    mask = np.where(RANDOM.random((QUERIES, keys)) < 1 / 3, -np.inf, 0).astype(dtype)
    mask[:, 0] = 0
    mask[3], mask[5] = -np.inf, -np.inf
    mask[5, -1] = 0
    q, k = normal(QUERIES, WIDTH, dtype=dtype), normal(keys, WIDTH, dtype=dtype)
    return [q * np.asarray(scale, dtype), k, normal(keys, WIDTH, dtype=dtype), mask]


def compared(arrays: list[Array], device: str, rtol: float = 1e-5) -> Array:
    """The result on a device, computed by one kernel, compared with NumPy's. One key needs no sums."""
    tensors = [Tensor(array, device=device) for array in arrays]
    result = attention(*tensors)
    target = device.partition(":")[0]
    if (
        engine.target(target).limits["online_queries"] == 1
    ):  # where a block of queries is done at once, a mask is in memory
        assert len(compile_graph([result.uop], target)) == 1
    (kernel,) = compile_graph([result.uop], "numpy")
    assert ("EXPSUM" in {node.op for node in kernel.graph.toposort()}) == (len(arrays[1]) > 1)
    found = result.numpy()
    np.testing.assert_allclose(found, exactly(*arrays), rtol=rtol, atol=rtol)
    return found


@pytest.mark.parametrize("keys", [1, 2, 5, 16, 48, 49])
def test_numbers_of_keys(device: str, keys: int) -> None:
    """One key, fewer than a block, whole blocks, a prime more; a row that is masked is nan, as by NumPy."""
    found = compared(operands(keys), device)
    assert np.isnan(found[3]).all()
    assert not np.isnan(np.delete(found, 3, 0)).any()


def test_few_rows_and_all_keys_in_one_block() -> None:
    """Where the scores are one block, or the columns a loop of their own, each sum has registers of its own."""
    sizes = [(rows, keys) for rows in (1, 2, 3, 5) for keys in (2, 3, 4, 7, 8, 16, 17)]
    arrays = [[x[:rows] if k in (0, 3) else x for k, x in enumerate(operands(keys))] for rows, keys in sizes]
    found = [attention(*(Tensor(x, device="c") for x in given)) for given in arrays]
    found[0].realize(*found[1:])
    for size, result, given in zip(sizes, found, arrays, strict=True):
        np.testing.assert_allclose(result.numpy(), exactly(*given), rtol=1e-5, atol=1e-5, err_msg=f"rows, keys: {size}")


def test_its_programs_mean_the_same_after_each_pass() -> None:
    """CHECK=2 runs a sum of exponentials with registers, and sees what such a sum does wrong."""
    arrays = [x[:1] if k in (0, 3) else x for k, x in enumerate(operands(4))]
    with config(check=2):
        result = attention(*(Tensor(x, device="c") for x in arrays)).numpy()
    np.testing.assert_allclose(result, exactly(*arrays), rtol=1e-5, atol=1e-5)


def test_float64(device: str) -> None:
    compared(operands(dtype="float64"), device, rtol=1e-13)


def test_large_scores(device: str) -> None:
    """Scores of some thousands: powers underflow, the largest so far jumps from block to block."""
    compared(operands(scale=3000.0), device, rtol=1e-3)


def test_scores_that_grow_and_shrink(device: str) -> None:
    """Every block has a new largest score; or the first has it, and all others add nothing."""
    q, k, v, mask = operands()
    for steps in (np.linspace(-400, 400, KEYS), np.linspace(400, -400, KEYS)):
        compared([q, k, v, (mask + steps).astype("float32")], device)


def test_nan_and_infinity_are_kept_in_their_rows(device: str) -> None:
    arrays = operands()
    arrays[0][7] = np.nan
    arrays[3][9, 20] = np.inf
    found = compared(arrays, device)
    assert np.isnan(found).all(-1).nonzero()[0].tolist() == [3, 7, 9]


def test_a_guard_gives_zeros_for_masked_rows(device: str) -> None:
    """`scaled_dot_product_attention` with a mask of truth values: what sees no key is 0."""
    q, k, v, mask = operands()
    seen = mask == 0
    tensors = [Tensor(x, device=device) for x in (q, k, v, seen)]
    found = tensors[0].scaled_dot_product_attention(*tensors[1:]).numpy()
    np.testing.assert_allclose(found, np.nan_to_num(exactly(q, k, v, mask)), rtol=1e-5, atol=1e-6)


def test_small_dtypes_are_not_computed_online(device: str) -> None:
    """Powers are summed in float32, by `softmax` itself, and its weights rounded before they weigh; else not at all."""
    arrays = [x.astype("float16") for x in operands()]
    q, k, v, mask = (Tensor(x, device=device) for x in arrays)
    scores = q @ k.T * WIDTH**-0.5 + mask
    powers = (scores - scores.max(-1, keepdims=True)).exp()
    results = [attention(q, k, v, mask), powers / powers.sum(-1, keepdims=True) @ v]
    online = [[n for kernel in compile_graph([x.uop], "numpy") for n in kernel.graph.toposort()] for x in results]
    sums = [[(str(n.dtype), n.src[1].attrs.get("value")) for n in nodes if n.op == "EXPSUM"] for nodes in online]
    assert sums == [[("float32", 1.0)], []]
    Tensor.realize(*results)
    for result in results:
        assert result.dtype == "float16"
        np.testing.assert_allclose(result.numpy(), exactly(*arrays), rtol=0.02, atol=0.02)


def test_weights_that_are_needed_elsewhere_are_stored() -> None:
    tensors = [Tensor(x, device="numpy") for x in operands()]
    weights = (tensors[0] @ tensors[1].T + tensors[3]).softmax(-1)
    kernels = compile_graph([weights.uop, (weights @ tensors[2]).uop], "numpy")
    assert sum(node.op == "STORE" for kernel in kernels for node in kernel.graph.toposort()) == 2


def test_gradients(device: str) -> None:
    """Those of attention without a fused kernel: a finite difference, in float64."""
    arrays = operands(dtype="float64")
    arrays[3] = np.where(np.isinf(arrays[3]), -5.0, arrays[3])
    tensors = [Tensor(x, device=device, requires_grad=True) for x in arrays]
    weights = normal(QUERIES, WIDTH, dtype="float64")
    (attention(*tensors) * Tensor(weights, device=device)).sum().backward()
    for place, tensor in enumerate(tensors):
        step = normal(*arrays[place].shape, dtype="float64")
        moved = [[x + sign * 1e-6 * step if k == place else x for k, x in enumerate(arrays)] for sign in (1, -1)]
        difference = ((exactly(*moved[0]) - exactly(*moved[1])) * weights).sum() / 2e-6
        assert tensor.grad is not None
        np.testing.assert_allclose((tensor.grad.numpy() * step).sum(), difference, rtol=1e-6)


def test_gradients_of_queries_that_are_a_part_of_a_tensor() -> None:
    """Their columns are behind gates: no vector loop of the results is one of the scores.

    Two sums of exponentials over keys in one block, where the second needs the first, share no loop.
    """
    for rows, keys in ((3, 2), (3, 5), (4, 4)):
        arrays = normal(rows, 7, 8), normal(keys, 2), normal(keys, 1), normal(rows, 1)
        gradients = {}
        for device in ("numpy", "c"):
            whole, others, values, weights = (Tensor(x, device=device, requires_grad=True) for x in arrays)
            found = ((whole[:, 5, :2] @ others.T) * 0.5).softmax(-1) @ values
            (found * weights).sum().backward()
            assert whole.grad is not None
            gradients[device] = whole.grad
        for target in ("opencl", "cuda", "metal", "webgpu"):
            assert "for" in compile_graph([gradients["numpy"].uop], target)[0].source
        np.testing.assert_allclose(gradients["c"].numpy(), gradients["numpy"].numpy(), rtol=1e-4, atol=1e-5)


def test_scores_that_are_weighted_by_a_softmax_are_stored() -> None:
    """One kernel of several would compute all scores below again for each score."""
    x, y = Tensor(normal(64, 64), device="c"), Tensor(normal(64, 64), device="c")
    z = x
    for _ in range(3):
        z = (z @ y).softmax(1)
    assert len(compile_graph([z.uop], "c_avx512")) == 4
    expected = x.numpy().astype("float64")
    for _ in range(3):
        powers = np.exp(expected @ y.numpy())
        expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-3)
