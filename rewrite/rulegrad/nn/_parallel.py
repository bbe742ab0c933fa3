"""`torch.nn.parallel`: layers around a model that is to run on several devices. Meshes are for that here."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.nn._module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


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
