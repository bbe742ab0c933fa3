"""Running reductions along an axis: sums, products, extremes, and differences, their inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.axes import axis_or_dim, one_axis, whole_number
from rulegrad.tensor.inplace import InPlace
from rulegrad.tensor.reduce import _sum_dtype, accumulation_dtype

if TYPE_CHECKING:
    from typing_extensions import Self


class Cumulative(InPlace):
    """cumsum, cumprod, cummax, cummin, logcumsumexp, diff."""

    __slots__ = ()

    def _scan(self, op: str, axis: int) -> Self:
        """All reductions of the elements up to each one along an axis."""
        if self.size <= 1 or self.shape[axis] == 1:
            return self._same()
        return self._result(UOp("SCAN", (self.uop,), op=op, axis=axis))

    def _cumulative(self, op: str, axis: int | None, dtype: Any, name: str) -> Self:
        if axis is None:
            return self.flatten()._cumulative(op, 0, dtype, name)
        result = as_dtype(dtype) if dtype is not None else _sum_dtype(self.dtype)
        k = one_axis(axis, self.ndim, name, of_scalar=True)
        return self.cast(accumulation_dtype(result))._scan(op, k).cast(result)

    def cumsum(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Self:
        """The sums of the elements up to each one along `axis`, or of the flat tensor; dtypes are those of `sum`.

        >>> from rulegrad import Tensor
        >>> Tensor([[1, 2], [3, 4]]).cumsum(axis=1).tolist()
        [[1, 3], [3, 7]]
        """
        return self._cumulative("ADD", axis_or_dim(axis, dim, "cumsum"), dtype, "cumsum")

    def cumprod(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Self:
        """The products of the elements up to each one along `axis`, or of the flat tensor.

        >>> Tensor([1, 2, 3]).cumprod().tolist()
        [1, 2, 6]
        """
        return self._cumulative("MUL", axis_or_dim(axis, dim, "cumprod"), dtype, "cumprod")

    def cumulative_sum(self, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Self:
        """The array API's cumsum; with `include_initial` a zero comes first. The axis may be left out of a vector.

        >>> Tensor([1, 2, 3]).cumulative_sum(include_initial=True).tolist()
        [0, 1, 3, 6]
        """
        return self._with_initial("ADD", axis, dtype, include_initial, 0, "cumulative_sum")

    def cumulative_prod(self, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Self:
        """The array API's cumprod; with `include_initial` a one comes first. The axis may be left out of a vector.

        >>> Tensor([2, 3]).cumulative_prod(include_initial=True).tolist()
        [1, 2, 6]
        """
        return self._with_initial("MUL", axis, dtype, include_initial, 1, "cumulative_prod")

    def _with_initial(self, op: str, axis: int | None, dtype: Any, initial: bool, first: int, name: str) -> Self:
        if axis is None and self.ndim != 1:
            raise ShapeError(f"{name}: the shape {self.shape} has {self.ndim} axes; name one of them")
        k = one_axis(axis or 0, self.ndim, name)
        found = self._cumulative(op, k, dtype, name)
        if not initial:
            return found
        shape = tuple(1 if j == k else n for j, n in enumerate(self.shape))
        return self.full(shape, first, found.dtype, self._device or None).cat(found, axis=k)

    def _extreme(self, op: str, axis: int | None, name: str) -> tuple[Self, Self]:
        k = one_axis(-1 if axis is None else axis, self.ndim, name, of_scalar=True)
        if not self.ndim:
            return self._same(), self.zeros_like("int64")
        values = self.detach()
        best = values._scan(op, k)
        reached = (values == best) | values.isnan() if self.dtype.is_float else values == best
        turns = self.arange(self.shape[k], device=self._device or None)._along_axis(self.shape, k)
        places = reached.where(turns, 0)._scan("MAX", k)
        return self._taken(places, k), places

    def cummax(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Self, Self]:
        """The largest element up to each one along `axis` (the last by default), and where it was last; nan is largest.

        >>> from rulegrad import Tensor
        >>> values, places = Tensor([1, 3, 2]).cummax(axis=0)
        >>> values.tolist(), places.tolist()
        ([1, 3, 3], [0, 1, 1])
        """
        return self._extreme("MAX", axis_or_dim(axis, dim, "cummax"), "cummax")

    def cummin(self, axis: int | None = None, *, dim: int | None = None) -> tuple[Self, Self]:
        """The smallest element up to each one along `axis`, and where it was last; nan is smallest.

        >>> values, places = Tensor([3, 1, 2]).cummin(axis=0)
        >>> values.tolist(), places.tolist()
        ([3, 1, 1], [0, 1, 1])
        """
        return self._extreme("MIN", axis_or_dim(axis, dim, "cummin"), "cummin")

    def logcumsumexp(self, axis: int = -1, *, dim: int | None = None) -> Self:
        """`log(exp(self).cumsum(axis))` without overflow, in about log2(n) kernels of pairwise sums.

        Steps of doubling distance (Hillis and Steele: Data parallel algorithms; CACM 1986).

        >>> [round(v, 3) for v in Tensor([0.0, 0.0, 0.0]).logcumsumexp().tolist()]
        [0.0, 0.693, 1.099]
        """
        k = one_axis(axis_or_dim(axis, dim, "logcumsumexp", -1), self.ndim, "logcumsumexp", of_scalar=True)
        x, distance = self._floating(), 1
        if not self.ndim:
            return x._same()
        while distance < self.shape[k]:
            before = x.shrink(*((0, n - distance) if j == k else None for j, n in enumerate(self.shape)))
            padding = [(distance, 0) if j == k else (0, 0) for j in range(self.ndim)]
            x = _log_add(x, before.pad(padding, value=float("-inf"))).contiguous()
            distance *= 2
        return x

    def diff(
        self,
        n: int = 1,
        axis: int = -1,
        prepend: Self | None = None,
        append: Self | None = None,
        *,
        dim: int | None = None,
    ) -> Self:
        """The differences of neighbours along `axis`, `n` times; of bools whether they differ, as in NumPy.

        >>> from rulegrad import Tensor
        >>> Tensor([1, 4, 9]).diff().tolist()
        [3, 5]
        """
        k, times = one_axis(axis_or_dim(axis, dim, "diff", -1), self.ndim, "diff"), whole_number(n, "diff")
        if times < 0:
            raise ShapeError(f"diff: n={times}; use 0 or more")
        parts = [part for part in (prepend, self, append) if part is not None]
        x = parts[0].cat(*parts[1:], axis=k) if len(parts) > 1 else self
        for _ in range(times):
            count = max(x.shape[k] - 1, 0)
            later, earlier = (
                x.shrink(*((b, b + count) if j == k else None for j in range(x.ndim))) for b in (min(1, x.shape[k]), 0)
            )
            x = later != earlier if x.dtype.kind == "bool" else later - earlier
        return x


def _log_add(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)); infinities of one sign stay."""
    most, least = a.maximum(b), a.minimum(b)
    same = (most == least) & ~most.isfinite()
    return same.where(most, most + same.where(0.0, least - most).exp().log1p())
