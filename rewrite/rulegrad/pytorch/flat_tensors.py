"""`torch._utils`: tensors behind each other in one vector, as packages that send gradients put them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rulegrad.errors import ShapeError
from rulegrad.tensor.tensor import Tensor

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of the tensors, in one vector.

    >>> _flatten_dense_tensors([Tensor([[1, 2]]), Tensor([3])]).tolist()
    [1, 2, 3]
    """
    return Tensor.concat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a vector, of the shapes of the tensors. Raises ShapeError where it has other numbers of elements.

    >>> [part.shape for part in _unflatten_dense_tensors(Tensor([1, 2, 3]), [Tensor([[0, 0]]), Tensor([0])])]
    [(1, 2), (1,)]
    """
    sizes = [math.prod(tensor.shape) for tensor in tensors]
    if flat.shape != (sum(sizes),):
        raise ShapeError(f"a vector of shape {flat.shape} for tensors of {sizes} elements; give one of {sum(sizes)}")
    return tuple(part.reshape(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors, strict=True))
