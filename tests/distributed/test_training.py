"""Training on a mesh computes what one device computes, however parameters and batches are split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from networks import TARGETS, TOKENS, Network, losses, network, training_step

import rulegrad
from rulegrad import Tensor, nn
from rulegrad.communication import counters, reset_counters
from rulegrad.distributed import (
    Mesh,
    column_parallel,
    data_parallel,
    fully_sharded,
    placement,
    row_parallel,
    shard,
    shard_parameters,
    vocabulary_parallel,
)  # fmt: skip


@pytest.fixture(scope="module")
def alone() -> list[float]:
    return losses(network().to("numpy"), Tensor(TOKENS, device="numpy"), Tensor(TARGETS, device="numpy"), steps=4)


def tensor_parallel(model: Network, mesh: Mesh) -> Network:
    data_parallel(model, mesh)
    vocabulary_parallel(model.embedding, mesh)
    for layer in (model.blocks[0].query, model.blocks[0].key, model.blocks[0].value, model.blocks[0].up):
        column_parallel(layer, mesh)
    for layer in (model.blocks[0].out, model.blocks[0].down):
        row_parallel(layer, mesh)
    return model


KINDS: dict[str, tuple[Callable[[Network, Mesh], nn.Module], dict[str, int]]] = {
    "data": (data_parallel, {"data": 0}),
    "fully sharded": (fully_sharded, {"data": 0}),
    "split weights": (lambda model, mesh: shard_parameters(model, mesh, {"*weight": {"data": 0}}), {"data": 0}),
    "tensor": (tensor_parallel, {}),
    "tensor and data": (tensor_parallel, {"data": 0}),
    "sequence": (data_parallel, {"data": 1}),
    "both axes": (data_parallel, {"data": 0, "model": 1}),
}
SIZES = {
    "data": [{"data": 2}, {"data": 3}, {"data": 4}, {"data": 8}],
    "fully sharded": [{"data": 2}, {"data": 3}],
    "split weights": [{"data": 2}, {"data": 3}],
    "tensor": [{"model": 2}],
    "tensor and data": [{"data": 2, "model": 2}, {"data": 3, "model": 2}],
    "sequence": [{"data": 2}, {"data": 5}],
    "both axes": [{"data": 2, "model": 2}],
}


@pytest.mark.parametrize(
    ("kind", "sizes"), [pytest.param(kind, sizes, id=f"{kind}-{sizes}") for kind in SIZES for sizes in SIZES[kind]]
)
def test_losses_are_those_of_one_device(kind: str, sizes: dict[str, int], alone: list[float]) -> None:
    place, axes = KINDS[kind]
    mesh = Mesh(sizes, device=f"numpy*{np.prod(list(sizes.values()))}")
    model = place(network(), mesh)
    found = losses(model, shard(TOKENS, mesh, **axes), shard(TARGETS, mesh, **axes))
    np.testing.assert_allclose(found, alone[:3], rtol=2e-5)


def test_parts_stay_in_parts_through_a_step() -> None:
    mesh = Mesh({"data": 2}, device="numpy*2")
    model = fully_sharded(network(), mesh)
    losses(model, shard(TOKENS, mesh, data=0), shard(TARGETS, mesh, data=0), steps=1)
    for name, parameter in model.named_parameters():
        assert placement(parameter, mesh) != {}, name
        assert parameter.grad is not None
        assert placement(parameter.grad, mesh) == placement(parameter, mesh), name


def test_what_a_product_repeats_is_gathered_before() -> None:
    """Weights and the batch are split along one axis: weights are sent, not the products that they are part of."""
    mesh = Mesh({"data": 4}, device="numpy*4")
    layer = shard_parameters(nn.Linear(8, 12, bias=False), mesh, {"weight": {"data": 0}})
    x = shard(np.ones((32, 8), np.float32), mesh, data=0)
    reset_counters()
    assert placement(layer(x), mesh) == {"data": 0}
    assert {kind: count.bytes for kind, count in counters().items()} == {"all_gather": 3 * layer.weight.nbytes // 4}


def test_a_pattern_that_fits_no_parameter() -> None:
    mesh = Mesh({"model": 2}, device="numpy*2")
    with pytest.raises(rulegrad.errors.CommunicationError, match=r"no parameter is called 'wieght'.*weight, bias"):
        shard_parameters(nn.Linear(2, 2), mesh, {"wieght": {"model": 0}})


@pytest.mark.parametrize("kind", ["data", "fully sharded"])
def test_a_captured_step_is_the_eager_one(kind: str, alone: list[float]) -> None:
    place, axes = KINDS[kind]
    mesh = Mesh({"data": 3}, device="numpy*3")
    model = place(network(), mesh)
    step = rulegrad.jit(training_step(model))
    tokens, targets = shard(TOKENS, mesh, **axes), shard(TARGETS, mesh, **axes)
    np.testing.assert_allclose([step(tokens, targets).item() for _ in range(3)], alone[:3], rtol=2e-5)
    # the same tensors elsewhere: another trace, never the plan for parts
    np.testing.assert_allclose(step(shard(TOKENS, mesh), shard(TARGETS, mesh)).item(), alone[3], rtol=2e-5)
    assert len(step.reasons()) == 3  # the first of them made the optimizer's state, and was not kept


def test_checkpointed_parts_of_a_model() -> None:
    """Recomputed values are in parts as the first time: gradients are the same, and as much is sent."""
    mesh = Mesh({"data": 2}, device="numpy*2")
    found = []
    for call in (nn.utils.checkpoint, lambda function, x: function(x)):
        Tensor.manual_seed(0)
        model = data_parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)), mesh)
        x = shard(np.arange(24, dtype=np.float32).reshape(4, 6) / 9, mesh, data=0).requires_grad_()
        reset_counters()
        call(model, x).square().mean().backward()
        Tensor.realize(x.grad, *(p.grad for p in model.parameters()))
        sent = {kind: count.bytes for kind, count in counters().items() if count.bytes}
        found.append((sent, [tensor.grad.numpy() for tensor in (x, *model.parameters())]))
    (sent, gradients), (sent_plainly, expected) = found
    assert sent == sent_plainly
    for one, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
