"""Losses: how far a tensor is from a target, as one number or one for each element.

The tensor itself is PyTorch's `input`; the other arguments have PyTorch's names and defaults. `reduction` is "mean",
"sum", or "none" for the losses themselves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeVar

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.normalization import Normalization
from rulegrad.tensor.operands import as_operand

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.operands import Operand

T = TypeVar("T", bound=Normalization)
Reduction = Literal["mean", "sum", "none"]


class Losses(Normalization):
    """cross_entropy, nll_loss, binary_cross_entropy, mse_loss, huber_loss, kl_div, …, and one_hot."""

    __slots__ = ()

    # ---- of classes ----

    def one_hot(self, classes: int) -> Self:
        """For each integer a vector of `classes` bools, true at that place; all false when it is out of range."""
        if self.dtype.is_float:
            raise DtypeError(f"one_hot: the labels are {self.dtype}; cast them to an integer dtype")
        places = self.arange(classes, device=self._device or None)
        return self.unsqueeze(-1) == places

    def cross_entropy(
        self,
        target: Operand,
        weight: Self | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        axis: int | None = None,
    ) -> Self:
        """The negative log-likelihood of `target` under softmax of this tensor along the classes' axis.

        target: integers, of this tensor's shape without the axis of the classes; or probabilities, of this tensor's
        shape. weight: one factor for each class; the mean is weighted by it. ignore_index: a label whose places do not
        count. axis: that of the classes, 1 by default (0 for one axis). Raises ShapeError, DtypeError, ConfigError.

        >>> from rulegrad import Tensor
        >>> Tensor([[0.0, 0.0], [0.0, 0.0]]).cross_entropy(Tensor([1, 0])).item()
        0.6931471824645996
        """
        if not 0.0 <= label_smoothing <= 1.0:
            raise ConfigError(f"cross_entropy: label_smoothing={label_smoothing}; use a number from 0 to 1")
        k = self._class_axis(axis, "cross_entropy")
        scores = self.moveaxis(k, -1).log_softmax(-1)
        labels: Self = as_operand(self, target, "cross_entropy")
        if labels.dtype.is_float and labels.shape == self.shape:
            return scores._entropy_of_shares(labels.moveaxis(k, -1), weight, reduction, label_smoothing)
        return scores._entropy_of_labels(
            labels, weight, ignore_index, reduction, label_smoothing, "cross_entropy", self
        )

    def nll_loss(
        self,
        target: Operand,
        weight: Self | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        axis: int | None = None,
    ) -> Self:
        """`cross_entropy` of integer labels where this tensor already has the logarithms of the probabilities."""
        k = self._class_axis(axis, "nll_loss")
        labels: Self = as_operand(self, target, "nll_loss")
        scores = self.moveaxis(k, -1)
        return scores._entropy_of_labels(labels, weight, ignore_index, reduction, 0.0, "nll_loss", self)

    def _class_axis(self, axis: int | None, name: str) -> int:
        return one_axis(min(self.ndim - 1, 1) if axis is None else axis, self.ndim, name)

    def _entropy_of_shares(self, target: Self, weight: Self | None, reduction: Reduction, smoothing: float) -> Self:
        """For log-probabilities and probabilities, the classes last."""
        classes = self.shape[-1]
        if smoothing:
            target = target * (1.0 - smoothing) + smoothing / classes
        each = -(self * target if weight is None else self * target * weight).sum(-1)
        return _reduced(each, reduction, "cross_entropy")

    def _entropy_of_labels(
        self,
        target: Self,
        weight: Self | None,
        ignore_index: int,
        reduction: Reduction,
        smoothing: float,
        name: str,
        scores: Self,
    ) -> Self:
        """For log-probabilities, the classes last; `scores` is what the user gave."""
        classes = self.shape[-1]
        if target.shape != self.shape[:-1]:
            raise ShapeError(
                f"{name}: labels of shape {target.shape} for scores of shape {scores.shape}; "
                f"they need the shape {self.shape[:-1]}"
            )
        if weight is not None and weight.shape != (classes,):
            raise ShapeError(
                f"{name}: a weight of shape {weight.shape} for {classes} classes; give one number for each"
            )
        hit = target.one_hot(classes)
        weighted = self if weight is None else self * weight
        each = hit.where(weighted, 0.0).sum(-1)
        if smoothing:
            each = each * (1.0 - smoothing) + weighted.sum(-1) * (smoothing / classes)
        counts = target.not_equal(ignore_index)
        each = -counts.where(each, 0.0)
        if reduction != "mean":
            return _reduced(each, reduction, name)
        shares = counts.cast(self.dtype) if weight is None else (hit & counts.unsqueeze(-1)).where(weight, 0.0).sum(-1)
        return each.sum() / shares.sum()

    def multi_margin_loss(
        self,
        target: Self,
        p: int = 1,
        margin: float = 1.0,
        weight: Self | None = None,
        reduction: Reduction = "mean",
    ) -> Self:
        """How far other scores come within `margin` of the target's: the mean over classes of `max(0, …) ** p`."""
        if target.shape != self.shape[:-1]:
            raise ShapeError(f"multi_margin_loss: labels of shape {target.shape} for scores of shape {self.shape}")
        hit = target.one_hot(self.shape[-1])
        own = hit.where(self, 0.0).sum(-1, keepdims=True)
        near = (self - own + margin).relu() ** p
        if weight is not None:
            near = near * hit.where(weight, 0.0).sum(-1, keepdims=True)
        return _reduced(hit.where(0.0, near).sum(-1) / self.shape[-1], reduction, "multi_margin_loss")

    # ---- of two classes ----

    def binary_cross_entropy(self, target: Self, weight: Self | None = None, reduction: Reduction = "mean") -> Self:
        """The cross entropy of `target` and this tensor, both probabilities; logarithms end at -100.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 0.0]).binary_cross_entropy(Tensor([1.0, 1.0])).item()
        50.0
        """
        each = -(target * _limited_log(self) + (1.0 - target) * _limited_log(1.0 - self))
        return _reduced(each if weight is None else each * weight, reduction, "binary_cross_entropy")

    def binary_cross_entropy_with_logits(
        self,
        target: Self,
        weight: Self | None = None,
        reduction: Reduction = "mean",
        pos_weight: Self | None = None,
    ) -> Self:
        """The cross entropy of `target` (0 … 1) and `sigmoid(self)`, without overflow.

        pos_weight: a factor of the positive part, which broadcasts.
        """
        if pos_weight is None:
            each = self.softplus() - self * target
        else:
            each = self * (1.0 - target) + (-self).softplus() * ((pos_weight - 1.0) * target + 1.0)
        return _reduced(each if weight is None else each * weight, reduction, "binary_cross_entropy_with_logits")

    def soft_margin_loss(self, target: Self, reduction: Reduction = "mean") -> Self:
        """`log(1 + exp(-target * self))`, for targets 1 and -1."""
        return _reduced((-target * self).softplus(), reduction, "soft_margin_loss")

    def hinge_embedding_loss(self, target: Self, margin: float = 1.0, reduction: Reduction = "mean") -> Self:
        """The element where the target is 1, `max(0, margin - self)` where it is -1."""
        return _reduced(target.equal(1).where(self, (margin - self).relu()), reduction, "hinge_embedding_loss")

    # ---- of numbers ----

    def mse_loss(self, target: Operand, reduction: Reduction = "mean") -> Self:
        """The squared differences from `target`.

        >>> from rulegrad import Tensor
        >>> Tensor([1.0, 2.0]).mse_loss(Tensor([1.0, 4.0])).item()
        2.0
        """
        return _reduced((self - target).square(), reduction, "mse_loss")

    def l1_loss(self, target: Operand, reduction: Reduction = "mean") -> Self:
        """The absolute differences from `target`."""
        return _reduced((self - target).abs(), reduction, "l1_loss")

    def huber_loss(self, target: Operand, reduction: Reduction = "mean", delta: float = 1.0) -> Self:
        """Half the square of a difference up to `delta`, and a line of slope `delta` beyond."""
        if not delta > 0:
            raise ConfigError(f"huber_loss: delta={delta}; use a number above 0")
        far = (self - target).abs()
        each = (far < delta).where(far.square() * 0.5, (far - 0.5 * delta) * delta)
        return _reduced(each, reduction, "huber_loss")

    def smooth_l1_loss(self, target: Operand, reduction: Reduction = "mean", beta: float = 1.0) -> Self:
        """`huber_loss` divided by its `beta`: a line of slope 1 beyond `beta`; with 0, `l1_loss`."""
        if not beta:
            return self.l1_loss(target, reduction)
        return self.huber_loss(target, reduction, beta) / beta

    def poisson_nll_loss(
        self,
        target: Self,
        log_input: bool = True,
        eps: float = 1e-8,
        reduction: Reduction = "mean",
    ) -> Self:
        """The negative log-likelihood of counts under a Poisson distribution, without the part of `target` alone."""
        each = self.exp() - target * self if log_input else self - target * (self + eps).log()
        return _reduced(each, reduction, "poisson_nll_loss")

    def gaussian_nll_loss(
        self,
        target: Self,
        var: Self,
        full: bool = False,
        eps: float = 1e-6,
        reduction: Reduction = "mean",
    ) -> Self:
        """The negative log-likelihood of `target` under normal distributions with these means and variances.

        No gradient flows to `var` where it is below `eps`; `full` adds the constant part.
        """
        var = (var < eps).where(eps, var)
        each = (var.log() + (self - target).square() / var) * 0.5
        return _reduced(each + 0.5 * math.log(2.0 * math.pi) if full else each, reduction, "gaussian_nll_loss")

    # ---- of distributions and directions ----

    def kl_div(
        self,
        target: Self,
        reduction: Reduction | Literal["batchmean"] = "mean",
        log_target: bool = False,
    ) -> Self:
        """The divergence of `target` from this tensor, which has logarithms: `target * (log(target) - self)`.

        log_target: whether `target` has logarithms too. "batchmean" divides the sum by the first extent.
        """
        if log_target:
            each = target.exp() * (target - self)
        else:
            present = target > 0
            each = present.where(target * (present.where(target, 1.0).log() - self), 0.0)
        if reduction == "batchmean":
            return each.sum() / (each.shape[0] if each.ndim else 1)
        return _reduced(each, reduction, "kl_div")

    def cosine_similarity(self, other: Self, dim: int = 1, eps: float = 1e-8) -> Self:
        """The cosine of the angle between vectors along `dim`; their norms count as `eps` or more.

        >>> from rulegrad import Tensor
        >>> Tensor([[1.0, 0.0]]).cosine_similarity(Tensor([[2.0, 0.0]])).tolist()
        [1.0]
        """
        return (self.normalize(2.0, dim, eps) * other.normalize(2.0, dim, eps)).sum(dim)

    def cosine_embedding_loss(
        self,
        other: Self,
        target: Self,
        margin: float = 0.0,
        reduction: Reduction = "mean",
    ) -> Self:
        """`1 - cosine_similarity` where the target is 1, `max(0, cosine - margin)` where it is -1."""
        cosine = self.cosine_similarity(other, -1)
        return _reduced(
            target.equal(1).where(1.0 - cosine, (cosine - margin).relu()), reduction, "cosine_embedding_loss"
        )

    def margin_ranking_loss(
        self, other: Self, target: Self, margin: float = 0.0, reduction: Reduction = "mean"
    ) -> Self:
        """`max(0, -target * (self - other) + margin)`: this tensor is to be larger where the target is 1."""
        return _reduced((-target * (self - other) + margin).relu(), reduction, "margin_ranking_loss")

    def pairwise_distance(self, other: Self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Self:
        """The p-norm of `self - other + eps` along the last axis."""
        difference = (self - other + eps).abs()
        if p == 2:
            return difference.square().sum(-1, keepdim).sqrt()
        if p == math.inf:
            return difference.max(-1, keepdim)
        return (difference**p).sum(-1, keepdim) ** (1.0 / p)

    def triplet_margin_loss(
        self,
        positive: Self,
        negative: Self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> Self:
        """`max(0, distance to positive - distance to negative + margin)`; this tensor is the anchor.

        swap: use the distance from `positive` to `negative` where it is the smaller one.
        """
        far = self.pairwise_distance(negative, p, eps)
        if swap:
            far = far.minimum(positive.pairwise_distance(negative, p, eps))
        return _reduced(
            (self.pairwise_distance(positive, p, eps) - far + margin).relu(), reduction, "triplet_margin_loss"
        )


def _limited_log(x: T) -> T:
    """The logarithm, and -100 where it would be below; no gradient flows there."""
    tiny = x <= math.exp(-100.0)
    return tiny.where(-100.0, tiny.where(1.0, x).log())


def _reduced(losses: T, reduction: str, name: str) -> T:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction != "none":
        raise ConfigError(f"{name}: unknown reduction {reduction!r}; use mean, sum or none")
    return losses
