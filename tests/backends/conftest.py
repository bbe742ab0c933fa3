"""Common parts of tests of backends: simulators of GPUs, and other tests that run on them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rulegrad
from rulegrad.compile.kernels import forget_kernels
from rulegrad.compile.sharding import own_number
from rulegrad.config import config
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices, index_checks
from rulegrad.runtime.backends import backend

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
    """`module_of`, as a fixture: test folders are not packages."""
    return module_of


@pytest.fixture(
    params=[
        "test_every_operation", "test_nothing_is_clamped_in_silence", "test_what_depends_on_it_is_wrong_too",
        "test_updates_in_place", "test_gradients", "test_reductions_products_and_attention", "test_no_more_launches",
        "test_an_index_whose_memory_the_result_takes",
    ]
)  # fmt: skip
def index_check(request: pytest.FixtureRequest) -> str:
    """The name of a test of index checks that runs on any device."""
    return str(request.param)


@pytest.fixture
def prepared(simulator: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], None]:
    """Makes a simulator one of this target, whose threads run in this order."""

    def prepare(device: str, target: str, order: int) -> None:
        monkeypatch.setattr(devices.get(simulator(device)), "order", order)
        monkeypatch.setattr(devices.get(device), "target", target)

    return prepare


@pytest.fixture
def hopper(simulator: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The simulator of NVIDIA's GPUs, of compute capability 9.0."""
    device = devices.get(simulator("cuda_shim"))
    monkeypatch.setattr(device, "target", "cuda_sm90a")
    forget_kernels()
    yield device
    forget_kernels()


@pytest.fixture
def without_boxes(written: Callable[[str], Path]) -> Iterator[None]:
    """Threads of a Hopper GPU copy what a matrix product needs, not TMA."""
    with rulegrad.load_rules(written("target cuda_sm90a:\n    limit box_lines 0\n")):
        yield


@pytest.fixture
def with_tf32(written: Callable[[str], Path]) -> Iterator[None]:
    """Products of float32 may be rounded to tf32, on the target cuda."""
    with rulegrad.load_rules(written("target cuda:\n    flag tf32\n")):
        yield


@pytest.fixture
def compiled_for() -> Callable[[Iterable[str], str], tuple[list[Any], str]]:
    """Compiles sources for a GPU that is not here: what each kernel uses, and the compiler's log. Skips without NVRTC."""
    package = backend("cuda").module.__package__
    programs, usage = (importlib.import_module(f"{package}.{part}") for part in ("programs", "usage"))

    def compile_all(sources: Iterable[str], arch: str) -> tuple[list[Any], str]:
        try:
            _, log = programs.compile_text("\n".join(sources), arch)
        except (ImportError, RuntimeError) as error:
            if isinstance(error, DeviceError):
                raise
            pytest.skip(f"NVRTC is not installed ({error})")
        return usage.usages(log), log

    return compile_all


@pytest.fixture
def fake(
    simulator: Callable[[str], str],
    forget_devices: Callable[[Callable[[str], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Any]:
    """The CUDA devices of a pretend driver, which is `fake.driver`, and `fake.compiler`."""
    simulator("cuda_shim")
    module, cuda = module_of("shims/fake_cuda.py"), backend("cuda").module
    module.driver, module.compiler = module.FakeDriver(), module.FakeCompiler()
    for part, name, replacement in module.replacements(cuda, module.driver, module.compiler):
        monkeypatch.setattr(part, name, replacement)
    forget_devices(lambda name: "cuda" in name and "shim" not in name)
    with config(cache=tmp_path):
        yield module
    forget_kernels()
    own_number.cache_clear()  # and other buffers that were in this driver's memory
    index_checks._clean.clear()
