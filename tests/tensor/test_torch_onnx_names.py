"""Names of `torch.onnx` and `torch.ao.quantization` that packages use when they are imported."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, OnnxError

quantization = importlib.import_module("rulegrad.ao.quantization")


def test_packages_register_how_their_operations_are_written() -> None:
    helper = importlib.import_module("rulegrad.onnx.symbolic_helper")
    opset11 = importlib.import_module("rulegrad.onnx.symbolic_opset11")
    assert rg.onnx.symbolic_opset11 is opset11

    @helper.parse_args("v", "f")
    @helper.quantized_args(True, False)
    def scaled(graph, input, scale):  # type: ignore[no-untyped-def]  # as packages write it
        return opset11.mul(graph, input, scale)

    rg.onnx.register_custom_op_symbolic("test::scaled", scaled, 11)
    rg.onnx.unregister_custom_op_symbolic("test::scaled", 11)
    with pytest.raises(OnnxError, match=r"mul writes .* rulegrad\.onnx\.export"):
        scaled(None, Tensor([1.0]), 2.0)
    with pytest.raises(ConfigError, match="NAMESPACE::NAME"):
        rg.onnx.register_custom_op_symbolic("scaled", scaled, 11)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = rg.onnx.nothing_of_this_name


def test_numbers_of_dtypes_are_those_of_onnx() -> None:
    onnx = pytest.importorskip("onnx", reason="pip install onnx")
    for dtype in rg.onnx.TensorProtoDataType:
        assert onnx.TensorProto.DataType.Value(dtype.name) == dtype.value


class Block(nn.Module):
    """A residual block as models that can be quantized write it."""

    def __init__(self) -> None:
        super().__init__()
        self.quant = quantization.QuantStub()
        self.dequant = quantization.DeQuantStub()
        self.linear = nn.Linear(3, 3)
        self.skip = rg.nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.quant(x)
        return self.dequant(self.skip.add_relu(x, self.linear(x)))  # type: ignore[no-any-return]


def test_parts_that_can_be_quantized_compute_in_floats() -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    block, x = Block(), Tensor([[1.0, -2.0, 3.0]])
    assert list(block.state_dict()) == ["linear.weight", "linear.bias"]
    assert np.array_equal(block(x).numpy(), (x + block.linear(x)).relu().numpy())
    assert np.array_equal(quantization.QuantWrapper(nn.Identity())(x).numpy(), x.numpy())
    ours, theirs = rg.nn.quantized.FloatFunctional(), torch.ao.nn.quantized.FloatFunctional()
    a, b = np.array([[1, -2], [3, 4]], np.float32), np.array([[0.5, 1], [-5, 2]], np.float32)
    for name, second in [
        ("add", b),
        ("mul", b),
        ("add_relu", b),
        ("matmul", b),
        ("add_scalar", 2.0),
        ("mul_scalar", 3.0),
    ]:
        found = getattr(ours, name)(Tensor(a), Tensor(second) if second is b else second)
        expected = getattr(theirs, name)(torch.tensor(a), torch.tensor(b) if second is b else second)
        assert np.allclose(found.numpy(), expected.numpy()), name
    assert np.array_equal(
        ours.cat([Tensor(a), Tensor(b)], dim=1).numpy(), theirs.cat([torch.tensor(a), torch.tensor(b)], dim=1).numpy()
    )
    with pytest.raises(ConfigError, match="add"):
        ours(x)


def test_steps_of_torchs_quantized_kernels_say_what_to_do() -> None:
    for name in ("prepare", "convert", "fuse_modules", "quantize_dynamic"):
        with pytest.raises(ConfigError, match=rf"{name} .*nn\.quantize"):
            getattr(quantization, name)(nn.Linear(2, 2))
