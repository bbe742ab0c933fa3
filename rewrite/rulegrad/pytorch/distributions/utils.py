"""`torch.distributions.utils`: what programs that write distributions use of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.ir.limits import finfo
from rulegrad.tensor.gradient_mode import enable_grad
from rulegrad.tensor.storage import default_float
from rulegrad.tensor.tensor import Tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]

Value = TypeVar("Value")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers have the dtype of the first tensor.

    Raises DtypeError for anything else.

    >>> [one.tolist() for one in broadcast_all(Tensor([1.0, 2.0]), 3)]
    [[1.0, 2.0], [3.0, 3.0]]
    """
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise DtypeError(f"broadcast_all: a {type(value).__name__}; give tensors and numbers")
    first = next((value for value in values if isinstance(value, Tensor)), None)
    dtype, device = (default_float(), None) if first is None else (first.dtype, first.device)
    tensors = [value if isinstance(value, Tensor) else Tensor(value, dtype, device) for value in values]
    return tuple(Tensor.broadcast_tensors(*tensors))


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return Tensor.randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over so many axes at the end."""
    return value.reshape(value.shape[: value.ndim - dim] + (-1,)).sum(-1) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: `softmax`, or `sigmoid` where each is of 1 against 0.

    >>> logits_to_probs(Tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1, by the smallest step of the dtype."""
    step = float(finfo(as_dtype(probs.dtype)).eps)
    return probs.clamp(step, 1 - step)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities, which are kept away from 0 and 1.

    >>> probs_to_logits(Tensor([0.5]), is_binary=True).tolist()
    [0.0]
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property(Generic[Value]):  # noqa: N801  (PyTorch's name)
    """A property that is computed when it is first asked for, with gradients, and is an attribute from then on.

    >>> class Circle:
    ...     @lazy_property
    ...     def area(self):
    ...         return Tensor([3.0])
    >>> circle = Circle()
    >>> circle.area is circle.area
    True
    """

    def __init__(self, wrapped: Callable[[Any], Value]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Value: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
