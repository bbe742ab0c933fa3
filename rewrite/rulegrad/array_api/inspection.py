"""Capabilities of the namespace: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

from rulegrad import engine
from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import DType, int64
from rulegrad.runtime import devices as runtime_devices
from rulegrad.runtime.backends import all_backends
from rulegrad.tensor.storage import default_complex, default_float

from .data_types import BY_NAME, in_kind

__all__ = ["__array_namespace_info__"]


class Info:
    """Capabilities, devices and dtypes of `rulegrad.array_api`.

    >>> Info().default_dtypes()["integral"]
    DType('int64')
    """

    __module__ = "rulegrad.array_api"

    def capabilities(self) -> dict[str, Any]:
        """Capabilities beyond the minimum. Shapes that depend on data synchronise; NumPy reads up to 64 axes.

        >>> Info().capabilities()["data-dependent shapes"]
        True
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The name of the device that arrays are created on when none is named. Raises DeviceError."""
        return runtime_devices.default()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of arrays for which none is given, by kind; the same on every device.

        Raises DeviceError for a device that does not exist or does not work.
        """
        runtime_devices.get(device)
        return {
            "real floating": default_float(),
            "complex floating": default_complex(),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that a device (None: the default one) computes with, by name: all, or those of `kind`.

        kind: one of the kinds that `isdtype` takes, or a tuple of them. Raises DtypeError for another, DeviceError
        for a device that does not exist or does not work.

        >>> list(Info().dtypes(kind="signed integer"))
        ['int8', 'int16', 'int32', 'int64']
        """
        known = {name: dtype for name, dtype in BY_NAME.items() if _computes(device, dtype)}
        if kind is None:
            return known
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not all(isinstance(one, str) for one in kinds):
            raise DtypeError(f"dtypes: {kind!r} is not a kind of dtype; give a string such as 'integral', or a tuple")
        return {name: dtype for name, dtype in known.items() if any(in_kind(dtype, one) for one in kinds)}

    def devices(self) -> tuple[str, ...]:
        """The names of all devices that work, the default one first, as a tuple.

        >>> "numpy" in Info().devices()
        True
        """
        found = [runtime_devices.default()]
        for one in all_backends():
            known = runtime_devices.report(one)
            found += [known.name(device) for device in known.discovery.devices if not device.problem]
        return tuple(dict.fromkeys(found))


def _computes(device: str | None, dtype: DType) -> bool:
    """Whether a device has values of that dtype; complex numbers are pairs of floats."""
    one = runtime_devices.get(device)
    return one.interprets or dtype.real in engine.target(one.target).dtypes


def __array_namespace_info__() -> Info:  # noqa: N807  (the standard's name)
    """An object that says what this namespace can do.

    >>> __array_namespace_info__().capabilities()["boolean indexing"]
    True
    """
    return Info()
