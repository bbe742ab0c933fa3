"""Attention over a sequence in parts: values and gradients of one device's, and only neighbours are sent anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, communication
from rulegrad.distributed import Mesh, context_parallel, placement, ring_attention, shard
from rulegrad.errors import CommunicationError, ShapeError

_random = np.random.default_rng(4)
QUERY, KEY = (_random.standard_normal((2, 30, 4)).astype(np.float32) * 3 for _ in range(2))
VALUE, SLOPE = (_random.standard_normal((2, 30, 3)).astype(np.float32) for _ in range(2))


def attended(*inputs: Tensor, slope: Tensor, mesh: Mesh | None, is_causal: bool) -> list[Tensor]:
    """The result, and the gradients of the inputs."""
    query, key, value = (x.requires_grad_() for x in inputs)
    if mesh is None:
        result = query.scaled_dot_product_attention(key, value, is_causal=is_causal)
    else:
        result = ring_attention(query, key, value, mesh, is_causal=is_causal)
    (result * slope).sum().backward()
    gradients = [x.grad for x in (query, key, value) if x.grad is not None]
    Tensor.realize(result, *gradients)
    return [result, *gradients]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "sizes", [{"sequence": 1}, {"sequence": 2}, {"sequence": 3}, {"sequence": 5}, {"data": 2, "sequence": 2}]
)
def test_values_gradients_and_bytes(sizes: dict[str, int], is_causal: bool) -> None:
    expected = attended(
        *(Tensor(x, device="numpy") for x in (QUERY, KEY, VALUE)),
        slope=Tensor(SLOPE, device="numpy"), mesh=None, is_causal=is_causal,
    )  # fmt: skip
    mesh = Mesh(sizes, device=f"numpy*{np.prod(list(sizes.values()))}")
    axes = {"sequence": 1, **({"data": 0} if "data" in sizes else {})}
    inputs = [shard(x, mesh, **axes) for x in (QUERY, KEY, VALUE, SLOPE)]
    communication.reset_counters()
    found = attended(*inputs[:3], slope=inputs[3], mesh=mesh, is_causal=is_causal)
    sent = {kind: count.bytes for kind, count in communication.counters().items()}
    count = sizes["sequence"]
    part = (KEY.nbytes + VALUE.nbytes) // np.prod(list(sizes.values()))
    # keys and values there, and with their gradients back
    assert sent.pop("shift", 0) == 3 * (count - 1) * part
    assert not any(sent.values()), sent
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=1e-5)
        assert placement(one, mesh) == {name: axis for name, axis in axes.items() if sizes[name] > 1}


def test_large_scores_of_one_block_do_not_overflow() -> None:
    mesh = Mesh({"sequence": 2}, device="numpy*2")
    scaled = [100 * QUERY, KEY, VALUE]
    expected = Tensor(scaled[0], device="numpy").scaled_dot_product_attention(
        *(Tensor(x, device="numpy") for x in scaled[1:])
    )
    found = ring_attention(*(shard(x, mesh, sequence=1) for x in scaled), mesh)  # type: ignore[misc]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_refused() -> None:
    mesh = Mesh({"sequence": 2}, device="numpy*2")
    x = Tensor.rand(5, 3, device=mesh.device)
    with pytest.raises(CommunicationError, match="the mesh has no axis 'model'; it has sequence"):
        ring_attention(x, x, x, mesh, "model")
    with pytest.raises(ShapeError, match="a multiple of the 2 devices"):
        ring_attention(x, x, x, mesh)
    with pytest.raises(
        ShapeError, match=r"queries of shape \(4, 3\), keys of shape \(4, 3\) and values of shape \(2, 3\)"
    ):
        ring_attention(x[:4], x[:4], x[:2], mesh)


def sent_by(attention: Callable[[], Tensor]) -> dict[str, int]:
    """The collectives that an attention starts."""
    communication.reset_counters()
    attention().realize()
    return {kind: count.calls for kind, count in communication.counters().items() if count.calls}


def test_attention_inside_context_parallel_is_the_ring() -> None:
    mesh = Mesh({"sequence": 3}, device="numpy*3")
    query, key, value = (shard(x, mesh, sequence=1).realize() for x in (QUERY, KEY, VALUE))
    alone = [Tensor(x, device="numpy") for x in (QUERY, KEY, VALUE)]
    with context_parallel(mesh):
        found = query.scaled_dot_product_attention(key, value, is_causal=True, scale=0.3)
        assert sent_by(lambda: query.scaled_dot_product_attention(key, value)) == {"shift": 2}
        mask = Tensor.ones(30, 30, device=mesh.device).tril() > 0
        masked = query.scaled_dot_product_attention(key, value, mask, scale=0.3)
        assert "all_gather" in sent_by(lambda: query.scaled_dot_product_attention(key, value, mask))
        assert "all_gather" in sent_by(lambda: query.scaled_dot_product_attention(key[:, :20], value[:, :20]))
    expected = alone[0].scaled_dot_product_attention(*alone[1:], is_causal=True, scale=0.3)
    for one in (found, masked):
        np.testing.assert_allclose(one.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert "all_gather" in sent_by(lambda: query.scaled_dot_product_attention(key, value))


def test_a_capture_inside_context_parallel_is_another() -> None:
    mesh = Mesh({"sequence": 2}, device="numpy*2")
    x = shard(QUERY, mesh, sequence=1).realize()

    @rulegrad.jit
    def attend(x: Tensor) -> Tensor:
        return x.scaled_dot_product_attention(x, x)

    outside = attend(x).numpy()
    with context_parallel(mesh, "sequence"):
        inside = attend(x).numpy()
        assert sent_by(lambda: attend(x)) == {"shift": 1}
    np.testing.assert_allclose(inside, outside, rtol=1e-4, atol=1e-5)
    assert "all_gather" in sent_by(lambda: attend(x))


def test_context_parallel_names_a_wrong_axis() -> None:
    with pytest.raises(CommunicationError, match="context_parallel: the mesh has no axis 'heads'; it has sequence"):
        context_parallel(Mesh({"sequence": 2}, device="numpy*2"), "heads")
