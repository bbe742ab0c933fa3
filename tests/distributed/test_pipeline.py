"""Pipelines of stages train as the blocks one by one do, send what the textbook says, and refuse what would not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from networks import TARGETS, TOKENS, Network, losses, network, training_step

import rulegrad
from rulegrad import Tensor, communication, nn
from rulegrad.distributed import (
    Mesh,
    Pipeline,
    column_parallel,
    data_parallel,
    load_unstacked_state_dict,
    pipeline,
    placement,
    row_parallel,
    shard,
    unstacked_state_dict,
)  # fmt: skip
from rulegrad.errors import CommunicationError, RulegradError, ShapeError


def mesh_of(device: str = "numpy", **sizes: int) -> Mesh:
    return Mesh(sizes, device=f"{device}*{np.prod(list(sizes.values()))}")


def staged(model: Network, mesh: Mesh, micro_batches: int, recompute: bool = False) -> Network:
    assert isinstance(model.blocks, nn.Sequential)
    model.blocks = pipeline(model.blocks, mesh, micro_batches=micro_batches, recompute=recompute)
    return data_parallel(model, mesh)


def in_columns(model: Network, mesh: Mesh) -> None:
    data_parallel(model, mesh)
    for block in model.blocks:  # type: ignore[attr-defined]
        for layer in (block.query, block.key, block.value, block.up):
            column_parallel(layer, mesh)
        for layer in (block.out, block.down):
            row_parallel(layer, mesh)


@pytest.fixture(scope="module")
def alone() -> Callable[[int], list[float]]:
    found: dict[int, list[float]] = {}

    def of(count: int) -> list[float]:
        if count not in found:
            model = network(count).to("numpy")
            found[count] = losses(model, Tensor(TOKENS, device="numpy"), Tensor(TARGETS, device="numpy"))
        return found[count]

    return of


@pytest.mark.parametrize(
    ("sizes", "count", "micro_batches", "recompute"),
    [
        ({"pipe": 1}, 2, 2, False),
        pytest.param({"pipe": 2}, 4, 3, False, marks=pytest.mark.long_run),
        ({"pipe": 2}, 2, 1, False),
        ({"pipe": 2}, 4, 3, True),
        pytest.param({"pipe": 3}, 3, 2, False, marks=pytest.mark.long_run),
        pytest.param({"pipe": 4}, 4, 6, False, marks=pytest.mark.long_run),
        pytest.param({"pipe": 8}, 8, 2, False, marks=pytest.mark.long_run),
        ({"data": 2, "pipe": 2}, 2, 3, False),
        ({"pipe": 2, "data": 3}, 2, 2, True),
        ({"pipe": 2, "model": 2}, 2, 2, False),
    ],
)
def test_losses_are_those_of_the_blocks_one_by_one(
    sizes: dict[str, int], count: int, micro_batches: int, recompute: bool, alone: Callable[[int], list[float]]
) -> None:
    mesh, model = mesh_of(**sizes), network(count)
    if "model" in sizes:
        in_columns(model, mesh)
    model = staged(model, mesh, micro_batches, recompute)
    axes = {"data": 0} if "data" in sizes else {}
    found = losses(model, shard(TOKENS, mesh, **axes), shard(TARGETS, mesh, **axes))
    np.testing.assert_allclose(found, alone(count), rtol=2e-5)
    for name, parameter in model.blocks.named_parameters():
        found_place = placement(parameter, mesh)
        assert found_place.pop("pipe", None) == (0 if sizes["pipe"] > 1 else None), name
        of_rows, bias = name.split(".")[1] in ("out", "down"), name.endswith("bias")
        kept = "norm" in name or (of_rows and bias) or "model" not in sizes
        assert found_place == ({} if kept else {"model": 2 if of_rows else 1}), name


def test_a_captured_step_on_compiled_kernels(alone: Callable[[int], list[float]]) -> None:
    mesh = mesh_of("c", pipe=2)
    model = staged(network(2), mesh, 2)
    step = rulegrad.jit(training_step(model))
    tokens, targets = shard(TOKENS, mesh), shard(TARGETS, mesh)
    np.testing.assert_allclose([step(tokens, targets).item() for _ in range(3)], alone(2), rtol=2e-5)
    assert len(step.reasons()) == 2  # the optimizer makes its state in the first call


@pytest.mark.parametrize("recompute", [False, True])
def test_each_tick_sends_one_micro_batch_each_way(recompute: bool) -> None:
    stages, many = 3, 2
    mesh = mesh_of(pipe=stages)
    blocks = pipeline([nn.Linear(8, 8) for _ in range(stages)], mesh, micro_batches=many, recompute=recompute)
    x = Tensor.rand(4, 5, 8, device=mesh.device)
    communication.reset_counters()
    result = blocks(x)
    result.square().sum().backward()
    Tensor.realize(*(parameter.grad for parameter in blocks.parameters()))
    sent = {kind: count.bytes for kind, count in communication.counters().items()}
    batch = 4 * 5 * 8 * 4
    assert sent.pop("shift") == 2 * (many + stages - 2) * batch // many
    # the sum by which all have what the last stage made
    assert sent.pop("all_reduce") == -(-2 * (stages - 1) * batch // stages)
    assert not any(sent.values()), sent


def test_dropout_in_a_stage_is_its_own() -> None:
    mesh = mesh_of(pipe=2)
    blocks = pipeline([nn.Dropout(0.5) for _ in range(2)], mesh, micro_batches=2)
    kept = blocks(Tensor.ones(2, 4000, device=mesh.device)).numpy()
    # a quarter passes both, and each row has other numbers
    assert set(np.unique(kept)) == {0.0, 4.0}
    assert abs((kept > 0).mean() - 0.25) < 0.03
    assert 0.5 < ((kept[0] > 0) != (kept[1] > 0)).mean() / (2 * 0.25 * 0.75) < 1.5
    assert blocks.eval()(Tensor.ones(2, 3, device=mesh.device)).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_states_under_the_names_of_the_plain_model() -> None:
    mesh, plain = mesh_of(pipe=2), network(4)
    model = staged(network(4), mesh, 2)
    assert isinstance(model.blocks, Pipeline)
    assert {"blocks.*.norm.weight", "head.bias"} <= set(model.state_dict())
    state = unstacked_state_dict(model)
    assert set(state) == set(plain.state_dict())
    for name, tensor in plain.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), tensor.numpy(), err_msg=name)
    new = {name: tensor.numpy() + 1 for name, tensor in plain.state_dict().items()}
    load_unstacked_state_dict(model, new)
    again = unstacked_state_dict(model)
    assert all((again[name].numpy() == new[name]).all() for name in new)
    assert placement(model.blocks.get_submodule("*.norm").weight, mesh) == {"pipe": 0}
    with pytest.raises(RulegradError, match=r"missing names \['blocks.\*.norm.bias'\]"):
        load_unstacked_state_dict(model, {name: new[name] for name in new if name != "blocks.2.norm.bias"})


class Scaled(nn.Module):
    """A block with tensors in lists and dicts, tied ones, a buffer of its own, and one that all blocks hold."""

    def __init__(self, shared: Tensor) -> None:
        super().__init__()
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.scales = {"a": nn.Parameter(Tensor.rand(3))}
        self.tied = self.layers[0].weight
        self.register_buffer("own", Tensor.rand(3))
        self.shared = shared

    def forward(self, x: Tensor, more: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh() * self.scales["a"]
        return x @ self.tied + self.own * self.shared + more


def test_tensors_in_lists_tied_ones_and_arguments_for_all() -> None:
    shared, more = Tensor([1.0, 2.0, 3.0]), Tensor([0.5, 0.25, 0.125])
    blocks, x = [Scaled(shared) for _ in range(4)], Tensor.rand(4, 3)
    expected = x
    for block in blocks:
        expected = block(expected, more)
    mesh = mesh_of(pipe=2)
    model = pipeline(blocks, mesh, micro_batches=2)
    found = model(x.to(mesh.device), more.to(mesh.device))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    expected.sum().backward()
    found.sum().backward()
    gradient = dict(model.named_parameters())["*.tied"].grad
    assert gradient is not None
    np.testing.assert_allclose(
        gradient.numpy(),
        [block.tied.grad.numpy() for block in blocks],
        rtol=1e-5,
        atol=1e-6,  # type: ignore[union-attr]
    )
    assert set(unstacked_state_dict(model)) == set(nn.ModuleList(blocks).state_dict())


class Wider(nn.Module):
    """A block whose result has another shape."""

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, 2)


def linear(width: int, bias: bool = True) -> nn.Linear:
    return nn.Linear(width, width, bias=bias)


def test_what_is_refused() -> None:
    mesh = mesh_of(pipe=2)
    with pytest.raises(CommunicationError, match="the mesh has no axis 'stages'; it has pipe"):
        pipeline([linear(2)] * 2, mesh, "stages", micro_batches=2)
    with pytest.raises(ShapeError, match="3 blocks in 2 stages"):
        pipeline([linear(2) for _ in range(3)], mesh, micro_batches=2)
    with pytest.raises(ShapeError, match="0 micro-batches"):
        pipeline([linear(2), linear(2)], mesh, micro_batches=0)
    with pytest.raises(RulegradError, match="block 1 is not like block 0: in_features is 3 and not 2"):
        pipeline([linear(2), linear(3)], mesh, micro_batches=2)
    with pytest.raises(RulegradError, match="block 1 is not like block 0: bias is None"):
        pipeline([linear(2), linear(2, bias=False)], mesh, micro_batches=2)
    with pytest.raises(RulegradError, match=r"block 1 is not like block 0: p.* is 0\.2 and not 0\.1"):
        pipeline([nn.Dropout(0.1), nn.Dropout(0.2)], mesh, micro_batches=2)
    with pytest.raises(RulegradError, match="block 1 is not like block 0: the block is .*Tanh"):
        pipeline([nn.ReLU(), nn.Tanh()], mesh, micro_batches=2)
    with pytest.raises(RulegradError, match="blocks share the parameter weight"):
        one = linear(2)
        pipeline([one, one], mesh, micro_batches=2)
    split = [column_parallel(linear(2), mesh, "pipe") for _ in range(2)]
    with pytest.raises(CommunicationError, match="weight is split along 'pipe' already"):
        pipeline(split, mesh, micro_batches=2)


def test_what_is_refused_at_a_call() -> None:
    mesh = mesh_of(pipe=2)
    x = Tensor.rand(4, 3, device=mesh.device)
    with pytest.raises(ShapeError, match=r"x of shape \(4, 3\) in 3 micro-batches"):
        pipeline([linear(3), linear(3)], mesh, micro_batches=3)(x)
    with pytest.raises(ShapeError, match=r"a block makes a tensor of shape \(2, 6\) of one of shape \(2, 3\)"):
        pipeline([Wider(), Wider()], mesh, micro_batches=2)(x)
    normed = pipeline([nn.BatchNorm1d(3), nn.BatchNorm1d(3)], mesh, micro_batches=2)
    with pytest.raises(RulegradError, match="changes its tensor .*num_batches|changes its tensor .*running"):
        normed(x)
    before = normed.state_dict()
    assert normed.eval()(x).shape == (4, 3)
    assert all((tensor.numpy() == before[name].numpy()).all() for name, tensor in normed.state_dict().items())
