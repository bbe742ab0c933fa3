"""Layers, and the tensors of a model by name."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, nn
from rulegrad.errors import RulegradError, ShapeError


class Model:
    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Linear(4, 3), Tensor.relu)
        self.heads = {"a": nn.Linear(3, 2, bias=False)}
        self.again = self.body
        self.scale = Tensor([2.0])
        self.name = "model"


def test_linear_and_sequential(device, check):
    Tensor.manual_seed(0)
    first, second = nn.Linear(4, 3), nn.Linear(3, 2, bias=False)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = nn.Sequential(first, Tensor.relu, second)(Tensor(x))
    w, b = first.weight.numpy(), first.bias.numpy()
    assert w.shape == (3, 4)
    assert np.abs(w).max() <= 0.5
    assert np.unique(w).size == 12
    check((y, np.maximum(x @ w.T + b, 0) @ second.weight.numpy().T), tolerance=1e-5)


def test_layer_norm(device, check):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 1.5
    layer = nn.LayerNorm((3, 4))
    layer.weight.assign(Tensor.full((3, 4), 2.0))
    expected = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * 2
    plain = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5)
    check(
        (layer(Tensor(x)), expected),
        (nn.LayerNorm(4, affine=False)(Tensor(x)), plain),
        tolerance=1e-5,
    )
    with pytest.raises(ShapeError, match=r"does not end in \(3, 4\)"):
        layer(Tensor.ones(4, 3))


def test_conv2d(any_device):
    layer = nn.Conv2d(2, 4, 3, padding=1, groups=2)
    assert layer.weight.shape == (4, 1, 3, 3)
    assert layer(Tensor.ones(1, 2, 5, 6)).shape == (1, 4, 5, 6)
    with pytest.raises(ShapeError, match="groups must divide"):
        nn.Conv2d(3, 4, 3, groups=2)


def test_dropout_layer():
    x = Tensor.ones(3)
    assert nn.Dropout(0.5)(x) is x
    with Tensor.train():
        assert nn.Dropout(0.5)(x) is not x


def test_state(any_device):
    model, other = Model(), Model()
    names = ["body.layers.0.weight", "body.layers.0.bias", "heads.a.weight", "scale"]
    state = nn.state.get_state_dict(model)
    assert list(state) == names
    assert len(nn.state.get_parameters(model)) == 3
    nn.state.load_state_dict(other, {name: tensor.numpy() for name, tensor in state.items()})
    for name, tensor in nn.state.get_state_dict(other).items():
        assert tensor.tolist() == state[name].tolist()
        assert tensor.requires_grad == state[name].requires_grad
    with pytest.raises(RulegradError, match=r"missing names .*scale.*unknown names .*extra"):
        nn.state.load_state_dict(other, {"extra": state["scale"]})
    nn.state.load_state_dict(other, {"scale": Tensor([3.0])}, strict=False)
    assert other.scale.item() == 3.0


def test_parameters_are_made_together(any_device):
    layer = nn.Linear(3, 2)
    assert layer.weight._uop.op != "BUFFER"
    assert layer.weight.uop.op == "BUFFER"
    assert layer.bias._uop.op == "BUFFER"
