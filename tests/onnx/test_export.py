"""`rulegrad.onnx.export`: what onnxruntime computes by the files, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import CaptureError, FileError, OnnxError
from rulegrad.tensor.trees import flatten

onnx = pytest.importorskip("onnx")
RANDOM = np.random.default_rng(0)


def values(*shape: int) -> Tensor:
    return Tensor(RANDOM.normal(size=shape).astype(np.float32), device="numpy")


def ran(model: Any, *args: Tensor) -> list[Any]:
    """The results of onnxruntime."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: arg.numpy() for one, arg in zip(session.get_inputs(), args, strict=True)})


def mlp() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5), nn.Softmax(-1)), values(
        4, 12
    )


def convnet() -> tuple[nn.Module, Tensor]:
    layers = [
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=4), nn.SiLU(), nn.AvgPool2d(3, 1, padding=1), nn.Flatten(), nn.Linear(72, 10),
    ]  # fmt: skip
    return nn.Sequential(*layers), values(2, 3, 16, 16)


def transformer() -> tuple[nn.Module, Tensor]:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), values(2, 7, 32)


@pytest.mark.parametrize("make", [mlp, convnet, transformer])
def test_models(make: Callable[[], tuple[nn.Module, Tensor]], tmp_path: Path) -> None:
    Tensor.manual_seed(0)
    model, x = make()
    model.to("numpy")
    path = tmp_path / "model.onnx"
    written = rg.onnx.export(model, [x], path, input_names=["x"], output_names=["y"])
    assert model.training
    expected = model.eval()(x).numpy()
    np.testing.assert_allclose(ran(written, x)[0], expected, rtol=1e-4, atol=1e-5)
    loaded = rg.onnx.load(path, device="numpy")
    np.testing.assert_allclose(loaded(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    named = {one.name for one in written.graph.initializer}
    assert {name for name, _ in model.named_parameters()} <= named
    assert [one.name for one in written.graph.input] == ["x"] and [one.name for one in written.graph.output] == ["y"]


FUNCTIONS: list[Callable[[Tensor, Tensor], Any]] = [
    lambda a, b: a @ b,
    lambda a, b: (a.exp2() + a.abs().log2(), b.flip(0)[1:3, ::2]),
    lambda a, b: {"less": (a < 0.5) & (a != 0), "any": (b > 1).any(axis=0), "all": (b > -9).all()},
    lambda a, b: [(a.max(axis=1, keepdims=True) - a).round(), b.min(), b.prod(axis=0), (b.cast("int32") ^ 3)],
    lambda a, b: (a > 0).where(a.sqrt(), a.sin().pad(((0, 0), (0, 0)))) + a.mean(axis=0) / 3,
    lambda a, b: a.softmax(1).detach().T @ Tensor(np.eye(4, dtype=np.float32), device="numpy") + b[:, :4].sum(),
    lambda a, b: (a.roll(1, 0), b.roll(-3, 1)),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@pytest.mark.filterwarnings("ignore:invalid value")
def test_functions(number: int) -> None:
    function = FUNCTIONS[number]
    a, b = values(4, 6), values(6, 5)
    results: list[Any] = flatten([function(a, b)])[0]
    used = [arg for arg, there in ((a, True), (b, number != 4)) if there]
    written = rg.onnx.export((lambda a: function(a, b)) if len(used) == 1 else function, used)
    for found, wanted in zip(ran(written, *used), results, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_a_new_layer_has_its_values_in_the_file() -> None:
    layer = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    written = rg.onnx.export(layer, [Tensor.ones(3, 4)])
    assert {one.name for one in written.graph.initializer} >= {"0.weight", "0.bias", "1.weight", "1.bias"}
    np.testing.assert_allclose(ran(written, Tensor.ones(3, 4))[0], layer.eval()(Tensor.ones(3, 4)).numpy(), atol=1e-6)


def test_a_product_is_one_node_without_copies() -> None:
    written = rg.onnx.export(lambda a, b: a @ b, [values(4, 6), values(6, 5)])
    kinds = [node.op_type for node in written.graph.node]
    assert kinds.count("Einsum") == 1, kinds
    assert not {"Expand", "Mul", "ReduceSum"} & set(kinds)


def test_what_is_refused(tmp_path: Path) -> None:
    x = values(3)
    with pytest.raises(OnnxError, match="no output depends on the argument input1"):
        rg.onnx.export(lambda x, y: x + 1, [x, x])
    with pytest.raises(OnnxError, match="random numbers"):
        rg.onnx.export(lambda x: x + Tensor.rand(3, device="numpy"), [x])
    with pytest.raises(OnnxError, match="BITCAST"):
        rg.onnx.export(lambda x: x.bitcast("int32"), [x])
    with pytest.raises(OnnxError, match="an argument is a float"):
        rg.onnx.export(lambda x: x, [1.0])  # type: ignore[list-item]
    with pytest.raises(OnnxError, match="2 input names for 1 inputs"):
        rg.onnx.export(lambda x: x + 1, [x], input_names=["a", "b"])
    with pytest.raises(CaptureError, match="value of a tensor is asked for"):
        rg.onnx.export(lambda x: x * x.sum().item(), [x])
    with pytest.raises(FileError, match="cannot be written"):
        rg.onnx.export(lambda x: x + 1, [x], tmp_path / "no" / "model.onnx")
