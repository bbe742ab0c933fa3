"""Running reductions along an axis: sums, products, extremes; differences, their inverse; integrals, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import axis_or_dim, integers, one_axis, whole_number
from rulegrad.tensor.gathering import along_axis
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.movement import slice_axis
from rulegrad.tensor.operands import as_operand, as_tensor
from rulegrad.tensor.reduce import _sum_dtype, accumulation_dtype
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def _scan(self: Tensor, op: str, axis: int) -> Tensor:
    """All reductions of the elements up to each one along an axis."""
    if self.size <= 1 or self.shape[axis] == 1:
        return self._same()
    return self._result(UOp("SCAN", (self.uop,), op=op, axis=axis))


def _cumulative(self: Tensor, op: str, axis: int | None, dtype: Any, name: str) -> Tensor:
    if axis is None:
        return _cumulative(self.flatten(), op, 0, dtype, name)
    result = as_dtype(dtype) if dtype is not None else _sum_dtype(self.dtype)
    k = one_axis(axis, self.ndim, name, of_scalar=True)
    return _scan(self.cast(accumulation_dtype(result)), op, k).cast(result)


@built_once
def cumsum(self: Tensor, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """The sums of the elements up to each one along `axis`, or of the flat tensor; dtypes are those of `sum`.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).cumsum(axis=1).tolist()
    [[1, 3], [3, 7]]
    """
    return _cumulative(self, "ADD", axis_or_dim(axis, dim, "cumsum"), dtype, "cumsum")


@built_once
def cumprod(self: Tensor, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """The products of the elements up to each one along `axis`, or of the flat tensor.

    >>> Tensor([1, 2, 3]).cumprod().tolist()
    [1, 2, 6]
    """
    return _cumulative(self, "MUL", axis_or_dim(axis, dim, "cumprod"), dtype, "cumprod")


def cumulative_sum(self: Tensor, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The array API's cumsum; with `include_initial` a zero comes first. The axis may be left out of a vector.

    >>> Tensor([1, 2, 3]).cumulative_sum(include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _with_initial(self, "ADD", axis, dtype, include_initial, 0, "cumulative_sum")


def cumulative_prod(self: Tensor, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The array API's cumprod; with `include_initial` a one comes first. The axis may be left out of a vector.

    >>> Tensor([2, 3]).cumulative_prod(include_initial=True).tolist()
    [1, 2, 6]
    """
    return _with_initial(self, "MUL", axis, dtype, include_initial, 1, "cumulative_prod")


def _with_initial(self: Tensor, op: str, axis: int | None, dtype: Any, initial: bool, first: int, name: str) -> Tensor:
    if axis is None and self.ndim != 1:
        raise ShapeError(f"{name}: the shape {self.shape} has {self.ndim} axes; name one of them")
    k = one_axis(axis or 0, self.ndim, name)
    found = _cumulative(self, op, k, dtype, name)
    if not initial:
        return found
    shape = tuple(1 if j == k else n for j, n in enumerate(self.shape))
    return self.full(shape, first, found.dtype, self._device or None).cat(found, axis=k)


def _extreme(self: Tensor, op: str, axis: int | None, name: str) -> tuple[Tensor, Tensor]:
    k = one_axis(-1 if axis is None else axis, self.ndim, name, of_scalar=True)
    if not self.ndim:
        return self._same(), self.zeros_like("int64")
    values = self.detach()
    best = _scan(values, op, k)
    reached = (values == best) | values.isnan() if self.dtype.is_float else values == best
    positions = along_axis(self.arange(self.shape[k], device=self._device or None), self.shape, k)
    places = _scan(reached.where(positions, 0), "MAX", k)
    return _scan(self, op, k), places


def cummax(self: Tensor, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, Tensor]:
    """The largest element up to each one along `axis` (the last by default), and where it was last; nan is largest.

    >>> from rulegrad import Tensor
    >>> values, places = Tensor([1, 3, 2]).cummax(axis=0)
    >>> values.tolist(), places.tolist()
    ([1, 3, 3], [0, 1, 1])
    """
    return _extreme(self, "MAX", axis_or_dim(axis, dim, "cummax"), "cummax")


def cummin(self: Tensor, axis: int | None = None, *, dim: int | None = None) -> tuple[Tensor, Tensor]:
    """The smallest element up to each one along `axis`, and where it was last; nan is smallest.

    >>> values, places = Tensor([3, 1, 2]).cummin(axis=0)
    >>> values.tolist(), places.tolist()
    ([3, 1, 1], [0, 1, 1])
    """
    return _extreme(self, "MIN", axis_or_dim(axis, dim, "cummin"), "cummin")


@built_once
def logcumsumexp(self: Tensor, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """`log(exp(self).cumsum(axis))` without overflow: sums relative to the largest element so far.

    >>> [round(v, 3) for v in Tensor([0.0, 0.0, 0.0]).logcumsumexp().tolist()]
    [0.0, 0.693, 1.099]
    """
    k = one_axis(axis_or_dim(axis, dim, "logcumsumexp", -1), self.ndim, "logcumsumexp", of_scalar=True)
    x = as_floating(self)
    if x.size <= 1 or x.shape[k] == 1:
        return x._same()
    wide = x.cast(accumulation_dtype(x.dtype))
    most = _scan(wide.detach(), "MAX", k)
    before, after = (slice_axis(most, k, b, x.shape[k] - 1 + b) for b in (0, 1))
    factors = _powers(before, after).pad([(1, 0) if j == k else (0, 0) for j in range(x.ndim)])
    added = _powers(wide, most)
    sums = wide._result(UOp("RECURRENCE", (factors.uop, added.uop), axis=k), added)
    return (most + sums.log()).cast(x.dtype)


@built_once
def diff(
    self: Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    dim: int | None = None,
) -> Tensor:
    """The differences of neighbours along `axis`, `n` times; of bools whether they differ, as in NumPy.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 4, 9]).diff().tolist()
    [3, 5]
    """
    k, times = one_axis(axis_or_dim(axis, dim, "diff", -1), self.ndim, "diff"), whole_number(n, "diff")
    if times < 0:
        raise ShapeError(f"diff: n={times}; use 0 or more")
    if not times:
        return self._same()
    parts = [part for part in (prepend, self, append) if part is not None]
    x = parts[0].cat(*parts[1:], axis=k) if len(parts) > 1 else self
    for _ in range(times):
        count = max(x.shape[k] - 1, 0)
        later, earlier = (slice_axis(x, k, b, b + count) for b in (min(1, x.shape[k]), 0))
        x = later != earlier if x.dtype.kind == "bool" else later - earlier
    return x


# ---- samples of a function ----


def trapezoid(
    self: Tensor, x: Operand | None = None, *, dx: float = 1, axis: int = -1, dim: int | None = None
) -> Tensor:
    """The integral along an axis by the trapezoidal rule: of samples at `x`, or at the distance `dx`.

    >>> Tensor([1.0, 2.0, 4.0]).trapezoid().item()
    4.5
    """
    k, areas = _trapezoids(self, x, dx, axis_or_dim(axis, dim, "trapezoid", -1), "trapezoid")
    return areas.sum(k, dtype=areas.dtype) / 2


def cumulative_trapezoid(
    self: Tensor, x: Operand | None = None, *, dx: float = 1, axis: int = -1, dim: int | None = None
) -> Tensor:
    """The integrals from the first sample up to each other one along an axis; see `trapezoid`.

    >>> Tensor([1.0, 2.0, 4.0]).cumulative_trapezoid().tolist()
    [1.5, 4.5]
    """
    k, areas = _trapezoids(self, x, dx, axis_or_dim(axis, dim, "cumulative_trapezoid", -1), "cumulative_trapezoid")
    return areas.cumsum(k, areas.dtype) / 2


def _trapezoids(self: Tensor, x: Operand | None, dx: float, axis: int, name: str) -> tuple[int, Tensor]:
    """Twice the area between each sample and the next."""
    k = one_axis(axis, self.ndim, name)
    width: Any = dx
    if x is not None:
        places: Any = as_tensor(self, x, name)
        lead = self.ndim - places.ndim
        shape = (1,) * lead + places.shape
        if places.ndim == 1:
            shape = tuple(places.size if j == k else 1 for j in range(self.ndim))
        width = places.reshape(shape).diff(axis=k)
    earlier, later = _part(self, k, 0, -1), _part(self, k, 1, 0)
    return k, (earlier + later) * width


def _part(self: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """Without the first `begin` and the last `-end` elements along an axis."""
    extent = self.shape[axis]
    first = min(begin, extent)
    return slice_axis(self, axis, first, max(extent + end, first))


def gradient(
    self: Tensor, *, spacing: Any = None, axis: Any = None, edge_order: int = 1, dim: Any = None
) -> tuple[Tensor, ...]:
    """The derivatives along the axes (all of them by default), from samples of a function: central differences.

    spacing: the distance of samples (1 by default), one for each axis, or for each axis a vector of coordinates.
    edge_order: 1 or 2, the order of the differences at both ends. Raises ShapeError for too few samples, and
    ConfigError.

    >>> from rulegrad import Tensor
    >>> [part.tolist() for part in Tensor([1.0, 4.0, 9.0, 16.0]).gradient()]
    [[3.0, 4.0, 6.0, 7.0]]
    """
    if edge_order not in (1, 2):
        raise ConfigError(f"gradient: edge_order={edge_order}; use 1 or 2")
    named = axis_or_dim(axis, dim, "gradient")
    given = range(self.ndim) if named is None else integers((named,), "gradient")
    axes = [one_axis(k, self.ndim, "gradient") for k in given]
    several = isinstance(spacing, Sequence)
    spacings = list(spacing) if several else [1 if spacing is None else spacing] * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"gradient: {len(spacings)} spacings for {len(axes)} axes; give one for each")
    x = as_floating(self)
    return tuple(_derivative(x, k, step, edge_order) for k, step in zip(axes, spacings))


def _derivative(self: Tensor, k: int, spacing: Any, order: int) -> Tensor:
    extent = self.shape[k]
    if extent <= order:
        raise ShapeError(
            f"gradient: {extent} samples along axis {k} of the shape {self.shape}; it needs {order + 1} at least"
        )
    distance: Any = as_operand(self, spacing, "gradient")
    if not is_weak_scalar(distance):
        if distance.shape != (extent,):
            raise ShapeError(f"gradient: coordinates of shape {distance.shape} for {extent} samples")
        distance = along_axis(distance.diff(), self.shape, k)

    def steps(begin: int, end: int) -> Any:
        return distance if is_weak_scalar(distance) else _part(distance, k, begin, end)

    parts = [_slope(self, k, steps, 0, order)]
    if extent > 2:
        before, at, after = (_part(self, k, n, n - 2) for n in range(3))
        a, b = steps(0, -1), steps(1, 0)
        # Of equal distances the middle has no weight.
        middle = 0 if is_weak_scalar(distance) else at * ((b - a) / (a * b))
        parts.append(after * (a / (b * (a + b))) - before * (b / (a * (a + b))) + middle)
    parts.append(_slope(self, k, steps, extent - 1, order))
    found: Tensor = parts[0].cat(*parts[1:], axis=k)
    return found


def _slope(x: Any, k: int, steps: Callable[[int, int], Any], place: int, order: int) -> Any:
    """The derivative at the first or the last sample, from one or two differences."""
    extent, first = x.shape[k], place == 0

    def sample(n: int) -> Any:
        """The n-th from this end."""
        begin = n if first else extent - 1 - n
        return _part(x, k, begin, begin + 1 - extent)

    def step(n: int) -> Any:
        begin = n if first else extent - 2 - n
        return steps(begin, begin + 2 - extent)

    near = sample(1) - sample(0)
    if order == 2:
        a, b = step(0), step(1)
        found = near * ((a + b) / (a * b)) - (sample(2) - sample(0)) * (a / (b * (a + b)))
    else:
        found = near / step(0)
    return found if first else -found


def _powers(x: Any, most: Any) -> Any:
    """exp(x - most); infinities of one sign stay."""
    return ((x == most) & ~most.isfinite()).where(0.0, x - most).exp()
