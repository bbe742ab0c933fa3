"""Random tensor programs: made here, run by NumPy op by op and by rulegrad, and written as Python.

A program is a list of statements over the names v0, v1, …, each in two spellings: one for NumPy, one for Tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
SMALL_FLOATS = FLOATS[2:]
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint32", "uint64", "uint16")
DTYPES = (*FLOATS, *INTEGERS, "bool", *COMPLEX)


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def digits(name: str) -> float:
    """The distance of 1 to the next number of a float dtype, and of the parts of a complex one."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).eps)


def largest(name: str) -> float:
    """The largest number of a float dtype, and of the parts of a complex one."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).max)


def float64(name: str) -> str:
    """The dtype in which what a float or complex dtype holds is computed again."""
    return "complex128" if name in COMPLEX else "float64" if name in FLOATS else name


def matmul(x: Array, y: Array) -> Array:
    """A product of matrices, which of small floats is rounded once."""
    dtype = x.dtype
    x, y = wider(np.asarray(x)), wider(np.asarray(y))
    return (x[..., :, :, None] * y[..., None, :, :]).sum(-2, dtype=x.dtype).astype(dtype, copy=False)


def windows(x: Array, size: int, axis: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=axis)


def conv1d(x: Array, w: Array) -> Array:
    """(N, C, L) and (K, C, S): a correlation, without padding."""
    return np.einsum("ncls,kcs->nkl", windows(x, w.shape[2], 2), w).astype(x.dtype)


def softmax(x: Array, axis: int) -> Array:
    """The softmax along an axis; of integers in the float dtype that NumPy's exp has for them."""
    if x.dtype.kind in "iu":
        x = x.astype(np.exp(x[:0]).dtype)
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis, keepdims=True))


def half(x: Array) -> Array:
    return np.asarray(x * (0.5 if x.dtype.kind in "iu" else x.dtype.type(0.5)))


def attention(q: Array, k: Array, v: Array) -> Array:
    """Weighted by the softmax of half the products of queries and keys."""
    return matmul(softmax(half(matmul(q, k.T)), 1), v)


def added_at(x: Array, axis: int, places: Array, values: Array) -> Array:
    """x with values added at places along an axis, in order."""
    found = wider(x).copy()  # which is rounded once
    where: list[Any] = list(np.ogrid[tuple(map(slice, places.shape))])
    where[axis] = places
    np.add.at(found, tuple(where), values)
    return found.astype(x.dtype)


def wider(x: Array) -> Array:
    """In float32, if it is a small float."""
    return x.astype(np.float32) if x.dtype.name in SMALL_FLOATS else x


def in_order(x: Array, axis: int) -> Array:
    """Of -0.0 and 0.0 the first comes first, and nan comes last, which NumPy does not know of small floats."""
    return np.sort(wider(x), axis, kind="stable").astype(x.dtype)


def floor_divide(x: Array, y: Array) -> Array:
    """x // y, where with infinities the quotient is rounded, as the array API has it; NumPy gives what Python gives."""
    if x.dtype.kind in "iu":
        return np.asarray(x // y)
    return np.where(np.isinf(x) | np.isinf(y), np.floor(x / y), x // y).astype(x.dtype)


def added_to(x: Array, places: tuple[Array, ...], values: Array) -> Array:
    """x with values added at indices of all axes, in order."""
    found = wider(x).copy()
    np.add.at(found, places, values)
    return found.astype(x.dtype)


def accumulated(name: str) -> str:
    """The dtype of sums of a dtype."""
    if name in FLOATS + COMPLEX:
        return name
    return str(np.ones(1, name).sum().dtype)


def total(x: Array, axis: Any, keepdims: bool = False) -> Array:
    """A sum, which of small floats is rounded once."""
    return np.asarray(wider(x).sum(axis, keepdims=keepdims)).astype(accumulated(x.dtype.name))


def mean(x: Array, axis: Any) -> Array:
    return np.asarray(wider(x).mean(axis, keepdims=True)).astype(x.dtype)


def variance(x: Array, axis: Any) -> Array:
    return np.asarray(wider(x).var(axis, keepdims=True)).astype(x.dtype)


def log_total(x: Array, axis: Any) -> Array:
    """The logarithm of the sum of exponentials."""
    return np.log(total(np.exp(x), axis, True))


def running_sum(x: Array, axis: int) -> Array:
    return np.cumsum(wider(x), axis).astype(accumulated(x.dtype.name))


def order_of(x: Array, axis: int) -> Array:
    return np.argsort(wider(x), axis, kind="stable")


def places_in(line: Array, x: Array, side: Any) -> Array:
    return np.asarray(np.searchsorted(wider(line), wider(x), side))


def pooled(
    x: Array, name: str, size: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> Array:  # fmt: skip
    """Maxima or means of windows over the axes after the second."""
    dtype, x = x.dtype, wider(x)
    for axis, (n, s, p, d) in enumerate(zip(size, stride, padding, dilation, strict=True), 2):
        padded = np.pad(x, [(p, p) if k == axis else (0, 0) for k in range(x.ndim)], constant_values=-np.inf)
        found = np.moveaxis(windows(padded, (n - 1) * d + 1, axis), axis, -2)[..., ::s, ::d]
        x = np.moveaxis(found.max(-1) if name == "max" else found.mean(-1), -1, axis)
    return x.astype(dtype)


def convolution(
    x: Array, w: Array, stride: list[int], padding: list[int], dilation: list[int], groups: int
) -> Array:  # fmt: skip
    """(N, C, …) and (K, C / groups, …): a correlation over one or two axes."""
    if x.ndim == 3:
        one = convolution(x[:, :, None], w[:, :, None], [1, *stride], [0, *padding], [1, *dilation], groups)
        return one[:, :, 0]
    dtype, x, w = x.dtype, wider(x), wider(w)
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    reach = tuple((n - 1) * d + 1 for n, d in zip(w.shape[2:], dilation, strict=True))
    found = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    found = found[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    found = found.reshape(len(x), groups, -1, *found.shape[2:])
    w = w.reshape(groups, len(w) // groups, *w.shape[1:])
    result = np.einsum("ngchwij,gkcij->ngkhw", found, w)
    return result.reshape(len(x), -1, *result.shape[3:]).astype(dtype)


def transposed_convolution(x: Array, w: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """(N, C, L) and (C, K / groups, S): each element adds its multiple of the weights to the places it reaches."""
    if not np.isfinite(wider(w)).all():
        raise ValueError("zeros are between elements, and of zero times infinity each library makes what it likes")
    dtype, x, w = x.dtype, wider(x), wider(w)
    batch, channels, length = x.shape
    x = x.reshape(batch, groups, channels // groups, length)
    w = w.reshape(groups, channels // groups, *w.shape[1:])
    spread = (length - 1) * stride + 1
    found = np.zeros((batch, groups, w.shape[2], spread + dilation * (w.shape[3] - 1)), x.dtype)
    for k in range(w.shape[3]):
        found[..., k * dilation : k * dilation + spread : stride] += np.einsum("ngcl,gck->ngkl", x, w[..., k])
    found = found.reshape(batch, -1, found.shape[-1])
    return found[..., padding : found.shape[-1] - padding].astype(dtype)


NUMPY_NAMES = {
    "np": np, "D": numpy_dtype,
    **{
        function.__name__: function
        for function in (
            added_at, added_to, attention, conv1d, convolution, floor_divide, half, in_order, log_total, matmul, mean,
            order_of, places_in, pooled, running_sum, softmax, total, transposed_convolution, variance, windows,
        )
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """A name's properties when the rest of the program is made."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_complex(self) -> bool:
        return self.dtype in COMPLEX

    @property
    def is_inexact(self) -> bool:
        return self.is_float or self.is_complex


@dataclass(frozen=True, slots=True)
class Statement:
    """`vN = text`, or with `target` an update of a name in place: `vT OP= text`."""

    result: int
    sources: tuple[int, ...]
    numpy: str
    tensor: str
    dtype: str  # of the result
    rounds: bool = False  # whether a float result may be rounded in another way
    update: str = ""  # the name is that of an operator, or "copy": result is updated in place


@dataclass(slots=True)
class Program:
    seed: int
    inputs: list[tuple[int, Array]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    with_gradient: bool = False

    def values(self) -> int:
        """How many names it has."""
        return 1 + max([n for n, _ in self.inputs] + [s.result for s in self.statements], default=-1)

    def needed(self) -> Program:
        """The same without what no output depends on. Programs with updates keep everything."""
        if any(s.update for s in self.statements):
            return self
        live, kept = set(self.outputs), []
        for statement in reversed(self.statements):
            if statement.result in live:
                live.update(statement.sources)
                kept.append(statement)
        inputs = [(n, a) for n, a in self.inputs if n in live]
        return replace(self, inputs=inputs, statements=kept[::-1])

    def text(self, device: str) -> str:
        """Python that runs it on a device."""
        lines = ["import ml_dtypes", "import numpy as np", "from rulegrad import Tensor", ""]
        for number, array in self.inputs:
            grad = ", requires_grad=True" if self.with_gradient and array.dtype.kind == "f" else ""
            lines.append(f"v{number} = Tensor({literal(array)}, device={device!r}{grad})")
        for s in self.statements:
            text = f"v{s.result}.copy_({s.tensor})" if s.update == "copy" else f"v{s.result} {s.update}= {s.tensor}"
            lines.append(text.replace("device=DEVICE", f"device={device!r}"))
        lines += [f"print(v{number}.tolist())" for number in self.outputs]
        if self.with_gradient:
            lines.append(f"v{self.outputs[0]}.sum().backward()")
            lines += [f"print(v{n}.grad)" for n, a in self.inputs if a.dtype.kind == "f"]
        return "\n".join(lines)


def literal(array: Array) -> str:
    name = array.dtype.name
    is_small = name in SMALL_FLOATS and name != "float16"
    dtype = f"ml_dtypes.{name}" if is_small else f"np.{name}".replace("np.bool", "bool")
    values = repr(array.astype(np.float64).tolist() if is_small else array.tolist())
    values = values.replace("nan", "np.nan").replace("inf", "np.inf")
    shape = "" if array.size else f".reshape({array.shape})"
    return f"np.array({values}, {dtype}){shape}"
