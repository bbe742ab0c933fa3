"""Arguments that name axes and shapes: negative ones, tuples or separate numbers, and what is wrong with them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rulegrad.errors import ConfigError, IndexRangeError, ShapeError

#: No shape has more elements: places are 64-bit integers.
_MOST_ELEMENTS: Final = (1 << 63) - 1


def whole_number(value: Any, operation: str) -> int:
    """`value` as an int. Raises ShapeError for what is not a whole number."""
    try:
        return operator.index(value)
    except (TypeError, ShapeError):
        shown = f"a tensor of shape {value.shape}" if hasattr(value, "uop") else repr(value)
        raise ShapeError(f"{operation}: {shown} is not a whole number; give an int") from None


def is_list(value: Any) -> bool:
    """Whether `value` stands for several: a list, a tuple, an array with axes, but not an array without."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def integers(values: Sequence[Any], operation: str) -> tuple[int, ...]:
    """The numbers of `f(2, 3)` and of `f((2, 3))` alike."""
    if len(values) == 1 and is_list(values[0]):
        values = tuple(values[0])
    return tuple(whole_number(value, operation) for value in values)


def extents(values: Sequence[Any], operation: str) -> tuple[int, ...]:
    """The shape of `f(2, 3)` and of `f((2, 3))`. Raises ShapeError for what is none, or has too many elements."""
    shape = integers(values, operation)
    if min(shape, default=0) < 0:
        raise ShapeError(f"{operation}: {shape} is not a shape; use sizes of 0 or more")
    if math.prod(shape) > _MOST_ELEMENTS:
        raise ShapeError(f"{operation}: the shape {shape} has more than 2**63 - 1 elements; use a smaller one")
    return shape


def one_axis(axis: Any, rank: int, operation: str, of_scalar: bool = False) -> int:
    """`axis` counted from the front. Raises IndexRangeError, an IndexError, when there is no such axis.

    of_scalar: without axes there is still the axis 0, or -1, as in PyTorch and in NumPy's reductions.
    """
    number = whole_number(axis, operation)
    if of_scalar and rank == 0 and number in (0, -1):
        return 0
    if not -rank <= number < rank:
        raise IndexRangeError(
            f"{operation}: axis {number} does not exist, the tensor has {rank} "
            f"{'axis' if rank == 1 else 'axes'}" + (f"; use {-rank} to {rank - 1}" if rank else "")
        )
    return number % rank


def either(value: Any, other: Any, operation: str, name: str, other_name: str) -> Any:
    """An argument that has two names. Raises ConfigError where both are given."""
    if value is not None and other is not None:
        raise ConfigError(f"{operation}: {name} and {other_name} are two names of one argument; give one of them")
    return other if value is None else value


def axis_or_dim(axis: Any, dim: Any, operation: str, default: Any = None) -> Any:
    """NumPy's `axis`, or PyTorch's `dim` in its place. Raises ConfigError where both are given."""
    if dim is None:
        return axis
    if axis is not None and axis != default:
        raise ConfigError(f"{operation}: axis={axis} and dim={dim} are two names of one argument; give one of them")
    return dim


def axes_or_dim(axis: Any, dim: Any, operation: str, default: Any = None) -> Any:
    """`axis_or_dim` of a reduction over several axes: an empty `dim` is all of them, and an empty `axis` none."""
    named = axis_or_dim(axis, dim, operation, default)
    return None if isinstance(dim, (tuple, list)) and not dim else named


def several_axes(axes: Any, rank: int, operation: str) -> tuple[int, ...]:
    """`axes` (None for all, a number, or a sequence), counted from the front, in increasing order.

    A tensor without axes has the axis 0, or -1, by name: there is nothing to do along it.
    """
    if axes is None:
        return tuple(range(rank))
    numbers = axes if is_list(axes) else (axes,)
    found = [one_axis(axis, rank, operation, of_scalar=True) for axis in numbers]
    if len(set(found)) != len(found):
        raise ShapeError(f"{operation}: the axes {tuple(found)} name one axis twice; name each once")
    return tuple(sorted(found)) if rank else ()


def complete_shape(shape: tuple[int, ...], source: tuple[int, ...], operation: str) -> tuple[int, ...]:
    """`shape` with its -1 replaced by what is left of the elements of `source`. Raises ShapeError."""
    size, known = math.prod(source), math.prod(n for n in shape if n != -1)
    unknown = shape.count(-1)
    if unknown > 1 or min(shape, default=0) < -1:
        raise ShapeError(f"{operation}: {shape} is not a shape; use sizes of 0 or more, and at most one -1")
    if unknown and known and size % known == 0:
        shape = tuple(size // known if n == -1 else n for n in shape)
    if math.prod(shape) != size or -1 in shape:
        raise ShapeError(f"{operation}: a tensor of shape {source} has {size} elements and does not fit {shape}")
    return shape


class CallableSize(int):
    """The number of elements, as NumPy and the array API have it; called, the shape, as PyTorch has it."""

    shape: tuple[int, ...]

    def __new__(cls, count: int, shape: tuple[int, ...]) -> CallableSize:
        size = super().__new__(cls, count)
        size.shape = shape
        return size

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or its extent at `dim`. Raises ShapeError for an axis that is not there."""
        return self.shape if dim is None else self.shape[one_axis(dim, len(self.shape), "size")]

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)
