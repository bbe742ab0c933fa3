"""Functions of one or two tensors with gradients that are given, not found from their steps.

The node is CUSTOM[name="rulegrad.custom_gradient"](value, x, y, …): its gradient is a rule of
rules/tensor/gradient.rules, which puts the gradient of the value, x and y into graphs of placeholders. These depend on
shapes and dtypes only, so each is built once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.gradient_mode import no_grad

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    #: From the gradient of the value and both arguments to the gradient of an argument.
    Gradient = Callable[[Tensor, Tensor, Tensor], Tensor]

_MOST = 1000  # graphs that are kept
_graphs: dict[Hashable, tuple[UOp, ...]] = {}


def with_gradients(value: Tensor, x: Tensor, y: Tensor, by_x: Gradient, by_y: Gradient, key: Hashable) -> Tensor:
    """`value`, whose gradients by x and y are `by_x(d, x, y)` and `by_y(d, x, y)` for its own gradient d.

    key: all that the functions depend on beside the shapes and dtypes of what they are given.
    """
    if not value.requires_grad or not all(as_dtype(t.dtype).is_float for t in (value, x, y)):
        return value
    whole = (key, *((t.shape, str(t.dtype)) for t in (value, x, y)))
    graphs = _graphs.get(whole)
    if graphs is None:
        with no_grad():
            d, of_x, of_y = (placeholder(t, k) for k, t in enumerate((value, x, y)))
            parts = (d, of_x, of_y, by_x(d, of_x, of_y).cast(x.dtype), by_y(d, of_x, of_y).cast(y.dtype))
        if len(_graphs) >= _MOST:
            _graphs.clear()
        graphs = _graphs[whole] = tuple(part.uop for part in parts)
    node = UOp("CUSTOM", (value.uop, x.uop, y.uop, *graphs), name="rulegrad.custom_gradient")
    return value._result(node, x, y)


def with_gradient(value: Tensor, x: Tensor, by_x: Callable[[Tensor, Tensor], Tensor], key: Hashable) -> Tensor:
    """`value`, whose gradient by x is `by_x(d, x)` for its own gradient d; the second derivative by x is 0."""
    return with_gradients(value, x, x.detach(), lambda d, x, _: by_x(d, x), lambda d, x, _: x.zeros_like(), key)


def placeholder(like: Tensor, number: int) -> Tensor:
    zeros = like.detach().zeros_like()
    return zeros._result(UOp("ARGUMENT", (zeros.uop,), id=-1 - number))
