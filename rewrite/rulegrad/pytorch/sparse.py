"""`torch.sparse`: there are no sparse tensors here, so these functions give and take dense ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import DtypeError, IndexRangeError, ShapeError
from rulegrad.ir.dtype import int64
from rulegrad.tensor.tensor import Tensor

__all__ = ["addmm", "mm", "sparse_coo_tensor"]


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """The dense tensor with these values at these places, and zeros elsewhere; what is at one place is added up.

    indices: int64 (axes, count); values: (count, …). size: of all axes; without it as large as the indices say, for
    which they are read. `to_dense()` is the tensor itself. Raises ShapeError, DtypeError, IndexRangeError.

    >>> sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3)).tolist()
    [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]
    """
    places = indices if isinstance(indices, Tensor) else Tensor(indices, device=device)
    given = values if isinstance(values, Tensor) else Tensor(values, device=places.device)
    given = given if dtype is None else given.cast(dtype)
    if places.ndim != 2 or given.ndim < 1 or places.shape[1] != given.shape[0]:
        raise ShapeError(
            f"sparse_coo_tensor: indices of shape {places.shape} and values of shape {given.shape}; they need (axes, "
            "count) and (count, …)"
        )
    if places.dtype.is_float:
        raise DtypeError(f"sparse_coo_tensor: indices of {places.dtype}; cast them to int64")
    axes, rest = places.shape[0], given.shape[1:]
    extents = tuple(size) if size is not None else (*_extents(places), *rest)
    if len(extents) != axes + len(rest) or extents[axes:] != rest:
        raise ShapeError(
            f"sparse_coo_tensor: the size {extents} for {axes} axes of indices and values of {given.shape}"
        )
    flat = Tensor.zeros((places.shape[1],), dtype=int64, device=places.device)
    for axis in range(axes):
        flat = flat * extents[axis] + _checked(places[axis].cast(int64), extents[axis], axis)
    zeros = Tensor.zeros((math.prod(extents[:axes]), *rest), dtype=given.dtype, device=given.device)
    found = zeros.index_add(0, flat, given).reshape(extents)
    found = found if device is None else found.to(device)
    return found.detach().requires_grad_() if requires_grad else found


def _extents(places: Tensor) -> list[int]:
    return [int(last) + 1 for last in places.amax(1).tolist()] if places.shape[1] else [0] * places.shape[0]


def _checked(index: Tensor, extent: int, axis: int) -> Tensor:
    """Places along an axis. Raises IndexRangeError: another axis would take what goes beyond this one."""
    if index.size and not ((index >= 0) & (index < extent)).all().item():
        raise IndexRangeError(f"sparse_coo_tensor: an index along axis {axis} is not in 0 … {extent - 1}")
    return index


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of two matrices. Raises ShapeError for another `reduce` than "sum".

    >>> mm(Tensor([[1.0, 0.0]]), Tensor([[2.0], [3.0]])).tolist()
    [[2.0]]
    """
    if reduce != "sum":
        raise ShapeError(f"sparse.mm: reduce={reduce!r}; there are sums only")
    return mat1.mm(mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """`beta * mat + alpha * mat1 @ mat2`

    >>> addmm(Tensor([[1.0]]), Tensor([[1.0, 0.0]]), Tensor([[2.0], [3.0]])).tolist()
    [[3.0]]
    """
    return mat.addmm(mat1, mat2, beta=beta, alpha=alpha)
