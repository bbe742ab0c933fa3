"""`nn.quantize`: float models whose linear layers get few bits a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, DtypeError, ShapeError

RANDOM = np.random.default_rng(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(64, 96), nn.Linear(96, 64)]
        self.heads = {"digit": nn.Sequential(nn.ReLU(), nn.Linear(64, 10, bias=False))}
        self.norm = nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
        return self.heads["digit"](self.norm(x))


def model_on(device: str) -> Model:
    Tensor.manual_seed(1)
    return Model().to(device)


def rounded(weight: Any, block: int, steps: int) -> Any:
    """The weights by a factor for each block of a row and integers between -steps and steps."""
    blocks = weight.reshape(weight.shape[0], -1, block or weight.shape[1])
    factor = np.abs(blocks).max(-1, keepdims=True) / steps
    return (np.rint(blocks / factor) * factor).reshape(weight.shape)


@pytest.mark.parametrize(("format", "block"), [("int8", 0), ("q8_0", 32)])
def test_the_weights_are_those_of_the_definition(format: str, block: int) -> None:
    weight = RANDOM.normal(size=(7, 96)).astype(np.float32)
    matrix = nn.QuantizedMatrix.of(Tensor(weight, device="numpy"), format)
    np.testing.assert_allclose(matrix.floats().numpy(), rounded(weight, block, 127), atol=1e-6)


@pytest.mark.parametrize(("format", "error", "share"), [("int8", 0.02, 0.27), ("q8_0", 0.02, 0.30), ("q4_0", 0.25, 0.17), ("q4_1", 0.25, 0.20)])  # fmt: skip
def test_a_model(device: str, format: str, error: float, share: float) -> None:
    model = model_on(device)
    weights = {path: layer.weight.nbytes for path, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    x = Tensor(RANDOM.normal(size=(5, 64)).astype(np.float32), device=device)
    before = model(x).numpy()
    made = nn.quantize(model, format)
    assert list(made) == ["layers.0", "layers.1", "heads.digit.1"] == list(weights)
    assert model.layers[0] is made["layers.0"] and model.heads["digit"][1] is made["heads.digit.1"]
    after = model(x).numpy()
    assert 0 < np.abs(after - before).max() < error
    np.testing.assert_allclose(rg.jit(model)(x).numpy(), after, atol=1e-5)
    assert sum(layer.weight.nbytes for layer in made.values()) < share * sum(weights.values())
    assert all(layer.weight.floats().device == x.device for layer in made.values())


def test_the_product_reads_the_integers(device: str) -> None:
    """No float matrix is stored: the kernels that a captured call launches make buffers of its results' size only."""
    model = nn.Sequential(nn.Linear(512, 256)).to(device)
    nn.quantize(model, "int8")
    x = Tensor.ones(2, 512, device=device).realize()
    model(x).realize()
    rg.reset_peak_memory(x.device)
    before = rg.peak_memory(x.device)
    result = model(x).realize()
    assert rg.peak_memory(x.device) - before < 256 * 512  # bytes: a quarter of the matrix as floats
    assert result.shape == (2, 256)


def test_a_state_dict_is_loaded_again() -> None:
    model, other = model_on("numpy"), model_on("numpy")
    nn.quantize(model, "q4_0")
    nn.quantize(other, "q4_0")
    for layer in other.layers:
        layer.weight.factor.assign(layer.weight.factor * 0)
    other.load_state_dict(model.state_dict())
    x = Tensor.ones(2, 64, device="numpy")
    assert (other(x) - model(x)).abs().max().item() == 0


def test_only_some_layers_and_a_layer_with_two_places() -> None:
    shared = nn.Linear(32, 32)
    model = {"encoder": [shared, nn.Linear(32, 8)], "decoder": shared}
    made = nn.quantize(model, "int8", only=lambda path, layer: layer.weight.shape[0] == 32)
    assert list(made) == ["encoder.0", "decoder"] and made["encoder.0"] is made["decoder"] is model["decoder"]
    assert type(model["encoder"][1]) is nn.Linear


def test_what_cannot_be_done() -> None:
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 3))
    with pytest.raises(
        ShapeError, match=r"quantize: the layer 1: .*\(3, 8\) has no rows of whole blocks of 32 numbers"
    ):
        nn.quantize(model, "q4_0")
    assert type(model[0]) is nn.Linear
    with pytest.raises(ConfigError, match="choose from int8, q8_0, q4_0, q4_1"):
        nn.quantize(model, "int4")
    with pytest.raises(ConfigError, match="no layer of the class Linear"):
        nn.quantize(nn.Sequential(nn.ReLU()))
    with pytest.raises(ConfigError, match=r"use nn.QuantizedLinear.of\(layer\)"):
        nn.quantize(nn.Linear(32, 4))
    with pytest.raises(DtypeError, match="'int8' is not a format of files"):
        nn.QuantizedMatrix.from_bytes(np.zeros(4, np.uint8), "int8", (1, 4))
