"""Losses as layers: called with the input and the target. Names, order and defaults are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn import _loss_functions as loss_functions
from rulegrad.nn._alignment import ctc_loss
from rulegrad.nn._arguments import require_numbers
from rulegrad.nn._module import Described
from rulegrad.tensor.losses import Reduction
from rulegrad.tensor.tensor import Tensor


class _Loss(Described):
    """A method of tensors, with its options given once."""

    _name: str
    _options: tuple[str, ...] = ("reduction",)  # the attributes that the method is given
    __call__: Callable[..., Tensor]

    def __init__(self, reduction: Any = "mean") -> None:
        self.reduction = reduction

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._options}

    def _weights(self) -> dict[str, Tensor | None]:
        return {}

    def forward(self, input: Tensor, *targets: Tensor) -> Tensor:
        result: Tensor = getattr(input, self._name)(*targets, **self._given(), **self._weights())
        return result


class _Weighted(_Loss):
    """A loss with a `weight`, which is part of the state as in PyTorch."""

    weight: Tensor | None

    def _weights(self) -> dict[str, Tensor | None]:
        return {"weight": self.weight}


class MSELoss(_Loss):
    """`Tensor.mse_loss`

    >>> from rulegrad import Tensor, nn
    >>> nn.MSELoss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])).item()
    2.0
    """

    _name = "mse_loss"


class L1Loss(_Loss):
    """`Tensor.l1_loss`

    >>> from rulegrad import nn
    >>> nn.L1Loss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])).item()
    1.0
    """

    _name = "l1_loss"


class SmoothL1Loss(_Loss):
    """`Tensor.smooth_l1_loss`

    >>> from rulegrad import nn
    >>> nn.SmoothL1Loss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])).item()
    0.75
    """

    _name = "smooth_l1_loss"
    _options = ("reduction", "beta")

    def __init__(self, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        self.reduction, self.beta = reduction, beta


class HuberLoss(_Loss):
    """`Tensor.huber_loss`

    >>> from rulegrad import nn
    >>> nn.HuberLoss(delta=0.5)(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])).item()
    0.4375
    """

    _name = "huber_loss"
    _options = ("reduction", "delta")

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        require_numbers("HuberLoss", delta=delta)
        self.reduction, self.delta = reduction, delta


class CrossEntropyLoss(_Weighted):
    """`Tensor.cross_entropy`

    >>> from rulegrad import nn
    >>> round(nn.CrossEntropyLoss()(Tensor([[0.0, 1.0]]), Tensor([1])).item(), 3)
    0.313
    """

    _name = "cross_entropy"
    _options = ("ignore_index", "reduction", "label_smoothing")

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing


class NLLLoss(_Weighted):
    """`Tensor.nll_loss`

    >>> from rulegrad import nn
    >>> nn.NLLLoss()(Tensor([[-0.5, -1.5]]), Tensor([1])).item()
    1.5
    """

    _name = "nll_loss"
    _options = ("ignore_index", "reduction")

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction


class BCELoss(_Weighted):
    """`Tensor.binary_cross_entropy`

    >>> from rulegrad import nn
    >>> round(nn.BCELoss()(Tensor([0.5, 0.5]), Tensor([0.0, 1.0])).item(), 3)
    0.693
    """

    _name = "binary_cross_entropy"

    def __init__(self, weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        self.register_buffer("weight", weight)
        self.reduction = reduction


class BCEWithLogitsLoss(_Weighted):
    """`Tensor.binary_cross_entropy_with_logits`

    >>> from rulegrad import nn
    >>> round(nn.BCEWithLogitsLoss()(Tensor([1.0]), Tensor([1.0])).item(), 3)
    0.313
    """

    pos_weight: Tensor | None

    _name = "binary_cross_entropy_with_logits"

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction

    def _weights(self) -> dict[str, Tensor | None]:
        return {"weight": self.weight, "pos_weight": self.pos_weight}


class KLDivLoss(_Loss):
    """`Tensor.kl_div`

    >>> from rulegrad import nn
    >>> round(nn.KLDivLoss("sum")(Tensor([0.25, 0.75]).log(), Tensor([0.5, 0.5])).item(), 3)
    0.144
    """

    _name = "kl_div"
    _options = ("reduction", "log_target")

    def __init__(self, reduction: Any = "mean", log_target: bool = False) -> None:
        self.reduction, self.log_target = reduction, log_target


class SoftMarginLoss(_Loss):
    """`Tensor.soft_margin_loss`

    >>> from rulegrad import nn
    >>> round(nn.SoftMarginLoss()(Tensor([1.0]), Tensor([1.0])).item(), 3)
    0.313
    """

    _name = "soft_margin_loss"


class HingeEmbeddingLoss(_Loss):
    """`Tensor.hinge_embedding_loss`

    >>> from rulegrad import nn
    >>> nn.HingeEmbeddingLoss()(Tensor([2.0, 0.5]), Tensor([1, -1])).item()
    1.25
    """

    _name = "hinge_embedding_loss"
    _options = ("margin", "reduction")

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        self.margin, self.reduction = margin, reduction


class CosineEmbeddingLoss(_Loss):
    """`Tensor.cosine_embedding_loss`

    >>> from rulegrad import nn
    >>> nn.CosineEmbeddingLoss()(Tensor([[1.0, 0.0]]), Tensor([[0.0, 1.0]]), Tensor([1])).item()
    1.0
    """

    _name = "cosine_embedding_loss"
    _options = ("margin", "reduction")

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        self.margin, self.reduction = margin, reduction


class MarginRankingLoss(CosineEmbeddingLoss):
    """`Tensor.margin_ranking_loss`

    >>> from rulegrad import nn
    >>> nn.MarginRankingLoss()(Tensor([1.0, 2.0]), Tensor([2.0, 2.0]), Tensor([1, 1])).item()
    0.5
    """

    _name = "margin_ranking_loss"


class TripletMarginLoss(_Loss):
    """`Tensor.triplet_margin_loss`

    >>> from rulegrad import nn
    >>> loss = nn.TripletMarginLoss()
    >>> round(loss(Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]]), Tensor([[0.0, 2.0]])).item(), 3)
    4.0
    """

    _name = "triplet_margin_loss"
    _options = ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        require_numbers("TripletMarginLoss", margin=margin)
        if not margin > 0.0:
            raise ConfigError(f"TripletMarginLoss: margin={margin}; use a number above 0")
        self.margin, self.p, self.eps, self.swap, self.reduction = margin, p, eps, swap, reduction


class MultiMarginLoss(_Weighted):
    """`Tensor.multi_margin_loss`

    >>> from rulegrad import nn
    >>> nn.MultiMarginLoss()(Tensor([[0.5, 0.0]]), Tensor([0])).item()
    0.25
    """

    _name = "multi_margin_loss"
    _options = ("p", "margin", "reduction")

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: Reduction = "mean"
    ) -> None:
        self.register_buffer("weight", weight)
        if p not in (1, 2):
            raise ConfigError(f"MultiMarginLoss: p={p!r}; use 1 or 2")
        self.p, self.margin, self.reduction = p, margin, reduction


class MultiLabelMarginLoss(_Loss):
    """`nn.functional.multilabel_margin_loss`

    >>> from rulegrad import nn
    >>> nn.MultiLabelMarginLoss()(Tensor([[0.5, 0.0]]), Tensor([[0, -1]])).item()
    0.25
    """

    def forward(self, input: Tensor, *targets: Tensor) -> Tensor:
        (target,) = targets
        return loss_functions.multilabel_margin_loss(input, target, **self._given())


class MultiLabelSoftMarginLoss(_Weighted):
    """`nn.functional.multilabel_soft_margin_loss`

    >>> from rulegrad import nn
    >>> round(nn.MultiLabelSoftMarginLoss()(Tensor([[0.0, 0.0]]), Tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def forward(self, input: Tensor, *targets: Tensor) -> Tensor:
        (target,) = targets
        return loss_functions.multilabel_soft_margin_loss(input, target, self.weight, **self._given())


class TripletMarginWithDistanceLoss(_Loss):
    """`nn.functional.triplet_margin_with_distance_loss`

    >>> from rulegrad import nn
    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(p=1.0, eps=0.0))
    >>> loss(Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]]), Tensor([[0.0, 2.0]])).item()
    6.0
    """

    _options = ("margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        self.distance_function = distance_function
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, input: Tensor, *targets: Tensor) -> Tensor:
        return loss_functions.triplet_margin_with_distance_loss(
            input, *targets, distance_function=self.distance_function, **self._given()
        )


class PairwiseDistance(_Loss):
    """`Tensor.pairwise_distance`, called with two tensors.

    >>> from rulegrad import nn
    >>> nn.PairwiseDistance(eps=0.0)(Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]])).tolist()
    [5.0]
    """

    _name = "pairwise_distance"

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def _given(self) -> dict[str, Any]:
        return {"p": self.norm, "eps": self.eps, "keepdim": self.keepdim}


class CosineSimilarity(_Loss):
    """`Tensor.cosine_similarity`, called with two tensors.

    >>> from rulegrad import nn
    >>> nn.CosineSimilarity()(Tensor([[3.0, 4.0]]), Tensor([[0.0, 2.0]])).round(decimals=3).tolist()
    [0.800000011920929]
    """

    _name = "cosine_similarity"
    _options = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps


class PoissonNLLLoss(_Loss):
    """`Tensor.poisson_nll_loss`

    >>> from rulegrad import nn
    >>> nn.PoissonNLLLoss()(Tensor([0.0]), Tensor([2.0])).item()
    1.0
    """

    _name = "poisson_nll_loss"
    _options = ("log_input", "full", "eps", "reduction")

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        self.log_input, self.full, self.eps, self.reduction = log_input, full, eps, reduction


class GaussianNLLLoss(_Loss):
    """`Tensor.gaussian_nll_loss`, called with the means, the target and the variances.

    >>> from rulegrad import nn
    >>> nn.GaussianNLLLoss()(Tensor([1.0]), Tensor([3.0]), Tensor([1.0])).item()
    2.0
    """

    _name = "gaussian_nll_loss"
    _options = ("full", "eps", "reduction")

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        self.full, self.eps, self.reduction = full, eps, reduction


class CTCLoss(Described):
    """`nn.functional.ctc_loss`: called with log-probabilities, targets, and the lengths of both.

    >>> from rulegrad import Tensor, nn
    >>> scores = Tensor.zeros(4, 1, 3).log_softmax(-1)
    >>> round(nn.CTCLoss()(scores, Tensor([[1, 2]]), [4], [2]).item(), 4)
    0.8432
    """

    __call__: Callable[..., Tensor]

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        how = (self.blank, self.reduction, self.zero_infinity)
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, *how)
