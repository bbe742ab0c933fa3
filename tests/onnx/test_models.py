"""Models of ONNX files: a module with parameters, shapes on the host, branches, errors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import FileMissingError, OnnxError

onnx = pytest.importorskip("onnx", reason="pip install 'rulegrad[onnx]'")
helper, numpy_helper, FLOAT, INT64 = onnx.helper, onnx.numpy_helper, 1, 7


def made(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: Any = None, opset: int = 17) -> Any:
    """A model of float inputs of these shapes."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
LINEAR = made(
    [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
    {"x": ["batch", 3]}, ["y"], {"w": WEIGHT},
)  # fmt: skip


def test_a_model_is_a_module_with_the_weights_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(LINEAR, path)
    for source in (path, str(path), path.read_bytes(), LINEAR):
        model = rg.onnx.load(source, device="numpy")
        assert list(model.state_dict()) == ["w"] and model.input_names == ("x",) and model.output_names == ("y",)
        for rows in (1, 4):
            x = np.ones((rows, 3), np.float32)
            np.testing.assert_allclose(model(x=x).numpy(), np.maximum(x @ WEIGHT, 0))
    model.load_state_dict({"w": Tensor(np.ones((3, 2), np.float32))})
    assert model(np.ones((1, 3), np.float32)).tolist() == [[3.0, 3.0]]
    model(np.ones((1, 3), np.float32)).sum().backward()
    assert next(model.parameters()).grad is not None


def test_a_copy_of_a_model_has_weights_of_its_own() -> None:
    model = rg.onnx.load(LINEAR, device="numpy")
    copied = copy.deepcopy(model)
    model.load_state_dict({"w": Tensor(np.ones((3, 2), np.float32))})
    assert copied(np.eye(3, dtype=np.float32)).tolist() == WEIGHT.tolist()


def test_external_data(tmp_path: Path) -> None:
    stored = onnx.load_model_from_string(LINEAR.SerializeToString())  # saving changes the model
    onnx.save(stored, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").rename(tmp_path / "elsewhere")
    with pytest.raises(OnnxError, match="the tensor 'w' cannot be read: "):
        rg.onnx.load(tmp_path / "m.onnx")
    (tmp_path / "elsewhere").rename(tmp_path / "w.bin")
    assert rg.onnx.load(tmp_path / "m.onnx", device="numpy")(np.eye(3, dtype=np.float32)).tolist() == WEIGHT.tolist()


def test_shape_arithmetic_is_on_the_host_and_can_be_captured() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "rest": np.array([-1])}
    model = rg.onnx.load(made(nodes, {"x": None}, ["y"], weights), device="numpy")
    captured = rg.jit(model)
    for shape in ((2, 3, 4), (5, 2, 2)):
        x = Tensor(np.zeros(shape, np.float32), device="numpy")
        assert captured(x).shape == model(x).shape == (shape[0], shape[1] * shape[2])


def test_arrays_computed_from_constants_are_traced_once_and_not_kept() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Expand", ["row", "s"], ["wide"]),  # a view that nobody may change, a new one in each call
        helper.make_node("Add", ["x", "wide"], ["y"]),
        helper.make_node("Gather", ["y", "row"], ["z"], axis=1),
    ]
    file = made(nodes, {"x": None}, ["y", "z"], {"row": np.array([1, 0, 2])})
    file.graph.input[0].type.tensor_type.elem_type = INT64
    model = rg.onnx.load(file, device="numpy")
    captured = rg.jit(model)
    for rows in (2, 2, 2, 4, 4):
        x = Tensor(np.arange(3 * rows).reshape(rows, 3), device="numpy")
        y = x.numpy() + [1, 0, 2]
        for found in (captured(x), model(x)):
            assert found[0].tolist() == y.tolist() and found[1].tolist() == y[:, [1, 0, 2]].tolist()
    assert len(captured.reasons()) == 2 and captured.reasons()[0] == "the first call"
    assert len(model._constants._tensors) == 1


def test_branches_read_their_condition() -> None:
    def branch(op: str) -> Any:
        return helper.make_graph(
            [helper.make_node(op, ["x"], ["out"])], op, [], [helper.make_tensor_value_info("out", FLOAT, None)]
        )

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    model = rg.onnx.load(made(nodes, {"x": [2]}, ["y"], {"zero": np.array(0, np.float32)}), device="numpy")
    assert model(np.array([1, 2], np.float32)).tolist() == [-1, -2]
    assert model(np.array([-1, -2], np.float32)).tolist() == [1, 2]


def test_errors_name_the_node() -> None:
    def loaded(*nodes: Any, opset: int = 17) -> Any:
        return rg.onnx.load(made(list(nodes), {"x": [2]}, ["y"], opset=opset), device="numpy")

    with pytest.raises(OnnxError, match=r"node 'odd' \(Nothing, opset 17\): the standard has no such op"):
        loaded(helper.make_node("Nothing", ["x"], ["y"], name="odd"))
    with pytest.raises(OnnxError, match=r"ImageDecoder, opset 20\): this op is not supported. Supported are .*Conv"):
        loaded(helper.make_node("ImageDecoder", ["x"], ["y"]), opset=20)
    with pytest.raises(OnnxError, match=r"acme.Nothing, opset 0\): the model imports no opset of the domain 'acme'"):
        loaded(helper.make_node("Nothing", ["x"], ["y"], domain="acme"))
    with pytest.raises(OnnxError, match=r"ml.Scaler, opset 3\): .* Supported of the domain 'ai.onnx.ml' are: none"):
        file = made([helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")], {"x": [2]}, ["y"])
        file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        rg.onnx.load(file)
    with pytest.raises(OnnxError, match="no attribute 'alpha'"):
        loaded(helper.make_node("Relu", ["x"], ["y"], alpha=1.0))
    with pytest.raises(OnnxError, match="the attribute 'to' is missing"):
        loaded(helper.make_node("Cast", ["x"], ["y"]))
    with pytest.raises(OnnxError, match="opset 99; 1 to"):
        loaded(helper.make_node("Relu", ["x"], ["y"]), opset=99)
    model = rg.onnx.load(LINEAR, device="numpy")
    with pytest.raises(OnnxError, match="the input 'x' is missing"):
        model()
    with pytest.raises(OnnxError, match="no input 'z'; it has 'x'"):
        model(z=1)
    with pytest.raises(OnnxError, match=r"node 'number 0' \(MatMul, opset 17\): matmul"):
        model(np.ones((1, 4), np.float32))
    with pytest.raises(OnnxError, match="no ONNX model"):
        rg.onnx.load(b"no model")
    with pytest.raises(FileMissingError):
        rg.onnx.load("missing.onnx")


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_loops_collect_what_their_body_declares(steps: int) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("Unsqueeze", ["step", "axes"], ["row"]),
            helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
        ],
        "body",
        [info("step", INT64, []), info("go", 9, []), info("state", FLOAT, [2])],
        [info("go_on", 9, []), info("next", FLOAT, [2]), info("row", INT64, [1]), info("total", FLOAT, [])],
        [numpy_helper.from_array(np.array([0]), "axes")],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["last", "rows", "totals"], body=body)]
    model = rg.onnx.load(
        made(nodes, {"x": [2]}, ["last", "rows", "totals"], {"count": np.array(steps)}), device="numpy"
    )
    last, rows, totals = model(np.array([1, 2], np.float32))
    assert last.tolist() == [1.0 * (steps + 1), 2.0 * (steps + 1)]
    assert rows.shape == (steps, 1) and np.dtype(str(rows.dtype)) == np.int64
    assert totals.shape == (steps,) and totals.tolist() == [3.0 * (step + 2) for step in range(steps)]


def integers_of(x: Any) -> tuple[Any, Any]:
    """Values as unsigned bytes without their zero point, and the scale."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero = np.rint(-low / scale)
    return np.clip(np.rint(x / scale) + zero, 0, 255) - zero, scale


@pytest.mark.parametrize("columns", [False, True])
def test_an_lstm_with_integers_as_weights(columns: bool) -> None:
    """As onnxruntime computes it: the inputs of all steps have one scale, the states of a step another one."""
    random, size = np.random.default_rng(0), 4
    x = random.standard_normal((3, 2, 5)).astype(np.float32)
    kind, zero = (np.int8, 0) if columns else (np.uint8, 128)
    weights = {
        name: random.integers(np.iinfo(kind).min, np.iinfo(kind).max, (1, rows, 4 * size)).astype(kind)
        for name, rows in (("w", 5), ("r", size))
    }
    scales = random.uniform(0.005, 0.01, (1, 4 * size) if columns else (1,)).astype(np.float32)
    constants = {"scales": scales, "zeros": np.full(scales.shape, zero, kind)}
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", *[""] * 5, *["scales", "zeros"] * 2], ["y", "h", "c"],
        domain="com.microsoft", hidden_size=size,
    )  # fmt: skip
    file = made([node], {"x": [3, 2, 5]}, ["y", "h", "c"], weights | constants)
    file.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = [one.numpy() for one in rg.onnx.load(file, device="numpy")(x)]

    def times(values: Any, name: str) -> Any:
        whole, scale = integers_of(values)
        return (whole @ (weights[name][0].astype(np.float64) - zero)) * scale * scales[0]

    def sigmoid(values: Any) -> Any:
        return 1 / (1 + np.exp(-values))

    h = c = np.zeros((2, size), np.float32)
    for time, inputs in enumerate(times(x, "w")):
        i, o, forget, new = np.split(inputs + times(h, "r"), 4, axis=1)
        c = sigmoid(forget) * c + sigmoid(i) * np.tanh(new)
        h = (sigmoid(o) * np.tanh(c)).astype(np.float32)
        np.testing.assert_allclose(found[0][time, 0], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1][0], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[2][0], c, rtol=1e-5, atol=1e-6)
