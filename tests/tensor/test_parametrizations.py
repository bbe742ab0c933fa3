"""Tensors of modules that are computed from others: names and values beside PyTorch's, training, copies, captures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.errors import ConfigError, DtypeError, RulegradError, ShapeError
from rulegrad.nn.utils import parametrizations, parametrize

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

X = np.random.default_rng(0).normal(size=(5, 3, 6, 6)).astype(np.float32)


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).T


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor

    def right_inverse(self, x: Tensor) -> Tensor:
        return x / self.factor


def both(torch: Any, function: str, layer: str, *arguments: Any, older: bool = False, **more: Any) -> tuple[Any, Any]:
    """A layer here and in PyTorch, with PyTorch's values."""
    theirs_in = torch.nn.utils if older else torch.nn.utils.parametrizations
    ours_in = nn.utils if older else parametrizations
    theirs = getattr(theirs_in, function)(getattr(torch.nn, layer)(*arguments), **more)
    ours = getattr(ours_in, function)(getattr(nn, layer)(*arguments), **more)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs


@pytest.mark.each_value
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 3, None])
@pytest.mark.parametrize("function", ["weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_values_gradients_and_state_are_those_of_pytorch(function: str, dim: int | None, older: bool) -> None:
    torch = pytest.importorskip("torch")
    for layer in ("Conv2d", "ConvTranspose2d"):
        ours, theirs = both(torch, function, layer, 3, 4, 3, older=older, dim=dim)
        for training in (True, True, False):
            ours.train(training), theirs.train(training)
            ours.zero_grad(), theirs.zero_grad()
            found, expected = ours(Tensor(X)), theirs(torch.tensor(X))
            np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=2e-4, atol=2e-5)
            found.square().sum().backward()
            expected.square().sum().backward()
            slopes = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
            assert {name for name, _ in ours.named_parameters()} == set(slopes)
            for name, parameter in ours.named_parameters():
                np.testing.assert_allclose(parameter.grad.numpy(), slopes[name], rtol=2e-3, atol=2e-3)
        for name, value in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_states_of_the_older_weight_norm_load() -> None:
    older = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 2)), nn.ReLU())
    newer = nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2)), nn.ReLU())
    newer.load_state_dict(older.state_dict())
    x = Tensor(X[0, 0, :, :3])
    assert newer(x).tolist() == older(x).tolist()
    alone = parametrizations.weight_norm(nn.Linear(3, 2))
    alone.load_state_dict(older[0].state_dict())
    assert alone.weight.tolist() == older[0].weight.tolist()


def test_a_parametrized_model_trains_and_is_captured() -> None:
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(3, 8)),
        nn.Tanh(),
        parametrizations.spectral_norm(nn.Linear(8, 1)),
        nn.utils.weight_norm(nn.Linear(1, 1)),
        nn.utils.spectral_norm(nn.Linear(1, 1)),
    )
    steps = optim.SGD(model.parameters(), lr=0.1)
    x, y = Tensor(X[0, 0, :, :3]), Tensor(X[0, 1, :, :1])

    def step(x: Tensor, y: Tensor) -> Tensor:
        steps.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        steps.step()
        return loss

    twin = copy.deepcopy(model)
    vector = model[2].parametrizations.weight[0]._v.tolist()
    eager = [step(x, y).item() for _ in range(4)]
    assert eager[-1] < eager[0] and model[2].parametrizations.weight[0]._v.tolist() != vector
    model.load_state_dict(twin.state_dict())
    captured = rg.jit(step)
    np.testing.assert_allclose([captured(x, y).item() for _ in range(4)], eager, rtol=1e-4)


def test_copies_are_their_own() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (
            type(other) is type(layer)
            and isinstance(other, nn.Linear)
            and other.weight.tolist() == layer.weight.tolist()
        )
        other.weight = Tensor.ones(2, 3)
        np.testing.assert_allclose(other.weight.numpy(), np.ones((2, 3)), rtol=1e-6)
        assert layer.weight.tolist() != other.weight.tolist()
    assert "ParametrizedLinear" in repr(layer) and "(0): WeightNorm(dim=0)" in repr(layer)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear


def test_own_maps_one_after_the_other() -> None:
    layer = nn.Linear(3, 3)
    weight, before = layer.weight, layer.weight.numpy()
    parametrize.register_parametrization(layer, "weight", Scaled(2.0))
    assert layer.parametrizations.weight.original is weight and "weight" not in dict(layer.named_parameters())
    np.testing.assert_allclose(weight.numpy(), before / 2)
    np.testing.assert_allclose(layer.weight.numpy(), before)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert np.array_equal(layer.weight.numpy(), layer.weight.numpy().T) and len(layer.parametrizations.weight) == 2
    assert parametrize.is_parametrized(layer) and not parametrize.is_parametrized(layer, "bias")
    with pytest.raises(ConfigError, match="Symmetric has no right_inverse"):
        layer.weight = Tensor.ones(3, 3)
    with parametrize.cached():
        first = layer.weight
        assert layer.weight is first
    assert layer.weight is not first
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is weight and type(layer) is nn.Linear and list(layer.state_dict()) == ["bias", "weight"]
    layer.weight = nn.Parameter(Tensor.zeros(3, 3))
    assert layer.weight.tolist() == np.zeros((3, 3)).tolist()


def test_what_is_removed_keeps_its_value() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    parametrizations.spectral_norm(layer, "weight").eval()
    value = layer.weight.numpy()
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_array_equal(layer.weight.numpy(), value)
    assert type(layer) is nn.Linear and layer.weight.requires_grad and not hasattr(layer, "parametrizations")
    for add, remove in (("weight_norm", "remove_weight_norm"), ("spectral_norm", "remove_spectral_norm")):
        older = getattr(nn.utils, add)(nn.Linear(3, 2)).eval()
        value = older.weight.numpy()
        with pytest.raises(RulegradError, match="weight is computed whenever it is read"):
            older.weight = nn.Parameter(Tensor.ones(2, 3))
        getattr(nn.utils, remove)(older)
        assert type(older) is nn.Linear and list(older.state_dict()) == ["bias", "weight"]
        np.testing.assert_array_equal(older.weight.numpy(), value)
        with pytest.raises(ConfigError, match=f"Linear has no {add}"):
            getattr(nn.utils, remove)(older)


def test_a_buffer_stays_a_buffer() -> None:
    module = nn.Module()
    module.register_buffer("scale", Tensor([2.0, 4.0]))
    parametrize.register_parametrization(module, "scale", Scaled(2.0))
    assert list(module.state_dict()) == ["parametrizations.scale.original"] and not list(module.parameters())
    parametrize.remove_parametrizations(module, "scale")
    assert [name for name, _ in module.named_buffers()] == ["scale"] and module.scale.tolist() == [2.0, 4.0]


def test_mistakes() -> None:
    layer = nn.Linear(3, 2, bias=False)

    class Wrong(nn.Module):
        def __init__(self, change: Any) -> None:
            self.change = change

        def forward(self, x: Tensor) -> Any:
            return self.change(x)

    for change, error, message in (
        (lambda x: x[0], ShapeError, "makes the shape"),
        (lambda x: x.cast("float64"), DtypeError, "makes float64 of float32"),
        (lambda x: None, DtypeError, "gives a NoneType"),
    ):
        with pytest.raises(error, match=message):
            parametrize.register_parametrization(layer, "weight", Wrong(change))
    assert type(layer) is nn.Linear and list(layer.state_dict()) == ["weight"]
    for name in ("bias", "in_features", "other"):
        with pytest.raises(RulegradError, match=f"no parameter or buffer '{name}'"):
            parametrizations.weight_norm(layer, name)
    with pytest.raises(ConfigError, match="n_power_iterations=0"):
        parametrizations.spectral_norm(layer, n_power_iterations=0)
    with pytest.raises(ConfigError, match="n_power_iterations=0"):
        nn.utils.spectral_norm(layer, n_power_iterations=0)
    with pytest.raises(IndexError, match="spectral_norm"):
        parametrizations.spectral_norm(layer, dim=2)
    with pytest.raises(ConfigError, match="'weight' of Linear is not parametrized"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrizations.weight_norm(layer)
    with pytest.raises(ConfigError, match="computed from 2 tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
