"""What all tests share: the devices they run on, a cache folder of their own, and hypothesis' settings."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
# The reference interpreter, and the device that comes with an install; or those that TEST_DEVICES names.
DEVICES = tuple(os.environ.get("TEST_DEVICES", "numpy opencl:0").split())

settings.register_profile(
    "rulegrad",
    deadline=None,
    max_examples=25,
    derandomize=IN_CI,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("rulegrad")

# Set before rulegrad is imported, and inherited by the processes that tests start. The folder is the same
# for all workers of a run and for later runs: programs that have not changed are not compiled again.
os.environ.setdefault("RULEGRAD_CACHE", str(Path(tempfile.gettempdir()) / f"rulegrad-test-cache-{os.getuid()}"))


def problem_with(name: str) -> str:
    """Why a device cannot be used here; empty when it can."""
    from rulegrad.errors import DeviceError
    from rulegrad.runtime import devices

    try:
        devices.get(name)
    except DeviceError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device; a test that asks for it runs once on each."""
    name: str = request.param
    problem = problem_with(name)
    if problem and IN_CI:
        pytest.fail(f"in CI every device must work: {problem}")
    if problem:
        pytest.skip(problem)
    return name


@pytest.fixture(autouse=True)
def _loaded_rules_go() -> Iterator[None]:
    """Rule files that a test loads are out again after it: other tests look at all rules in force."""
    from rulegrad.lang import engine, sources

    before = list(sources.loaded_files)
    yield
    if sources.loaded_files != before:
        sources.loaded_files[:] = before
        engine.forget()


@pytest.fixture(scope="session")
def cache_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes cache folders that have the compiled rules of the others, and nothing else."""

    def make() -> Path:
        folder = tmp_path_factory.mktemp("cache")
        known = Path(os.environ["RULEGRAD_CACHE"]) / "rules.sqlite"
        if known.exists():
            (folder / known.name).symlink_to(known)
        return folder

    return make


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]
