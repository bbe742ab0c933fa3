"""Names of devices that have PyTorch's attributes: `x.device.type`."""

from __future__ import annotations

import functools
from typing import Any, Final

from rulegrad.config import config
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices

_entered: Final[list[Any]] = []  # settings of `with` blocks; as theirs, it is the process's


class device(str):  # noqa: N801  (PyTorch's name)
    """The name of a device, such as "c", "opencl:0" or "cpu"; it can be given wherever a device's name can.

    Inside `with device("numpy"):` tensors for which no device is named are made there.

    >>> import rulegrad
    >>> rulegrad.device("cuda", 1), rulegrad.device("cuda:1").type, rulegrad.device("cpu").index
    ('cuda:1', 'cuda', None)
    """

    __slots__ = ()

    def __new__(cls, type: str, index: int | None = None) -> device:
        """Raises DeviceError for a second number."""
        if index is None:
            return super().__new__(cls, type)
        if ":" in type:
            raise DeviceError(f"{type!r} has a number already; write device({type.partition(':')[0]!r}, {index})")
        return super().__new__(cls, f"{type}:{index}")

    def __enter__(self) -> device:
        """Raises DeviceError for a device that does not exist or does not work."""
        _entered.append(config(device=devices.get(self).name))
        _entered[-1].__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        _entered.pop().__exit__()

    @property
    def type(self) -> str:
        """The name without a number."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # str has a method of this name
        """The number, or None."""
        digits = self.partition(":")[2]
        return int(digits) if digits else None


def cuda_device(device: Any) -> Any:
    """The device that `cuda(device)` names: a CUDA device's number, a name, or None for the first one."""
    return "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device


#: The name as such an object, the same one each time.
named = functools.cache(device)
