"""Elements written at places that other tensors name: scatter, index_add, put and their relatives.

Writing gives a new tensor, by one kernel that makes the updates in order: it gives the same bits in every run, and of
several updates of one place the last one stays. Indices are checked as in `gathering`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, bool_, int64
from rulegrad.ir.limits import extremes
from rulegrad.tensor.axes import either, one_axis
from rulegrad.tensor.constants import constant, filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gathering import along_axis, check_index, indexed_region, indices_along, line_along
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, broadcast_shapes, result_dtype, with_nothing_of
from rulegrad.tensor.reduce import accumulation_dtype
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

    #: What names places: a tensor of integers, or integers on the host, which are checked.
    Indices = TensorCore | NDArray[Any] | Sequence[Any] | int


Reduction = Literal["sum", "prod", "mean", "amax", "amin"]


_OPS = {"sum": "ADD", "prod": "MUL", "mean": "ADD", "amax": "MAX", "amin": "MIN"}


_IDENTITIES = {"sum": 0, "prod": 1, "mean": 0}


@built_once
def scatter(
    self: Tensor, dim: int, index: Indices, src: Operand | None = None, reduce: str | None = None, *, value: Any = None
) -> Tensor:
    """PyTorch's scatter: this tensor with `src[p]` put at p, but with `index[p]` along `dim`; a new tensor.

    src: a tensor with at least the index' extents, or a number, which PyTorch calls `value`. reduce: "add" or
    "multiply" instead of put. Of several updates of an element the last one stays.

    >>> Tensor.zeros(4).scatter(0, Tensor([1, 3]), Tensor([5.0, 6.0])).tolist()
    [0.0, 5.0, 0.0, 6.0]
    """
    if reduce not in (None, "add", "multiply"):
        raise ConfigError(f'scatter: reduce={reduce!r}; use "add", "multiply" or None, or scatter_reduce')
    op = {"add": "ADD", "multiply": "MUL"}.get(reduce or "", "STORE")
    return _scatter(self, op, dim, index, either(src, value, "scatter", "src", "value"), "scatter")


@built_once
def scatter_add(self: Tensor, dim: int, index: Indices, src: Operand) -> Tensor:
    """`scatter` that adds: several updates of an element are added in order, small floats in float32.

    >>> Tensor.zeros(3).scatter_add(0, Tensor([0, 2, 2]), Tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 0.0, 5.0]
    """
    return _scatter(self, "ADD", dim, index, src, "scatter_add")


@built_once
def scatter_reduce(
    self: Tensor, dim: int, index: Indices, src: Operand, reduce: Reduction, include_self: bool = True
) -> Tensor:
    """PyTorch's scatter_reduce: "sum", "prod", "mean", "amax" or "amin" of the updates of each element.

    include_self: whether the element itself is one of them; those without an update stay as they are.

    >>> Tensor([1.0, 1.0]).scatter_reduce(0, Tensor([1, 1]), Tensor([5.0, 3.0]), "amax").tolist()
    [1.0, 5.0]
    """
    if not self.ndim:
        return self.reshape(1).scatter_reduce(dim, index, src, reduce, include_self).reshape(())
    axis = one_axis(dim, self.ndim, "scatter_reduce")
    places = indices_along(self, index, axis, "scatter_reduce", wraps=False)
    return _reduced_at(self, axis, places, src, reduce, include_self, "scatter_reduce")


def _reduced_at(
    self: Tensor, axis: int, places: Tensor, src: Operand, reduce: Reduction, include_self: bool, name: str
) -> Tensor:
    """`scatter_reduce` at places that were checked."""
    if reduce not in _OPS:
        raise ConfigError(f"{name}: reduce={reduce!r}; use one of {', '.join(_OPS)}")
    base = self
    if not include_self:
        mask = self._new(filled(self.shape, False, bool_), None, self._device)
        touched = scattered(mask, "STORE", axis, places, True, name)
        base = touched.where(_identity(reduce, self.dtype), self)
    result = scattered(base, _OPS[reduce], axis, places, src, name)
    if reduce != "mean":
        return result
    ones = self._new(filled(self.shape, int(include_self), int64), None, self._device)
    count = scattered(ones, "ADD", axis, places, 1, name).maximum(1)
    return result / count.cast(self.dtype) if self.dtype.is_float else result // count.cast(self.dtype)


def put_along_axis(self: Tensor, index: Indices, values: Operand, axis: int = -1) -> Tensor:
    """NumPy's put_along_axis, as a new tensor: `scatter` with broadcasting of the other axes and of the values.

    >>> Tensor([[1, 2], [3, 4]]).put_along_axis([[0], [1]], 9, axis=1).tolist()
    [[9, 2], [3, 9]]
    """
    k = one_axis(axis, self.ndim, "put_along_axis")
    places = indices_along(self, index, k, "put_along_axis")
    wide = tuple(1 if j == k else n for j, n in enumerate(self.shape))
    shape = broadcast_shapes("put_along_axis", places.shape, wide)
    found: Any = as_operand(self, values, "put_along_axis")
    values = found if is_weak_scalar(found) else found.expand(shape)
    return scattered(self, "STORE", k, places.expand(shape), values, "put_along_axis")


@built_once
def index_add(self: Tensor, dim: int, index: Indices, source: Operand, alpha: float = 1) -> Tensor:
    """PyTorch's index_add: the slices of `source`, times alpha, added at a vector of indices along `dim`.

    >>> Tensor([1, 2, 3]).index_add(0, [0, 0], Tensor([10, 20])).tolist()
    [31, 2, 3]
    """
    scaled = source if alpha == 1 else as_operand(self, source, "index_add") * alpha
    return _at_slices(self, "ADD", dim, index, scaled, "index_add")


@built_once
def index_copy(self: Tensor, dim: int, index: Indices, source: Operand) -> Tensor:
    """PyTorch's index_copy: the slices of `source` put at a vector of indices along `dim`.

    >>> Tensor([1, 2, 3]).index_copy(0, [2, 0], Tensor([10, 20])).tolist()
    [20, 2, 10]
    """
    return _at_slices(self, "STORE", dim, index, source, "index_copy")


def index_fill(self: Tensor, dim: int, index: Indices, value: Operand) -> Tensor:
    """PyTorch's index_fill: the slices at a vector of indices along `dim`, filled with a number (also a tensor's).

    >>> Tensor([[1, 2], [3, 4]]).index_fill(1, [0], 9).tolist()
    [[9, 2], [9, 4]]
    """
    return _at_slices(self, "STORE", dim, index, value, "index_fill", wraps=True)


@built_once
def index_reduce(
    self: Tensor, dim: int, index: Indices, source: Operand, reduce: Reduction, *, include_self: bool = True
) -> Tensor:
    """PyTorch's index_reduce: `scatter_reduce` of the slices of `source`, at a vector of indices along `dim`.

    >>> Tensor([1.0, 2.0]).index_reduce(0, [0, 0], Tensor([3.0, 5.0]), "prod").tolist()
    [15.0, 2.0]
    """
    if not self.ndim:
        return self.reshape(1).index_reduce(dim, index, source, reduce, include_self=include_self).reshape(())
    axis = one_axis(dim, self.ndim, "index_reduce")
    places = along_axis(line_along(self, index, axis, "index_reduce"), self.shape, axis)
    return _reduced_at(self, axis, places, source, reduce, include_self, "index_reduce")


def put(self: Tensor, index: Indices, source: Operand, accumulate: bool = False) -> Tensor:
    """PyTorch's put: the elements of `source` at places of the flat tensor, or added there; a new tensor.

    >>> Tensor([[1, 2], [3, 4]]).put([0, -1], [10, 20]).tolist()
    [[10, 2], [3, 20]]
    """
    values: Any = as_operand(self, source, "put")
    places = indices_along(self.flatten(), index, 0, "put").flatten()
    flat = values if is_weak_scalar(values) else values.flatten()
    return scattered(self.flatten(), "ADD" if accumulate else "STORE", 0, places, flat, "put").reshape(self.shape)


def updated(self: Tensor, op: str, index: Tensor, updates: Tensor, axis: int) -> Tensor:
    """SCATTER; the index has the shape of the updates, and no negative elements."""
    if not self.size or not index.size:
        same: Tensor = with_nothing_of(self._same(), updates)
        return same
    wide = accumulation_dtype(self.dtype) if op in ("ADD", "MUL") else self.dtype
    base, updates = self.cast(wide), updates.cast(wide)
    uop = UOp("SCATTER", (base.uop, index.uop, updates.uop), op=op, axis=axis)
    return base._result(uop, index, updates).cast(self.dtype)


def put_apart(values: Tensor, places: Tensor, count: int) -> Tensor:
    """A vector of so many elements with the values at their places, and zeros elsewhere.

    No place is given twice; what is beyond the end is left out.
    """
    zeros = values.zeros((count,), dtype=values.dtype, device=values._device or None)
    uop = UOp("SCATTER", (zeros.uop, places.uop, values.uop), op="STORE", axis=0, distinct=True)
    return values._result(uop, places)


def _scatter(self: Tensor, op: str, dim: int, index: Indices, src: Operand, name: str) -> Tensor:
    if not self.ndim:
        return _scatter(self.reshape(1), op, dim, index, src, name).reshape(())
    axis = one_axis(dim, self.ndim, name)
    places = indices_along(self, index, axis, name, wraps=False)
    return scattered(self, op, axis, places, src, name)


def scattered(self: Tensor, op: str, axis: int, places: Tensor, src: Operand, name: str) -> Tensor:
    """SCATTER at places that were checked."""
    if self.ndim == 1 and not places.ndim:
        places = places.reshape(1)
    check_index(self, places, axis, name)
    updates = update_values(self, src, places.shape, name)
    region = indexed_region(self, places, axis)
    changed = updated(region, op, places, updates, axis)
    return changed if region.shape == self.shape else _with_corner(self, changed)


def update_values(self: Tensor, src: Operand, shape: tuple[int, ...], name: str) -> Tensor:
    """The values to put: of the tensor's dtype and of this shape, cut out of a larger tensor."""
    values: Any = as_operand(self, src, name)
    if isinstance(values, float) and values.is_integer() and self.dtype.is_integer:
        values = int(values)
    if type(values) is int and self.dtype.kind == "bool":
        values = bool(values)  # as PyTorch: a number is converted, a tensor is not
    if result_dtype(self, values) != self.dtype:
        kind = type(values).__name__ if is_weak_scalar(values) else str(values.dtype)
        raise DtypeError(f"{name}: {kind} values do not fit a tensor of {self.dtype}; cast one of them")
    if is_weak_scalar(values):
        constant(values, self.dtype, name)  # raises where the number does not fit
        return self._new(filled(shape, values, self.dtype), None, self._device)
    source: Tensor = values.reshape(1) if not values.ndim and len(shape) == 1 else values
    if source.ndim != len(shape) or any(m > n for m, n in zip(shape, source.shape)):
        raise ShapeError(
            f"{name}: values of shape {source.shape} for an index of shape {shape}; they must not be smaller"
        )
    return source.shrink(*((0, n) for n in shape)).cast(self.dtype)


def _with_corner(self: Tensor, part: Tensor) -> Tensor:
    """This tensor with its first elements along each axis replaced."""
    rest = [(0, n - m) for m, n in zip(part.shape, self.shape)]
    inside = self._new(filled(part.shape, True, bool_), None, self._device).pad(rest)
    return inside.where(part.pad(rest), self)


def _at_slices(
    self: Tensor, op: str, dim: int, index: Indices, source: Operand, name: str, wraps: bool = False
) -> Tensor:
    values: Any = as_operand(self, source, name)
    if not self.ndim:
        return _at_slices(self.reshape(1), op, dim, index, values, name, wraps).reshape(())
    axis = one_axis(dim, self.ndim, name)
    places = along_axis(line_along(self, index, axis, name, wraps), self.shape, axis)
    if not is_weak_scalar(values):
        values = values if values.ndim else values.expand(places.shape)
        if values.shape != places.shape:
            raise ShapeError(f"{name}: values of shape {values.shape} where {places.shape} is needed")
    return scattered(self, op, axis, places, values, name)


def _identity(reduce: str, dtype: DType) -> Any:
    """The value that changes no reduction."""
    if reduce in _IDENTITIES:
        return _IDENTITIES[reduce]
    return extremes(dtype)[reduce == "amin"]
