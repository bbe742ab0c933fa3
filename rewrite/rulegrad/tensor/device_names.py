"""Names of devices that have PyTorch's attributes: `x.device.type`."""

from __future__ import annotations

import functools

from rulegrad.errors import DeviceError


class device(str):  # noqa: N801  (PyTorch's name)
    """The name of a device, such as "c", "opencl:0" or "cpu"; it can be given wherever a device's name can.

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

    @property
    def type(self) -> str:
        """The name without a number."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # str has a method of this name
        """The number, or None."""
        digits = self.partition(":")[2]
        return int(digits) if digits else None


#: The name as such an object, the same one each time.
named = functools.cache(device)
