"""Common parts of all tests: the devices they run on, a cache folder of their own, and hypothesis' settings."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for grids
import grids

# The collector looks less often than it does in programs: tests make few cycles, and their graphs are many objects.
gc.set_threshold(50_000, 20, 50)

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
# The reference interpreter, and OpenCL on the driver that comes with an install; or those that TEST_DEVICES names.
DEVICES = tuple(os.environ.get("TEST_DEVICES", "numpy opencl").split())

# The long run has more examples, and the optimizers of OpenCL's drivers; what these do to a program takes longer than the rest of a test.
LONG_RUN = bool(os.environ.get("LONG_RUN"))
if not LONG_RUN:
    os.environ.setdefault("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")

settings.register_profile(
    "rulegrad",
    deadline=None,
    max_examples=500 if LONG_RUN else 25,
    derandomize=IN_CI,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("rulegrad")

# Set before NumPy is imported, and inherited by the processes that tests start: threads that wait for its products, which are
# small here, turn for a tenth of a second on cores that other tests need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests look at kernels of one size, whatever sizes others have computed before them. Those of sizes that vary ask for plans
# of all sizes, as do the documents; the long run has a job for them.
os.environ.setdefault("GENERAL_PLANS", "0")

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


@cache
def opencl_device() -> str:
    """The OpenCL device that tests run on: PoCL's, which users have, where it works; else the first that does."""
    from rulegrad.runtime import backends, devices

    known = devices.report(backends.backend("opencl"))
    working = [found for found in known.discovery.devices if not found.problem]
    of_pocl = [found for found in working if found.description.startswith("Portable Computing Language")]
    return known.name([*of_pocl, *working][0]) if working else "opencl:0"


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device; a test that asks for it runs once on each."""
    name: str = opencl_device() if request.param == "opencl" else request.param
    problem = problem_with(name)
    if problem and "opencl" in name and os.environ.get("OPENCL_REQUIRED"):
        pytest.fail(f"OpenCL must work here: {problem}")
    if problem:
        pytest.skip(problem)
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Where no OpenCL driver works, tests that need one are skipped, with what is wrong with the driver."""
    from rulegrad.errors import DeviceError

    try:
        return (yield)
    except DeviceError as error:
        problem = problem_with(opencl_device())
        if "opencl" in str(error) and problem and not os.environ.get("OPENCL_REQUIRED"):
            pytest.skip(problem)
        raise


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before_stays() -> None:
    """The garbage collector looks at what a file's tests make, and not again at the tests and at what others have left.

    Otherwise one look takes up to two seconds, and those tests that count nodes or memory ask for it.
    """
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    for description in (grids.DESCRIPTION, grids.LONG_RUN_DESCRIPTION):
        config.addinivalue_line("markers", description)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The short run has a part of each grid of parameters."""
    kept = items if LONG_RUN else grids.thinned(items)
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[*set(items) - set(kept)])
        items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """At its end pytest asks for what nobody holds, several times; all tests are still there, which takes seconds."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: a worker more than there are cores, as some tests wait for processes that they have started."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker begins with a part of its own and then takes what others have left: a file's tests share what they compile."""
    if config.getoption("dist") != "load":
        return None  # somebody asked for another order
    from xdist.scheduler import WorkStealingScheduling  # late: tests run without it too

    return WorkStealingScheduling(config, log)


def pytest_report_header() -> str:
    """Which drivers the tests run on; what is said of one that does not work names the remedy."""
    from rulegrad.runtime import backends, devices

    known = devices.report(backends.backend("opencl"))
    listed = [f"{known.name(f)} ({f.description}): {f.problem or 'works'}" for f in known.discovery.devices]
    return "\n".join(["OpenCL devices:", *listed]) if listed else f"no OpenCL device: {known.discovery.advice}"


@pytest.fixture
def on_the_interpreter() -> Iterator[None]:
    """For tests of formulas, which are the same on every device: nothing is compiled for them."""
    from rulegrad.config import config

    with config(device="numpy"):
        yield


@pytest.fixture(autouse=True)
def _the_same_random_numbers() -> None:
    """Each test draws the same random numbers, whichever ran before it."""
    from rulegrad.tensor.generators import manual_seed

    manual_seed(0)


@pytest.fixture(autouse=True)
def _loaded_rules_go() -> Iterator[None]:
    """Rule files that a test loads are out again after it: other tests look at all rules in force."""
    from rulegrad import engine
    from rulegrad.engine import sources

    before, allowed = list(sources.loaded_files), set(sources.allowed_files)
    yield
    if sources.loaded_files != before or sources.allowed_files != allowed:
        sources.loaded_files[:] = before
        sources.allowed_files.intersection_update(allowed)
        engine.forget()


@pytest.fixture(scope="module", autouse=True)
def _foreign_devices_close() -> Iterator[None]:
    """Devices from outside the distribution that a file's tests open are closed after it, and their targets go.

    With another target the rules in force are others, which are not those that the cache or the package has.
    """
    from rulegrad import engine
    from rulegrad.engine import sources
    from rulegrad.runtime import backends, devices

    before = list(sources.target_files)
    yield
    if sources.target_files == before:
        return
    foreign = {one.name for one in backends.all_backends() if not one.is_ours}
    for table in (devices._open, devices._allocators, devices._reports):
        for name in [name for name in table if name.partition(":")[0] in foreign]:
            del table[name]
    sources.target_files[:] = before
    engine.forget()


@pytest.fixture(scope="session")
def cache_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes cache folders that have the compiled rules of the others, and nothing else."""
    from rulegrad import engine
    from rulegrad.config import config
    from rulegrad.engine import kept
    from rulegrad.support.diskcache import DiskCache

    def make() -> Path:
        folder = tmp_path_factory.mktemp("cache")
        engine.program("opencl")
        old, key = kept.cache, engine.loaded().sources.key
        entries = {kind: old.get(kind, key) for kind, of, *_ in old.entries() if of == key}
        with config(cache=folder):
            new = DiskCache(old.file_name)
            for kind, value in entries.items():
                new.put(kind, key, value or b"")
            new.close()
        return folder

    return make


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a rule file, one for all tests and workers that have the same text: so rules are compiled with it once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "rules"
    folder.mkdir(exist_ok=True)

    def write(text: str) -> Path:
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.rules"
        if not path.exists():
            made = path.with_suffix(f".{os.getpid()}")
            made.write_text(text, encoding="utf-8")
            made.replace(path)  # another worker never sees a part of it
        return path

    return write


@pytest.fixture
def forget_devices() -> Iterator[Callable[[Callable[[str], bool]], None]]:
    """Takes devices out of those that are open, by their names; they are back when the test is over."""
    from rulegrad.runtime import devices

    tables: tuple[dict[str, Any], ...] = (devices._open, devices._allocators, devices._reports)
    before = [dict(table) for table in tables]
    best = devices._best

    def forget(is_meant: Callable[[str], bool]) -> None:
        for table in tables:
            for name in filter(is_meant, list(table)):
                del table[name]

    yield forget
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    devices._best = best  # the default may have been chosen among pretended devices


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def constant_sizes() -> Iterator[None]:
    """Each size has a plan of its own, also where all tests run with plans for all sizes (GENERAL_PLANS=1)."""
    import rulegrad as rg

    with rg.config(general_plans=0):
        yield


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many kernels each set had that was built for the device c."""
    if problem := problem_with("c"):
        pytest.skip(problem)
    from rulegrad.compile import forget_kernels
    from rulegrad.runtime import devices

    device, sets = devices.get("c"), list[int]()
    compile_all = type(device).compile

    def counted(self: Any, kernels: Any) -> Any:
        sets.append(len(kernels))
        return compile_all(self, kernels)

    monkeypatch.setattr(type(device), "compile", counted)
    forget_kernels()
    yield sets
    forget_kernels()
