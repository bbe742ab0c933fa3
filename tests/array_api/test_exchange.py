"""`__dlpack__` and `from_dlpack` with every argument that the standard has, between all devices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "complex64"])
def test_capsules_can_be_had_for_all_arguments(xp: Any, lib: Any, dtype: str):
    for shape in ((2,), (1, 0)):
        x = xp.ones(shape, dtype=getattr(xp, dtype))
        for copy, version in itertools.product((None, True, False), (None, (0, 0), (1, 0), (2, 0))):
            for device in (None, (1, 0)):
                assert x.__dlpack__(copy=copy, max_version=version, dl_device=device) is not None
    assert x.__dlpack_device__()[0] in (1, 2, 3, 4, 7, 8, 9, 10, 13, 14)


def test_arrays_go_to_every_device(xp: Any, lib: Any):
    info = xp.__array_namespace_info__()
    for device in info.devices():
        for name in ("float32", "float64"):
            if name not in info.dtypes(device=device):
                continue
            x = xp.asarray([1.0, 2.0], dtype=getattr(xp, name))
            for options in ({}, {"copy": True}):
                y = xp.from_dlpack(x, device=device, **options)
                assert y.device == device and np.asarray(y).tolist() == [1.0, 2.0]
            assert xp.from_dlpack(x, copy=False).device == x.device
