"""Losses of classes: cross entropy and its relatives, whose targets are labels or shares of classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rulegrad.config import config
from rulegrad.errors import ConfigError, DtypeError, IndexRangeError, ShapeError
from rulegrad.tensor.axes import one_axis, whole_number
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gathering import checked_indices
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.losses import Reduction, as_target, reduced
from rulegrad.tensor.operands import as_operand, as_tensor
from rulegrad.tensor.storage import is_weak_scalar

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


def one_hot(self: Tensor, num_classes: int = -1) -> Tensor:
    """For each integer a vector of `num_classes` bools, true at that place; all false when it is out of range.

    num_classes: -1 for as many as the largest integer needs, which synchronises. Raises DtypeError for what is no
    integer, and ShapeError where there is nothing to count.

    >>> from rulegrad import Tensor
    >>> Tensor([0, 2]).one_hot(3).tolist()
    [[True, False, False], [False, False, True]]
    """
    check_labels(self, "one_hot")
    count = whole_number(num_classes, "one_hot")
    if count == -1:
        if not self.size:
            raise ShapeError(f"one_hot: the shape {self.shape} has no integers to count; give the number of classes")
        largest: Any = self.max()
        count = max(int(largest.item()) + 1, 0)
    if count < 0:
        raise ShapeError(f"one_hot: {count} classes; use 0 or more, or -1 to count them")
    return _with_places(self, count)


@built_once
def _with_places(self: Tensor, count: int) -> Tensor:
    return self.unsqueeze(-1) == self.arange(count, device=self._device or None)


def check_labels(self: Tensor, name: str) -> None:
    if not self.dtype.is_integer:
        raise DtypeError(f"{name}: the labels are {self.dtype}; cast them to an integer dtype")


def _labels(self: Tensor, target: Operand, axis: int, ignore_index: int | None, name: str) -> Tensor:
    """The labels of these scores, whose classes are along `axis`, as a tensor of integers.

    Those on the host (numbers, lists, NumPy arrays) are checked.
    """
    classes = self.shape[axis]
    if not isinstance(target, TensorCore):
        host = np.asarray(target)
        target = as_tensor(self, host if is_weak_scalar(target) else target, name)
        if host.dtype.kind in "iu" and host.size:
            wrong = host[((host < 0) | (host >= classes)) & (host != ignore_index)]
            if wrong.size:
                raise IndexRangeError(
                    f"{name}: the label {wrong.flat[0]} for {classes} classes; use 0 to {classes - 1}"
                    + (f", or ignore_index={ignore_index}" if ignore_index is not None else "")
                )
    labels = as_tensor(self, target, name)
    check_labels(labels, name)
    places = self.shape[:axis] + self.shape[axis + 1 :]
    if labels.shape != places:
        raise ShapeError(
            f"{name}: labels of shape {labels.shape} for scores of shape {self.shape} with the classes along axis "
            f"{axis}; they need the shape {places}"
        )
    return labels


@built_once
def cross_entropy(
    self: Tensor,
    target: Operand,
    weight: Operand | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    axis: int | None = None,
) -> Tensor:
    """The negative log-likelihood of `target` under softmax of this tensor along the classes' axis.

    target: integers, of this tensor's shape without the axis of the classes; or probabilities, of this tensor's
    shape. weight: one factor for each class; the mean is weighted by it. ignore_index: a label whose places do not
    count. axis: that of the classes, 1 by default (0 for one axis). A label that is not a class, and not
    `ignore_index`, is an IndexRangeError: at once when it is on the host (a number, a list, a NumPy array), when
    the loss is read when it is in a tensor (its loss is nan with the setting `check_indices` off). Raises
    ShapeError, DtypeError, ConfigError.

    >>> from rulegrad import Tensor
    >>> Tensor([[0.0, 0.0], [0.0, 0.0]]).cross_entropy(Tensor([1, 0])).item()
    0.6931471824645996
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ConfigError(f"cross_entropy: label_smoothing={label_smoothing}; use a number from 0 to 1")
    k = _class_axis(self, axis, "cross_entropy")
    scores = self.moveaxis(k, -1).log_softmax(-1)
    found: Any = as_operand(self, target, "cross_entropy")
    if isinstance(found, TensorCore) and found.dtype.is_float and found.ndim == self.ndim:
        shares = as_target(self, found, "cross_entropy").moveaxis(k, -1)
        return _entropy_of_shares(
            scores, shares, _class_weight(self, weight, k, "cross_entropy"), reduction, label_smoothing
        )
    return _entropy_of_labels(
        scores,
        _labels(self, target, k, ignore_index, "cross_entropy"),
        k if isinstance(target, TensorCore) else None,
        _class_weight(self, weight, k, "cross_entropy"),
        ignore_index,
        reduction,
        label_smoothing,
        "cross_entropy",
    )


@built_once
def nll_loss(
    self: Tensor,
    target: Operand,
    weight: Operand | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    axis: int | None = None,
) -> Tensor:
    """`cross_entropy` of integer labels where this tensor already has the logarithms of the probabilities.

    >>> Tensor([[-0.5, -1.0]]).nll_loss(Tensor([0])).item()
    0.5
    """
    k = _class_axis(self, axis, "nll_loss")
    labels = _labels(self, target, k, ignore_index, "nll_loss")
    weights = _class_weight(self, weight, k, "nll_loss")
    checked = k if isinstance(target, TensorCore) else None
    scores = self.moveaxis(k, -1)
    return _entropy_of_labels(scores, labels, checked, weights, ignore_index, reduction, 0.0, "nll_loss")


def _class_axis(self: Tensor, axis: int | None, name: str) -> int:
    return one_axis(min(self.ndim - 1, 1) if axis is None else axis, self.ndim, name)


def _class_weight(self: Tensor, weight: Operand | None, axis: int, name: str) -> Tensor | None:
    """One factor for each class, as a tensor."""
    if weight is None:
        return None
    found = as_tensor(self, weight, name)
    if found.shape != (self.shape[axis],):
        raise ShapeError(
            f"{name}: a weight of shape {found.shape} for {self.shape[axis]} classes; give one number for each"
        )
    return found


def _entropy_of_shares(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: Reduction, smoothing: float
) -> Tensor:
    """For log-probabilities and probabilities, the classes last."""
    classes = self.shape[-1]
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / classes
    each = -(self * target if weight is None else self * target * weight).sum(-1)
    return reduced(each, reduction, "cross_entropy")


def _entropy_of_labels(
    self: Tensor,
    target: Tensor,
    axis: int | None,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    smoothing: float,
    name: str,
) -> Tensor:
    """For log-probabilities, the classes last; axis: where they were, if the labels are to be checked."""
    classes = self.shape[-1]
    counts = target.not_equal(ignore_index)
    if axis is not None and config.check_indices:
        target = checked_indices(counts.where(target, 0), classes, axis, name, wraps=False)
    hit = target.one_hot(classes)
    weighted = self if weight is None else self * weight
    each = hit.where(weighted, 0.0).sum(-1)
    if smoothing:
        each = each * (1.0 - smoothing) + weighted.sum(-1) * (smoothing / classes)
    if not config.check_indices:
        present = target.greater_equal(0) & target.less(classes)
        each = present.where(each, math.nan)
    each = -counts.where(each, 0.0)
    if reduction != "mean":
        return reduced(each, reduction, name)
    shares = counts.cast(self.dtype) if weight is None else (hit & counts.unsqueeze(-1)).where(weight, 0.0).sum(-1)
    return each.sum() / shares.sum()


def multi_margin_loss(
    self: Tensor,
    target: Operand,
    p: int = 1,
    margin: float = 1.0,
    weight: Operand | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """How far other scores come within `margin` of the target's: the mean over classes of `max(0, …) ** p`.

    Labels out of range are errors, as in `cross_entropy`.

    >>> Tensor([[0.5, 0.0]]).multi_margin_loss(Tensor([0])).item()
    0.25
    """
    if not self.ndim:
        return self.reshape(1).multi_margin_loss(target, p, margin, weight, reduction)
    k = one_axis(-1, self.ndim, "multi_margin_loss")
    if self.ndim == 1 and getattr(target, "shape", None) == (1,):
        target = target.reshape(())  # type: ignore[union-attr]
    labels = _labels(self, target, k, None, "multi_margin_loss")
    if isinstance(target, TensorCore):
        labels = checked_indices(labels, self.shape[k], k, "multi_margin_loss", wraps=False)
    weight = _class_weight(self, weight, k, "multi_margin_loss")
    hit = labels.one_hot(self.shape[-1])
    own = hit.any(-1, keepdims=True).where(hit.where(self, 0.0).sum(-1, keepdims=True), math.nan)
    near = (self - own + margin).relu() ** p
    if weight is not None:
        near = near * hit.where(weight, 0.0).sum(-1, keepdims=True)
    return reduced(hit.where(0.0, near).sum(-1) / self.shape[-1], reduction, "multi_margin_loss")
