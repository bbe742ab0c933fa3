"""`nn.Module` as PyTorch's users know it: what is found, modes, state, moving, hooks, text."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn as nn
import rulegrad.nn.functional as F
from rulegrad import Tensor, config, optim
from rulegrad.errors import GradientError, RulegradError, ShapeError


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(width)
        self.gain = nn.Parameter(Tensor.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(x)) * self.gain


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(3) for _ in range(2))
        self.heads = [nn.Linear(3, 2, bias=False)]
        self.plain = Tensor([1.0])
        self.register_buffer("mask", Tensor([1.0, 0.0, 1.0]))
        self.register_buffer("cache", Tensor([5.0]), persistent=False)
        self.shift = nn.Parameter(Tensor([1.0]), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x) * self.mask
        return self.heads[0](x) + self.shift


def test_dotted_imports():
    lines = (
        "import rulegrad.nn as nn",
        "import rulegrad.nn.functional as F",
        "import rulegrad.optim as optim",
        "import rulegrad.linalg",
        "from rulegrad.nn import Linear",
        "from rulegrad.nn.utils import clip_grad_norm_",
        "from rulegrad.optim import Adam",
        "from rulegrad.optim.lr_scheduler import StepLR",
        "import rulegrad",
        "assert nn is rulegrad.nn and optim is rulegrad.optim and nn.functional is F and nn.Linear is Linear",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_what_is_found(any_device):
    net = Net()
    own = ["gain", "norm.weight", "norm.bias"]
    names = ["shift", *(f"blocks.{k}.{name}" for k in range(2) for name in own), "heads.0.weight"]
    assert [name for name, _ in net.named_parameters()] == names
    assert len(list(net.parameters())) == len(names)
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == ["net.shift"]
    assert [name for name, _ in net.named_buffers(recurse=False)] == ["mask", "cache"]
    assert [name for name, _ in net.named_children()] == ["blocks", "heads.0"]
    assert [name for name, _ in net.named_modules()] == [
        *("", "blocks", "blocks.0", "blocks.0.drop", "blocks.0.norm"),
        *("blocks.1", "blocks.1.drop", "blocks.1.norm", "heads.0"),
    ]
    state = net.state_dict()
    assert "mask" in state and "cache" not in state and "plain" not in state
    assert list(state)[:2] == ["shift", "mask"]
    assert net.get_submodule("blocks.1.norm") is net.blocks[1].norm
    with pytest.raises(RulegradError, match="no module 'block' in Net"):
        net.get_submodule("block")


def test_parameters_and_buffers_by_their_paths() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(3, 2))
    net[2].weight = net[0].weight
    assert net.get_parameter("2.weight") is net.get_parameter("0.weight") is net[0].weight
    assert net.get_buffer("1.running_mean") is net[1].running_mean
    with pytest.raises(RulegradError, match="no parameter '1.running_mean' in Sequential; there are .*'0.weight'"):
        net.get_parameter("1.running_mean")
    with pytest.raises(RulegradError, match="get_buffer: no buffer '0.weight'"):
        net.get_buffer("0.weight")


def test_an_attribute_that_was_none_comes_where_it_is_set() -> None:
    """The order is PyTorch's: parameters that were registered as None have their place, other attributes have none."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.middle, self.scale = None, None
            self.register_parameter("first", None)
            self.weight = nn.Parameter(Tensor.zeros(2))
            self.last = nn.Linear(1, 1, bias=False)
            self.middle = nn.Linear(1, 1, bias=False)
            self.scale = nn.Parameter(Tensor.zeros(1))
            self.first = nn.Parameter(Tensor.zeros(3))

    assert list(Block().state_dict()) == ["first", "weight", "scale", "last.weight", "middle.weight"]
    assert [name for name, _ in Block().named_children()] == ["last", "middle"]


def test_a_frozen_parameter_is_one(any_device):
    net = nn.Linear(2, 1)
    net.requires_grad_(False)
    assert not net.weight.requires_grad and len(list(net.parameters())) == 2
    assert list(net.state_dict()) == ["weight", "bias"]
    assert nn.state.get_parameters(net) == []
    tied = nn.Module()
    tied.again = net.weight
    assert list(tied.state_dict()) == ["again"]
    net.requires_grad_(True)
    assert len(nn.state.get_parameters(net)) == 2


def test_shared_parameters_come_once(any_device):
    model = nn.Module()
    model.first, model.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    model.second.weight = model.first.weight
    assert [name for name, _ in model.named_parameters()] == ["first.weight"]
    assert list(model.state_dict()) == ["first.weight", "second.weight"]


def test_a_parameter_is_not_overwritten_by_accident(any_device):
    layer = nn.Linear(2, 1)
    with pytest.raises(RulegradError, match=r"Linear\.weight is a parameter.*nn\.Parameter"):
        layer.weight = layer.weight * 2
    layer.weight = nn.Parameter(layer.weight * 2)
    assert list(layer.state_dict()) == ["weight", "bias"]
    del layer.weight
    layer.weight = Tensor([1.0])
    assert list(layer.state_dict()) == ["bias"]


def test_modes(any_device):
    Tensor.manual_seed(0)
    net = Net()
    assert net.training and net.blocks[0].drop.training
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    x = Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 0.0]])
    assert net(x).tolist() == net(x).tolist()
    assert net.blocks[0].norm.num_batches_tracked.item() == 0
    net.train()
    net(x)
    assert net.blocks[0].norm.num_batches_tracked.item() == 1
    with Tensor.train(False):
        assert not net.training
        assert net(x).tolist() == net(x).tolist()
    assert net.training
    net.blocks[0].eval()
    assert net.training and not net.blocks[0].norm.training


def test_dropout_in_attention_follows_the_mode(any_device):
    Tensor.manual_seed(1)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    x = Tensor.ones(1, 3, 8)
    assert layer(x).tolist() != layer(x).tolist()
    layer.eval()
    assert layer(x).tolist() == layer(x).tolist()


def test_a_copied_state_is_a_snapshot(device):
    layer = nn.Linear(2, 1)
    before, state = layer.weight.tolist(), copy.deepcopy(layer.state_dict())
    sgd = optim.SGD(layer.parameters(), lr=0.5)
    layer(Tensor.ones(1, 2)).sum().backward()
    sgd.step()
    assert layer.weight.tolist() != before
    assert state["weight"].tolist() == before and not state["weight"].requires_grad
    assert layer.load_state_dict(state) == ([], [])
    assert layer.weight.tolist() == before and layer.weight.requires_grad


def test_loading_what_does_not_fit(any_device):
    layer = nn.Linear(2, 1)
    state = {**layer.state_dict(), "more": Tensor([1.0])}
    with pytest.raises(RulegradError, match=r"unknown names \['more'\]"):
        layer.load_state_dict(state)
    del state["bias"]
    found = layer.load_state_dict(state, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["more"]
    with pytest.raises(ShapeError, match="shapes differ: bias"):
        layer.load_state_dict({"bias": Tensor.ones(3)}, strict=False)


def test_to_moves_everything_in_place(any_device):
    net = Net()
    weight, counter = net.heads[0].weight, net.blocks[0].norm.num_batches_tracked
    net(Tensor.ones(2, 3)).sum().backward()
    net.double()
    assert weight is net.heads[0].weight and weight.dtype == "float64" == weight.grad.dtype
    assert counter.dtype == "int64" and net.mask.dtype == "float64" and net.cache.dtype == "float64"
    assert weight.requires_grad and not net.shift.requires_grad and net.plain.dtype == "float32"
    assert net.eval()(Tensor(np.ones((2, 3)))).dtype == "float64"
    assert net.half().mask.dtype == "float16" and net.bfloat16().mask.dtype == "bfloat16"
    assert net.float().mask.dtype == "float32"


def test_to_another_device(device):
    layer = nn.Linear(2, 1).to(device="numpy")
    assert layer.weight.device == "numpy"
    sgd = optim.SGD(layer.parameters(), lr=0.1)
    layer.to(device)
    layer(Tensor.ones(1, 2)).sum().backward()
    sgd.step()
    assert layer.weight.device == device and layer.weight.requires_grad


def test_copies_and_pickles(any_device):
    net = Net().eval()
    x = Tensor.ones(2, 3)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(other.state_dict()) == list(net.state_dict())
        assert [name for name, _ in other.named_parameters()] == [name for name, _ in net.named_parameters()]
        assert not other.training
        assert other(x).tolist() == net(x).tolist()
        assert other.heads[0].weight is not net.heads[0].weight


def test_apply_zero_grad_and_hooks(any_device):
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1)))
    order = []

    def first_values(module: nn.Module) -> None:
        order.append(type(module).__name__)
        if isinstance(module, nn.Linear):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    assert net.apply(first_values) is net
    assert order == ["Linear", "Linear", "Sequential", "Sequential"]
    seen = []
    handle = net[0].register_forward_hook(lambda module, inputs, result: seen.append((inputs[0].shape, result.shape)))
    doubled = net[1].register_forward_hook(lambda module, inputs, result: result * 2)
    assert net(Tensor.ones(1, 2)).item() == 8.0
    handle.remove()
    doubled.remove()
    before = [
        net[0].register_forward_pre_hook(lambda module, inputs: inputs[0] * 3),
        net[1].register_forward_pre_hook(lambda module, inputs: None),
        net[1][0].register_forward_pre_hook(lambda module, inputs: (inputs[0] - 1,)),
    ]
    assert net(Tensor.ones(1, 2)).item() == 10.0 and next(iter(net.state_dict())) == "0.weight"
    for one in before:
        one.remove()
    assert net(Tensor.ones(1, 2)).item() == 4.0
    net(Tensor.ones(1, 2)).sum().backward()
    assert seen == [((1, 2), (1, 2))]
    assert net[0].weight.grad is not None
    net.zero_grad(set_to_none=False)
    assert net[0].weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    net.zero_grad()
    assert net[0].weight.grad is None


def test_a_module_without_forward(any_device):
    with pytest.raises(RulegradError, match="Plain has no forward"):
        type("Plain", (nn.Module,), {})()(Tensor([1.0]))


def test_text():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Dropout(0.25)))
    assert repr(net) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3)\n  (1): ReLU()\n"
        "  (2): Sequential(\n    (0): Dropout(p=0.25)\n  )\n)"
    )


def test_lists(any_device):
    first, second, third = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)
    layers = nn.ModuleList([first])
    assert layers.append(third) is layers and len(layers.extend([second])) == 3
    layers.insert(1, nn.Tanh())
    assert [type(layer).__name__ for layer in layers] == ["Linear", "Tanh", "Linear", "ReLU"]
    assert layers.pop() is second and layers[-1] is third and list(layers[:1]) == [first]
    layers[1] = second
    del layers[0]
    assert list(layers) == [second, third] and list(layers.state_dict()) == ["1.weight", "1.bias"]
    with pytest.raises(IndexError, match="no entry 5; there are 2"):
        layers[5]


def test_dicts(any_device):
    heads = nn.ModuleDict({"a": nn.Linear(2, 1, bias=False)})
    heads["b"] = nn.ReLU()
    heads.update({"c": nn.Linear(1, 1, bias=False)})
    assert list(heads) == ["a", "b", "c"] == list(heads.keys()) and "b" in heads and len(heads) == 3
    del heads["b"]
    assert [name for name, _ in heads.items()] == ["a", "c"] and len(list(heads.values())) == 2
    assert list(heads.state_dict()) == ["a.weight", "c.weight"] and heads.a is heads["a"]
    with pytest.raises(ShapeError, match=r"ModuleDict: the name 'a\.b'"):
        heads["a.b"] = nn.ReLU()


def test_lists_and_dicts_of_parameters(any_device):
    model = nn.Module()
    model.scales = nn.ParameterList([Tensor.ones(2), np.zeros(3, np.float32)])
    model.scales.append(Tensor([1.0]))
    model.named = nn.ParameterDict({"x": Tensor([2.0])})
    assert list(model.state_dict()) == ["scales.0", "scales.1", "scales.2", "named.x"]
    assert all(isinstance(parameter, nn.Parameter) and parameter.requires_grad for parameter in model.parameters())


def test_sequences_are_joined_and_names_have_a_prefix(any_device):
    first = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    both = first + nn.Sequential(nn.Linear(3, 1))
    assert list(both.state_dict(prefix="net.")) == ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"]
    assert both[0] is first[0] and len(first) == 2
    with pytest.raises(TypeError):
        first + [nn.ReLU()]


def test_sequential_by_name(any_device):
    model = nn.Sequential({"fc": nn.Linear(2, 2), "act": nn.ReLU()})
    assert model.fc is model[0] and list(model[:1].state_dict()) == ["fc.weight", "fc.bias"]
    with pytest.raises(AttributeError, match="no attribute 'conv'"):
        model.conv  # noqa: B018
    model[1] = nn.Tanh()
    model.add_module("last", nn.Linear(2, 1))
    assert [type(layer).__name__ for layer in model] == ["Linear", "Tanh", "Linear"]


def test_an_optimizer_as_an_attribute_is_not_part_of_the_state(any_device):
    model = nn.Module()
    model.layer = nn.Linear(1, 1)
    model.optimizer = optim.Adam(model.parameters())
    model.schedule = optim.lr_scheduler.StepLR(model.optimizer, 1)
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]


def test_a_model_that_is_no_module(any_device):
    class Model:
        def __init__(self) -> None:
            self.layers = {"in": nn.Linear(2, 2), "drop": nn.Dropout(0.9)}
            self.scale = Tensor([2.0])

        def __call__(self, x: Tensor) -> Tensor:
            return self.layers["drop"](self.layers["in"](x)) * self.scale

    model = Model()
    assert list(nn.state.get_state_dict(model)) == ["layers.in.weight", "layers.in.bias", "scale"]
    with Tensor.train(False):
        assert model(Tensor.ones(1, 2)).tolist() == model(Tensor.ones(1, 2)).tolist()


# ---- nn.functional, where it is more than a method ----


def test_functional(any_device):
    x = Tensor([[-1.0, 2.0]])
    assert F.relu(x).tolist() == [[0.0, 2.0]] and x.tolist() == [[-1.0, 2.0]]
    assert F.relu(input=x).tolist() == [[0.0, 2.0]]
    assert F.leaky_relu(x, 0.5).tolist() == [[-0.5, 2.0]]
    assert F.dropout(x, 0.5, training=False).uop == x.uop
    assert F.dropout(x, 1.0).tolist() == [[0.0, 0.0]]
    assert F.softmax(Tensor([0, 0]), dim=0, dtype="float64").dtype == "float64"
    assert F.pad(Tensor([[1, 2, 3]]), (-1, 1, 0, 1), value=7).tolist() == [[2, 3, 7], [7, 7, 7]]
    assert F.pad(Tensor([[1, 2, 3]]), (1, 0), mode="reflect").tolist() == [[2, 1, 2, 3]]
    assert F.one_hot(Tensor([1]), 3).tolist() == [[0, 1, 0]]
    assert F.embedding(Tensor([1, 0]), Tensor([[1.0], [2.0]]), padding_idx=-1).tolist() == [[2.0], [1.0]]
    with pytest.raises(ShapeError, match="one_hot: 2 is out of range"):
        F.one_hot(Tensor([2]), 2).tolist()
    with pytest.raises(ShapeError, match="a pair for each of the last axes"):
        F.pad(x, (1,))


def test_functional_names_are_all_there():
    assert sorted(F.__all__) == F.__all__
    assert all(callable(getattr(F, name)) for name in F.__all__)


def test_parameters_as_one_vector(any_device) -> None:
    net = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(net.parameters())
    np.testing.assert_array_equal(vector.numpy(), np.concatenate([p.numpy().ravel() for p in net.parameters()]))
    (vector * vector).sum().backward()
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * net.weight.numpy())
    weight = net.weight
    nn.utils.vector_to_parameters(Tensor(np.arange(8, dtype=np.float32)), net.parameters())
    assert net.weight is weight and weight.requires_grad
    assert weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and net.bias.tolist() == [6.0, 7.0]
    for length in (7, 9):
        with pytest.raises(ShapeError, match="for 8 elements"):
            nn.utils.vector_to_parameters(Tensor.zeros(length), net.parameters())


def test_a_module_that_is_set_on_a_container_is_an_entry(any_device):
    """As in PyTorch, where a Sequential runs all modules that it holds, however they came there."""

    class Stem(nn.Sequential):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2, bias=False)
            self.act = nn.ReLU()
            self.scale = 3

    stem = Stem()
    stem.first.weight.data.copy_(Tensor([[1.0, 0.0], [0.0, -1.0]]))
    assert len(stem) == 2 and stem(Tensor([[1.0, 2.0]])).tolist() == [[1.0, 0.0]] and stem.scale == 3
    assert [name for name, _ in stem.named_children()] == ["first", "act"]
    stem.act = nn.Identity()
    setattr(stem, "2", nn.Identity())
    assert stem(Tensor([[1.0, 2.0]])).tolist() == [[1.0, -2.0]] and list(stem.state_dict()) == ["first.weight"]
    del stem.first
    assert stem(Tensor([[1.0, 2.0]])).tolist() == [[1.0, 2.0]] and not list(stem.parameters())
    heads = nn.ModuleDict({"a": nn.ReLU()})
    heads.b = nn.Tanh()
    assert list(heads) == ["a", "b"]


RESET = {
    "Linear": lambda: nn.Linear(4, 3), "Bilinear": lambda: nn.Bilinear(4, 2, 3), "Conv1d": lambda: nn.Conv1d(2, 3, 2),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(3, 2, 2), "Embedding": lambda: nn.Embedding(3, 2, padding_idx=1),
    "GRU": lambda: nn.GRU(2, 3), "LSTMCell": lambda: nn.LSTMCell(2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", RESET)
def test_first_values_are_drawn_anew(name):
    with config(device="numpy"):
        layer = RESET[name]()
        bounds = {key: abs(value.numpy()).max() for key, value in layer.named_parameters()}
        for value in layer.parameters():
            value.data.fill_(100.0)
        layer.reset_parameters()
        for key, value in layer.named_parameters():
            assert value.requires_grad and 0 < abs(value.numpy()).max() < max(bounds[key] * 4, 4), key
        if name == "Embedding":
            assert layer.weight[1].tolist() == [0, 0]


def test_first_values_of_norms_and_of_subclasses():
    class Small(nn.Conv1d):
        def reset_parameters(self):
            super().reset_parameters()
            nn.init.constant_(self.bias, 5.0)

    with config(device="numpy"):
        assert Small(1, 2, 1).bias.tolist() == [5.0, 5.0]
        for norm in (nn.LayerNorm(2), nn.GroupNorm(1, 2), nn.RMSNorm(2), nn.BatchNorm1d(2)):
            for value in [*norm.parameters(), *norm.buffers()]:
                value.data.fill_(7)
            norm.reset_parameters()
            wanted = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1, "num_batches_tracked": 0}
            for key, value in norm.state_dict().items():
                assert set(value.reshape(-1).tolist()) == {wanted[key]}, key


def test_hooks_of_load_state_dict():
    with config(device="numpy"):
        model, seen = nn.Sequential(nn.Linear(1, 1, bias=False)), []

        def renamed(state_dict, prefix, metadata, strict, missing, unexpected, errors):
            seen.append(prefix)
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")

        handle = model[0]._register_load_state_dict_pre_hook(renamed)
        after = model.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys.missing_keys))
        given = {"0.old": Tensor([[3.0]])}
        model.load_state_dict(given)
        assert seen == ["0.", []] and model[0].weight.item() == 3.0 and list(given) == ["0.old"]
        handle.remove()
        after.remove()
        with pytest.raises(RulegradError):
            model.load_state_dict(given)
        assert len(seen) == 2 and list(model.state_dict()) == ["0.weight"]


def test_one_name_of_a_tensor_is_enough_in_a_state():
    """A list adds no name to what the module holds by itself, as in PyTorch, which does not look into lists."""
    with config(device="numpy"):
        model = nn.Module()
        model.layers, model.first = [nn.Linear(1, 1, bias=False)], None
        model.first = model.layers[0]
        found = model.load_state_dict({"first.weight": Tensor([[2.0]])})
        assert found == ([], []) and model.layers[0].weight.item() == 2.0
        with pytest.raises(RulegradError, match=r"missing names \['first.weight'\]"):
            model.load_state_dict({})


def test_inplace_is_in_the_place_of_the_input() -> None:
    """As in PyTorch: what was there is seen nowhere any more, and gradients are those of the new values."""
    values = [[-1.0, 2.0], [3.0, -4.0]]
    layers = [
        nn.ReLU(inplace=True),
        nn.LeakyReLU(0.5, inplace=True),
        nn.Dropout(1.0, inplace=True),
        nn.RReLU(0.5, 0.5, True),
    ]
    for layer, wanted in zip(layers, (0.0, -0.5, 0.0, -0.5), strict=True):
        x = Tensor(values) * 1
        row = x[0]
        assert layer(x) is x and x[0, 0].item() == row[0].item() == wanted
    assert nn.Dropout(inplace=True).eval()(x) is x
    assert F.hardtanh(x, inplace=True) is x and x.max().item() <= 1

    block = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
    w = Tensor(values, requires_grad=True)
    y = w * 2
    (y + block(y)).sum().backward()
    weight = block[1].weight.numpy().sum(0)
    np.testing.assert_allclose(w.grad.numpy(), np.where(np.array(values) > 0, 2 * (1 + weight), 0), rtol=1e-6)
    with pytest.raises(GradientError, match="inplace=True: this tensor is a leaf"):
        F.relu(w, inplace=True)

    captured = rg.jit(lambda x: x * 1 + block(x * 1))
    for _ in range(3):
        assert np.isfinite(captured(Tensor(values)).numpy()).all()
