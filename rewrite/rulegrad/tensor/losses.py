"""Softmax and its relatives, one-hot vectors, and losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.convolution import Convolution
from rulegrad.tensor.operands import as_operand

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T", bound=Convolution)
Reduction = Literal["mean", "sum", "none"]


class Losses(Convolution):
    """softmax, log_softmax, logsumexp, one_hot, cross_entropy, …"""

    __slots__ = ()

    def _stable(self, axis: int, name: str) -> tuple[Self, int]:
        """The values less their largest along `axis`, which changes no softmax; no gradient flows to that."""
        k = one_axis(axis, self.ndim, name)
        x = self._floating()
        return x - x.detach().max(k, keepdims=True), k

    def softmax(self, axis: int = -1, *, dim: int | None = None) -> Self:
        """`exp(self)` as shares of its sum along `axis`."""
        shifted, k = self._stable(axis if dim is None else dim, "softmax")
        powers = shifted.exp()
        return powers / powers.sum(k, keepdims=True)

    def log_softmax(self, axis: int = -1, *, dim: int | None = None) -> Self:
        """The logarithm of `softmax`, exact where a share is tiny."""
        shifted, k = self._stable(axis if dim is None else dim, "log_softmax")
        return shifted - shifted.exp().sum(k, keepdims=True).log()

    def logsumexp(self, axis: int = -1, keepdims: bool = False, *, dim: int | None = None) -> Self:
        """`log(exp(self).sum(axis))`, without overflow."""
        k = one_axis(axis if dim is None else dim, self.ndim, "logsumexp")
        x = self._floating()
        largest = x.detach().max(k, keepdims=True)
        # inf - inf would be nan; a row of -inf has the logsumexp -inf, and one with an inf has inf.
        largest = largest.isfinite().where(largest, 0.0)
        total = (x - largest).exp().sum(k, keepdims=True).log() + largest
        return total if keepdims else total.squeeze(k)

    def one_hot(self, classes: int) -> Self:
        """For each integer a vector of `classes` bools, true at that place; all false when it is out of range."""
        if self.dtype.is_float:
            raise DtypeError(f"one_hot: the labels are {self.dtype}; cast them to an integer dtype")
        places = self.arange(classes, device=self._device or None)
        return self.unsqueeze(-1) == places

    def cross_entropy(
        self,
        labels: Self,
        axis: int = -1,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> Self:
        """The negative log-likelihood of integer `labels` under softmax of this tensor along `axis`.

        `labels` has this tensor's shape without `axis`. Raises ShapeError and DtypeError.
        """
        k = one_axis(axis, self.ndim, "cross_entropy")
        labels = as_operand(self, labels, "cross_entropy")
        expected = self.shape[:k] + self.shape[k + 1 :]
        if labels.shape != expected:
            raise ShapeError(
                f"cross_entropy: labels of shape {labels.shape} for scores of shape {self.shape}; "
                f"they need the shape {expected}"
            )
        scores = self.moveaxis(k, -1).log_softmax(-1)
        hit = labels.one_hot(self.shape[k]).where(scores, 0.0).sum(-1)
        if label_smoothing:
            hit = hit * (1.0 - label_smoothing) + scores.mean(-1) * label_smoothing
        return _reduced(-hit, reduction, "cross_entropy")

    def binary_cross_entropy_with_logits(self, target: Self, reduction: Reduction = "mean") -> Self:
        """The cross entropy of `target` (0 … 1) and `sigmoid(self)`, without overflow."""
        return _reduced(self.softplus() - self * target, reduction, "binary_cross_entropy_with_logits")

    def mse_loss(self, target: Self, reduction: Reduction = "mean") -> Self:
        """The squared differences from `target`."""
        return _reduced((self - target).square(), reduction, "mse_loss")


def _reduced(losses: T, reduction: Reduction, name: str) -> T:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction != "none":
        raise ConfigError(f"{name}: unknown reduction {reduction!r}; use mean, sum or none")
    return losses
