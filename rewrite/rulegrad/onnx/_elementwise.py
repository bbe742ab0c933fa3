"""Arithmetic, comparisons, activations, casts: element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from rulegrad.nn import functional
from rulegrad.onnx import _table as table
from rulegrad.onnx._graph import Call
from rulegrad.onnx._package import package
from rulegrad.onnx._table import Value, known, op
from rulegrad.tensor.tensor import Tensor

_PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": Tensor.abs, "Acos": Tensor.acos, "Acosh": Tensor.acosh, "Asin": Tensor.asin, "Asinh": Tensor.asinh,
    "Atan": Tensor.atan, "Atanh": Tensor.atanh, "Ceil": Tensor.ceil, "Cos": Tensor.cos, "Cosh": Tensor.cosh,
    "Erf": Tensor.erf, "Exp": Tensor.exp, "Floor": Tensor.floor, "Log": Tensor.log, "Neg": Tensor.neg,
    "Reciprocal": Tensor.reciprocal, "Relu": Tensor.relu, "Round": Tensor.round, "Sigmoid": Tensor.sigmoid,
    "Sign": Tensor.sign, "Sin": Tensor.sin, "Sinh": Tensor.sinh, "Softplus": Tensor.softplus,
    "Softsign": Tensor.softsign, "Sqrt": Tensor.sqrt, "Tan": Tensor.tan, "Tanh": Tensor.tanh, "Mish": Tensor.mish,
    "HardSwish": Tensor.hardswish, "IsNaN": Tensor.isnan, "Not": Tensor.logical_not, "BitwiseNot": Tensor.bitwise_not,
    "Det": Tensor.det,
    "Add": Tensor.add, "Sub": Tensor.sub, "Mul": Tensor.mul, "Equal": Tensor.eq, "Less": Tensor.less,
    "LessOrEqual": Tensor.less_equal, "Greater": Tensor.greater, "GreaterOrEqual": Tensor.greater_equal,
    "And": Tensor.logical_and, "Or": Tensor.logical_or, "Xor": Tensor.logical_xor, "BitwiseAnd": Tensor.bitwise_and,
    "BitwiseOr": Tensor.bitwise_or, "BitwiseXor": Tensor.bitwise_xor, "MatMul": Tensor.matmul, "Where": Tensor.where,
}  # fmt: skip


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, *inputs: method(*inputs)


for _name, _method in _PLAIN.items():
    op(_name)(_plain(_method))


@op("Div")
def div(call: Call, a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point():
        return a / b
    quotient = a // b
    # Towards zero: the floor is one too small where the signs differ and something is left.
    if not a.dtype.is_signed:
        return quotient
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).cast(a.dtype)


@op("Mod")
def mod(call: Call, a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return a.fmod(b) if fmod else a.remainder(b)


@op("Pow")
def pow_(call: Call, a: Tensor, b: Tensor) -> Tensor:
    if not a.is_floating_point() and b.is_floating_point():
        return a.cast(b.dtype).pow(b).cast(a.dtype)
    return a.pow(b.cast(a.dtype))


@op("Sum")
def sum_(call: Call, *inputs: Tensor) -> Tensor:
    return reduce(Tensor.add, inputs)


@op("Mean")
def mean(call: Call, *inputs: Tensor) -> Tensor:
    return reduce(Tensor.add, inputs) / len(inputs)


@op("Max")
def max_(call: Call, *inputs: Tensor) -> Tensor:
    return reduce(Tensor.maximum, inputs)


@op("Min")
def min_(call: Call, *inputs: Tensor) -> Tensor:
    return reduce(Tensor.minimum, inputs)


@op("BitShift")
def bit_shift(call: Call, a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    return a.lshift(b) if direction == "LEFT" else a.rshift(b)


@op("Clip", since=6)
def clip_6(call: Call, x: Tensor, *, min: float, max: float) -> Tensor:
    return x.clip(min, max)


@op("Clip", since=11, raw=True)
def clip_11(call: Call, x: Value, low: Value = None, high: Value = None) -> Value:
    x = call.tensor(x)
    bounds = [_bound(call, one) for one in (low, high)]
    if bounds[1] is not None:
        # The upper bound wins where they cross.
        x = x if bounds[0] is None else x.clip(bounds[0], None)
        return x.clip(None, bounds[1])
    return x if bounds[0] is None else x.clip(bounds[0], None)


def _bound(call: Call, value: Value) -> Any:
    """A bound on the host is a number in the kernel."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    return value


@op("Celu")
def celu(call: Call, x: Tensor, *, alpha: float) -> Tensor:
    return x.celu(alpha)


@op("Elu")
def elu(call: Call, x: Tensor, *, alpha: float) -> Tensor:
    return x.elu(alpha)


@op("Selu")
def selu(call: Call, x: Tensor, *, alpha: float, gamma: float) -> Tensor:
    return (x > 0).where(x * gamma, (x.exp() - 1) * (alpha * gamma))


@op("LeakyRelu")
def leaky_relu(call: Call, x: Tensor, *, alpha: float) -> Tensor:
    return x.leaky_relu(alpha)


@op("PRelu")
def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    return (x < 0).where(x * slope, x)


@op("ThresholdedRelu")
def thresholded_relu(call: Call, x: Tensor, *, alpha: float) -> Tensor:
    return (x > alpha).where(x, x.zeros_like())


@op("HardSigmoid")
def hard_sigmoid(call: Call, x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return (x * alpha + beta).clip(0, 1)


@op("Gelu")
def gelu(call: Call, x: Tensor, *, approximate: str) -> Tensor:
    return x.gelu("tanh" if approximate == "tanh" else "none")


@op("Swish")
def swish(call: Call, x: Tensor, *, alpha: float) -> Tensor:
    return x * (x * alpha).sigmoid()


@op("Shrink")
def shrink(call: Call, x: Tensor, *, bias: float, lambd: float) -> Tensor:
    zero = x.zeros_like()
    return (x < -lambd).where(x + bias, (x > lambd).where(x - bias, zero)).cast(x.dtype)


@op("IsInf")
def is_inf(call: Call, x: Tensor, *, detect_negative: int, detect_positive: int) -> Tensor:
    return x.isinf(bool(detect_positive), bool(detect_negative))


@op("Dropout", since=7)
def dropout_7(call: Call, x: Tensor, *, ratio: float = 0.5) -> Any:
    return x, x.ones_like().cast("bool")


@op("Dropout", since=12, host=(1, 2))
def dropout_12(call: Call, x: Tensor, ratio: Any = None, training: Any = None, *, seed: int = 0) -> Any:
    share = 0.5 if ratio is None else float(ratio)
    if training is None or not bool(training) or share == 0:
        return x, x.ones_like().cast("bool")
    kept = Tensor.rand(*x.shape, device=call.device) >= share
    return kept.where(x / (1 - share), x.zeros_like()), kept


# ---- casts ----


def dtype_of(kind: int) -> np.dtype[Any]:
    """NumPy's dtype of a type of the standard."""
    dtype: np.dtype[Any] = np.dtype(package().helper.tensor_dtype_to_np_dtype(kind))
    return dtype


def cast_to(call: Call, x: Value, dtype: np.dtype[Any], saturate: bool, kind: int = 0) -> Value:
    """A tensor or an array in another dtype: on the device where tensors have both."""
    if isinstance(x, np.ndarray) and not (table.has_tensors(dtype) and table.has_tensors(x.dtype)):
        return _cast_on_host(x, dtype, saturate, kind)
    if not table.has_tensors(dtype):
        return _cast_on_host(table.to_host(x), dtype, saturate, kind)
    x = call.tensor(x)
    if dtype.name.startswith("float8") and saturate and x.is_floating_point():
        largest = 448.0 if dtype.name == "float8_e4m3fn" else 57344.0
        x = x.clip(-largest, largest)
    return x.cast(dtype.name)


def _cast_on_host(x: Any, dtype: np.dtype[Any], saturate: bool, kind: int) -> Any:
    if dtype.kind == "O":
        return _texts(x)
    if x.dtype == object or x.dtype.kind in "US":
        texts = [one.decode() if isinstance(one, bytes) else str(one) for one in x.ravel()]
        wide = np.float64 if dtype.kind not in "iu" else dtype
        numbers = [float(text) if wide == np.float64 else int(text) for text in texts]
        return np.array(numbers, wide).reshape(x.shape).astype(dtype)
    small = dtype.name.startswith(("float8", "float4", "int4", "uint4", "int2", "uint2"))
    if small and dtype.name.startswith("float"):
        numbers = x.astype(np.float32)
        return package().numpy_helper.saturate_cast(numbers, dtype) if saturate else numbers.astype(dtype)
    if small:
        return x.astype(np.int32).astype(dtype) if x.dtype.kind == "f" else x.astype(dtype)
    return x.astype(dtype)


def _texts(x: Any) -> Any:
    def text(one: Any) -> str:
        if isinstance(one, (bool, np.bool_)):
            return str(bool(one))
        if x.dtype.kind in "iu":
            return str(int(one))
        if isinstance(one, (str, bytes)):
            return str(one)
        return "NaN" if np.isnan(one) else "INF" if one == np.inf else "-INF" if one == -np.inf else str(one)

    return np.array([text(one) for one in x.ravel()], object).reshape(x.shape)


@op("Cast", raw=True)
def cast(call: Call, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    return cast_to(call, x, dtype_of(to), bool(saturate), to)


@op("CastLike", raw=True)
def cast_like(call: Call, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    dtype = like.dtype.numpy if isinstance(like, Tensor) else like.dtype
    return cast_to(call, x, np.dtype(dtype), bool(saturate))


@known("Cast")
def known_cast(call: Call, x: Any, *, to: int, saturate: int = 1) -> Value:
    return _cast_on_host(x, dtype_of(to), bool(saturate), to)


@known("CastLike")
def known_cast_like(call: Call, x: Any, like: Any, *, saturate: int = 1) -> Value:
    return _cast_on_host(x, like.dtype, bool(saturate), 0)


@op("BitCast", raw=True)
def bit_cast(call: Call, x: Value, *, to: int) -> Value:
    dtype = dtype_of(to)
    if table.has_tensors(dtype) and isinstance(x, Tensor) and dtype.kind != "b" and x.dtype != "bool":
        return x.bitcast(dtype.name)
    return table.to_host(x).view(dtype)


@op("Softmax", since=1)
def softmax_1(call: Call, x: Tensor, *, axis: int) -> Tensor:
    rows = flat(x, axis)
    return rows.softmax(-1).reshape(x.shape)


@op("Softmax", since=13)
def softmax(call: Call, x: Tensor, *, axis: int) -> Tensor:
    return x.softmax(axis)


@op("LogSoftmax", since=1)
def log_softmax_1(call: Call, x: Tensor, *, axis: int) -> Tensor:
    return flat(x, axis).log_softmax(-1).reshape(x.shape)


@op("LogSoftmax", since=13)
def log_softmax(call: Call, x: Tensor, *, axis: int) -> Tensor:
    return x.log_softmax(axis)


@op("Hardmax", since=1)
def hardmax_1(call: Call, x: Tensor, *, axis: int) -> Tensor:
    rows = flat(x, axis)
    return rows.argmax(-1).one_hot(rows.shape[-1]).cast(x.dtype).reshape(x.shape)


@op("Hardmax", since=13)
def hardmax(call: Call, x: Tensor, *, axis: int) -> Tensor:
    return x.argmax(axis).one_hot(x.shape[axis]).cast(x.dtype).moveaxis(-1, axis)


def flat(x: Tensor, axis: int) -> Tensor:
    """A matrix: the axes before `axis` are its rows."""
    rows = int(np.prod(x.shape[: axis if axis >= 0 else x.ndim + axis], dtype=np.int64))
    return x.reshape(rows, int(np.prod(x.shape, dtype=np.int64)) // max(rows, 1) if rows else 0)


@op("Gemm")
def gemm(
    call: Call, a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float, beta: float, transA: int, transB: int
) -> Tensor:
    product = (a.T if transA else a) @ (b.T if transB else b)
    product = product if alpha == 1 else (product * alpha).cast(a.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (c * beta).cast(a.dtype))


@op("Einsum")
def einsum(call: Call, *inputs: Tensor, equation: str) -> Any:
    return Tensor.einsum(equation.replace(" ", ""), *inputs)


@op("GridSample", since=16)
def grid_sample(call: Call, x: Tensor, grid: Tensor, *, align_corners: int, mode: str, padding_mode: str) -> Tensor:
    names: dict[str, Any] = {"linear": "bilinear", "cubic": "bicubic"}
    return functional.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))  # type: ignore[arg-type]
