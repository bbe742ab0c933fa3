"""The namespace that these tests are run on: `rulegrad.array_api`, or the module that ARRAY_API_MODULE names.

The same tests run on any namespace of the standard; `bench/conformance.py` runs them on NumPy as well. ARRAY_API_DEVICE
names rulegrad's device, the interpreter unless it is set.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

MODULE = os.environ.get("ARRAY_API_MODULE", "rulegrad.array_api")
OURS = MODULE == "rulegrad.array_api"

#: The tolerance of a comparison, by the dtype of the real parts.
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "complex64": 5e-5, "complex128": 1e-11}


class Library:
    """The namespace, ways into it and out of it, and comparisons."""

    def __init__(self, module: str) -> None:
        self.xp: Any = importlib.import_module(module)
        self.is_ours = OURS

    def array(self, values: Any, dtype: str | None = None) -> Any:
        """An array of the namespace with these values; dtype by name, by default that of NumPy's array."""
        return self.xp.asarray(np.array(values, dtype))

    def dtype(self, name: str) -> Any:
        """A dtype of the namespace by name."""
        return getattr(self.xp, name)

    def name_of(self, dtype: Any) -> str:
        """The name of a dtype of the namespace."""
        names = ["bool", *[f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]]
        names += ["float32", "float64", "complex64", "complex128"]
        return next((name for name in names if getattr(self.xp, name) == dtype), str(dtype))

    def values(self, x: Any) -> Any:
        """The values as a NumPy array."""
        return np.asarray(x)

    def same(self, x: Any, expected: Any, dtype: str | None = None, tolerance: float | None = None) -> None:
        """Whether `x` has the shape, the dtype (`dtype`, or that of `expected`) and the values expected.

        Integers and bools must be exact; floats within a tolerance, nan and infinities at the same places.
        """
        expected = np.asarray(expected)
        assert tuple(x.shape) == expected.shape
        name = dtype or expected.dtype.name
        assert self.name_of(x.dtype) == name
        values = self.values(x)
        if name not in TOLERANCE:
            np.testing.assert_array_equal(values, expected)
            return
        allowed = TOLERANCE[name] if tolerance is None else tolerance
        np.testing.assert_allclose(values, expected.astype(values.dtype), rtol=allowed, atol=allowed)

    def exactly(self, x: Any, expected: Any) -> None:
        """Whether `x` has the values expected, bit for bit, but for which nan it is; the shape and dtype as well."""
        expected = np.asarray(expected)
        assert tuple(x.shape) == expected.shape
        assert self.name_of(x.dtype) == expected.dtype.name
        values = self.values(x)
        np.testing.assert_array_equal(values, expected)
        if values.dtype.kind == "f":
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(values)[numbers], np.signbit(expected)[numbers])


@pytest.fixture(scope="session")
def lib() -> Library:
    """The namespace under test."""
    return Library(MODULE)


@pytest.fixture
def xp(lib: Library) -> Any:
    """The namespace itself."""
    return lib.xp


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """One device for all tests, and no warnings of NumPy for the values that the tests are about."""
    if OURS:
        from rulegrad import config

        chosen: Any = config(device=os.environ.get("ARRAY_API_DEVICE", "numpy"))
    else:
        chosen = nullcontext()
    with chosen, np.errstate(all="ignore"):
        yield
