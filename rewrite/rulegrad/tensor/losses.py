"""Losses: how far a tensor is from a target, as one number or one for each element. `class_losses` are of classes.

The tensor itself is PyTorch's `input`; the other arguments have PyTorch's names and defaults. `reduction` is "mean",
"sum", or "none" for the losses themselves. A target has the shape of the tensor (PyTorch broadcasts, and warns): a
column beside a vector would give all pairs. A number, or a tensor without axes, is the target of all elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.constants import constant
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.operands import as_tensor, broadcast_shapes
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.transcendental import in_float32

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


Reduction = Literal["mean", "sum", "none"]


# ---- of two classes ----


@built_once
@in_float32
def binary_cross_entropy(
    self: Tensor, target: Operand, weight: Operand | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """The cross entropy of `target` and this tensor, both probabilities; logarithms end at -100.

    weight: a factor of each element, which broadcasts.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 0.0]).binary_cross_entropy(Tensor([1.0, 1.0])).item()
    50.0
    """
    name = "binary_cross_entropy"
    wanted = as_target(self, target, name)
    present, absent = _limited(self, self, 1.0, _log), _limited(1.0 - self, -self, 0.0, _log1p)
    each = -(wanted * present + (1.0 - wanted) * absent)
    return reduced(each if weight is None else each * _factor(self, weight, "weight", name), reduction, name)


@built_once
@in_float32
def binary_cross_entropy_with_logits(
    self: Tensor,
    target: Operand,
    weight: Operand | None = None,
    reduction: Reduction = "mean",
    pos_weight: Operand | None = None,
) -> Tensor:
    """The cross entropy of `target` (0 … 1) and `sigmoid(self)`, without overflow.

    weight, pos_weight: factors of the elements and of their positive parts, which broadcast.

    >>> round(Tensor([0.0]).binary_cross_entropy_with_logits(Tensor([1.0])).item(), 3)
    0.693
    """
    name = "binary_cross_entropy_with_logits"
    wanted = as_target(self, target, name)
    if pos_weight is None:
        # Two terms that are not negative, so that no digits are lost.
        negative = self < 0
        rest = negative.where(self, -self).exp().log1p()
        each = negative.where(-self * wanted, self * (1.0 - wanted)) + rest
    else:
        factor = _factor(self, pos_weight, "pos_weight", name)
        each = self.softplus() * (1.0 - wanted) + (-self).softplus() * (factor * wanted)
    return reduced(each if weight is None else each * _factor(self, weight, "weight", name), reduction, name)


@built_once
@in_float32
def soft_margin_loss(self: Tensor, target: Operand, reduction: Reduction = "mean") -> Tensor:
    """`log(1 + exp(-target * self))`, for targets 1 and -1.

    >>> round(Tensor([0.0]).soft_margin_loss(Tensor([1.0])).item(), 3)
    0.693
    """
    wanted = as_target(self, target, "soft_margin_loss")
    return reduced((-wanted * self).softplus(), reduction, "soft_margin_loss")


@built_once
def hinge_embedding_loss(self: Tensor, target: Operand, margin: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """The element where the target is 1, `max(0, margin - self)` where it is -1; elsewhere the sum of both.

    >>> Tensor([0.25, 0.25]).hinge_embedding_loss(Tensor([1, -1]), reduction="none").tolist()
    [0.25, 0.75]
    """
    wanted = as_target(self, target, "hinge_embedding_loss")
    near, far = wanted.equal(-1).where(0, self), wanted.equal(1).where(0, (margin - self).relu())
    return reduced(near + far, reduction, "hinge_embedding_loss")


# ---- of numbers ----


@built_once
def mse_loss(self: Tensor, target: Operand, reduction: Reduction = "mean") -> Tensor:
    """The squared differences from `target`. Raises ShapeError where the shapes differ.

    >>> from rulegrad import Tensor
    >>> Tensor([1.0, 2.0]).mse_loss(Tensor([1.0, 4.0])).item()
    2.0
    """
    return reduced((self - as_target(self, target, "mse_loss")).square(), reduction, "mse_loss")


@built_once
def l1_loss(self: Tensor, target: Operand, reduction: Reduction = "mean") -> Tensor:
    """The absolute differences from `target`.

    >>> Tensor([1.0, 2.0]).l1_loss(Tensor([1.0, 5.0])).item()
    1.5
    """
    return reduced((self - as_target(self, target, "l1_loss")).abs(), reduction, "l1_loss")


@built_once
def huber_loss(self: Tensor, target: Operand, reduction: Reduction = "mean", delta: float = 1.0) -> Tensor:
    """Half the square of a difference up to `delta`, and a line of slope `delta` beyond.

    >>> Tensor([0.0, 0.0]).huber_loss(Tensor([1.0, 3.0]), reduction="none").tolist()
    [0.5, 2.5]
    """
    if not delta > 0:
        raise ConfigError(f"huber_loss: delta={delta}; use a number above 0")
    difference = self - as_target(self, target, "huber_loss")
    far = difference.abs()
    near = far < delta
    each = near.where(near.where(difference, 0.0).square() * 0.5, (far - 0.5 * delta) * delta)
    return reduced(each, reduction, "huber_loss")


@built_once
def smooth_l1_loss(self: Tensor, target: Operand, reduction: Reduction = "mean", beta: float = 1.0) -> Tensor:
    """`huber_loss` divided by its `beta`: a line of slope 1 beyond `beta`; with 0, `l1_loss`.

    >>> Tensor([0.0, 0.0]).smooth_l1_loss(Tensor([1.0, 3.0]), reduction="none", beta=2.0).tolist()
    [0.25, 2.0]
    """
    target = as_target(self, target, "smooth_l1_loss")
    if not beta:
        return self.l1_loss(target, reduction)
    return self.huber_loss(target, reduction, beta) / beta


@built_once
@in_float32
def poisson_nll_loss(
    self: Tensor,
    target: Operand,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:
    """The negative log-likelihood of counts under a Poisson distribution, without the part of `target` alone.

    log_input: whether this tensor has logarithms of the rates; `eps` is added to rates before theirs are taken.
    `full` adds the logarithm of the target's factorial by Stirling's formula, for targets above 1.

    >>> Tensor([0.0]).poisson_nll_loss(Tensor([2.0])).item()
    1.0
    """
    wanted = as_target(self, target, "poisson_nll_loss")
    each = self.exp() - wanted * self if log_input else self - wanted * (self + eps).log()
    if full:
        many = wanted > 1
        count = many.where(wanted, 1.0)
        each = each + many.where(count * count.log() - count + 0.5 * (2.0 * math.pi * count).log(), 0.0)
    return reduced(each, reduction, "poisson_nll_loss")


@in_float32
def gaussian_nll_loss(
    self: Tensor,
    target: Operand,
    var: Operand,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """The negative log-likelihood of `target` under normal distributions with these means and variances.

    target, var: of this tensor's shape, or of one that is broadcast to it; a variance below `eps` counts as that,
    with a gradient all the same. `full` adds the constant part.

    >>> Tensor([0.0]).gaussian_nll_loss(Tensor([2.0]), var=Tensor([1.0])).item()
    2.0
    """
    spread = _factor(self, var, "var", "gaussian_nll_loss")
    spread = (spread < eps).where(spread - spread.detach() + eps, spread)
    wanted = _factor(self, target, "target", "gaussian_nll_loss")
    each = (spread.log() + (self - wanted).square() / spread) * 0.5
    return reduced(each + 0.5 * math.log(2.0 * math.pi) if full else each, reduction, "gaussian_nll_loss")


# ---- of distributions and directions ----


@built_once
@in_float32
def kl_div(
    self: Tensor,
    target: Operand,
    reduction: Reduction | Literal["batchmean"] = "mean",
    log_target: bool = False,
) -> Tensor:
    """The divergence of `target` from this tensor, which has logarithms: `target * (log(target) - self)`.

    log_target: whether `target` has logarithms too. "batchmean" divides the sum by the first extent.

    >>> round(Tensor([0.5, 0.5]).log().kl_div(Tensor([1.0, 0.0]), reduction="sum").item(), 3)
    0.693
    """
    wanted = as_target(self, target, "kl_div")
    if log_target:
        each = wanted.exp() * (wanted - self)
    else:
        absent = wanted.equal(0)
        each = absent.where(0.0, wanted * (absent.where(1.0, wanted).log() - self))
    if reduction == "batchmean":
        return each.sum() / (each.shape[0] if each.ndim else 1)
    return reduced(each, reduction, "kl_div")


@built_once
def cosine_embedding_loss(
    self: Tensor,
    other: Operand,
    target: Operand,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """`1 - cosine_similarity` where the target is 1, `max(0, cosine - margin)` where it is -1.

    >>> Tensor([[1.0, 0.0]]).cosine_embedding_loss(Tensor([[0.0, 1.0]]), Tensor([1])).item()
    1.0
    """
    name = "cosine_embedding_loss"
    cosine = self.cosine_similarity(as_target(self, other, name, "other"), -1)
    wanted = as_target(cosine, target, name, one_for_all=True)
    return reduced(wanted.equal(1).where(1.0 - cosine, (cosine - margin).relu()), reduction, name)


@built_once
def margin_ranking_loss(
    self: Tensor, other: Operand, target: Operand, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """`max(0, -target * (self - other) + margin)`: this tensor is to be larger where the target is 1.

    A target with one element is that of all.

    >>> Tensor([1.0, 3.0]).margin_ranking_loss(Tensor([2.0, 2.0]), 1, reduction="none").tolist()
    [1.0, 0.0]
    """
    name = "margin_ranking_loss"
    wanted = as_target(self, target, name, one_for_all=True)
    difference = self - as_target(self, other, name, "other")
    return reduced((-wanted * difference + margin).relu(), reduction, name)


@built_once
def triplet_margin_loss(
    self: Tensor,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """`max(0, distance to positive - distance to negative + margin)`; this tensor is the anchor.

    swap: use the distance from `positive` to `negative` where it is the smaller one.

    >>> Tensor([[0.0]]).triplet_margin_loss(Tensor([[1.0]]), Tensor([[3.0]]), margin=4.0, eps=0.0).item()
    2.0
    """
    name = "triplet_margin_loss"
    near, other = as_target(self, positive, name, "positive"), as_target(self, negative, name, "negative")
    far = self.pairwise_distance(other, p, eps)
    if swap:
        far = far.minimum(near.pairwise_distance(other, p, eps))
    return reduced((self.pairwise_distance(near, p, eps) - far + margin).relu(), reduction, name)


# ---- arguments ----


def as_target(self: Tensor, target: Operand, name: str, role: str = "target", one_for_all: bool = False) -> Tensor:
    """The target as a tensor of this one's shape; a number, or a tensor without axes, is that of all elements.

    one_for_all: any tensor of one element is, too.
    """
    found = _at_least_tensor(self, target, name)
    if not found.ndim or (one_for_all and found.size == 1):
        return found.reshape(()).expand(self.shape)
    if found.shape != self.shape:
        raise ShapeError(
            f"{name}: {role} has the shape {found.shape} and the tensor {self.shape}; they must be equal: reshape "
            "one, or expand it if it is meant for all"
        )
    return found


def _at_least_tensor(self: Tensor, value: Any, name: str) -> Tensor:
    """A number as a tensor of this one's dtype; arrays and lists as tensors."""
    return (
        self._new(constant(value, self.dtype, name), None, self._device)
        if is_weak_scalar(value)
        else as_tensor(self, value, name)
    )


def _factor(self: Tensor, factor: Operand, role: str, name: str) -> Tensor:
    """A factor of each element, as a tensor that broadcasts to this one's shape."""
    found = _at_least_tensor(self, factor, name)
    if broadcast_shapes(f"{name}: {role}", self.shape, found.shape) != self.shape:
        raise ShapeError(f"{name}: {role} of shape {found.shape} does not broadcast to the shape {self.shape}")
    return found


def _log(x: Tensor) -> Tensor:
    return x.log()


def _log1p(x: Tensor) -> Tensor:
    return x.log1p()


def _limited(x: Tensor, argument: Tensor, plain: float, log: Callable[[Tensor], Tensor]) -> Tensor:
    """The logarithm of x, which is `log(argument)`, and -100 where it would be below; its slope is 1e12 at most.

    plain: an argument whose logarithm is 0.
    """
    steep = x < 1e-12
    line = log(argument.detach()).maximum(-100.0) + (x - x.detach()) * 1e12
    return steep.where(line, log(steep.where(plain, argument)))


def reduced(losses: Tensor, reduction: str, name: str) -> Tensor:
    """The mean or the sum of losses, or all of them. Raises ConfigError."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction != "none":
        raise ConfigError(f"{name}: unknown reduction {reduction!r}; use mean, sum or none")
    return losses
