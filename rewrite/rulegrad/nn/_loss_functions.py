"""Losses of several labels and of distances, for `nn.functional`: what tensors have no methods for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.class_losses import check_labels
from rulegrad.tensor.gathering import checked_indices, taken
from rulegrad.tensor.losses import Reduction, reduced
from rulegrad.tensor.tensor import Tensor


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """How far the scores of other classes come within 1 of those of the target's classes: a mean over the classes.

    input: (batch, classes), or (classes); target: integers of this shape, those of the classes first and then -1; what
    is behind it does not count. Raises ShapeError, and IndexRangeError for a class that there is not.

    >>> import rulegrad.nn.functional as F
    >>> F.multilabel_margin_loss(Tensor([[0.5, 0.0, 0.25]]), Tensor([[0, -1, 2]])).item()
    0.4166666567325592
    """
    name = "multilabel_margin_loss"
    if input.ndim > 2 or input.shape != target.shape:
        raise ShapeError(
            f"{name}: scores of shape {input.shape} and labels of shape {target.shape}; both need (batch, classes), or "
            "(classes)"
        )
    check_labels(target, name)
    if not input.ndim:
        return multilabel_margin_loss(input.reshape(1), target.reshape(1), reduction)
    classes = input.shape[-1]
    places = Tensor.arange(classes, device=input.device)
    wanted = places < (target < 0).where(places, classes).min(-1, keepdims=True)
    labels = checked_indices(wanted.where(target, 0), classes, input.ndim - 1, name, wraps=False)
    hit = target.one_hot(classes) & wanted.unsqueeze(-1)
    own = taken(input, labels, input.ndim - 1)
    near = (1.0 - own.unsqueeze(-1) + input.unsqueeze(-2)).relu()
    each = (wanted.unsqueeze(-1) & ~hit.any(-2, keepdims=True)).where(near, 0.0)
    return reduced(each.sum((-2, -1)) / classes, reduction, name)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """`binary_cross_entropy_with_logits`, with a mean over the classes, the last axis, before the reduction.

    target: of this shape, 1 for a class that is there, else 0; weight: a factor of each class. Raises ShapeError.

    >>> import rulegrad.nn.functional as F
    >>> round(F.multilabel_soft_margin_loss(Tensor([[0.0, 0.0]]), Tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """
    each = input.binary_cross_entropy_with_logits(target, weight, "none")
    return reduced(each.mean(-1), reduction, "multilabel_soft_margin_loss")


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """`triplet_margin_loss` with distances of another kind: `max(0, distance to positive - to negative + margin)`.

    distance_function: from two tensors to distances, `pairwise_distance` by default. swap: use the distance from
    `positive` to `negative` where it is smaller. Raises ShapeError and ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> far = lambda x, y: (x - y).abs().max(-1)
    >>> anchor, positive, negative = Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]]), Tensor([[0.0, 2.0]])
    >>> F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=far).item()
    3.0
    """
    name = "triplet_margin_with_distance_loss"
    if not margin > 0:
        raise ConfigError(f"{name}: margin={margin}; use a number above 0")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{name}: the shapes {anchor.shape}, {positive.shape} and {negative.shape}; they need as many axes each"
        )
    distance = distance_function or Tensor.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).relu(), reduction, name)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of what a linear layer makes of the input.

    input: (batch, features), or (features); linear_weight: (classes, …, features), linear_bias: (classes, …); the other
    arguments are those of `cross_entropy`. `options`, which divide PyTorch's computation into parts, change nothing
    here. Raises ShapeError, DtypeError, ConfigError.

    >>> import rulegrad.nn.functional as F
    >>> x, weight = Tensor([[1.0, 0.0]]), Tensor([[2.0, 0.0], [2.0, 5.0]])
    >>> round(F.linear_cross_entropy(x, weight, Tensor([1])).item(), 4)
    0.6931
    """
    name = "linear_cross_entropy"
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.shape[-1] != linear_weight.shape[-1]:
        raise ShapeError(
            f"{name}: an input of shape {input.shape} and a linear_weight of shape {linear_weight.shape}; they need "
            "(batch, features), or (features), and (classes, …, features)"
        )
    wide = linear_weight.shape[:-1]
    if len(wide) > 1 and input.ndim == 1:
        raise ShapeError(f"{name}: a linear_weight of shape {linear_weight.shape} needs an input with a batch")
    scores = (input @ linear_weight.reshape(-1, input.shape[-1]).T).reshape(*input.shape[:-1], *wide)
    if linear_bias is not None:
        if linear_bias.shape != wide:
            raise ShapeError(f"{name}: linear_bias has the shape {linear_bias.shape}; it needs {wide}")
        scores = scores + linear_bias
    if ignore_index is not None and target.dtype.is_float:
        raise ConfigError(f"{name}: ignore_index={ignore_index} and a target of probabilities; it is for labels")
    ignored = -100 if ignore_index is None else ignore_index
    return scores.cross_entropy(target, weight, ignored, reduction, label_smoothing)
