"""Lazy layers: the first input, or a state, decides their shapes; they are the plain layers from then on."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, nn, optim
from rulegrad.errors import CaptureError, ConfigError, ModuleError, ShapeError

#: The class, its arguments, and an input.
CASES = {
    "Linear": ((4,), (2, 3)),
    "Conv1d": ((6, 3), (2, 3, 5)),
    "Conv2d": ((6, 3), (2, 3, 5, 4)),
    "Conv3d": ((6, 2), (2, 3, 3, 3, 3)),
    "ConvTranspose1d": ((6, 3), (2, 3, 5)),
    "ConvTranspose2d": ((6, 3), (2, 3, 5, 4)),
    "ConvTranspose3d": ((6, 2), (2, 3, 3, 3, 3)),
    "BatchNorm1d": ((), (2, 3)),
    "BatchNorm2d": ((), (2, 3, 5, 4)),
    "BatchNorm3d": ((), (2, 3, 3, 2, 2)),
    "InstanceNorm1d": ((1e-5, 0.1, True, True), (2, 3, 5)),
    "InstanceNorm2d": ((1e-5, 0.1, True, False), (2, 3, 5, 4)),
    "InstanceNorm3d": ((1e-5, 0.1, False, True), (2, 3, 3, 2, 2)),
}


def _numbers(*shape: int) -> Tensor:
    return Tensor(np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape))


@pytest.mark.parametrize("name", CASES)
def test_it_becomes_the_plain_layer(on_the_interpreter, name):
    arguments, shape = CASES[name]
    plain = getattr(nn, name)(3, *arguments)
    Tensor.manual_seed(0)
    layer = getattr(nn, f"Lazy{name}")(*arguments)
    assert "=0, " in repr(layer) and repr(layer).startswith(f"Lazy{name}(")
    x = _numbers(*shape)
    Tensor.manual_seed(1)
    found = layer(x)
    Tensor.manual_seed(1)
    twin = getattr(nn, name)(3, *arguments)
    assert type(layer) is type(plain) and repr(layer) == repr(plain)
    np.testing.assert_array_equal(found.numpy(), twin(x).numpy())
    state = layer.state_dict()
    assert {key: value.shape for key, value in state.items()} == {k: v.shape for k, v in plain.state_dict().items()}
    assert len(list(layer.parameters())) == len(list(plain.parameters()))


@pytest.mark.parametrize("name", CASES)
def test_a_state_is_loaded_before_the_first_input(on_the_interpreter, name):
    arguments, shape = CASES[name]
    trained = nn.Sequential(getattr(nn, name)(3, *arguments))
    model = nn.Sequential(getattr(nn, f"Lazy{name}")(*arguments))
    model.load_state_dict(trained.state_dict())
    x = _numbers(*shape)
    np.testing.assert_array_equal(model.eval()(x).numpy(), trained.eval()(x).numpy())


def test_before_the_first_input(on_the_interpreter):
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2, bias=False))
    parameters = list(model.parameters())
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "3.weight"]
    assert all(isinstance(parameter, nn.UninitializedParameter) for parameter in parameters)
    with pytest.raises(ModuleError, match="call the model once on an input"):
        _ = parameters[0].shape
    with pytest.raises(ConfigError, match="call the model once on an input, and make the optimizer then"):
        optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ShapeError, match="LazyConv2d: the shape"):
        model(Tensor.ones(2, 3))
    assert model(Tensor.ones(1, 3, 4, 4)).shape == (1, 2) and not isinstance(model[3].weight, nn.UninitializedParameter)
    before = model[3].weight.numpy()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model(Tensor.ones(1, 3, 4, 4)).sum().backward()
    optimizer.step()
    assert model[3].in_features == 16 and (model[3].weight.numpy() != before).any()


def test_what_is_changed_before_the_first_input_stays(on_the_interpreter):
    layer = nn.LazyLinear(2).to("float64").requires_grad_(False)
    norm = nn.LazyBatchNorm1d()
    norm.momentum, norm.note = 0.5, "mine"
    norm.eval()
    seen = []
    layer.register_forward_hook(lambda module, given, result: seen.append(type(module)))
    twin = copy.deepcopy(layer)
    layer(Tensor.ones(1, 3, dtype="float64"))
    norm(Tensor.ones(2, 3))
    assert layer.weight.dtype == "float64" and not layer.weight.requires_grad and seen == [nn.Linear]
    assert (norm.momentum, norm.note, norm.training, norm.num_batches_tracked.item()) == (0.5, "mine", False, 0)
    assert type(twin) is nn.LazyLinear and twin(Tensor.ones(1, 5, dtype="float64")).shape == (1, 2)


def test_a_lazy_instance_norm_has_parameters_and_statistics_as_in_pytorch(on_the_interpreter):
    norm = nn.LazyInstanceNorm1d()
    norm(Tensor.ones(2, 3, 4))
    assert list(norm.state_dict()) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]


def test_an_input_without_a_batch(on_the_interpreter):
    convolution = nn.LazyConv1d(4, 3)
    assert convolution(Tensor.ones(3, 5)).shape == (4, 3) and convolution.in_channels == 3


def test_the_first_input_is_not_inside_a_captured_function(on_the_interpreter):
    layer = nn.LazyLinear(2)
    with pytest.raises(CaptureError, match="call the model once on an input before"):
        rulegrad.jit(lambda x: layer(x))(Tensor.ones(1, 3))
    layer(Tensor.ones(1, 3))
    assert rulegrad.jit(lambda x: layer(x))(Tensor.ones(1, 3)).shape == (1, 2)


def test_an_uninitialized_parameter_is_pickled_and_shown():
    kept = pickle.loads(pickle.dumps(nn.UninitializedParameter(requires_grad=False, dtype="float64")))
    assert repr(kept) == "<UninitializedParameter>" and (kept.requires_grad, kept.dtype) == (False, "float64")
    assert kept.grad is None and not hasattr(kept, "_leaf")


class _Scale(rulegrad.nn.modules.lazy.LazyModuleMixin, nn.Module):
    """A lazy layer as a program for PyTorch writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.UninitializedParameter()
        self.register_buffer("mean", nn.parameter.UninitializedBuffer())

    def initialize_parameters(self, x: Tensor) -> None:
        self.weight.materialize(x.shape[-1:])
        self.mean.materialize(x.shape[-1:], dtype="float64")
        nn.init.constant_(self.weight, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.mean.float()


def test_lazy_layers_of_a_program(on_the_interpreter):
    layer = nn.Sequential(_Scale())
    assert layer[0].has_uninitialized_params() and len(list(layer.parameters())) == 1
    assert layer(Tensor([[1.0, 3.0]])).tolist() == [[2.0, 6.0]] and not layer[0].has_uninitialized_params()
    assert layer[0].weight.requires_grad and list(layer.state_dict()) == ["0.weight", "0.mean"]
    other = nn.Sequential(_Scale())
    nn.state.load_state_dict(other, layer.state_dict())
    assert other[0].weight.tolist() == [2.0, 2.0] and other[0].mean.dtype == "float32"
    plain = nn.LazyLinear(2)
    nn.state.load_state_dict(plain, {"weight": Tensor.ones(2, 3), "bias": Tensor.zeros(2)})
    assert plain.in_features == 3 and type(plain) is nn.Linear

    class Nothing(_Scale):
        def initialize_parameters(self, x: Tensor) -> None:
            pass

    with pytest.raises(ModuleError, match="Nothing.initialize_parameters has left parameters without a shape"):
        Nothing()(Tensor([1.0]))
