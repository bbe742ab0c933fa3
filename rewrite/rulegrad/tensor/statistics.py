"""Statistics beyond means and sums: without nan, covariances, histograms, and draws by given weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import float64, int64
from rulegrad.tensor import order_statistics, selections
from rulegrad.tensor.axes import axis_or_dim, one_axis, whole_number
from rulegrad.tensor.operands import as_tensor
from rulegrad.tensor.order_statistics import Interpolation, quantile_along
from rulegrad.tensor.reduce import dim_of_pytorch, need_elements, reduced_axes
from rulegrad.tensor.sets import distinct_values

if TYPE_CHECKING:
    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


class Extremes(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


class Mode(NamedTuple):
    """The most frequent values, and the last places where they are."""

    values: Tensor
    indices: Tensor


# ---- without nan ----


def nansum(
    self: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None, *, dim: Any = None, keepdim: bool = False
) -> Tensor:
    """The sum over `axis` of the elements that are not nan.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, float("nan"), 3.0]).nansum().item()
    4.0
    """
    axes = reduced_axes(self, axis, dim, "nansum")
    return self.isnan().where(0, self).cast(self.dtype).sum(axes, keepdims or keepdim, dtype)


def nanmean(
    self: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None, *, dim: Any = None, keepdim: bool = False
) -> Tensor:
    """The mean over `axis` of the elements that are not nan; nan where all are.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, float("nan"), 3.0]).nanmean().item()
    2.0
    """
    if dtype is not None:
        return self.cast(dtype).nanmean(axis, keepdims, dim=dim, keepdim=keepdim)
    axes, keep = reduced_axes(self, axis, dim, "nanmean"), keepdims or keepdim
    count = self.isnan().logical_not().sum(axes, keep)
    x = self if self.dtype.is_inexact else self.cast(float64)
    return x.nansum(axes, keep) / count.cast(x.dtype)


def nanquantile(
    self: Tensor,
    q: Any,
    axis: int | None = None,
    keepdims: bool = False,
    interpolation: Interpolation = "linear",
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """`quantile` of the elements that are not nan; nan where all are. Raises ShapeError and ConfigError.

    >>> Tensor([1.0, float("nan"), 3.0]).nanquantile(0.25).item()
    1.5
    """
    named = axis_or_dim(axis, dim, "nanquantile")
    return quantile_along(self, q, named, keepdims or keepdim, interpolation, "nanquantile", skips_nan=True)


@overload
def median(
    self: Tensor, axis: None = None, keepdims: bool = False, *, dim: int, keepdim: bool = False
) -> selections.Selected: ...
@overload
def median(
    self: Tensor, axis: int, keepdims: bool = False, *, dim: None = None, keepdim: bool
) -> selections.Selected: ...
@overload
def median(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, dim: None = None, keepdim: None = None
) -> Tensor: ...
def median(
    self: Tensor,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool | None = None,
) -> Tensor | selections.Selected:
    """The middle of the elements in order, or the mean of the two there, as in NumPy; nan when one is nan.

    An axis that is named `dim`, or is beside `keepdim`, is PyTorch's, and so is the result: (values, indices) of the
    lower one of the two.

    >>> from rulegrad import Tensor
    >>> Tensor([4.0, 1.0, 2.0, 9.0]).median().item(), Tensor([4.0, 1.0, 2.0, 9.0]).median(dim=0).values.item()
    (3.0, 2.0)
    """
    place = dim_of_pytorch(axis, dim, keepdim)
    if place is not None:
        found: selections.Selected = order_statistics.middle(self, place, keepdims or bool(keepdim), skips_nan=False)
        return found
    return quantile_along(self, 0.5, axis_or_dim(axis, dim, "median"), keepdims or bool(keepdim), "linear", "median")


@overload
def nanmedian(
    self: Tensor, axis: None = None, keepdims: bool = False, *, dim: int, keepdim: bool = False
) -> selections.Selected: ...
@overload
def nanmedian(
    self: Tensor, axis: int, keepdims: bool = False, *, dim: None = None, keepdim: bool
) -> selections.Selected: ...
@overload
def nanmedian(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, dim: None = None, keepdim: None = None
) -> Tensor: ...
def nanmedian(
    self: Tensor,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool | None = None,
) -> Tensor | selections.Selected:
    """The median of the elements that are not nan; between two of them their mean, as in NumPy. `dim` as in `median`.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, float("nan"), 3.0]).nanmedian().item()
    2.0
    """
    place = dim_of_pytorch(axis, dim, keepdim)
    if place is not None:
        found: selections.Selected = order_statistics.middle(self, place, keepdims or bool(keepdim), skips_nan=True)
        return found
    named = axis_or_dim(axis, dim, "nanmedian")
    return quantile_along(self, 0.5, named, keepdims or bool(keepdim), "linear", "nanmedian", skips_nan=True)


# ---- of all elements, and of pairs of variables ----


def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The smallest and the largest elements along `dim`, or of all.

    >>> [part.tolist() for part in Tensor([[3, 1], [2, 4]]).aminmax(dim=1)]
    [[1, 2], [3, 4]]
    """
    return Extremes(self.min(dim, keepdim), self.max(dim, keepdim))


def cov(self: Tensor, *, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables (rows) over observations (columns), divided by `n - correction`.

    Of one variable, a vector or a matrix with one row, its variance. fweights: how often each observation counts
    (integers). aweights: how much it counts. Raises ShapeError for more than two axes, or other weights.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]).cov().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if self.ndim > 2:
        raise ShapeError(f"cov: the shape is {self.shape}; it needs (variables, observations), or a vector")
    x = self if self.dtype.is_inexact else self.cast(float64)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    if fweights is None and aweights is None:
        centred = rows - rows.mean(1, keepdims=True)
        found = (centred @ centred.conj().mT) / max(rows.shape[1] - correction, 0)
    else:
        found = _weighted_cov(rows, correction, fweights, aweights)
    return found if rows.shape[0] != 1 else found.reshape(())


def _weighted_cov(self: Tensor, correction: float, fweights: Any, aweights: Any) -> Tensor:
    weights: Any = None
    for given in (fweights, aweights):
        if given is None:
            continue
        one = as_tensor(self, given, "cov")
        if one.shape != self.shape[1:]:
            raise ShapeError(f"cov: weights of shape {one.shape} for {self.shape[1]} observations")
        weights = one.cast(self.dtype) if weights is None else weights * one.cast(self.dtype)
    total = weights.sum()
    shares = weights if aweights is None else weights * as_tensor(self, aweights, "cov").cast(self.dtype)
    # The divisor of `correction` is 1 without aweights.
    divisor = total - correction * (shares.sum() / total if aweights is not None else 1)
    centred = self - (self * weights).sum(1, keepdims=True) / total
    real: Any = divisor.real if divisor.dtype.is_complex else divisor
    found: Tensor = (centred * weights) @ centred.conj().mT / real.clip(0, None)
    return found


def corrcoef(self: Tensor) -> Tensor:
    """The correlations of variables (rows) over observations (columns): `cov` divided by both deviations.

    >>> from rulegrad import Tensor
    >>> Tensor([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]).corrcoef().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    found = self.cov()
    if not found.ndim:
        return found / found
    deviation = found.diagonal().real.sqrt()
    return found / deviation.unsqueeze(1) / deviation


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal intervals from `min` to `max` (both 0: of the values; waits).

    Elements outside do not count. The dtype is this tensor's. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0, 1.0]).histc(4, 0, 3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    count, flat = whole_number(bins, "histc"), self.detach().flatten()
    if count < 1 or min > max:
        raise ShapeError(f"histc: bins={bins}, min={min}, max={max}; use 1 bin or more, and min up to max")
    if min == max == 0 and flat.size:
        ends: Any = flat.aminmax()
        min, max = float(ends.min.item()), float(ends.max.item())
    if min == max:
        min, max = min - 1, max + 1
    wide = flat.cast(float64)
    inside = (wide >= min) & (wide <= max)
    place = ((wide - min) / (max - min) * count).floor().clip(0, count - 1)
    zeros = self.zeros((count,), dtype=int64, device=self._device or None)
    places = inside.where(place, 0).cast(int64)
    return zeros.scatter_add(0, places, inside.cast(int64)).cast(self.dtype) if flat.size else zeros.cast(self.dtype)


def mode(self: Tensor, dim: int = -1, keepdim: bool = False) -> Mode:
    """The most frequent value along `dim` (the smallest of several), and the last place where it is.

    >>> from rulegrad import Tensor
    >>> [part.item() for part in Tensor([3, 1, 3, 2]).mode()]
    [3, 2]
    """
    k = one_axis(dim, self.ndim, "mode", of_scalar=True)
    if not self.ndim:
        return Mode(self._same(), self.zeros_like("int64"))
    need_elements(self, (k,), "mode")
    rows = self.moveaxis(k, -1)
    same = rows.unsqueeze(-1) == rows.unsqueeze(-2)
    count = same.sum(-1)
    often = count == count.max(-1, keepdims=True)
    least = often.where(rows, rows.max(-1, keepdims=True)).min(-1, keepdims=True)
    positions = self.arange(rows.shape[-1], device=self._device or None)
    place = ((rows == least) & often).where(positions, -1).max(-1, keepdims=True)
    value = rows.take_along_axis(place, -1)
    if keepdim:
        return Mode(value.moveaxis(-1, k), place.moveaxis(-1, k))
    return Mode(value.squeeze(-1), place.squeeze(-1))


# ---- draws ----


def multinomial(
    self: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """`num_samples` places drawn by weight, for a vector of weights or for each row of a matrix (int64).

    Without replacement no place comes twice; there may not be more samples than weights. A place is -1 where there
    is nothing to draw: negative or nan weights, no positive one, or (without replacement) too few of them.
    Without replacement the largest of weight / exponential variate are taken (Efraimidis and Spirakis: Weighted
    random sampling with a reservoir; 2006). Raises ShapeError and DtypeError.

    >>> from rulegrad import Tensor
    >>> Tensor([0.0, 3.0, 0.0]).multinomial(4, replacement=True).tolist()
    [1, 1, 1, 1]
    """
    count = whole_number(num_samples, "multinomial")
    if self.ndim not in (1, 2) or not self.shape[-1] or count < 1:
        raise ShapeError(f"multinomial: {num_samples} samples of weights of shape {self.shape}; use (…, weights)")
    if not self.dtype.is_float:
        raise DtypeError(f"multinomial: the weights are {self.dtype}; cast them to a float dtype")
    weights = self.detach().reshape(-1, self.shape[-1])
    valid = ((weights >= 0) & weights.isfinite()).all(-1, keepdims=True) & (weights > 0).any(-1, keepdims=True)
    if replacement:
        found = _drawn(weights, count, generator)
    else:
        if count > self.shape[-1]:
            raise ShapeError(f"multinomial: {count} samples of {self.shape[-1]} weights; use replacement=True for more")
        found = _drawn_once(weights, count, generator)
        valid = valid & (weights.take_along_axis(found, -1) > 0)
    return valid.where(found, -1).reshape(*self.shape[:-1], count)


def _drawn(self: Tensor, count: int, generator: Generator | None) -> Tensor:
    rows, extent = self.shape
    sums = self.cast(float64).cumsum(1)
    draws = self.rand(rows, count, dtype=float64, device=self.device, generator=generator)
    draws = draws * sums.shrink(None, (extent - 1, extent))
    places = (sums.unsqueeze(1) <= draws.unsqueeze(2)).sum(2)
    # A product that is rounded up to the whole sum would be one place behind the last weight.
    positions = self.arange(extent, device=self._device or None)
    return places.minimum((self > 0).where(positions, 0).max(1, keepdims=True))


def _drawn_once(self: Tensor, count: int, generator: Generator | None) -> Tensor:
    draws = self.rand(self.shape, dtype=float64, device=self.device, generator=generator)
    waiting = draws.sub(1.0, swapped=True).log().neg()
    found: Tensor = (self.cast(float64) / waiting).topk(count).indices
    return found


# ---- rows ----


def unique(
    self: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """PyTorch's unique: the distinct values, or the distinct slices along `dim`, and what else is asked for.

    The results are in order, whatever `sorted` says: (values, inverse, counts). Synchronises; slices are compared
    on the host.

    >>> from rulegrad import Tensor
    >>> Tensor([[2, 1], [0, 5], [2, 1]]).unique(dim=0).tolist()
    [[0, 5], [2, 1]]
    """
    if dim is None:
        return distinct_values(self, return_inverse, return_counts)
    k = one_axis(dim, self.ndim, "unique")
    host: Any = self.detach().numpy()
    small = host.astype(np.float32) if host.dtype.kind == "V" else host
    values, inverse, counts = np.unique(small, return_inverse=True, return_counts=True, axis=k)
    results = (values.astype(host.dtype), *((inverse.reshape(-1),) * return_inverse), *((counts,) * return_counts))
    found = tuple(type(self)(part, device=self._device or None) for part in results)
    return found if len(found) > 1 else found[0]


def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of the flat tensor, or the slices along `dim`, that differ from the one before. Synchronises.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
    [1, 2, 1]
    """
    k = 0 if dim is None else one_axis(dim, self.ndim, "unique_consecutive", of_scalar=True)
    x: Any = self.detach().flatten() if dim is None or not self.ndim else self.detach()
    extent, device = x.shape[k], self._device or None
    if extent:
        rows = x.moveaxis(k, 0).reshape(extent, -1) if x.size else self.zeros((extent, 1), device=device)
        changed = (rows.shrink((1, extent), None) != rows.shrink((0, extent - 1), None)).any(1)
        begins = self.ones((1,), dtype="bool", device=device).cat(changed)
    else:
        begins = self.zeros((0,), dtype="bool", device=device)
    starts = begins.nonzero(as_tuple=True)[0]
    results = [x.take(starts, k)]
    if return_inverse:
        inverse = begins.cumsum(0) - 1
        results.append(inverse.reshape(self.shape) if dim is None else inverse)
    if return_counts:
        ends = starts.shrink((min(1, starts.size), starts.size)).cat(self.full((1,), extent, int64, device))
        results.append(ends - starts if extent else starts)
    return tuple(results) if len(results) > 1 else results[0]


def dist(self: Tensor, other: Operand, p: float = 2) -> Tensor:
    """The p-norm of `self - other`, of all elements together.

    >>> Tensor([0.0, 0.0]).dist(Tensor([3.0, 4.0])).item()
    5.0
    """
    return (self - as_tensor(self, other, "dist")).norm(p)
