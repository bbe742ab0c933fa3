"""Elements by their rank: quantiles, medians and the k-th smallest, of long rows without sorting them.

The key of the element (see `sorting`) is found bit by bit, the highest first: a bit is set where no more elements are
smaller than the key with it than there are before the rank. Each bit is one pass over the keys, and all passes are the
same kernel: the bit that is asked for is the lowest one that is set in the key so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir.dtype import DType, bfloat16, float16, float64, int32, int64, uint64
from rulegrad.ir.limits import extremes
from rulegrad.tensor.axes import axis_or_dim, one_axis, several_axes
from rulegrad.tensor.gathering import taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.reduce import need_elements
from rulegrad.tensor.selections import Selected, only, values_at
from rulegrad.tensor.sorting import FEW, SHORT, Sorted, first_of_order, order_keys, target_of
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

    #: Of a tensor, one for each row, with an axis of 1.
    Rank: TypeAlias = int | Tensor

#: The bits of float32 that numbers of smaller formats leave 0.
_UNUSED_BITS: Final = {float16: 13, bfloat16: 16}
#: So many ranks of long rows are found one by one; for more the rows are sorted.
_FEW_RANKS: Final = 6
#: So is one rank of shorter rows, longer than this, where there are many: so many elements in all.
_SHORTEST: Final = 64
_MANY: Final = 1 << 18

Interpolation = Literal["linear", "lower", "higher", "midpoint", "nearest"]


def kthvalue(
    self: Tensor, k: int, axis: int = -1, keepdims: bool = False, *, dim: int | None = None, keepdim: bool = False
) -> Sorted:
    """The `k`-th smallest element (from 1) along `axis`, and where it is.

    >>> Tensor([3, 1, 2]).kthvalue(2).values.item()
    2
    """
    named = axis_or_dim(axis, dim, "kthvalue", -1)
    if not self.ndim:
        one_axis(named, 0, "kthvalue", of_scalar=True)
        found = self.reshape(1).kthvalue(k)
        return Sorted(found.values.reshape(()), found.indices.reshape(()))
    place = one_axis(named, self.ndim, "kthvalue")
    if not 1 <= k <= self.shape[place]:
        raise ShapeError(f"kthvalue: k={k} for axis {place} of the shape {self.shape}; use 1 to {self.shape[place]}")
    places = _kth_place(self, place, k, target_of(self))
    values = taken(self, places, place)
    if keepdims or keepdim:
        return Sorted(values, places)
    return Sorted(values.squeeze(place), places.squeeze(place))


@built_once
def _kth_place(self: Tensor, axis: int, k: int, target: str) -> Tensor:
    if k <= FEW:
        return slice_axis(first_of_order(self, axis, False, k), axis, k - 1, k)
    return in_order(self, axis, 1).place(k - 1)


def middle(x: Tensor, dim: int | None, keepdim: bool, skips_nan: bool) -> Any:
    """The elements in the middle, the lower ones of two, with their places; of all elements the one alone."""
    if dim is None:
        return middle(x.reshape(-1), 0, False, skips_nan).values
    if not several_axes(dim, x.ndim, "median"):
        return only(x, x.argmax())
    axis = one_axis(dim, x.ndim, "median")
    need_elements(x, (axis,), "median")
    places = _middle_places(x, axis, skips_nan, target_of(x))
    return Selected(values_at(x, places, dim, keepdim), places if keepdim else places.squeeze(axis))


@built_once
def _middle_places(x: Tensor, axis: int, skips_nan: bool, target: str) -> Tensor:
    """Where the elements in the middle are, or a nan."""
    extent, count = x.shape[axis], x.isnan().logical_not().sum(axis, keepdims=True)
    if skips_nan:
        rank = (count - 1).clamp(min=0) // 2
    else:
        rank = (count < extent).where(count.full_like(extent - 1), (extent - 1) // 2)  # nan is the last
    return in_order(x, axis, 1).place(rank)


def quantile(
    self: Tensor,
    q: Any,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    interpolation: Interpolation = "linear",
    *,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The value below which the share `q` (a number, or a list) of the elements lies; nan when one is nan.

    The axes of `q` come first, as in NumPy. axis: one, several, or all of them. interpolation: what is taken between
    two elements.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0, 4.0]).quantile(0.75).item()
    3.0
    """
    return quantile_along(self, q, axis_or_dim(axis, dim, "quantile"), keepdims or keepdim, interpolation, "quantile")


def quantile_along(
    self: Tensor, q: Any, axis: Any, keepdims: bool, interpolation: str, name: str, *, skips_nan: bool = False
) -> Tensor:
    if isinstance(axis, (tuple, list)):
        axes = sorted(one_axis(one, self.ndim, name) for one in axis)
        if len(set(axes)) != len(axes):
            raise ShapeError(f"{name}: axis={tuple(axis)} names one axis twice; name each once")
        rest = [one for one in range(self.ndim) if one not in axes]
        rows = self.permute((*rest, *axes)).reshape(*(self.shape[one] for one in rest), -1) if axes else self[..., None]
        found = quantile_along(rows, q, len(rest), False, interpolation, name, skips_nan=skips_nan)
        shape = [1 if one in axes else size for one, size in enumerate(self.shape)]
        return found.reshape(*found.shape[: found.ndim - len(rest)], *shape) if keepdims else found
    k = 0 if axis is None else one_axis(axis, self.ndim, name, of_scalar=True)
    x = self.flatten() if axis is None or not self.ndim else self
    need_elements(x, (k,), name)
    given = q.tolist() if hasattr(q, "tolist") else q
    several = isinstance(given, list | tuple)
    shares = given if several else [given]
    if not all(is_weak_scalar(share) and not isinstance(share, complex) and 0 <= share <= 1 for share in shares):
        raise ShapeError(f"{name}: q={given}; shares are numbers between 0 and 1, or a list of them")
    if interpolation not in get_args(Interpolation):
        raise ConfigError(f"{name}: interpolation={interpolation!r}; use one of {', '.join(get_args(Interpolation))}")
    numbers = x if x.dtype.is_inexact else x.cast(float64)
    results = list(
        _quantiles(numbers, [float(share) for share in shares or [0.0]], k, interpolation, skips_nan, target_of(x))
    )
    if not keepdims:
        results = [part.squeeze(k) for part in results]
    elif axis is None or not self.ndim:
        results = [part.reshape((1,) * self.ndim) for part in results]
    if not several:
        return results[0]
    whole = results[0].stack(*results[1:])
    return whole if shares else whole[:0]


@built_once
def _quantiles(
    x: Tensor, shares: list[float], axis: int, interpolation: str, skips_nan: bool, target: str
) -> tuple[Tensor, ...]:
    """The values of some shares along an axis, with an axis of 1."""
    wrong, order = x.isnan(), in_order(x, axis, len(shares))
    if skips_nan:  # which come last
        last = wrong.logical_not().sum(axis, keepdims=True) - 1
        parts = [_between_numbers(order, last, share, interpolation) for share in shares]
        wrong = last < 0
    else:
        parts = [_between(order, share * (x.shape[axis] - 1), interpolation) for share in shares]
        wrong = wrong.any(axis, keepdims=True)
    return tuple(wrong.where(float("nan"), part) for part in parts)


def _between(order: InOrder, place: float, interpolation: str) -> Tensor:
    """The value at a place between two elements in order."""
    low = int(place)
    share = place - low
    if interpolation == "nearest":
        return order.at(round(place))
    if interpolation == "lower" or not share:
        return order.at(low)
    second = order.after(low)
    if interpolation == "higher":
        return second
    share, first = 0.5 if interpolation == "midpoint" else share, order.at(low)
    distance = second - first
    found = first + distance * share if share < 0.5 else second - distance * (1 - share)
    # inf - inf would be nan
    return ((first == second) & ~first.isfinite()).where(first, found)


def _between_numbers(order: InOrder, last: Tensor, share: float, interpolation: str) -> Tensor:
    """`_between` where each row has a last place of its own, -1 where it has none."""
    place = last.cast(float64) * share
    if interpolation == "nearest":
        return order.at(place.round().cast(int64).clip(0))
    floor = place.floor()
    low, part = floor.cast(int64).clip(0), place - floor
    first = order.at(low)
    if interpolation == "lower":
        return first
    second = (part > 0).where(order.after(low), first)
    if interpolation == "higher":
        return second
    part = (part > 0).where(0.5, part) if interpolation == "midpoint" else part
    # inf - inf would be nan
    return ((first == second) & ~first.isfinite()).where(first, first.lerp(second, part.cast(first.dtype)))


# ---- elements by their rank ----


def in_order(x: Tensor, axis: int, ranks: int) -> InOrder:
    """The elements along an axis by their ranks, of which so many are asked for."""
    extent = x.shape[axis]
    is_long = extent > SHORT or (ranks == 1 and extent > _SHORTEST and x.size >= _MANY)
    return Chosen(x, axis) if is_long and ranks <= _FEW_RANKS else InOrder(x, axis)


class InOrder:
    """The elements along an axis by their ranks, counted from 0, in rows that are sorted."""

    def __init__(self, x: Tensor, axis: int) -> None:
        self._x, self._axis = x, axis
        self._order = x.argsort(axis)

    def at(self, rank: Rank) -> Tensor:
        """The elements of a rank, with an axis of 1."""
        return taken(self._x, self.place(rank), self._axis)

    def after(self, rank: Rank) -> Tensor:
        """The elements of the next rank, of the same one where it is the last."""
        return self.at(self._next(rank))

    def place(self, rank: Rank) -> Tensor:
        """Where the elements of a rank are (int64), with an axis of 1."""
        if isinstance(rank, int):
            return slice_axis(self._order, self._axis, rank, rank + 1)
        return taken(self._order, rank, self._axis)

    def _next(self, rank: Rank) -> Rank:
        last: int = self._x.shape[self._axis] - 1
        return min(rank + 1, last) if isinstance(rank, int) else (rank + 1).clip(0, last)


class Chosen(InOrder):
    """The same of long rows, for a few ranks. Of equal elements, the first stands for all."""

    def __init__(self, x: Tensor, axis: int) -> None:
        self._x, self._axis = x, axis
        keys = order_keys(x.detach(), False)
        unused = _UNUSED_BITS.get(x.dtype, 0)
        self._bits = _bits_of_keys(x.dtype) - unused
        self._keys = (keys >> unused).contiguous()
        self._found: dict[Any, Tensor] = {}  # the keys of the ranks that were asked for

    def after(self, rank: Rank) -> Tensor:
        key, keys = self._key(rank), self._keys
        larger = (keys > key).where(keys, extremes(keys.dtype)[1]).min(self._axis, keepdims=True)
        is_repeated = self._count(keys <= key) > self._next(rank)
        # the last one of equal elements: their gradients are not one element's
        places = (keys == is_repeated.where(key, larger)).flip(self._axis).argmax(self._axis, keepdims=True)
        return taken(self._x, keys.shape[self._axis] - 1 - places, self._axis)

    def place(self, rank: Rank) -> Tensor:
        return (self._keys == self._key(rank)).argmax(self._axis, keepdims=True)

    def _count(self, wanted: Tensor) -> Tensor:
        return wanted.sum(self._axis, keepdims=True, dtype=int32)

    def _key(self, rank: Rank) -> Tensor:
        """The keys of the elements of a rank."""
        name = rank if isinstance(rank, int) else rank.uop
        if name not in self._found:
            self._found[name] = self._key_by_bits(rank)
        return self._found[name]

    def _key_by_bits(self, rank: Rank) -> Tensor:
        keys, bits = self._keys, self._bits
        shape = tuple(1 if axis == self._axis else size for axis, size in enumerate(keys.shape))
        dtype = uint64 if bits == 64 else int64
        # counted from the least key, so that no bit is a sign; with the bit that is asked for as the lowest
        above = keys.full(shape, 1 << bits - 1, dtype=dtype, device=keys._device or None).contiguous()
        for _ in range(bits):
            lowest = above & (~above + 1)
            is_set = self._count(keys < self._key_of(above)) <= rank
            above = (is_set.where(above, above - lowest) + (lowest >> 1)).contiguous()
        return self._key_of(above)

    def _key_of(self, above: Tensor) -> Tensor:
        if self._bits == 64:
            return (above ^ (1 << 63)).bitcast(int64)
        return (above - (1 << self._bits - 1)).cast(self._keys.dtype)


def _bits_of_keys(dtype: DType) -> int:
    """How many bits the keys of values of a dtype have, with that of the sign."""
    if dtype.is_float:
        return max(dtype.bits, 32)
    return dtype.bits + (dtype.kind in ("bool", "uint") and dtype != uint64)
