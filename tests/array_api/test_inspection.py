"""Inspection: capabilities, devices and dtypes of the namespace; its constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


def test_constants(xp: Any):
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)
    assert xp.__array_api_version__ >= "2024.12"
    assert isinstance(xp.__version__, str) and xp.__version__[0].isdigit()


def test_the_revision_is_the_last_one(lib: Any, xp: Any):
    if not lib.is_ours:
        return
    assert xp.__array_api_version__ == "2025.12"
    for revision in ("2022.12", "2023.12", "2024.12", "2025.12"):
        assert xp.ones(1).__array_namespace__(api_version=revision) is xp
    with pytest.raises(ValueError, match="2030.12 is not known"):
        xp.ones(1).__array_namespace__(api_version="2030.12")


def test_dtypes_are_those_of_the_device(lib: Any, xp: Any, monkeypatch: pytest.MonkeyPatch):
    if not lib.is_ours:
        return
    from rulegrad.errors import DeviceError
    from rulegrad.runtime import devices

    class WithoutDoubles:
        interprets, target = False, "webgpu"

    info = xp.__array_namespace_info__()
    for method in (info.dtypes, info.default_dtypes):
        with pytest.raises(DeviceError, match="there is no device 'abacus'"):
            method(device="abacus")
    monkeypatch.setattr(devices, "get", lambda name=None: WithoutDoubles())
    assert set(NAMES) - set(info.dtypes(device="webgpu")) == {"float64", "complex128"}
    assert set(info.dtypes(device="webgpu", kind="real floating")) == {"float32"}


def test_capabilities(xp: Any):
    found = xp.__array_namespace_info__().capabilities()
    assert found["boolean indexing"] is True
    assert found["data-dependent shapes"] is True
    assert isinstance(found["max dimensions"], int) and found["max dimensions"] >= 32
    assert xp.asarray(np.asarray(xp.ones((1,) * found["max dimensions"]))).ndim == found["max dimensions"]


def test_devices(xp: Any):
    info = xp.__array_namespace_info__()
    # A list until revision 2025.12 of the standard, a tuple since.
    assert type(info.devices()) is (tuple if xp.__array_api_version__ >= "2025.12" else list)
    assert info.default_device() in info.devices()
    assert xp.ones(1).device == info.default_device()


def test_default_dtypes(xp: Any):
    info = xp.__array_namespace_info__()
    for device in (None, *info.devices()):
        found = info.default_dtypes(device=device)
        assert found["real floating"] in (xp.float32, xp.float64)
        assert found["complex floating"] == (xp.complex64 if found["real floating"] == xp.float32 else xp.complex128)
        assert found["integral"] in (xp.int32, xp.int64)
        assert found["indexing"] == xp.argmax(xp.ones(3)).dtype


def test_dtypes(xp: Any):
    info = xp.__array_namespace_info__()
    assert info.dtypes() == {name: getattr(xp, name) for name in NAMES}
    assert info.dtypes(device=info.default_device()) == info.dtypes()
    for kind in (
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ):
        assert info.dtypes(kind=kind) == {n: getattr(xp, n) for n in NAMES if xp.isdtype(getattr(xp, n), kind)}
    both = info.dtypes(kind=("bool", "real floating"))
    assert set(both) == {"bool", "float32", "float64"}
    with pytest.raises((TypeError, ValueError)):
        info.dtypes(kind="integers")
