"""Averages of a model's parameters over training, and what belongs to them. Names and arguments are PyTorch's."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import _walking as walking
from rulegrad.nn._module import Module
from rulegrad.nn._normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rulegrad.optim._optimizer import Optimizer
from rulegrad.optim._schedule import LRScheduler, for_each_group
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "update_bn"]


def __dir__() -> list[str]:
    return __all__


#: From the average so far, the parameter, and how many were averaged (a tensor), to the new average.
Averaging = Callable[[Tensor, Tensor, Tensor], Tensor]
#: The same for the lists of all averages and parameters.
AveragingAll = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Sequence[Tensor]]


def get_ema_avg_fn(decay: float = 0.999) -> Averaging:
    """The exponential moving average: `decay * average + (1 - decay) * parameter`. Raises ConfigError."""
    if not 0.0 <= decay <= 1.0:
        raise ConfigError(f"get_ema_avg_fn: decay={decay}; use a number from 0 to 1")
    return lambda average, parameter, _: average * decay + parameter * (1.0 - decay)


def get_ema_multi_avg_fn(decay: float = 0.999) -> AveragingAll:
    """`get_ema_avg_fn` for lists. All averages are computed together in either case."""
    one = get_ema_avg_fn(decay)
    return lambda averages, parameters, count: [one(a, p, count) for a, p in zip(averages, parameters)]


def get_swa_avg_fn() -> Averaging:
    """The mean of all parameters so far (stochastic weight averaging, Izmailov et al. 2018)."""
    return lambda average, parameter, count: average + (parameter - average) / (count + 1.0)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of that model's, taken by `update_parameters` after a step.

    The first update copies. avg_fn, or multi_avg_fn for lists, says how to average: by default all updates count the
    same (`get_swa_avg_fn`). Buffers, such as running statistics, are copied, or averaged too with `use_buffers`. State:
    `n_averaged`, and the copy's under `module.`. device: where the averages are. Raises ShapeError for another model.

    >>> from rulegrad import Tensor, nn, no_grad
    >>> from rulegrad.optim.swa_utils import AveragedModel, get_ema_avg_fn
    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.75))
    >>> for value in (1.0, 2.0, 3.0):
    ...     with no_grad():
    ...         _ = model.weight.assign(Tensor([[value]]))
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    1.6875
    """

    __call__: Callable[..., Any]

    def __init__(
        self,
        model: Callable[..., Any],
        device: str | None = None,
        avg_fn: Averaging | None = None,
        multi_avg_fn: AveragingAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        if avg_fn is not None and multi_avg_fn is not None:
            raise ConfigError("AveragedModel: avg_fn and multi_avg_fn; give one of both")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", Tensor(np.zeros((), np.int64), device=device))
        self.use_buffers = use_buffers
        self._averaging = multi_avg_fn or _for_lists(avg_fn or get_swa_avg_fn())
        if device is not None:
            self.to(device=device)

    def forward(self, *arguments: Any, **more: Any) -> Any:
        return self.module(*arguments, **more)

    @no_grad()
    def update_parameters(self, model: Callable[..., Any]) -> None:
        """Take the model's parameters into the average. Every call after the first has the same kernels."""
        own, others = _tensors(self.module, "parameter"), _tensors(model, "parameter")
        kept, copied = _tensors(self.module, "buffer"), _tensors(model, "buffer")
        if [t.shape for t in own + kept] != [t.shape for t in others + copied]:
            raise ShapeError("AveragedModel: the model has other parameters or buffers than the one that was copied")
        if self.use_buffers:
            own, others, kept, copied = own + kept, others + copied, [], []
        others = [other.detach().to(device=tensor.device) for tensor, other in zip(own, others)]
        averages = [tensor.detach() for tensor in own]
        first = self.n_averaged.equal(0)
        found = self._averaging(averages, others, self.n_averaged.cast("float32"))
        for tensor, average, other in zip(own, found, others):
            tensor.assign(first.to(device=tensor.device).where(other, average.cast(tensor.dtype)).cast(tensor.dtype))
        for tensor, other in zip(kept, copied):
            tensor.assign(other.detach().to(device=tensor.device).cast(tensor.dtype))
        self.n_averaged.assign(self.n_averaged + 1)
        _realize_each([*own, *kept, self.n_averaged])

    n_averaged: Tensor


def _for_lists(one: Averaging) -> AveragingAll:
    return lambda averages, parameters, count: [
        one(a, p, count.to(device=a.device)).cast(a.dtype) for a, p in zip(averages, parameters)
    ]


def _tensors(model: Any, kind: str) -> list[Tensor]:
    """The parameters of a model, or its other tensors with a state, each once."""
    kinds = ("parameter",) if kind == "parameter" else ("buffer", "temporary")
    return list({id(found.tensor): found.tensor for found in walking.tensors(model) if found.kind in kinds}.values())


def _realize_each(tensors: list[Tensor]) -> None:
    """Compute tensors that may be on several devices, those of one together."""
    for device in dict.fromkeys(tensor.device for tensor in tensors):
        Tensor.realize(*(tensor for tensor in tensors if tensor.device == device))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Compute the running statistics of the model's batch normalisations anew, as means over the batches of `loader`.

    Averaged parameters need their own. A batch is a tensor, or a list or tuple that begins with one.
    """
    batch_norms = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
    norms: list[Any] = [m for m in model.modules() if isinstance(m, batch_norms) and m.running_mean is not None]
    momenta = [norm.momentum for norm in norms]
    training = [module.training for module in model.modules()]
    for norm in norms:
        norm.running_mean.assign(norm.running_mean.zeros_like())
        norm.running_var.assign(norm.running_var.ones_like())
        norm.num_batches_tracked.assign(norm.num_batches_tracked.zeros_like())
        norm.momentum = None
    model.train()
    try:
        for batch in loader if norms else ():
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device=device))
            Tensor.realize(
                *(t for norm in norms for t in (norm.running_mean, norm.running_var, norm.num_batches_tracked))
            )
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        for module, mode in zip(model.modules(), training):
            module.training = mode


class SWALR(LRScheduler):
    """From the rates that the groups have to `swa_lr` in `anneal_epochs` epochs, and constant from then on.

    anneal_strategy: "cos" or "linear". Raises ConfigError.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise ConfigError(
                f"SWALR: anneal_strategy={anneal_strategy!r}, anneal_epochs={anneal_epochs}; use cos or linear, and a "
                "number of 0 or more"
            )
        self._ends = [float(rate) for rate in for_each_group(swa_lr, optimizer, "SWALR swa_lr")]
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _rate(self, base: float, epoch: float, k: int) -> float:
        share = 1.0 if epoch >= self.anneal_epochs else epoch / self.anneal_epochs
        share = share if self.anneal_strategy == "linear" else (1.0 - math.cos(math.pi * share)) / 2.0
        return base + (self._ends[k] - base) * share
