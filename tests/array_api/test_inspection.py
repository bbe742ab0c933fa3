"""Inspection: capabilities, devices and dtypes of the namespace; its constants."""

from __future__ import annotations

import math
from typing import Any

import pytest

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


def test_constants(xp: Any):
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)
    assert xp.__array_api_version__ >= "2024.12"


def test_capabilities(xp: Any):
    found = xp.__array_namespace_info__().capabilities()
    assert found["boolean indexing"] is True
    assert found["data-dependent shapes"] is True
    assert found["max dimensions"] is None or found["max dimensions"] >= 32


def test_devices(xp: Any):
    info = xp.__array_namespace_info__()
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
