"""`torch.nn.parallel`: layers around a model that is to run on several devices. Meshes are for that here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn._module import Module
from rulegrad.tensor.tensor import Tensor

__all__ = ["DataParallel", "DistributedDataParallel", "gather", "scatter", "scatter_kwargs"]


class DataParallel(Module):
    """A model as `module`, which each call gives the whole batch, as PyTorch's does where there is one device.

    `rulegrad.distributed.data_parallel` places a model and its batches on many devices. Raises ConfigError for several
    `device_ids`.

    >>> from rulegrad import Tensor, nn
    >>> model = nn.DataParallel(nn.Linear(2, 3))
    >>> model(Tensor.ones(4, 2)).shape, list(model.state_dict())
    ((4, 3), ['module.weight', 'module.bias'])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        if device_ids is not None and len(device_ids) > 1:
            raise ConfigError(f"DataParallel: {len(device_ids)} devices; use rulegrad.distributed.data_parallel")
        self.module, self.dim = module, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The model's result."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """For `isinstance`: there are no groups of processes. Raises ConfigError."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        raise ConfigError("DistributedDataParallel: there are no groups of processes; use rulegrad.distributed")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """The inputs for each device: all of them for the one. Raises ConfigError for several.

    >>> scatter((1, "two"), [0])
    [(1, 'two')]
    """
    if len(target_gpus) > 1:
        raise ConfigError(f"scatter: {len(target_gpus)} devices; use rulegrad.distributed.data_parallel")
    return (inputs,) if isinstance(inputs, Tensor) else [inputs]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> tuple[Any, Any]:
    """`scatter` of arguments, and of those with names."""
    return tuple(scatter(inputs, target_gpus, dim)), tuple(scatter(kwargs or {}, target_gpus, dim))


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The outputs of each device, joined: those of the one. Raises ConfigError for several.

    >>> from rulegrad import Tensor
    >>> gather([Tensor([1, 2])], 0).tolist()
    [1, 2]
    """
    if len(outputs) > 1:
        raise ConfigError(f"gather: outputs of {len(outputs)} devices; use rulegrad.distributed.data_parallel")
    return outputs[0]
