"""Mixed precision: `autocast`, and the table of the methods that run in fewer bits, or in float32, inside it.

A method of the table casts the tensors that it is given, and is itself as it was: the casts are nodes of the graph,
which are fused with what reads them, shared where two methods read one tensor, and have gradients. What is in neither
list runs in the dtypes of its operands, which promote as always.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from types import FunctionType
from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.ir.dtype import DType, as_dtype, bfloat16, float16, float32
from rulegrad.tensor.core import TensorCore

#: Products, whose time is in multiplications: in the dtype of `autocast`, with sums in float32.
IN_FEWER_BITS: Final = frozenset(
    [
        "matmul",
        "__matmul__",
        "linear",
        "mm",
        "bmm",
        "mv",
        "inner",
        "outer",
        "addmm",
        "addbmm",
        "baddbmm",
        "addmv",
        "einsum",
        "tensordot",
        "prelu",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "scaled_dot_product_attention",
    ]
)
#: What needs the range or the digits of float32: powers, means and sums of many elements, norms, losses.
IN_FLOAT32: Final = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "pow",
        "power",
        "__pow__",
        "__rpow__",
        "float_power",
        "rsqrt",
        "reciprocal",
        "logaddexp",
        "logaddexp2",
        "sinh",
        "cosh",
        "tan",
        "asin",
        "acos",
        "erfinv",
        "logit",
        "softplus",
        "logsigmoid",
        "softmax",
        "softmin",
        "log_softmax",
        "logsumexp",
        "logcumsumexp",
        "sum",
        "nansum",
        "prod",
        "cumsum",
        "cumprod",
        "mean",
        "nanmean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "dist",
        "renorm",
        "normalize",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "instance_norm",
        "batch_norm",
        "local_response_norm",
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "soft_margin_loss",
        "hinge_embedding_loss",
        "multi_margin_loss",
        "poisson_nll_loss",
        "gaussian_nll_loss",
        "margin_ranking_loss",
        "cosine_similarity",
        "cosine_embedding_loss",
        "pairwise_distance",
        "cdist",
        "pdist",
        "triplet_margin_loss",
    ]
)


class _Mode(threading.local):
    dtype: DType | None = None


_mode = _Mode()


def autocast_dtype() -> DType | None:
    """The dtype of products inside `autocast`; None outside.

    >>> from rulegrad import autocast
    >>> with autocast(dtype="float16"):
    ...     autocast_dtype()
    DType('float16')
    """
    return _mode.dtype


class autocast(ContextDecorator):  # noqa: N801  (PyTorch's name)
    """Inside, products run in bfloat16 or float16, and what needs more digits in float32. Parameters stay as they are.

    A context manager and a decorator, for the forward pass; gradients run in the dtypes of what they are of. Methods of
    `rulegrad.tensor.autocasting.IN_FEWER_BITS` (products, convolutions, attention) cast float32 operands down, those of
    `IN_FLOAT32` (powers, sums, norms, losses) cast float16 and bfloat16 up; float64 stays. Use float16 with a
    `rulegrad.amp.GradScaler`. device_type: for programs of PyTorch; it holds for every device. With `enabled=False` the
    block is as if outside; False in the place of the device says the same, as in `torch.cuda.amp`. Raises ConfigError
    for another dtype.

    >>> from rulegrad import Tensor, autocast
    >>> x = Tensor([[1.0, 2.0]])
    >>> with autocast():
    ...     product = x @ x.T
    ...     product.dtype, product.softmax(-1).dtype, x.dtype
    (DType('bfloat16'), DType('float32'), DType('float32'))
    """

    def __init__(
        self,
        device_type: str | bool | None = None,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        enabled = enabled and device_type is not False
        del device_type, cache_enabled  # equal casts are one node of the graph, so they need no cache
        wanted = bfloat16 if dtype is None else as_dtype(dtype)
        if wanted not in (bfloat16, float16):
            raise ConfigError(f"autocast: dtype={wanted}; use bfloat16 or float16")
        self._dtype = wanted if enabled else None
        self._before: list[DType | None] = []

    def __enter__(self) -> autocast:
        self._before.append(_mode.dtype)
        _mode.dtype = self._dtype
        return self

    def __exit__(self, *_: object) -> None:
        _mode.dtype = self._before.pop()


def apply_table(*classes: type[Any]) -> None:
    """Let the methods of classes that are in the table cast their operands."""
    for cls in classes:
        for name, row in list(vars(cls).items()):
            if name in IN_FEWER_BITS or name in IN_FLOAT32:
                setattr(cls, name, _casting(row, name in IN_FEWER_BITS))


def _casting(row: Any, is_low: bool) -> Any:
    if isinstance(row, (staticmethod, classmethod)):
        return type(row)(_casting(row.__func__, is_low))
    function: FunctionType = row
    cast: Callable[[Any, DType], Any] = _lowered if is_low else _raised

    @wraps(function)
    def method(*arguments: Any, **more: Any) -> Any:
        dtype = _mode.dtype
        if dtype is None:
            return function(*arguments, **more)
        cast_arguments = [cast(argument, dtype) for argument in arguments]
        return function(*cast_arguments, **{name: cast(value, dtype) for name, value in more.items()})

    return method


def _lowered(value: Any, dtype: DType) -> Any:
    if isinstance(value, TensorCore):
        return value.cast(dtype) if value.dtype in (float32, float16, bfloat16) else value  # type: ignore[attr-defined]
    return type(value)([_lowered(part, dtype) for part in value]) if type(value) in (list, tuple) else value


def _raised(value: Any, dtype: DType) -> Any:
    if isinstance(value, TensorCore):
        return value.cast(float32) if value.dtype in (float16, bfloat16) else value  # type: ignore[attr-defined]
    return type(value)([_raised(part, dtype) for part in value]) if type(value) in (list, tuple) else value
