"""Order along an axis: sort, argsort, topk.

Sorting is done on keys: integers in the order of the values, with nan as the largest, 0.0 and -0.0 equal, and the
complement for a descending order. So every sort is stable, and nan is last in ascending order, as in NumPy. Short
rows are sorted by counting, for each element, those before it, all others by digits of a few bits, the last one first:
blocks count how often each digit occurs in them, running sums say where each block puts its elements with a digit, and
there they are put, in order. How many bits a digit has, and how many elements a block, are limits of the target.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from rulegrad import engine
from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, float64, int32, int64, uint64
from rulegrad.ir.limits import extremes
from rulegrad.runtime import devices
from rulegrad.tensor.axes import axis_or_dim, one_axis, whole_number
from rulegrad.tensor.gathering import taken
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.scattering import put_apart, updated

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: The longest rows that are sorted by comparing each element with all others.
SHORT: Final = 128
#: So many elements that come first are found one after the other, in rows that are no longer than this.
FEW: Final = 16
_LONGEST: Final = 1024


class Sorted(NamedTuple):
    """Values in order, and where they were."""

    values: Tensor
    indices: Tensor


def argsort(
    self: Tensor, axis: int = -1, descending: bool = False, stable: bool = True, *, dim: int | None = None
) -> Tensor:
    """The places (int64) of the elements in order along `axis`; equal ones stay in order, whatever `stable` says.

    nan is larger than all numbers. Three kernels up to 128 elements, about eight for each digit of a value above.

    >>> from rulegrad import Tensor
    >>> Tensor([3.0, 1.0, 2.0]).argsort().tolist()
    [1, 2, 0]
    """
    return _argsort(self, axis_or_dim(axis, dim, "argsort", -1), descending, "argsort")


def _argsort(self: Tensor, axis: int, descending: bool, name: str) -> Tensor:
    if not self.ndim:
        one_axis(axis, 0, name, of_scalar=True)
        return self.zeros_like("int64")
    k = one_axis(axis, self.ndim, name)
    if self.size == 0 or self.shape[k] == 1:
        return self.zeros_like("int64")
    return _order(self, k, descending, target_of(self))


def target_of(self: Tensor) -> str:
    """The target of the tensor's device: how its rows are sorted depends on it."""
    return devices.target_of(self._device or devices.default())


@built_once
def _order(self: Tensor, k: int, descending: bool, target: str) -> Tensor:
    """The places in the order of the elements along an axis of several, which is counted from 0."""
    rows = self.detach().moveaxis(k, -1)
    places = _argsort_rows(order_keys(rows.reshape(-1, self.shape[k]), descending), self.dtype)
    return places.reshape(rows.shape).moveaxis(-1, k)


def first_of_order(self: Tensor, axis: int, descending: bool, count: int) -> Tensor:
    """The first places of `_argsort`, so many of them, of an axis that is counted from 0."""
    if 0 in (self.size, count):
        return slice_axis(self.zeros_like("int64"), axis, 0, count)
    return _first_in_order(self, axis, descending, count, target_of(self))


@built_once
def _first_in_order(self: Tensor, axis: int, descending: bool, count: int, target: str) -> Tensor:
    rows = self.detach().moveaxis(axis, -1)
    keys = order_keys(rows.reshape(-1, self.shape[axis]), descending)
    places = _argsort_first(keys.contiguous(), self.dtype, count)
    return places.reshape(*rows.shape[:-1], count).moveaxis(-1, axis)


def sort(
    self: Tensor, axis: int = -1, descending: bool = False, stable: bool = True, *, dim: int | None = None
) -> Sorted:
    """`(values, indices)` in order along `axis`, as in PyTorch; see `argsort`. `msort` gives the values alone.

    >>> from rulegrad import Tensor
    >>> Tensor([3, 1, 2]).sort(descending=True).values.tolist()
    [3, 2, 1]
    """
    named = axis_or_dim(axis, dim, "sort", -1)
    places = _argsort(self, named, descending, "sort")
    if not self.ndim:
        return Sorted(self._same(), places)
    return Sorted(taken(self, places, one_axis(named, self.ndim, "sort")), places)


def msort(self: Tensor) -> Tensor:
    """The values in order along the first axis.

    >>> Tensor([[3, 1], [2, 4]]).msort().tolist()
    [[2, 1], [3, 4]]
    """
    values: Tensor = self.sort(0).values
    return values


def topk(
    self: Tensor, k: int, axis: int = -1, largest: bool = True, sorted: bool = True, *, dim: int | None = None
) -> Sorted:
    """The `k` largest (or smallest) elements along `axis`, in order, and where they are.

    >>> from rulegrad import Tensor
    >>> Tensor([3, 1, 2]).topk(2).indices.tolist()
    [0, 2]
    """
    place = one_axis(axis_or_dim(axis, dim, "topk", -1), self.ndim, "topk", of_scalar=True)
    if not self.ndim and whole_number(k, "topk") == 1:
        return Sorted(self._same(), self.zeros_like("int64"))
    count = whole_number(k, "topk")
    if not 0 <= count <= self.shape[place]:
        raise ShapeError(f"topk: k={k} for axis {place} of the shape {self.shape}; use 0 to {self.shape[place]}")
    places = first_of_order(self, place, largest, count)
    return Sorted(taken(self, places, place), places)


# ---- keys ----


def order_keys(self: Tensor, descending: bool) -> Tensor:
    """Integers in the order of the values: of 32 bits where they fit, else of 64."""
    dtype = self.dtype
    if str(dtype).startswith("complex"):
        raise DtypeError(f"sort: values of {dtype} have no order")
    if dtype.is_float:
        keys = _float_keys(self)
    elif dtype == uint64:
        keys = (self ^ (1 << 63)).bitcast("int64")
    else:
        keys = self.cast(_key_dtype(dtype))
    return ~keys if descending else keys


def _float_keys(self: Tensor) -> Tensor:
    wide = self if self.dtype == float64 else self.cast("float32")
    kind, largest = ("int64", 2**63 - 1) if self.dtype == float64 else ("int32", 2**31 - 1)
    bits = wide.equal(0).where(0, wide).cast(wide.dtype).bitcast(kind)
    # a choice by the sign is compiled wrongly by PoCL 3.0 for AVX-512, where the bits are those of a magnitude
    ordered = bits ^ ((bits >> (8 * wide.element_size() - 1)) & largest)
    return wide.isnan().where(largest, ordered)


# ---- sorting ----


def _argsort_rows(self: Tensor, dtype: DType) -> Tensor:
    """For rows of keys of values of the dtype, the places in the order of the keys, equal ones in order."""
    return _argsort_counting(self) if self.shape[1] <= SHORT else _argsort_radix(self, dtype)


def _argsort_first(self: Tensor, dtype: DType, count: int) -> Tensor:
    """The first of `_argsort_rows`, so many of them.

    Blocks are put in order by their least keys: the elements that come first are in the blocks that come first, as
    many of them. So all blocks' least keys are looked at, and the elements of some blocks: of about the root of
    extent / count elements each, for the least number of both.
    """
    rows, extent = self.shape
    if count <= FEW and 4 * count <= extent <= _LONGEST and self.dtype.bits <= 32:
        return _argsort_selection(self, count)
    size = math.isqrt(extent // count)
    blocks = -(-extent // size)
    if extent <= SHORT or 2 * (blocks + count * size) > extent:
        return slice_axis(_argsort_rows(self, dtype), 1, 0, count)
    # what is missing at the end comes after all others
    whole = self.pad([(0, 0), (0, blocks * size - extent)], value=extremes(self.dtype)[1])
    chosen = _argsort_first(whole.reshape(rows, blocks, size).min(-1).contiguous(), dtype, count).sort(1).values
    device = self._device or None
    places = (chosen.unsqueeze(2) * size + self.arange(size, device=device)).reshape(rows, count * size).contiguous()
    return taken(places, _argsort_first(taken(whole, places, 1).contiguous(), dtype, count), 1)


def _argsort_selection(self: Tensor, count: int) -> Tensor:
    """`_argsort_first`, by the least of what comes after the one before: a key and its place are a word."""
    places = self.arange(self.shape[1], device=self._device or None)
    words = (self.contiguous().cast(int64) << 32) + places
    found = [words.min(1, keepdims=True)]
    for _ in range(count - 1):
        found.append((words > found[-1]).where(words, (1 << 63) - 1).min(1, keepdims=True))
    return type(self).cat(found, axis=1) & 0xFFFFFFFF


def _argsort_counting(self: Tensor) -> Tensor:
    """`_argsort_rows`, by comparing each key with all others."""
    keys, (rows, extent) = self.contiguous(), self.shape
    positions = self.arange(extent, dtype=int32, device=self._device or None)
    one, other = keys.unsqueeze(-1), keys.unsqueeze(-2)
    less = (other < one) | ((other == one) & (positions < positions.unsqueeze(-1)))
    rank = less.cast(int32).sum(-1, dtype=int32).contiguous()
    begins = self.arange(rows, dtype=int64, device=self._device or None).reshape(rows, 1) * extent
    return _put(positions.cast(int64).reshape(1, extent).expand(rows, extent), begins + rank)


def _argsort_radix(self: Tensor, dtype: DType) -> Tensor:
    """`_argsort_rows`, by digits, the last one first."""
    rows, extent = self.shape
    places = self.arange(extent, device=self._device or None).reshape(1, extent).expand(rows, extent)
    bits = self.dtype.bits if dtype.is_float else max(dtype.bits, 8)
    if bits <= 32:
        least = 0 if dtype.kind in ("bool", "uint") else 1 << bits - 1
        return _radix_sorted((self.cast(int64) + least << 32) + places, bits)
    keys = self.contiguous()  # half by half: one of them and a place are a word
    places = _radix_sorted((keys << 32) + places, 32)
    high = (taken(keys, places, 1) >> 32) + (1 << 31)
    return _radix_sorted((high << 32) + places, 32)


def _radix_sorted(self: Tensor, bits: int) -> Tensor:
    """The lower halves of rows of words, in the order of so many of the bits above, equal ones in the order given."""
    rows, extent = self.shape
    limits = engine.target(devices.target_of(self._device or devices.default())).limits
    digit = limits["digit_bits"]
    count = -(-extent // limits["counted_elements"])
    size = -(-extent // count)
    # Missing words, at the end, have the largest digits, and stay there.
    words = self.pad([(0, 0), (0, count * size - extent)], value=-1).reshape(rows, count, size).contiguous()
    for first in range(0, bits, digit):
        digits = ((words >> 32 + first) & (1 << digit) - 1).cast(int32)
        words = _put(words, _ranks_of_digits(digits, 1 << digit))
    found = words.reshape(rows, count * size).shrink(None, (0, extent))
    return found & 0xFFFFFFFF


def _ranks_of_digits(self: Tensor, kinds: int) -> Tensor:
    """For blocks of digits in rows, the places of their elements when all rows, one after the other, are in order.

    kinds: how many digits there are.
    """
    rows, count, size = self.shape
    device = self._device or None
    dtype = int32 if self.size < 1 << 31 else int64
    counts, before = (_compared if size <= SHORT else _counted)(self, kinds, dtype)
    in_turn = counts.permute(0, 2, 1).reshape(rows, kinds * count)
    row_starts = self.arange(rows, dtype=dtype, device=device).reshape(rows, 1) * (count * size)
    starts = (in_turn.cumsum(1, dtype=dtype) - in_turn + row_starts).reshape(rows, kinds, count).permute(0, 2, 1)
    return taken(starts.contiguous(), self, 2) + before


def _counted(self: Tensor, kinds: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """How often each digit occurs in each block, and how often that of each element does before it: in turn."""
    counts = self.zeros(*self.shape[:2], kinds, dtype=dtype, device=self._device or None)
    before = self._result(UOp("CUMCOUNT", (self.uop,), extent=kinds, axis=2))
    return updated(counts, "ADD", self, self.ones_like(dtype), 2), before


def _compared(self: Tensor, kinds: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """The same, by comparing each digit, and each element, with all elements of the block."""
    numbers = self.arange(max(kinds, self.shape[2]), dtype=int32, device=self._device or None)
    digits, positions = self.cast("uint8").contiguous(), numbers.shrink((0, self.shape[2]))
    one, other = digits.unsqueeze(-1), digits.unsqueeze(-2)
    counts = (other == numbers.shrink((0, kinds)).reshape(kinds, 1)).cast(dtype).sum(-1, dtype=dtype)
    before = ((other == one) & (positions < positions.unsqueeze(-1))).cast(int32).sum(-1, dtype=int32)
    return counts.contiguous(), before


def _put(self: Tensor, places: Tensor) -> Tensor:
    """The elements, each at the place that it is given; no place is given twice."""
    return put_apart(self.flatten(), places.flatten(), self.size).reshape(self.shape)


def _key_dtype(dtype: DType) -> DType:
    return int32 if dtype.bits < 32 or dtype in (int32,) or dtype.kind == "bool" else int64
