"""Functions of a tensor's values as a set: where it is not zero, distinct values, how often they occur.

The shapes of most of these depend on the values, so they synchronise: they wait for the device to count. Each says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import bool_, float64, int64
from rulegrad.tensor.axes import either, whole_number
from rulegrad.tensor.constants import filled
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_operand, as_tensor, result_dtype
from rulegrad.tensor.reduce import reduced_axes
from rulegrad.tensor.scattering import put_apart, scattered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor

#: Up to so many values are compared with every element; more are sorted and looked up.
_FEW = 32


class UniqueAll(NamedTuple):
    """Distinct values in order, where each is first, for each element its number among them, how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values in order, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values in order, and for each element its number among them."""

    values: Tensor
    inverse_indices: Tensor


class Histogram(NamedTuple):
    """The number of elements in each interval, and the borders of the intervals."""

    hist: Tensor
    bin_edges: Any  # of `histogramdd` one for each column


# ---- not zero ----


@built_once
def _reached(self: Tensor) -> Tensor:
    """How many elements are not zero up to each one, in C order."""
    return self.detach().cast(bool_).flatten().cumsum(0).contiguous()


@built_once
def _turns(self: Tensor, reached: Tensor, count: int) -> Tensor:
    """Where the first, the second, ... of so many elements that are not zero are, in C order."""
    # each at its number among them; the place behind the last one does not exist, and nothing is put there
    numbers = self.detach().cast(bool_).flatten().where(reached - 1, count)
    return put_apart(self.arange(self.size, device=self._device or None), numbers, count)


@built_once
def _place_along(flat: Tensor, step: int, extent: int) -> Tensor:
    """Of places in C order those along an axis."""
    return flat // step % extent


def nonzero_indices(self: Tensor, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    if size is not None:
        return _first_nonzero(self, whole_number(size, "nonzero"), fill_value)
    if not self.size:
        return tuple(self.zeros_like(int64).flatten() for _ in self.shape)
    reached = _reached(self)
    count = int(_value_of(reached[-1]))
    if not count:
        return tuple(self.zeros((0,), dtype=int64, device=self._device or None) for _ in self.shape)
    flat = _turns(self, reached, count)
    if self.ndim == 1:
        return (flat,)
    steps = [math.prod(self.shape[k + 1 :]) for k in range(self.ndim)]
    return tuple(_place_along(flat, step, n) for step, n in zip(steps, self.shape))


def _first_nonzero(self: Tensor, size: int, fill_value: int) -> tuple[Tensor, ...]:
    if size < 0 or not self.ndim:
        raise ShapeError(f"nonzero: size={size} for the shape {self.shape}; use 0 or more, and at least one axis")
    positions = self.arange(1, size + 1, device=self._device or None)
    if not self.size or not size:
        return tuple(positions.full_like(fill_value) for _ in self.shape)
    flat = self.detach().cast(bool_).flatten().cumsum(0).searchsorted(positions)
    steps = [math.prod(self.shape[k + 1 :]) for k in range(self.ndim)]
    return tuple((flat < self.size).where(flat // step % n, fill_value) for step, n in zip(steps, self.shape))


def nonzero(self: Tensor, as_tuple: bool = False, *, size: int | None = None, fill_value: int = 0) -> Any:
    """Where the elements are not zero, in order: a row of indices for each, or (as_tuple) a vector for each axis.

    Synchronises: the number of rows depends on the values. With `size` there are so many rows, the first ones and
    then `fill_value`, and nothing is waited for. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[0, 5], [6, 0]]).nonzero().tolist()
    [[0, 1], [1, 0]]
    """
    if as_tuple:
        return nonzero_indices((self if self.ndim else self.reshape(1)), size, fill_value)
    places = nonzero_indices(self, size, fill_value)
    if places:
        return places[0].stack(*places[1:], axis=1)
    return self._new(filled((int(bool(_value_of(self))), 0), 0, int64), None, self._device)


def nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """PyTorch's nonzero_static: the first `size` rows of `nonzero()`, and then rows of `fill_value`; nothing waits.

    >>> Tensor([0, 5, 6]).nonzero_static(size=3).tolist()
    [[1], [2], [-1]]
    """
    if not self.ndim:
        return self._new(filled((whole_number(size, "nonzero_static"), 0), 0, int64), None, self._device)
    found: Tensor = self.nonzero(size=size, fill_value=fill_value)
    return found


def argwhere(self: Tensor) -> Tensor:
    """NumPy's argwhere: a row of indices for each element that is not zero. Synchronises.

    >>> Tensor([[0, 5], [6, 0]]).argwhere().tolist()
    [[0, 1], [1, 0]]
    """
    found: Tensor = self.nonzero()
    return found


def count_nonzero(self: Tensor, axis: Any = None, keepdims: bool = False, *, dim: Any = None) -> Tensor:
    """The number of elements along `axis` that are not zero, int64.

    >>> from rulegrad import Tensor
    >>> Tensor([[0, 5], [6, 7]]).count_nonzero(axis=0).tolist()
    [1, 2]
    """
    return self.detach().cast(bool_).sum(reduced_axes(self, axis, dim, "count_nonzero"), keepdims, dtype=int64)


# ---- distinct values ----


def unique_all(self: Tensor) -> UniqueAll:
    """Distinct values in order, and all that is known about them. Each nan is a value of its own. Synchronises.

    >>> from rulegrad import Tensor
    >>> found = Tensor([3, 1, 3]).unique_all()
    >>> [part.tolist() for part in found]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    flat = self.detach().flatten()
    if not flat.size:
        none = flat.zeros_like(int64)
        return UniqueAll(flat, none, none.reshape(self.shape), none)
    places, ordered, begins = _in_order(flat)
    starts = nonzero_indices(begins)[0].contiguous()
    return UniqueAll(*_distinct(self.shape, places, ordered, begins, starts))


@built_once
def _in_order(flat: Tensor) -> tuple[Tensor, ...]:
    """Where the elements in order are, these, and whether each is another one than the one before."""
    places = flat.argsort().contiguous()
    ordered = flat.take(places)
    begins = flat.ones((1,), dtype=bool_, device=flat._device or None).cat(
        ordered.shrink((1, flat.size)) != ordered.shrink((0, flat.size - 1))
    )
    return places, ordered, begins


@built_once
def _distinct(
    shape: tuple[int, ...], places: Tensor, ordered: Tensor, begins: Tensor, starts: Tensor
) -> tuple[Tensor, ...]:
    """The parts of `unique_all`. starts: the places in order at which another element begins."""
    number = begins.cumsum(0) - 1
    ends = starts.shrink((1, starts.size)).cat(starts.full((1,), ordered.size, int64, starts._device or None))
    inverse = number.zeros_like().scatter(0, places, number).reshape(shape)
    return ordered.take(starts), places.take(starts), inverse, ends - starts


def unique_values(self: Tensor) -> Tensor:
    """The distinct values in order. Each nan is a value of its own. Synchronises.

    >>> Tensor([3, 1, 3]).unique_values().tolist()
    [1, 3]
    """
    values: Tensor = self.unique_all().values
    return values


def unique_counts(self: Tensor) -> UniqueCounts:
    """The distinct values in order, and how often each occurs. Synchronises.

    >>> Tensor([3, 1, 3]).unique_counts().counts.tolist()
    [1, 2]
    """
    found = self.unique_all()
    return UniqueCounts(found.values, found.counts)


def unique_inverse(self: Tensor) -> UniqueInverse:
    """The distinct values in order, and for each element its number among them. Synchronises.

    >>> Tensor([3, 1, 3]).unique_inverse().inverse_indices.tolist()
    [1, 0, 1]
    """
    found = self.unique_all()
    return UniqueInverse(found.values, found.inverse_indices)


def distinct_values(self: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """The distinct values of all elements, and what else is asked for. Synchronises."""
    found = self.unique_all()
    asked = (found.values, *((found.inverse_indices,) * return_inverse), *((found.counts,) * return_counts))
    return asked if len(asked) > 1 else found.values


def isin(self: Tensor, values: Any, invert: bool = False) -> Tensor:
    """Whether each element is one of `values`; with `invert` whether it is none of them.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 2, 3]).isin([3, 1]).tolist()
    [True, False, True]
    """
    wanted: Any = as_operand(self, values, "isin")
    wanted = wanted.flatten() if hasattr(wanted, "uop") else self.full((1,), wanted, device=self._device or None)
    if not wanted.size:
        found = self._new(filled(self.shape, False, bool_), None, self._device)
    elif wanted.size <= _FEW:
        found = (self.unsqueeze(-1) == wanted).any(-1)
    else:
        dtype = result_dtype(self, wanted)
        ordered, own = wanted.cast(dtype).sort().values.contiguous(), self.cast(dtype)
        found = ordered.take(ordered.searchsorted(own).clip(0, wanted.size - 1)) == own
    return ~found if invert else found


# ---- counting ----


def bincount(self: Tensor, weights: Operand | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, 2, … is in this vector, or the sum of its weights. Synchronises.

    Raises ShapeError for another shape, or negative numbers, and DtypeError for values that are not integers.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 3, 1]).bincount().tolist()
    [0, 2, 0, 1]
    """
    factors = None if weights is None else as_tensor(self, weights, "bincount")
    if self.ndim != 1 or (factors is not None and factors.shape != self.shape):
        raise ShapeError(f"bincount: a shape of {self.shape}; the numbers, and weights of the same shape, are vectors")
    if self.dtype.is_float:
        raise DtypeError(f"bincount: numbers of {self.dtype}; cast them to an integer dtype")
    count = minlength
    if self.size:
        least, most = (int(_value_of(end)) for end in (self.min(), self.max()))
        if least < 0:
            raise ShapeError(f"bincount: {least} is negative; numbers from 0 are counted")
        count = max(most + 1, minlength)
    dtype = int64 if factors is None else factors.dtype if factors.dtype.is_float else float64
    zeros = self.zeros((count,), dtype=dtype, device=self._device or None)
    return zeros.scatter_add(0, self, 1 if factors is None else factors.cast(dtype)) if self.size else zeros


def histogram(
    self: Tensor,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    weights: Operand | None = None,
    density: bool = False,
    *,
    weight: Operand | None = None,
) -> Histogram:
    """How many elements are in each of `bins` intervals of one width, the last with its end.

    bins: a number, or the borders, in order. range: the ends, by default the smallest and the largest element
    (which synchronises). weights (PyTorch: `weight`): of the elements, which are added up. density: divided by the
    sum and by the widths. Of floats both results have the tensor's dtype, as in PyTorch; of integers the counts
    are int64 and the borders float64, as in NumPy. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0, 2.5, 5.0]).histogram(2).hist.tolist()
    [3.0, 1.0]
    """
    weights = either(weights, weight, "histogram", "weights", "weight")
    ends = None if range is None else [range]
    column = self.detach().flatten()
    hist, borders = _counted_in(column, [column], [bins], ends, weights, density, "histogram")
    return Histogram(hist, borders[0])


def histogramdd(
    self: Tensor,
    bins: Any = 10,
    range: Sequence[float] | None = None,
    weights: Operand | None = None,
    density: bool = False,
    *,
    weight: Operand | None = None,
) -> Histogram:
    """`histogram` of points, whose coordinates are the last axis: counts with an axis, and borders, for each.

    bins: a number for all coordinates, or for each a number or its borders. range: the ends of the first
    coordinate, then those of the second, and so on.

    >>> from rulegrad import Tensor
    >>> found = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).histogramdd([2, 2])
    >>> found.hist.tolist(), [borders.tolist() for borders in found.bin_edges]
    ([[1.0, 1.0], [0.0, 1.0]], [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]])
    """
    weights = either(weights, weight, "histogramdd", "weights", "weight")
    count = self.shape[-1] if self.ndim > 1 else 0
    parts = [bins] * count if isinstance(bins, int) else list(bins)
    if not count or len(parts) != count or (range is not None and len(range) != 2 * count):
        raise ShapeError(
            f"histogramdd: {len(parts)} bins, range={range}, for points of shape {self.shape}; it needs the shape "
            "(…, coordinates), and for each coordinate a number of intervals (or borders) and two ends"
        )
    columns = list(self.detach().reshape(-1, count).unbind(1))
    ends = None if range is None else [(range[2 * k], range[2 * k + 1]) for k, _ in enumerate(parts)]
    return Histogram(*_counted_in(columns[0], columns, parts, ends, weights, density, "histogramdd"))


def _counted_in(
    self: Tensor,
    columns: list[Tensor],
    bins: list[Any],
    ends: list[tuple[float, float]] | None,
    weights: Any,
    density: bool,
    name: str,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """How many points there are in each cell of a grid, and the borders along each coordinate."""
    borders = [_borders(c, b, None if ends is None else ends[k], name) for k, (c, b) in enumerate(zip(columns, bins))]
    shape = tuple(border.size - 1 for border in borders)
    place, inside = self.zeros_like(int64), self.ones_like(bool_)
    for values, border in zip(columns, borders):
        found = border.searchsorted(values, "right") - 1
        found = (values == border[-1]).where(border.size - 2, found)
        inside = inside & (found >= 0) & (found < border.size - 1) & ~values.isnan()
        place = place * (border.size - 1) + found
    own = self.dtype if self.dtype.is_float else float64
    dtype = own if self.dtype.is_float or density or weights is not None else int64
    amounts: Any = 1
    if weights is not None:
        amounts = as_tensor(self, weights, name).flatten().cast(dtype)
        if amounts.shape != self.shape:
            raise ShapeError(f"{name}: weights for {amounts.size} elements, and there are {self.size}")
    hist = self.zeros((math.prod(shape),), dtype=dtype, device=self._device or None)
    if self.size:
        # what is in no interval has no place, and is not counted
        hist = scattered(hist, "ADD", 0, inside.where(place, -1), amounts, name)
    hist, total = hist.reshape(shape), hist.sum()
    if density:
        for axis, border in enumerate(borders):
            width = border.shrink((1, border.size)) - border.shrink((0, border.size - 1))
            hist = hist / width.cast(dtype).reshape(tuple(-1 if k == axis else 1 for k, _ in enumerate(shape)))
        hist = hist / total
    return hist, tuple(borders)


def _borders(self: Tensor, bins: Any, ends: tuple[float, float] | None, name: str) -> Tensor:
    """The borders of intervals of one width, or those that are given. Raises DtypeError for complex numbers."""
    if self.dtype.is_complex:
        raise DtypeError(f"{name}: values of {self.dtype} have no order; take .real, .imag or .abs() first")
    dtype = self.dtype if self.dtype.is_float else float64
    if not isinstance(bins, int):
        given = as_tensor(self, bins, name).cast(dtype)
        if given.ndim != 1 or given.size < 2:
            raise ShapeError(f"{name}: borders of shape {given.shape}; give a vector of at least two, in order")
        return given
    if bins < 1:
        raise ShapeError(f"{name}: {bins} intervals; use 1 or more")
    low, high = ends or ((_value_of(self.min()), _value_of(self.max())) if self.size else (0.0, 1.0))
    if low == high:
        low, high = low - 0.5, high + 0.5
    if not low < high:
        raise ShapeError(f"{name}: the range {low} to {high}; the second end must be larger, and both finite")
    return self.linspace(low, high, bins + 1, dtype=float64, device=self._device or None).cast(dtype)


def _value_of(scalar: Any) -> Any:
    """The value of a scalar tensor; waits for it."""
    return scalar.item()
