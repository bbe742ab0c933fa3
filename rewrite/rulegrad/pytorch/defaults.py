"""The dtype and the device of tensors for which none is given, by PyTorch's names; they are settings of `config`."""

from __future__ import annotations

from typing import Any

from rulegrad.config import config
from rulegrad.errors import ConfigError
from rulegrad.ir.dtype import DType, as_dtype
from rulegrad.runtime import devices
from rulegrad.support.torch_names import TYPED
from rulegrad.tensor.device_names import device as device_name
from rulegrad.tensor.storage import default_float


def get_default_dtype() -> DType:
    """The dtype of Python's floats, and of tensors and layers for which none is given: the setting `default_dtype`."""
    return default_float()


def set_default_dtype(d: Any) -> None:
    """From now on Python's floats, and tensors and layers for which no dtype is given, are of this one.

    d: float16, bfloat16, float32 or float64; complex numbers are complex128 beside float64. It is the setting
    `default_dtype`, which `with config(default_dtype=…)` sets for a while. Raises ConfigError for another dtype.

    >>> import rulegrad
    >>> rulegrad.set_default_dtype(rulegrad.float64)
    >>> rulegrad.tensor([0.1]).dtype, rulegrad.nn.Linear(2, 3).weight.dtype
    (DType('float64'), DType('float64'))
    >>> rulegrad.set_default_dtype(rulegrad.float32)
    """
    config.default_dtype = str(as_dtype(d))


def set_default_tensor_type(t: Any) -> None:
    """`set_default_dtype` of a tensor type, or of its name: `rulegrad.DoubleTensor`, "torch.DoubleTensor"."""
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", "")
    if name not in TYPED:
        raise ConfigError(f"set_default_tensor_type: {t!r}; give one of {', '.join(TYPED)}, or its name")
    set_default_dtype(TYPED[name])


def get_default_device() -> device_name:
    """The device of tensors for which none is named."""
    return device_name(devices.default())


def set_default_device(device: Any) -> None:
    """From now on tensors for which no device is named are made on this one; None for the best that works.

    It is the setting `device`. Raises DeviceError for a device that does not exist or does not work.
    """
    config.device = "" if device is None else devices.get(device).name
