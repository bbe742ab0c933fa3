"""Attention in one kernel on target c: blocks of queries by blocks of keys, whatever divides what; scores are not kept in memory."""

from __future__ import annotations

import numpy as np
import pytest
from test_schedules import kernel, labelled_as, scheduled

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.engine.schedules import parse_schedule
from rulegrad.workbench.diagnosis.comparing import Comparison


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ v)


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.each_value
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [(64, 128, 16, 16), (65, 129, 8, 20), (130, 190, 5, 33), (17, 3, 4, 2)],
    ids=["whole blocks", "one more", "no divisors", "fewer than a block"],
)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_in_one_kernel(queries: int, keys: int, depth: int, width: int, causal: bool) -> None:
    r = np.random.default_rng(queries)
    q, k, v = (r.standard_normal(s, np.float32) for s in ((2, queries, depth), (2, keys, depth), (2, keys, width)))
    tensors = [Tensor(x, device="c").realize() for x in (q, k, v)]
    with rg.profile() as p:
        result = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=causal).numpy()
    assert p.kernels[-1].schedule.startswith("attention: ")
    np.testing.assert_allclose(result, attention(q, k, v, causal), rtol=2e-4, atol=2e-6)


@pytest.mark.usefixtures("constant_sizes")
@pytest.mark.parametrize("start", [5, 0, 60, -3, 2**62])
def test_a_mask_of_wide_positions(start: int) -> None:
    """Positions in a cache are int64 as a rule; a query before the first key weighs nothing."""
    r = np.random.default_rng(0)
    q, k, v = (r.standard_normal((2, n, 8), np.float32) for n in (20, 70, 70))
    tensors = [Tensor(x, device="c").realize() for x in (q, k, v)]
    first = Tensor(np.array(start), device="c").realize()
    mask = Tensor.arange(70, device="c") <= (first + Tensor.arange(20, device="c")).unsqueeze(1)
    with rg.profile() as p:
        result = tensors[0].scaled_dot_product_attention(*tensors[1:], attn_mask=mask).numpy()
    # the mask, which the program holds, is a result too
    assert any(kernel.schedule.startswith("attention: ") for kernel in p.kernels)
    seen = np.minimum(start + np.arange(20), 70)
    for row, last in enumerate(seen):
        expected = attention(q[:, row : row + 1], k[:, : last + 1], v[:, : last + 1], False)[:, 0] if last >= 0 else 0.0
        np.testing.assert_allclose(result[:, row], expected, rtol=2e-4, atol=2e-6)


def test_one_infinite_score_is_all_the_weight() -> None:
    """As exp(inf - inf) is: not a number in its row only. A row of scores -inf has the sum 0, as in the interpreter."""
    r = np.random.default_rng(0)
    q, k, v = (r.standard_normal((20, 20)).astype(np.float32) for _ in range(3))
    q[3, 5], k[:, 5] = np.inf, 1.0
    results = [
        Tensor(q, device=d).scaled_dot_product_attention(Tensor(k, device=d), Tensor(v, device=d)).numpy()
        for d in ("c", "numpy")
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=2e-4, atol=1e-6)
    assert np.isnan(results[0][3]).all() and np.isfinite(np.delete(results[0], 3, 0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
def test_masks(dtype: type[np.generic]) -> None:
    """A row of which nothing is seen is 0; where scores are kept in memory it is so too."""
    r = np.random.default_rng(1)
    x, seen = r.standard_normal((2, 33, 8)).astype(np.float32), r.random((33, 33)) > 0.4
    seen[7] = False
    mask = seen if dtype == np.bool_ else np.where(seen, np.float32(0.5), np.float32(-np.inf))
    results = [
        Tensor(x, device=d).scaled_dot_product_attention(
            Tensor(x, device=d), Tensor(x, device=d), attn_mask=Tensor(mask, device=d)
        )
        for d in ("c", "numpy")
    ]
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=2e-4, atol=1e-6)
    assert not results[0].numpy()[:, 7].any()


@pytest.mark.parametrize("steps", ["i0", "i0, i1", "i1"])
def test_accumulators_of_a_product(steps: str) -> None:
    """A reduction outside some loops of results, with an accumulator for each of their iterations."""
    graph = kernel("product")
    after = scheduled(labelled_as(graph, "REDUCE", "sum"), f"accumulate sum layout {steps}; split k0 by 3 tail guard")
    assert after.op == "SINK" and len(parse_schedule(f"accumulate sum layout {steps}")) == 1
    comparison = Comparison(graph)
    assert not comparison.different(comparison.meanings(graph), after)


@pytest.mark.parametrize("queries", [6, 8])
def test_attention_behind_a_product(queries: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v, w = (rng.standard_normal(shape) for shape in ((queries, 4), (5, 4), (5, 10), (9, 10)))
    tensors = [Tensor(array, device="c") for array in (q, k, v, w)]
    scores = np.exp(q @ k.T)
    wanted = scores / scores.sum(-1, keepdims=True) @ v @ w.T
    found = (tensors[0] @ tensors[1].T).softmax(-1) @ tensors[2] @ tensors[3].T
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9)


def test_values_of_each_row_are_stored() -> None:
    """A mixture of experts: each row weighs results of its own, which need a product."""
    r = np.random.default_rng(0)
    shapes = [(128, 32), (32, 4), (4, 32, 48), (4, 48, 32)]
    arrays = [r.standard_normal(s).astype(np.float32) for s in shapes]
    x, gate, first, second = (Tensor(array, device="c").realize() for array in arrays)
    with rg.profile() as p:
        results = rg.einsum("neh,ehd->ned", rg.einsum("nd,edh->neh", x, first), second)
        result = rg.einsum("ned,ne->nd", results, (x @ gate).softmax(-1)).numpy()
    assert not any(kernel.schedule.startswith("attention") for kernel in p.kernels)
    powers = np.exp(arrays[0] @ arrays[1])
    wanted = np.einsum("nd,edh,ehw,ne->nw", arrays[0], *arrays[2:], powers / powers.sum(1, keepdims=True))
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)
