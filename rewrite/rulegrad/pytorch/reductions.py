"""`torch.max`, `torch.var` and the like as functions: where a method of that name is NumPy's, they are PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.ir import dtype as dtypes
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.operands import of_tensors, result_dtype
from rulegrad.tensor.order_statistics import middle
from rulegrad.tensor.outputs import taking_out
from rulegrad.tensor.selections import largest, smallest

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


@taking_out
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; along `dim` (values, indices); with another tensor `maximum`.

    >>> import rulegrad
    >>> x = rulegrad.tensor([[1, 4], [3, 2]])
    >>> rulegrad.max(x).item(), [part.tolist() for part in rulegrad.max(x, dim=1)]
    (4, [[4, 3], [1, 0]])
    """
    second = dim if other is None else other
    if isinstance(second, TensorCore):
        return input.maximum(second)
    return input.max() if dim is None else largest(input, dim, keepdim)


@taking_out
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; along `dim` (values, indices); with another tensor `minimum`.

    >>> import rulegrad
    >>> rulegrad.min(rulegrad.tensor([[1, 4], [3, 2]]), 0).values.tolist()
    [1, 2]
    """
    second = dim if other is None else other
    if isinstance(second, TensorCore):
        return input.minimum(second)
    return input.min() if dim is None else smallest(input, dim, keepdim)


@taking_out
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle, the lower one of two; along `dim` (values, indices). nan where one is nan.

    >>> import rulegrad
    >>> rulegrad.median(rulegrad.tensor([4.0, 1.0, 2.0, 9.0])).item()
    2.0
    """
    return middle(input, dim, keepdim, skips_nan=False)


@taking_out
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not nan.

    >>> import rulegrad
    >>> rulegrad.nanmedian(rulegrad.tensor([4.0, float("nan"), 2.0])).item()
    2.0
    """
    return middle(input, dim, keepdim, skips_nan=True)


@taking_out
def var(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **more: Any) -> Any:
    """The variance, with the correction 1 unless `correction` or `unbiased` says otherwise.

    >>> import rulegrad
    >>> rulegrad.var(rulegrad.tensor([1.0, 5.0])).item(), rulegrad.var(rulegrad.tensor([1.0, 5.0]), correction=0).item()
    (8.0, 4.0)
    """
    return input.var(**_spread(dim, unbiased, keepdim, **more))


@taking_out
def std(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **more: Any) -> Any:
    """The standard deviation, the square root of `var`.

    >>> import rulegrad
    >>> rulegrad.std(rulegrad.tensor([1.0, 3.0, 5.0])).item()
    2.0
    """
    return input.std(**_spread(dim, unbiased, keepdim, **more))


@taking_out
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **more: Any) -> Any:
    """`var` and the mean.

    >>> import rulegrad
    >>> [part.item() for part in rulegrad.var_mean(rulegrad.tensor([1.0, 5.0]))]
    [8.0, 3.0]
    """
    return input.var_mean(**_spread(dim, unbiased, keepdim, **more))


@taking_out
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **more: Any) -> Any:
    """`std` and the mean.

    >>> import rulegrad
    >>> [part.item() for part in rulegrad.std_mean(rulegrad.tensor([1.0, 3.0, 5.0]))]
    [2.0, 3.0]
    """
    return input.std_mean(**_spread(dim, unbiased, keepdim, **more))


@of_tensors
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements: one bool, for which the elements are computed.

    >>> import rulegrad
    >>> rulegrad.equal(rulegrad.tensor([1, 2]), rulegrad.tensor([1, 2]))
    True
    """
    return bool(input.shape == other.shape and (input == other).all().item())


def promote_types(type1: Any, type2: Any) -> dtypes.DType:
    """The dtype of a result of an operation on tensors of these two dtypes.

    >>> import rulegrad
    >>> rulegrad.promote_types(rulegrad.int64, rulegrad.float32), rulegrad.promote_types("uint8", "int8")
    (DType('float32'), DType('int16'))
    """
    return dtypes.promote(type1, type2)


def result_type(tensor1: Any, tensor2: Any) -> dtypes.DType:
    """The dtype of a result of an operation on two tensors, or on a tensor and a Python number.

    >>> import rulegrad
    >>> rulegrad.result_type(rulegrad.tensor([1, 2]), 1.5)
    DType('float32')
    """
    return result_dtype(tensor1, tensor2)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether values of dtype `from_` may be stored in a tensor of `to`: not floats in one of integers, and so on.

    >>> import rulegrad
    >>> rulegrad.can_cast(rulegrad.float64, rulegrad.float16), rulegrad.can_cast(rulegrad.float16, rulegrad.int64)
    (True, False)
    """
    return _category(dtypes.as_dtype(from_)) <= _category(dtypes.as_dtype(to))


def _category(dtype: dtypes.DType) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_float else 1 if dtype.is_integer else 0


def _spread(dim: Any, unbiased: bool | None, keepdim: bool, *, correction: float | None = 1) -> dict[str, Any]:
    """The arguments of a method for those of PyTorch: `var(x, unbiased)` and `var(x, dim, unbiased, keepdim)`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = float(unbiased)
    axis = tuple(dim) if isinstance(dim, list) else dim
    return {
        "axis": axis if axis != () else None,
        "correction": 1 if correction is None else correction,
        "keepdims": keepdim,
    }
