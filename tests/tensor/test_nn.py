"""Layers, and the tensors of a model by name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rulegrad.nn.functional as F
from rulegrad import Tensor, nn, optim, profile
from rulegrad.errors import ConfigError, DtypeError, RulegradError, ShapeError
from rulegrad.tensor.realize import needs_buffer


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
        (nn.LayerNorm(4, elementwise_affine=False)(Tensor(x)), plain),
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


def test_conv_transpose_and_its_sizes(any_device):
    layer = nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1)
    x = Tensor.ones(1, 2, 5, 6)
    assert layer(x).shape == (1, 4, 9, 11)
    assert layer(x, output_size=(10, 12)).shape == (1, 4, 10, 12)
    with pytest.raises(ShapeError, match=r"output_size=\(20, 20\) does not fit; the smallest is \(9, 11\)"):
        layer(x, output_size=(20, 20))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.Conv2d(2, 2, 3, padding_mode="mirror"), ConfigError, "unknown padding_mode 'mirror'"),
        (lambda: nn.ConvTranspose1d(1, 1, 3, padding_mode="reflect"), ConfigError, "pads with zeros only"),
        (lambda: nn.Dropout(1.5), ConfigError, "p=1.5"),
        (lambda: nn.Dropout2d()(Tensor.ones(4)), ShapeError, r"Dropout2d: the shape \(4,\)"),
        (lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 3)), ShapeError, "BatchNorm2d: .* has 2 axes"),
        (lambda: nn.GroupNorm(3, 4), ShapeError, "3 groups do not divide 4"),
        (lambda: nn.Embedding(3, 2, padding_idx=5), ShapeError, "padding_idx=5 is not a row of 3"),
        (lambda: nn.Bilinear(2, 3, 1)(Tensor.ones(4, 2), Tensor.ones(4, 2)), ShapeError, r"need \(…, 2\) and \(…, 3\)"),
        (lambda: nn.MultiheadAttention(5, 2), ShapeError, "2 heads do not divide 5"),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[Tensor.ones(3, 1, 5)] * 3),
            ShapeError,
            r"the query has the shape \(1, 3, 5\)",
        ),
        (lambda: nn.RNN(2, 3, nonlinearity="sin"), ConfigError, "unknown nonlinearity 'sin'"),
        (lambda: nn.GRU(2, 3)(Tensor.ones(4, 1, 5)), ShapeError, r"GRU: the shape \(4, 1, 5\)"),
        (
            lambda: nn.LSTM(2, 3)(Tensor.ones(4, 1, 2), (Tensor.ones(1, 1, 2),) * 2),
            ShapeError,
            r"they need \(1, 1, 3\)",
        ),
        (lambda: nn.LSTMCell(2, 3)(Tensor.ones(3)), ShapeError, "LSTMCell: the shape"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tan"), ConfigError, "unknown activation 'tan'"),
        (lambda: nn.PixelShuffle(2)(Tensor.ones(1, 3, 2, 2)), ShapeError, "a multiple of 4"),
        (lambda: nn.PixelUnshuffle(2)(Tensor.ones(1, 3, 3, 2)), ShapeError, "must divide its height"),
        (lambda: nn.ChannelShuffle(2)(Tensor.ones(1, 3, 3, 2)), ShapeError, "must divide its channels"),
    ],
)
def test_errors_of_layers(any_device, make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_channel_dropout(any_device):
    Tensor.manual_seed(3)
    x = Tensor.ones(8, 16, 3, 3)
    assert nn.Dropout2d(0.5).eval()(x) is x
    values = nn.Dropout2d(0.5)(x).numpy()
    assert ((values == 0).all((2, 3)) | (values == 2).all((2, 3))).all()
    assert 30 < (values[:, :, 0, 0] == 0).sum() < 98


def test_a_padding_row_has_no_gradient(any_device):
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.weight.numpy()[3].tolist() == [0.0, 0.0]
    layer(Tensor([3, 1, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_running_statistics_are_computed_with_the_step(any_device):
    layer = nn.BatchNorm1d(2)
    optimizer = optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    x = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    for _ in range(2):
        layer(Tensor(x)).square().sum().backward()
        optimizer.step()
        assert not needs_buffer(layer.running_mean)
        assert not needs_buffer(layer.num_batches_tracked)
    np.testing.assert_allclose(layer.running_mean.numpy(), [0.38, 0.76], 1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), [0.81 + 0.19 * 2, 0.81 + 0.19 * 8], 1e-6)
    assert layer.num_batches_tracked.item() == 2


def test_several_forward_passes_before_a_step(any_device):
    layer = nn.BatchNorm1d(1, momentum=0.5)
    for value in (2.0, 4.0):
        layer(Tensor([[value], [value]]))
    assert layer.running_mean.item() == 2.5


def test_sequential_is_a_sequence(any_device):
    first, second = nn.Linear(2, 3), nn.Linear(3, 1)
    model = nn.Sequential({"in": first, "out": second})
    assert list(nn.state.get_state_dict(model)) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    plain = nn.Sequential(first, Tensor.relu).append(second)
    assert len(plain) == 3
    assert plain[-1] is second
    assert list(plain[:2]) == [first, Tensor.relu]
    assert plain(Tensor.ones(1, 2)).shape == (1, 1)


def test_dropout_layer():
    x = Tensor.ones(3)
    layer = nn.Dropout(0.5)
    assert layer(x).uop != x.uop
    with Tensor.train(False):
        assert layer(x).uop == x.uop
    assert layer.eval()(x).uop == x.uop
    with Tensor.train():
        assert layer(x).uop != x.uop


def test_state(any_device):
    model, other = Model(), Model()
    names = ["body.0.weight", "body.0.bias", "heads.a.weight", "again.0.weight", "again.0.bias", "scale"]
    state = nn.state.get_state_dict(model)
    assert list(state) == names
    assert len(nn.state.get_parameters(model)) == 3
    nn.state.load_state_dict(other, {name: tensor.numpy() for name, tensor in state.items()})
    for name, tensor in nn.state.get_state_dict(other).items():
        assert tensor.tolist() == state[name].tolist()
        assert tensor.requires_grad == state[name].requires_grad
    with pytest.raises(RulegradError, match=r"missing names .*scale.*unknown names .*extra"):
        nn.state.load_state_dict(other, {"extra": state["scale"]})
    with pytest.raises(RulegradError, match=r"missing names .*; shapes differ too: scale is \(1,\) .* \(3,\)"):
        nn.state.load_state_dict(other, {"scale": Tensor([1.0, 2.0, 3.0])})
    nn.state.load_state_dict(other, {"scale": Tensor([3.0])}, strict=False)
    assert other.scale.item() == 3.0


def test_shapes_that_differ_are_all_named(any_device):
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    with pytest.raises(ShapeError, match=r"weight is \(2, 3\) in the model and \(3, 2\) in the state; bias is \(2,\)"):
        nn.state.load_state_dict(layer, {"weight": np.ones((3, 2)), "bias": np.ones(3)})
    assert layer.weight.tolist() == before


def test_a_cycle_is_walked_once(any_device):
    model = Model()
    model.itself = model
    assert "itself.scale" not in nn.state.get_state_dict(model)


def test_parameters_are_made_together(any_device):
    layer = nn.Linear(3, 2)
    assert layer.weight._uop.op != "BUFFER"
    assert layer.weight.uop.op == "BUFFER"
    assert layer.bias._uop.op == "BUFFER"


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_longer_sequence_needs_no_other_kernels(any_device, kind):
    """Every step, forwards and backwards, has the kernels of the one before it."""
    counts = []
    for length in (6, 10):
        layer = getattr(nn, kind)(2, 3)
        Tensor.realize(*layer.parameters())
        layer(Tensor.ones(length, 2, 2))[0].square().sum().backward()
        with profile() as recorded:
            Tensor.realize(*(parameter.grad for parameter in layer.parameters()))
        counts.append((len({kernel.name for kernel in recorded.kernels}), len(recorded.kernels)))
    assert counts[1][0] <= counts[0][0] + 2 < 50
    assert counts[1][1] > counts[0][1] + 4


# ---- embeddings ----


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_rows_of_an_embedding_are_limited(device, norm_type):
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [-6.0, 8.0], [30.0, 40.0]], np.float32)
    layer = nn.Embedding.from_pretrained(Tensor(rows), freeze=False, max_norm=1.0, norm_type=norm_type)
    found = layer(Tensor([[0, 1], [2, 0]]))
    limited = rows.copy()
    for place in (0, 1, 2):
        norm = np.linalg.norm(rows[place], norm_type)
        limited[place] = rows[place] / norm if norm > 1.0 else rows[place]
    np.testing.assert_allclose(found.numpy(), limited[[[0, 1], [2, 0]]], 1e-5)
    # Rows that were looked up are changed in the layer itself, the others not.
    np.testing.assert_allclose(layer.weight.numpy(), limited, 1e-5)
    found.sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]


def test_embeddings_from_rows(any_device):
    rows = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    layer = nn.Embedding.from_pretrained(rows, padding_idx=-1)
    assert (layer.num_embeddings, layer.embedding_dim, layer.padding_idx) == (3, 2, 2)
    assert not layer.weight.requires_grad and [name for name, _ in layer.named_parameters()] == ["weight"]
    # The row of the padding keeps its values: only new embeddings have zeros there.
    assert layer(Tensor([2, 0])).tolist() == [[5.0, 6.0], [1.0, 2.0]]
    layer.weight.assign(Tensor.zeros(3, 2))
    # As in PyTorch, the weight is a view of the rows.
    assert rows.tolist()[0] == [0.0, 0.0]
    with pytest.raises(ShapeError, match="is not that of a matrix"):
        nn.Embedding.from_pretrained(Tensor([1.0]))
    with pytest.raises(ConfigError, match="max_norm=-1"):
        nn.Embedding(3, 2, max_norm=-1.0)(Tensor([0]))


# ---- losses and layers that check what they are given ----

SCORES = np.log(np.full((4, 2, 3), 1 / 3))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"log_probs": Tensor([1.0])}, ShapeError, r"log_probs of shape \(1,\)"),
        ({"log_probs": Tensor.zeros(4, 2, 3, dtype="int32")}, DtypeError, "log_probs are int32"),
        ({"targets": Tensor([[1.0], [2.0]])}, DtypeError, "the targets are float32"),
        ({"targets": Tensor([1, 2, 1])}, ShapeError, r"targets of shape \(3,\) for target_lengths=\[1, 1\]"),
        ({"targets": Tensor([[1, 2]])}, ShapeError, r"targets of shape \(1, 2\)"),
        ({"input_lengths": [4, 5]}, ShapeError, r"input_lengths=\[4, 5\]; use numbers from 0 to 4"),
        ({"input_lengths": [4]}, ShapeError, r"input_lengths of shape \(1,\)"),
        ({"target_lengths": [1, -1]}, ShapeError, r"target_lengths=\[1, -1\]"),
        ({"target_lengths": [1.0, 1.0]}, ShapeError, "float64; give 2 integers"),
        ({"blank": 3}, ConfigError, "blank=3 is none of the 3 classes"),
        ({"reduction": "median"}, ConfigError, "reduction='median'"),
    ],
)
def test_errors_of_ctc_loss(any_device, change, error, text):
    arguments = {
        "log_probs": Tensor(SCORES),
        "targets": Tensor([[1], [2]]),
        "input_lengths": [4, 4],
        "target_lengths": [1, 1],
    }
    with pytest.raises(error, match=text):
        F.ctc_loss(**(arguments | change))


def test_ctc_loss_is_the_sum_over_all_alignments(any_device):
    """By trying all of them: 3 classes to the power of 4 steps."""
    Tensor.manual_seed(2)
    scores = Tensor.randn(4, 1, 3, dtype="float64").log_softmax(-1)
    shares = np.exp(scores.numpy()[:, 0])
    for target in ([1], [1, 2], [2, 2], [], [1, 2, 1, 2]):
        total = 0.0
        for path in itertools.product(range(3), repeat=4):
            merged = [symbol for symbol, _ in itertools.groupby(path) if symbol]
            total += np.prod(shares[range(4), path]) if merged == target else 0.0
        found = F.ctc_loss(scores, Tensor(np.array([target], np.int64)), [4], [len(target)], reduction="sum")
        assert found.item() == pytest.approx(-np.log(total), rel=1e-9)
    hopeless = F.ctc_loss(scores, Tensor([[1, 1, 1]]), [4], [3], reduction="sum")
    assert hopeless.item() == float("inf")
    scores = scores.requires_grad_() if scores.requires_grad else Tensor(scores.numpy(), requires_grad=True)
    F.ctc_loss(scores, Tensor([[1, 1, 1]]), [4], [3], zero_infinity=True).backward()
    assert scores.grad.tolist() == np.zeros((4, 1, 3)).tolist()


@pytest.mark.parametrize(
    ("padding", "mode", "text"),
    [
        ((3, 0), "reflect", r"reflect by \(3, 0\) along axis 2 of the shape \(1, 1, 3\); it must be less than 3"),
        ((0, 4), "circular", r"circular by \(0, 4\) along axis 2 of the shape \(1, 1, 3\); it must be at most 3"),
    ],
)
def test_padding_that_is_larger_than_the_input(any_device, padding, mode, text):
    x = Tensor([[[1.0, 2.0, 3.0]]])
    with pytest.raises(ShapeError, match=text):
        F.pad(x, padding, mode=mode)
    # NumPy goes on, and so do the tensors' own methods.
    pairs = [(0, 0), (0, 0), padding]
    numpys = {"reflect": "reflect", "circular": "wrap"}[mode]
    np.testing.assert_array_equal(x.pad(pairs, mode=mode).numpy(), np.pad(x.numpy(), pairs, numpys))
    with pytest.raises(ShapeError, match=mode):
        nn.Conv1d(1, 1, 9, padding=4, padding_mode=mode)(x)


def test_transformer(any_device):
    model = nn.Transformer(4, 2, 1, 2, 8)
    names = [name for name, _ in model.named_parameters()]
    assert names[0] == "encoder.layers.0.self_attn.in_proj_weight" and names[-1] == "decoder.norm.bias"
    assert "decoder.layers.1.multihead_attn.out_proj.weight" in names
    weight = model.encoder.layers[0].linear1.weight.numpy()
    assert np.abs(weight).max() <= (6 / (4 + 8)) ** 0.5
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0.0, -np.inf, -np.inf], [0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]]
    with pytest.raises(ShapeError, match=r"the shapes \(3, 2, 4\) and \(3, 1, 4\); they need the same batch"):
        model(Tensor.ones(3, 2, 4), Tensor.ones(3, 1, 4))
    own = nn.Transformer(
        4, 2, custom_encoder=lambda src, *rest: src + 1, custom_decoder=lambda tgt, memory, *rest: memory
    )
    assert own(Tensor.ones(3, 2, 4), Tensor.ones(1, 2, 4)).tolist() == (np.ones((3, 2, 4)) + 1).tolist()
