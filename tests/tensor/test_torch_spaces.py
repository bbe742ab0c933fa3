"""Modules of PyTorch that few programs import: `cpu`, `mps`, `testing`, `distributions.utils`; scans, and copies."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import ConfigError, DtypeError, ShapeError

torch = pytest.importorskip("torch", reason="pip install torch")
scans = importlib.import_module("rulegrad._higher_order_ops.associative_scan")
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(("name", "arguments"), [
    ("alias", ()), ("as_strided", ((2, 3), (1, 2))), ("detach", ()), ("diagonal", (0, 1, 2)), ("expand", ((2, 3, 4),)),
    ("narrow", (1, 1, 2)), ("permute", ((2, 0, 1),)), ("select", (1, 2)), ("split", (2, 2)),
    ("split_with_sizes", ([1, 2], 1)), ("squeeze", ()), ("transpose", (0, 2)), ("unbind", (1,)),
    ("unfold", (2, 2, 1)), ("unsqueeze", (1,)), ("view", ((6, 4),)),
])  # fmt: skip
def test_copies_of_views(name: str, arguments: tuple[Any, ...]) -> None:
    source = Tensor(x)
    found = getattr(rg, f"{name}_copy")(source, *arguments)
    expected = getattr(torch, f"{name}_copy")(torch.from_numpy(x), *arguments)
    for one, other in zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]:
        assert np.array_equal(one.numpy(), other.numpy())
        one.zero_()
    assert np.array_equal(source.numpy(), x)


def test_a_copy_of_a_matrix_goes_where_out_says() -> None:
    out = Tensor.zeros(4, 3)
    assert rg.t_copy(Tensor(x[0]), out=out) is out and np.array_equal(out.numpy(), x[0].T)


def test_values_at_strided_places() -> None:
    values = np.full((2, 2), -1, np.float32)
    found = rg.as_strided_scatter(Tensor(x), Tensor(values), (2, 2), (3, 5), 1)
    expected = torch.as_strided_scatter(torch.from_numpy(x), torch.from_numpy(values), (2, 2), (3, 5), 1)
    assert np.array_equal(found.numpy(), expected.numpy())
    with pytest.raises(ShapeError, match="as_strided"):
        Tensor(x).as_strided_scatter(Tensor(values), (2, 2), (30, 5))


def test_functions_of_each_number() -> None:
    found = Tensor([[1, 2], [3, 4]])
    assert found.apply_(lambda n: n * 2) is found and found.tolist() == [[2, 4], [6, 8]]
    assert found.map_(Tensor([1, 10]), lambda a, b: a + b).tolist() == [[3, 14], [7, 18]]
    assert not found.is_shared() and not found.is_inference()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["pointwise", "generic"])
def test_running_values_of_a_recurrence(count: int, reverse: bool, mode: str) -> None:
    generator = np.random.default_rng(count)
    a, b = generator.normal(size=(2, 3, count)).astype(np.float32)

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    products, states = scans.associative_scan(combine, (Tensor(a), Tensor(b)), 1, reverse, mode)
    order = range(count)[::-1] if reverse else range(count)
    product, state = np.ones(3, np.float32), np.zeros(3, np.float32)
    for t in order:
        product, state = product * a[:, t], a[:, t] * state + b[:, t]
        np.testing.assert_allclose(products.numpy()[:, t], product, 1e-5, 1e-6)
        np.testing.assert_allclose(states.numpy()[:, t], state, 1e-5, 1e-6)


def test_scans_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="combine_mode"):
        scans.associative_scan(lambda a, b: a, Tensor([1]), 0, combine_mode="other")
    with pytest.raises(ShapeError, match="differ"):
        scans.associative_scan(lambda a, b: a, (Tensor([1]), Tensor([1, 2])), 0)


@pytest.mark.parametrize(("one", "other"), [
    ([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, 2.1]), ([1.0], [1.0, 2.0]), ([1], [1.0]), ([np.nan], [np.nan]),
    ([1.0], [1.0 + 1e-6]), ([1.0], [np.inf]), ([3], [4]), ([True], [True]), ([[1.0], [2.0]], [[1.0], [3.0]]),
])  # fmt: skip
@pytest.mark.parametrize("equal_nan", [False, True])
def test_assert_close_decides_as_pytorch(one: Any, other: Any, equal_nan: bool) -> None:
    def outcome(testing: Any, tensor: Any) -> bool:
        try:
            testing.assert_close(tensor(one), tensor(other), equal_nan=equal_nan)
        except AssertionError:
            return False
        return True

    assert outcome(rg.testing, Tensor) == outcome(torch.testing, torch.tensor)


def test_assert_close_of_trees_and_numbers() -> None:
    rg.testing.assert_close({"a": [Tensor([1.0]), 2]}, {"a": [Tensor([1.0]), 2]})
    rg.testing.assert_close(Tensor([1.0]), Tensor([1], "int64"), check_dtype=False)
    with pytest.raises(AssertionError, match="item 'a': item 1: 1 of 1 elements differ"):
        rg.testing.assert_close({"a": [Tensor([1.0]), 2]}, {"a": [Tensor([1.0]), 3]})
    with pytest.raises(AssertionError, match="no"):
        rg.testing.assert_close(Tensor([1.0]), Tensor([2.0]), msg="no")
    with pytest.raises(ConfigError, match="both"):
        rg.testing.assert_close(1, 1, rtol=1.0)


def test_places_to_ask_about_devices() -> None:
    assert rg.cpu.is_available() and rg.cpu.device_count() == 1 and rg.cpu.current_device() == "cpu"
    rg.cpu.synchronize()
    rg.mps.manual_seed(1)
    assert rg.mps.is_available() == (rg.mps.device_count() > 0) and rg.mps.current_allocated_memory() >= 0
    assert "rulegrad" in rg.__config__.show() and rg.torch is rg


def test_what_distributions_are_written_with() -> None:
    utils = importlib.import_module("rulegrad.distributions.utils")
    theirs = torch.distributions.utils
    first, second = utils.broadcast_all(Tensor([1.0, 2.0]), 3)
    assert second.tolist() == [3.0, 3.0] and first.shape == (2,)
    with pytest.raises(DtypeError, match="broadcast_all"):
        utils.broadcast_all("a")
    values = np.array([[0.0, 0.25, 0.75], [0.1, 0.2, 0.7]], np.float32)
    for is_binary in (False, True):
        for name in ("probs_to_logits", "logits_to_probs"):
            found = getattr(utils, name)(Tensor(values), is_binary)
            np.testing.assert_allclose(found.numpy(), getattr(theirs, name)(torch.from_numpy(values), is_binary), 1e-5)
    assert utils._sum_rightmost(Tensor(x), 2).tolist() == [66.0, 210.0]
    assert utils._standard_normal((2, 3), "float64", None).dtype == "float64"


def test_names_for_default_arguments() -> None:
    assert rg.distributed.ReduceOp.SUM.name == "SUM" and rg.sparse_coo == "sparse_coo"
    assert isinstance(rg.strided, rg.layout) and not rg._subclasses.fake_tensor.is_fake(Tensor([1.0]))


@pytest.mark.parametrize("count", [0, 5, 6])
@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_share_a_data_set_as_in_pytorch(count: int, drop_last: bool) -> None:
    for rank in range(4):
        found, expected = (
            one(range(count), 4, rank, shuffle=False, drop_last=drop_last)
            for one in (rg.data.DistributedSampler, torch.utils.data.DistributedSampler)
        )
        assert len(found) == len(expected) and (not count or list(found) == list(expected))


def test_processes_share_an_order_that_is_drawn() -> None:
    samplers = [rg.data.DistributedSampler(range(6), 2, rank, seed=3) for rank in (0, 1)]
    first = [list(sampler) for sampler in samplers]
    assert sorted(first[0] + first[1]) == list(range(6)) and list(samplers[0]) == first[0]
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != first[0]
    with pytest.raises(ConfigError, match="rank"):
        rg.data.DistributedSampler(range(6), 2, 2)


def test_handles_of_hooks_in_a_dict() -> None:
    hooks: dict[int, str] = {}
    with importlib.import_module("rulegrad.utils.hooks").RemovableHandle(hooks) as handle:
        hooks[handle.id] = "hook"
    assert not hooks


def test_a_sampler_of_a_program_that_was_started_on_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ranks:
        size, local = 3, (1,)

    assert list(rg.data.DistributedSampler(range(4), shuffle=False)) == [0, 1, 2, 3]
    monkeypatch.setattr("rulegrad.data._distributed.world", Ranks)
    assert list(rg.data.DistributedSampler(range(7), shuffle=False, drop_last=True)) == [1, 4]


def test_typed_tensors_of_sizes_and_of_values() -> None:
    assert rg.FloatTensor(2, 3).shape == (2, 3)
    assert rg.LongTensor([2, 3]).tolist() == [2, 3]
    with pytest.raises(rg.errors.ShapeError, match="neither sizes"):
        rg.FloatTensor(2, 3.5)


def test_pytorchs_own_operations_are_the_functions_of_their_names() -> None:
    overload = rg.ops.aten.clone.default
    assert overload is rg.ops.aten.clone.default and repr(overload) == "aten.clone.default"
    assert rg.ops.aten.add.Tensor(Tensor([1.0]), Tensor([2.0])).tolist() == [3.0]
    with pytest.raises(ConfigError, match="no_such"):
        rg.ops.aten.no_such.default(1)


def test_names_of_processes_and_code_that_are_not_there() -> None:
    placements = importlib.import_module("rulegrad.distributed.tensor")
    extension = importlib.import_module("rulegrad.utils.cpp_extension")
    assert not isinstance(Tensor([1.0]), placements.DTensor) and extension.CUDA_HOME is None
    frames = importlib.import_module("rulegrad._dynamo.eval_frame")
    loaders = importlib.import_module("rulegrad.utils.data.dataloader")
    assert not isinstance(rg.nn.Linear(1, 1), frames.OptimizedModule)
    assert not isinstance(iter(loaders.DataLoader([1])), loaders._BaseDataLoaderIter)
    for wrong in (lambda: placements.DTensor(), lambda: extension.load("x", [])):
        with pytest.raises(ConfigError):
            wrong()


def test_where_elements_are() -> None:
    x = Tensor(x_of_floats := np.ones(3, np.float32), device="numpy")
    assert x.data_ptr() == x.detach().data_ptr() == x.untyped_storage().data_ptr() != x.add(1).data_ptr()
    assert x.untyped_storage().nbytes() == x_of_floats.nbytes and Tensor([]).data_ptr() == 0
    assert isinstance(x.untyped_storage(), rg.UntypedStorage) and x.layout == rg.strided and x._version == 0
    y = (x.requires_grad_() * 2).sum()
    assert y.grad_fn is not None and "Backward" in y.grad_fn.name() and x.grad_fn is None
    assert y.grad_fn.next_functions == () and not x.is_conj() and not x.is_pinned() and x.to_dense() is x
    out = Tensor.zeros(2, 2)
    assert rg.eye(2, out=out) is out and out.tolist() == [[1, 0], [0, 1]]


def test_points_that_fill_a_cube() -> None:
    pytest.importorskip("scipy")
    engine, other = rg.quasirandom.SobolEngine(7), torch.quasirandom.SobolEngine(7)
    assert np.array_equal(engine.draw(5).numpy(), other.draw(5).numpy())
    assert np.array_equal(
        engine.fast_forward(3).draw_base2(2, dtype=rg.float64).numpy(),
        other.fast_forward(3).draw(4, dtype=torch.float64).numpy(),
    )
    assert engine.num_generated == 12 and np.array_equal(engine.reset().draw().numpy(), np.zeros((1, 7)))
    points = rg.quasirandom.SobolEngine(2, scramble=True, seed=1).draw(64)
    assert abs(points.mean().item() - 0.5) < 0.02 and 0 <= points.min().item() <= points.max().item() <= 1
    with pytest.raises(ConfigError, match="dimensions"):
        rg.quasirandom.SobolEngine(0)
