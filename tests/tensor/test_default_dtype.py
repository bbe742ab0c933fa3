"""The dtype of Python's floats: `set_default_dtype`, and what has it."""

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.array_api import __array_namespace_info__ as info
from rulegrad.config import config
from rulegrad.errors import ConfigError, DeviceError

#: What is of the default dtype; those that PyTorch has give the same dtypes there (2.13).
MADE = {
    "a list": lambda: Tensor([1.5]),
    "zeros": lambda: rg.zeros(2),
    "ones": lambda: rg.ones(2),
    "empty": lambda: rg.empty(2),
    "full": lambda: rg.full((2,), 1.5),
    "scalar_tensor": lambda: rg.scalar_tensor(2),
    "arange": lambda: rg.arange(0, 1, 0.25),
    "linspace": lambda: rg.linspace(0, 1, 3),
    "logspace": lambda: rg.logspace(0, 1, 3),
    "eye": lambda: rg.eye(2),
    "rand": lambda: rg.rand(2),
    "randn": lambda: rg.randn(2),
    "normal": lambda: rg.normal(0.0, 1.0, (2,)),
    "a window": lambda: rg.hann_window(4),
    "frequencies": lambda: rg.fft.fftfreq(4),
    "integers and a float": lambda: Tensor([1, 2]) + 1.5,
    "bools times a float": lambda: Tensor([True]) * 1.5,
    "a quotient of integers": lambda: Tensor([1, 2]) / Tensor([2, 2]),
    "exp of integers": lambda: Tensor([1, 2]).exp(),
    "sigmoid of integers": lambda: Tensor([1, 2]).sigmoid(),
    "where of floats": lambda: rg.where(Tensor([True]), 1.0, 0.0),
    "Linear": lambda: nn.Linear(2, 2).weight,
    "Embedding": lambda: nn.Embedding(2, 2).weight,
    "LazyLinear": lambda: _called(nn.LazyLinear(2), rg.ones(1, 3)).weight,
    "BatchNorm": lambda: nn.BatchNorm1d(2).running_mean,
    "LSTM": lambda: nn.LSTM(2, 2).weight_ih_l0,
    "attention": lambda: nn.MultiheadAttention(2, 1).in_proj_weight,
    "a layer's result": lambda: nn.Linear(2, 2)(rg.ones(1, 2)),
    "a sample": lambda: rg.distributions.Normal(0.0, 1.0).sample(),
    "a batch": lambda: rg.data.default_collate([1.0, 2.0]),
    "the array API": lambda: info().default_dtypes()["real floating"],
}
#: What is not, whatever the default is.
KEPT = {
    "float32 and a float": (lambda: Tensor(np.ones(2, "float32")) * 2.5, "float32"),
    "float16 and a float": (lambda: Tensor(np.ones(2, "float16")) * 2.5, "float16"),
    "float32 and a complex number": (lambda: Tensor(np.ones(2, "float32")) * 1j, "complex64"),
    "an array": (lambda: Tensor(np.ones(2)), "float64"),
    "ints": (lambda: Tensor([1, 2]) * 2, "int64"),
    "arange of ints": (lambda: rg.arange(3), "int64"),
    "a given dtype": (lambda: rg.zeros(2, dtype="float16"), "float16"),
}


def _called(layer, x):
    layer(x)
    return layer


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_floats_for_which_no_dtype_is_given_have_the_default(dtype):
    with config(default_dtype=dtype):
        for name, make in MADE.items():
            found = make()
            assert getattr(found, "dtype", found) == dtype, name
        for name, (make, wanted) in KEPT.items():
            assert make().dtype == wanted, name
        assert rg.get_default_dtype() == dtype
    assert Tensor([1.5]).dtype == "float32"


def test_complex_numbers_follow():
    for dtype, wanted in {"float64": "complex128", "float32": "complex64", "bfloat16": "complex64"}.items():
        with config(default_dtype=dtype):
            assert Tensor([1j]).dtype == (Tensor([1]) * 1j).dtype == wanted
            assert rg.get_default_dtype() == dtype


def test_a_change_reaches_functions_whose_graphs_are_kept():
    x = Tensor([1, 4])
    captured = rg.jit(lambda x: x.sqrt() * 2.5)
    for _ in range(3):
        for dtype in ("float32", "float64"):
            with config(default_dtype=dtype):
                assert rg.softmax(x, 0).dtype == rg.exp(x).dtype == captured(x).dtype == dtype
                assert captured(x).tolist() == [2.5, 5.0]


def test_digits_of_a_double_are_kept():
    rg.set_default_dtype(rg.float64)
    try:
        assert Tensor([0.1]).item() == 0.1
        layer = nn.Linear(3, 1)
        x = rg.rand(4, 3)
        wanted = x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()
        np.testing.assert_allclose(layer(x).numpy(), wanted, rtol=1e-15)
        layer(x).sum().backward()
        assert layer.weight.grad.dtype == "float64"
    finally:
        rg.set_default_dtype("float32")


def test_names_of_tensor_types_and_wrong_ones():
    for name in (rg.DoubleTensor, "torch.DoubleTensor", "torch.cuda.DoubleTensor"):
        rg.set_default_tensor_type(name)
        assert rg.get_default_dtype() == "float64"
        rg.set_default_tensor_type(rg.FloatTensor)
    with pytest.raises(ConfigError, match="it takes float16, bfloat16, float32 or float64"):
        rg.set_default_dtype(rg.int64)
    with pytest.raises(ConfigError, match="give one of BFloat16Tensor"):
        rg.set_default_tensor_type("Tensor64")
    with pytest.raises(ConfigError, match="it takes float16"):
        rg.set_default_tensor_type("torch.LongTensor")


def test_the_default_device():
    before = config.device
    rg.set_default_device("numpy")
    try:
        assert rg.get_default_device() == rg.zeros(1).device == "numpy"
        with rg.device("numpy") as one:
            assert one == "numpy" and rg.ones(1).device == "numpy"
    finally:
        config.device = before
    wanted = Tensor.zeros(1).device
    with rg.device("numpy"), rg.device("numpy"):
        assert rg.ones(1).device == "numpy"
    assert rg.ones(1).device == rg.get_default_device() == wanted
    with pytest.raises(DeviceError), rg.device("nothing"):
        pass
    with pytest.raises(DeviceError):
        rg.set_default_device("nothing")
    assert rg.ones(1).device == wanted
