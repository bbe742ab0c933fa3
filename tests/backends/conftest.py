"""What tests of backends share: simulators of GPUs, and other tests that run on them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rulegrad
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def simulator() -> Callable[[str], str]:
    """Gives the name of a simulator whose backend is in tests/shims; skips where it cannot run."""

    def load(name: str) -> str:
        rulegrad.load_backend(TESTS / "shims" / name)
        try:
            devices.get(name)
        except DeviceError as error:
            pytest.skip(str(error))
        return name

    return load


def module_of(path: str) -> Any:
    """A module of the tests, by its path in the folder of tests: its functions are run on other devices too."""
    name = "rulegrad_tests_" + path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def tests_of() -> Callable[[str], Any]:
    """`module_of`, as a fixture: test folders are no packages."""
    return module_of
