"""`custom_fwd` and `custom_bwd`: what `autocast` does inside of an `autograd.Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from rulegrad.tensor.autocasting import autocast, autocast_dtype
from rulegrad.tensor.tensor import Tensor

Method = Callable[..., Any]


def custom_fwd(fwd: Method | None = None, *, device_type: str | None = None, cast_inputs: Any = None) -> Any:
    """A decorator for the `forward` of an `autograd.Function`, which `custom_bwd` for its `backward` goes with.

    cast_inputs: inside of `autocast`, tensors of floats are cast to this dtype, float64 excepted, and `forward` runs as
    if outside of it; without it, `forward` runs inside. device_type: for programs of PyTorch; every device is alike.

    >>> from rulegrad import Tensor, amp, autograd
    >>> class Doubled(autograd.Function):
    ...     @staticmethod
    ...     @amp.custom_fwd(device_type="cpu", cast_inputs="float32")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, gradient):
    ...         return gradient * 2
    >>> with amp.autocast():
    ...     Doubled.apply(Tensor([1.5], dtype="bfloat16")).dtype
    DType('float32')
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorated(ctx: Any, *arguments: Any, **more: Any) -> Any:
        dtype = autocast_dtype()
        ctx._autocast_dtype = dtype if cast_inputs is None else None
        if dtype is None or cast_inputs is None:
            return forward(ctx, *arguments, **more)
        with autocast(enabled=False):
            return forward(ctx, *_cast(arguments, cast_inputs), **_cast(more, cast_inputs))

    return decorated


def custom_bwd(bwd: Method | None = None, *, device_type: str | None = None) -> Any:
    """A decorator for the `backward` of an `autograd.Function`: `autocast` is there what it was in `forward`.

    >>> from rulegrad import Tensor, amp, autograd
    >>> class Product(autograd.Function):
    ...     @staticmethod
    ...     @amp.custom_fwd
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x @ x
    ...     @staticmethod
    ...     @amp.custom_bwd
    ...     def backward(ctx, gradient):
    ...         (x,) = ctx.saved_tensors
    ...         print((x @ x.T).dtype)
    ...         return gradient @ x.T + x.T @ gradient
    >>> x = Tensor.eye(2).requires_grad_()
    >>> with amp.autocast(dtype="float16"):
    ...     y = Product.apply(x)
    >>> _ = y.float().sum().backward()
    float16
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorated(ctx: Any, *gradients: Any, **more: Any) -> Any:
        dtype = ctx._autocast_dtype
        with autocast(dtype=dtype, enabled=dtype is not None):
            return backward(ctx, *gradients, **more)

    return decorated


def _cast(value: Any, dtype: Any) -> Any:
    """The value with its tensors of floats cast, in lists, tuples and dicts too; float64 stays, as in PyTorch."""
    if isinstance(value, Tensor):
        return value.cast(dtype) if value.dtype.is_float and value.dtype != "float64" else value
    if isinstance(value, Mapping):
        return {name: _cast(part, dtype) for name, part in value.items()}
    return type(value)(_cast(part, dtype) for part in value) if type(value) in (list, tuple) else value
