"""Functions that run on the host: values out, NumPy, values in; with gradients that are given by a formula.

A result is a buffer, which no graph connects with the operands. Its gradient is a function (`linalg.gradients`) that
makes gradients of the operands by operations on tensors, so it can be differentiated again. Inside `vmap` the operands
are elements; NumPy's functions take all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rulegrad.compile import batched
from rulegrad.errors import RulegradError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype, float32, float64
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.storage import upload

if TYPE_CHECKING:
    from rulegrad.tensor.storage import Array
    from rulegrad.tensor.tensor import Tensor

    #: From operands, results and gradients of the results to gradients of the operands.
    Formula: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


class LinalgError(RulegradError, np.linalg.LinAlgError, RuntimeError):
    """A matrix that has no inverse, or no such decomposition; or an iteration that did not end.

    `LinAlgError`, as NumPy and PyTorch write it, is the same class.

    >>> try:
    ...     rg.linalg.inv(Tensor([[0.0]]))
    ... except rg.linalg.LinalgError as error:
    ...     print(error)
    inv: singular matrix
    """


LinAlgError = LinalgError


def is_complex(x: Tensor) -> bool:
    """Whether the numbers are complex."""
    return x.dtype.is_complex


def supported(x: Tensor) -> Tensor:
    """`x` in a dtype that LAPACK has: integers as float64, small floats as float32."""
    if x.dtype.is_float:
        return x.cast(float32) if x.dtype.bits < float32.bits else x
    return x if is_complex(x) else x.cast(float64)


def rounded(result: Tensor, like: Tensor) -> Tensor:
    """The result for the small floats that `supported` made larger, in their dtype."""
    return result.cast(like.dtype) if like.dtype.is_float and result.dtype.is_float else result


def square(x: Tensor, operation: str) -> None:
    """Raises ShapeError unless `x` has square matrices."""
    matrices(x, operation)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{operation}: the matrices of shape {x.shape} are not square")


def matrices(x: Tensor, operation: str) -> None:
    """Raises ShapeError unless `x` has two axes or more."""
    if x.ndim < 2:
        raise ShapeError(f"{operation}: the shape {x.shape} has no rows and columns; give two axes or more")


def tracks(*operands: Tensor) -> bool:
    """Whether results of these operands have a gradient."""
    return gradients_enabled() and any(x.requires_grad for x in operands)


def no_gradient(operation: str, instead: str, *operands: Tensor) -> None:
    """Raises RulegradError when a gradient would be needed."""
    if tracks(*operands):
        raise RulegradError(f"{operation} has no gradient; use {instead}, or detach the operand first")


def largest(x: Tensor) -> int:
    """The largest of integers that are not negative, in `vmap` of all that it maps over; 0 of none. Synchronises."""
    (whole,), _ = _unmapped([x.detach()])
    return int(whole.numpy().max(initial=0))


def on_host(
    operation: str, function: Callable[..., Any], *operands: Tensor, formula: Formula | None = None
) -> tuple[Tensor, ...]:
    """The results of `function` (one array, or a tuple) on the operands' values, with the gradient of `formula`.

    Computes the operands. Raises LinalgError for NumPy's.
    """
    wholes, levels = _unmapped(operands)
    realize_all(list(wholes))
    try:
        found = function(*[x.numpy() for x in wholes])
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"{operation}: {str(error)[:1].lower() + str(error)[1:]}") from None
    arrays = [np.asarray(a) for a in found] if isinstance(found, tuple) else [np.asarray(found)]
    like = operands[0]
    if formula is None or not tracks(*operands):
        return tuple(_mapped(_from_host(array, like), levels) for array in arrays)
    return _with_gradient(arrays, levels, operands, formula)


def _from_host(values: Array, like: Tensor) -> Tensor:
    """A tensor with these values on the device of `like`, without a gradient."""
    array = np.ascontiguousarray(values).reshape(np.shape(values))
    as_dtype(array.dtype)
    buffer = upload(array, like.device)
    return like._new(buffer.uop, buffer, buffer.device)


def _with_gradient(
    arrays: list[Array], levels: list[int], operands: Sequence[Tensor], formula: Formula
) -> tuple[Tensor, ...]:
    """The results as parts of one buffer: it has one gradient, of which a formula needs all parts."""
    ahead = len(levels)
    shapes = [array.shape[ahead:] for array in arrays]
    whole = arrays[0]
    if len(arrays) > 1:
        rows = [a.reshape(*a.shape[:ahead], math.prod(shape)) for a, shape in zip(arrays, shapes, strict=True)]
        whole = np.concatenate(rows, axis=-1)
    packed = _mapped(_from_host(whole, operands[0]), levels)
    saved = [_as_now(x) for x in operands]

    def parts(x: Tensor) -> list[Tensor]:
        if len(arrays) == 1:
            return [x]
        found: list[Tensor] = []
        begin = 0
        for array, shape in zip(arrays, shapes, strict=True):
            part = x.shrink((begin, begin + math.prod(shape))).reshape(shape)
            found.append(part if array.dtype == whole.dtype else part.real)
            begin += math.prod(shape)
        return found

    def pullback(value: Tensor, gradient: Tensor) -> list[tuple[Tensor, Tensor]]:
        gradients = formula(saved, parts(value), parts(gradient))
        return [(x, g.cast(x.dtype)) for x, g in zip(saved, gradients, strict=True) if x.requires_grad]

    packed._history = GradientPoint(packed.uop, packed._past(), pullback=pullback)
    packed._requires_grad = True
    return tuple(parts(packed))


def _as_now(x: Tensor) -> Tensor:
    """The tensor as it is now: a leaf may be changed in place later."""
    same = x._new(x.uop, x._past(), x._device)
    same._requires_grad = x.requires_grad
    return same


def _unmapped(operands: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[int]]:
    """The operands for all elements that `vmap` maps over, along axes in front; and the levels of these axes."""
    if not any(x.uop.toposort("BATCHED") for x in operands):
        return operands, []
    wholes, own = [], []
    sizes: dict[int, int] = {}
    for x in operands:
        node = batched(x.uop)
        found: list[int] = []
        while node.op == "BATCHED":
            found.insert(0, node.attrs["level"])
            node = node.src[0]
        sizes |= zip(found, node.shape[: len(found)], strict=True)
        wholes.append(x._new(node, x._past(), x._device))
        own.append(found)
    levels = sorted(sizes)
    return [_at_levels(x, found, levels, sizes) for x, found in zip(wholes, own, strict=True)], levels


def _at_levels(x: Tensor, own: list[int], levels: list[int], sizes: dict[int, int]) -> Tensor:
    """Repeated along the axes of the levels that it does not have."""
    element = x.shape[len(own) :]
    ones = x.reshape(*[sizes[level] if level in own else 1 for level in levels], *element)
    return ones.expand(*[sizes[level] for level in levels], *element)


def _mapped(x: Tensor, levels: list[int]) -> Tensor:
    """One element of each of the axes in front, as `vmap` sees it."""
    for level in levels:
        x = x._result(UOp("BATCHED", (x.uop,), level=level))
    return x


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return x.mT.conj()
