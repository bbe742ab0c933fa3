"""Functions of modules that PyTorch's sources call: hooks that see keywords, views of what they hold, first values drawn anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import RulegradError


class Scaled(nn.Module):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale


def test_hooks_that_see_keyword_arguments() -> None:
    layer = Scaled()
    seen: list[Any] = []
    before = layer.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True
    )
    layer.register_forward_hook(lambda module, args, kwargs, result: seen.append(kwargs), with_kwargs=True)
    assert layer(Tensor([1.0]), scale=2.0).tolist() == [3.0] and seen == [{"scale": 3.0}]
    before.remove()
    assert layer(Tensor([1.0]), scale=2.0).tolist() == [2.0] and seen[1:] == [{"scale": 2.0}]


def test_hooks_in_front_of_others() -> None:
    layer, order = Scaled(), []
    layer.register_forward_hook(lambda *_: order.append("first"))
    layer.register_forward_hook(lambda *_: order.append("second"), prepend=True)
    layer(Tensor([1.0]))
    assert order == ["second", "first"]


def test_views_of_what_a_module_holds() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert list(model._modules) == ["0", "1"] and list(model[1]._parameters) == ["weight", "bias"]
    assert list(model[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    model._modules["1"] = nn.ReLU()
    assert isinstance(model[1], nn.ReLU) and len(model) == 2
    model[0]._parameters["bias"] = None
    assert list(model.state_dict()) == ["0.weight"] and model[0].bias is None
    del model._modules["1"]
    assert len(model) == 1
    with pytest.raises(KeyError):
        model._modules["7"]


def test_a_parameter_without_values_is_held() -> None:
    layer = nn.Linear(2, 3, bias=False)
    assert layer._parameters["weight"] is layer.weight and not layer._modules


def test_what_is_held_twice_comes_twice_on_demand() -> None:
    model = nn.Module()
    model.first = nn.Linear(2, 2, bias=False)
    model.second = model.first
    assert [name for name, _ in model.named_parameters()] == ["first.weight"]
    assert [name for name, _ in model.named_parameters(remove_duplicate=False)] == ["first.weight", "second.weight"]
    assert [name for name, _ in model.named_modules(remove_duplicate=False)] == ["", "first", "second"]
    assert [name for name, _ in model.named_modules({model.first})] == [""]


@pytest.mark.parametrize("name", [
    "uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
    "orthogonal_",
])  # fmt: skip
def test_first_values_from_a_generator(name: str) -> None:
    one, other = (
        getattr(nn.init, name)(Tensor.zeros(4, 3), generator=rg.Generator().manual_seed(5)).tolist() for _ in range(2)
    )
    assert one == other != Tensor.zeros(4, 3).tolist()


def test_attention_draws_its_first_values_anew() -> None:
    layer = nn.MultiheadAttention(4, 2, add_bias_kv=True)
    before = layer.in_proj_weight.tolist()
    layer._reset_parameters()
    assert layer.in_proj_weight.tolist() != before and not layer.in_proj_bias.any().item()


def test_classes_of_one_dtype_take_sizes() -> None:
    assert rg.FloatTensor(2, 3).shape == (2, 3) and rg.LongTensor(4).dtype == "int64" and rg.LongTensor(4).shape == (4,)
    with pytest.raises((RulegradError, TypeError, ValueError)):
        rg.FloatTensor([1.0], [2.0])


def test_a_model_on_several_devices_is_named_as_in_pytorch() -> None:
    model = nn.DataParallel(nn.Linear(2, 3), device_ids=[0])
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert model(Tensor.ones(4, 2)).tolist() == model.module(Tensor.ones(4, 2)).tolist()
    with pytest.raises(RulegradError, match="data_parallel"):
        nn.DataParallel(nn.Linear(2, 3), device_ids=[0, 1])
    with pytest.raises(RulegradError, match="DistributedDataParallel"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 3))


def test_views_of_leaves_that_wait_for_their_values() -> None:
    """A view of a new parameter computes nothing until it is used; then it and the parameter are in one buffer."""
    weight = nn.Linear(3, 2).weight
    assert (weight - weight.detach()).abs().sum().item() == 0
    assert (weight.detach() * weight).sum().item() == (weight * weight).sum().item()
    doubled = (Tensor([1.0, 2.0]) * 2).requires_grad_()
    (doubled * doubled.data).sum().backward()
    assert doubled.grad is not None and doubled.grad.tolist() == [2.0, 4.0]

    layer = nn.Linear(3, 2)
    start = layer.state_dict()
    assert all(((p - start[name]) ** 2).sum().item() == 0 for name, p in layer.named_parameters())
    layer.weight.data.zero_()
    assert start["weight"].tolist() == [[0.0] * 3] * 2

    given = Tensor([1.0, 2.0])
    alone = nn.Parameter(given * 2).detach()  # nobody else holds the parameter
    given.add_(100)
    assert (alone + 1).tolist() == [3.0, 5.0]


def test_state_of_a_new_model_is_computed_once_and_late() -> None:
    with rg.profile() as profile:
        layer = nn.Linear(3, 3)
        state = layer.state_dict()
        shapes = [value.shape for value in state.values()]
    assert shapes == [(3, 3), (3,)] and not profile.kernels
    with rg.profile() as profile:
        for _ in range(2):
            values = [value.numpy() for value in layer.state_dict().values()]
        assert np.array_equal(values[0], layer.weight.numpy())
    assert len({kernel.name for kernel in profile.kernels}) == len(profile.kernels)
