"""A softmax over many classes in clusters, of which the rarer ones have fewer features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn._arguments import require_sizes
from rulegrad.nn._container import ModuleList, Sequential
from rulegrad.nn._linear import Linear
from rulegrad.nn._module import Module
from rulegrad.tensor.class_losses import check_labels
from rulegrad.tensor.gathering import checked_indices
from rulegrad.tensor.tensor import Tensor


class Likelihood(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` gives: the logarithm of each target's probability, and the mean loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The loss of a softmax over many classes, the frequent ones first (Grave et al. 2016): (output, loss).

    The head has the classes below `cutoffs[0]` and one for each cluster, which are the classes up to the next cutoff;
    cluster k has `in_features / div_value**k` features. output: the logarithm of the probability of each target;
    loss: the mean of its negative. All clusters are computed for all targets, as nobody waits for the targets' values.
    Raises ConfigError for cutoffs that do not rise from 1 to `n_classes - 1`, ShapeError for shapes that do not fit.

    >>> from rulegrad import Tensor, nn
    >>> model = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> output, loss = model(Tensor.ones(3, 8), Tensor([0, 7, 19]))
    >>> output.shape, model.log_prob(Tensor.ones(3, 8)).shape
    ((3,), (3, 20))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes("AdaptiveLogSoftmaxWithLoss", in_features=in_features, n_classes=n_classes)
        listed = [0, *cutoffs, n_classes]
        if len(listed) < 3 or any(int(last) != last or first >= last for first, last in pairwise(listed)):
            raise ConfigError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs={list(cutoffs)}; use ints that rise from 1 to {n_classes - 1}"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [int(one) for one in listed[1:]]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for k, (first, last) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // div_value ** (k + 1))
            layers = (in_features, width), (width, last - first)
            self.tail.append(Sequential(*(Linear(n, m, False, device, dtype) for n, m in layers)))

    def reset_parameters(self) -> None:
        """Draw the first values of all layers anew.

        >>> from rulegrad import nn
        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2]).reset_parameters()
        """
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Likelihood:
        if target.ndim > 1 or input.shape != (*target.shape, self.in_features):
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: an input of shape {input.shape} and a target of {target.shape}; they "
                f"need (batch, {self.in_features}) and (batch,), or ({self.in_features},) and ()"
            )
        check_labels(target, "AdaptiveLogSoftmaxWithLoss")
        labels = checked_indices(target, self.n_classes, 0, "AdaptiveLogSoftmaxWithLoss", wraps=False)
        in_head, own = labels, input.new_zeros(target.shape)
        for k, (first, last) in enumerate(pairwise(self.cutoffs)):
            is_here = (labels >= first) & (labels < last)
            in_head = is_here.where(self.shortlist_size + k, in_head)
            place = is_here.where(labels - first, 0)
            own = is_here.where(-self.tail[k](input).cross_entropy(place, reduction="none"), own)
        output = own - self.head(input).cross_entropy(in_head, reduction="none")
        return Likelihood(output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The logarithms of the probabilities of all classes, of (batch, in_features): (batch, n_classes).

        >>> from rulegrad import Tensor, nn
        >>> model = nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2])
        >>> round(model.log_prob(Tensor.ones(1, 4)).exp().sum().item(), 4)
        1.0
        """
        head = self.head(input).log_softmax(-1)
        parts = [head[..., : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            place = self.shortlist_size + k
            parts.append(cluster(input).log_softmax(-1) + head[..., place : place + 1])
        return parts[0].cat(*parts[1:], axis=-1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each of (batch, in_features).

        As in PyTorch, a class of the head is taken where it is likelier than each cluster as a whole.

        >>> from rulegrad import Tensor, nn
        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2]).predict(Tensor.ones(3, 4)).shape
        (3,)
        """
        best = self.head(input).argmax(-1)
        return (best < self.shortlist_size).where(best, self.log_prob(input).argmax(-1))
