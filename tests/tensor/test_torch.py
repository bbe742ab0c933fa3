"""Functions and layers of networks against PyTorch: its values are in torch_values.json (write_torch_values.py wrote it)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, nn

HERE = Path(__file__).parent
# The cases are shared with the program that writes the file, which runs without this package.
sys.path.insert(0, str(HERE))
try:
    from torch_compositions import COMPOSITIONS
    from torch_functions import CASES, directions, weights
    from torch_layers import LAYERS, first_values, flat, slopes
finally:
    sys.path.remove(str(HERE))

VALUES: dict[str, dict[str, Any]] = json.loads((HERE / "torch_values.json").read_text(encoding="utf-8"))


def _weighted_sum(result: Tensor) -> Tensor:
    return (result.flatten() * Tensor(weights(result.size))).sum()


def _as_floats(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("name", CASES)
def test_function(device, name):
    expected = VALUES["functions"][name]
    result = CASES[name].call(nn.functional, *(Tensor(_as_floats(array)) for array in CASES[name].inputs))
    assert list(result.shape) == expected["shape"]
    assert result.dtype == "float32"
    np.testing.assert_allclose(result.numpy().ravel(), expected["result"], 2e-5, 2e-6)


@pytest.mark.parametrize("name", CASES | COMPOSITIONS)
def test_gradient(any_device, name):
    """In float64: PyTorch's values and gradients, and the sum of these as a finite difference."""
    case, expected = (CASES | COMPOSITIONS)[name], VALUES["functions"][name]
    inputs = [Tensor(array) for array in case.inputs]
    floats = [tensor for tensor in inputs if tensor.dtype.is_float]
    for tensor in floats:
        tensor.requires_grad_()
    result = case.call(nn.functional, *inputs)
    _weighted_sum(result).backward()
    found = [tensor.grad for tensor in floats]
    Tensor.realize(result, *(gradient for gradient in found if gradient is not None))
    np.testing.assert_allclose(result.numpy().ravel(), expected["result"], 1e-8, 1e-8)
    towards = directions(case)
    projected = [0.0 if g is None else float((g.numpy() * d).sum()) for g, d in zip(found, towards, strict=True)]
    np.testing.assert_allclose(projected, expected["gradients"], 1e-7, 1e-7)
    assert sum(p for p, g in zip(projected, found) if g is not None) == pytest.approx(
        _slope(case, found), rel=2e-5, abs=2e-6
    )


def _slope(case: Any, found: list[Tensor | None]) -> float:
    """The finite difference along the directions of the inputs that have gradients."""
    values = []
    for step in (1e-5, -1e-5):
        towards = iter(zip(directions(case), found, strict=True))
        moved = []
        for array in case.inputs:
            if array.dtype.kind == "f":
                direction, gradient = next(towards)
                array = array if gradient is None else array + step * direction
            moved.append(Tensor(array))
        values.append(_weighted_sum(case.call(nn.functional, *moved)).item())
    return (values[0] - values[1]) / 2e-5


#: The layers that also run on every device: the others are made of the same functions.
EVERYWHERE = (
    "BatchNorm2d",
    "ConvTranspose2d",
    "Embedding",
    "GRU",
    "LSTM",
    "Sequential",
    "TransformerEncoderLayer_first",
)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(any_device, name):
    _check_layer(name)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_layer_on_devices(device, name):
    _check_layer(name)


def _check_layer(name: str) -> None:
    case, expected = LAYERS[name], VALUES["layers"][name]
    layer = case.make(nn)
    state = nn.state.get_state_dict(layer)
    assert [(key, list(tensor.shape)) for key, tensor in state.items()] == list(expected["names"].items())
    assert all(tensor.requires_grad != ("running" in key or "tracked" in key) for key, tensor in state.items())
    values = first_values({key: tensor.shape for key, tensor in state.items()})
    nn.state.load_state_dict(layer, values)
    inputs = [Tensor(_as_floats(array)) for array in case.inputs]
    layer.train(case.training)
    results = flat(case.call(layer, *inputs))
    Tensor.realize(*results)
    assert [list(result.shape) for result in results] == expected["shapes"]
    for result, value in zip(results, expected["results"], strict=True):
        np.testing.assert_allclose(result.numpy().ravel(), value, 3e-5, 3e-6)
    for key, value in expected["changed"].items():
        np.testing.assert_allclose(state[key].numpy().ravel(), value, 1e-5, 1e-6, err_msg=key)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_gradients(any_device, name):
    """With respect to every parameter and every input of floats, in float64."""
    case, expected = LAYERS[name], VALUES["layers"][name]["gradients"]
    layer = case.make(nn).double().train(case.training)
    parameters = dict(layer.named_parameters())
    state = nn.state.get_state_dict(layer)
    nn.state.load_state_dict(layer, first_values({key: tensor.shape for key, tensor in state.items()}))
    inputs = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in case.inputs]
    results = [result for result in flat(case.call(layer, *inputs)) if result.dtype.is_float]
    total = _weighted_sum(results[0])
    for result in results[1:]:
        total = total + _weighted_sum(result)
    total.backward()
    tensors = {f"input {k}": tensor for k, tensor in enumerate(inputs)} | parameters
    towards = slopes(name, {key: tensor.shape for key, tensor in parameters.items()})
    assert towards.keys() == expected.keys()
    Tensor.realize(*(tensors[key].grad for key in towards if tensors[key].grad is not None))
    for key, direction in towards.items():
        gradient = tensors[key].grad
        found = 0.0 if gradient is None else float((gradient.numpy() * direction).sum())
        assert found == pytest.approx(expected[key], rel=1e-6, abs=1e-7), key


#: What holds layers or tensors, and the modules of functions.
HOLDERS = {"Buffer", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict", "ParameterList"}
HOLDERS |= {"DataParallel", "RNNBase", "RNNCellBase", "UninitializedBuffer", "UninitializedParameter"}
OURS = {"QuantizedLinear", "QuantizedMatrix"}  # PyTorch has no layers like these
ELSEWHERE = {"SyncBatchNorm"}  # PyTorch's needs a GPU in training; its example is in its documentation
# They become layers that are compared: test_lazy_layers.py.
ELSEWHERE |= {name for name in nn.__all__ if name.startswith("Lazy")}


def test_every_layer_is_compared():
    layers = {name for name in nn.__all__ if name[0].isupper()} - HOLDERS - OURS - ELSEWHERE
    assert layers - {name.partition("_")[0] for name in LAYERS} == set()


def test_the_file_is_what_torch_says():
    pytest.importorskip("torch")
    sys.path.insert(0, str(HERE))
    try:
        from write_torch_values import values
    finally:
        sys.path.remove(str(HERE))
    _compare(values(), VALUES, "")


def _compare(found: Any, stored: Any, path: str) -> None:
    if isinstance(found, dict):
        assert found.keys() == stored.keys(), path
        for key, value in found.items():
            _compare(value, stored[key], f"{path}/{key}")
    elif isinstance(found, list) and found and isinstance(found[0], list):
        assert len(found) == len(stored), path
        for value, other in zip(found, stored, strict=True):
            _compare(value, other, path)
    else:
        np.testing.assert_allclose(found, stored, 1e-6, 1e-8, err_msg=path)
