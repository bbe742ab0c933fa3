"""Devices by name, the default one, drivers that end the process, and backends of strangers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rulegrad.config import config
from rulegrad.engine import sources
from rulegrad.errors import DeviceError
from rulegrad.runtime import backends, devices, probe
from rulegrad.runtime.backends import Backend
from rulegrad.runtime.hardware import may_have_accelerator
from rulegrad.support.paths import data_folder

ABORTING = """
import os
from rulegrad.errors import DeviceError
from rulegrad.runtime.device import Discovery, Found

def discover():
    kinds = ("gpu", "gpu", "gpu", "gpu")
    found = tuple(Found(k, f"device {k}", kind) for k, kind in enumerate(kinds))
    return Discovery(found, ("somewhere",), "buy another one")

def fingerprint():
    return os.environ.get("TEST_FINGERPRINT", "")

def self_test(number):
    with open(os.path.join(os.path.dirname(__file__), "tried"), "a") as log:
        log.write(f"{number}\\n")
    if number == 1:
        os.write(2, b"some words\\nfatal error: no linker\\nmore words\\n")
        os.abort()
    if number == 2:
        raise DeviceError("computes nonsense")
    if number == 3:
        os._exit(3)

class Device:
    def __init__(self, number):
        self.name, self.target, self.interprets, self.memory = f"aborting:{number}", "aborting", False, 0
"""


@pytest.fixture(scope="module")
def cache(cache_with_rules: Callable[[], Path]) -> Path:
    """The cache folder of these tests: each has backends in a folder of its own, so none finds what another kept."""
    return cache_with_rules()


@pytest.fixture
def own(
    tmp_path: Path,
    cache: Path,
    forget_devices: Callable[[Callable[[str], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A place for backends; what is loaded in the test is forgotten after it."""
    for module, name in (
        (backends, "_loaded"),
        (devices, "_canonical"),
    ):
        monkeypatch.setattr(module, name, {})
    forget_devices(lambda name: True)
    monkeypatch.setattr(devices, "_best", None)
    monkeypatch.setattr(backends, "_configured", None)
    monkeypatch.setattr(sources, "target_files", [])
    with config(cache=cache, device="", backends=()):
        yield tmp_path


def write_backend(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "device.py").write_text(textwrap.dedent(text))
    (folder / f"{folder.name}.rules").write_text(f"target {folder.name}:\n    has ADD\n")
    return folder


def simple_backend(kind: str, one: bool = False) -> str:
    return f"""
        from rulegrad.runtime.device import Discovery, Found
        from .helper import DESCRIPTION
        ONE_DEVICE = {one}
        def discover():
            return Discovery((Found(0, DESCRIPTION, "{kind}"),))
        class Device:
            def __init__(self, number):
                self.name, self.target, self.interprets, self.memory = "simple", "simple", False, 0
        """


# ---- names ----


def test_canonical_names() -> None:
    assert devices.canonical("opencl") == devices.canonical("opencl:0") == "opencl:0"
    assert devices.canonical("opencl:3") == "opencl:3"
    assert devices.canonical("numpy") == devices.canonical("numpy:0") == "numpy"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("opncl", "there is no device 'opncl'; did you mean 'opencl'\\? The backends are "),
        ("opencl:first", "write a backend and a number, as in 'opencl:0'"),
        ("opencl:-1", "is not a device name"),
        ("numpy:1", "numpy has one device, 'numpy'"),
        ("", "there is no device ''"),
    ],
)
def test_names_that_no_device_has(name: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        devices.canonical(name)


def test_a_device_is_opened_once() -> None:
    assert devices.get("numpy") is devices.get("numpy:0")
    assert devices.get("numpy").interprets and devices.target_of("numpy") == "numpy"
    with pytest.raises(DeviceError, match="there is no device 'opencl:99'"):
        devices.get("opencl:99")


def test_the_setting_chooses_the_default() -> None:
    with config(device="numpy:0"):
        assert devices.default() == "numpy" and devices.get() is devices.get("numpy")
    with config(device="nowhere"), pytest.raises(DeviceError, match="there is no device 'nowhere'"):
        devices.default()


# ---- drivers that end the process ----


def test_devices_are_tried_in_children(own: Path) -> None:
    backend = backends.load_backend(write_backend(own / "aborting", ABORTING))
    found = probe.discover(backend)
    assert found.looked == ("somewhere",)
    assert [device.problem for device in found.devices] == [
        "",
        "the test process ended with SIGABRT: fatal error: no linker",
        "computes nonsense",
        "the test process ended with exit status 3",
    ]
    assert devices.get("aborting:0").name == "aborting:0"
    with pytest.raises(DeviceError, match=r"aborting:1 \(device 1\) cannot be used: .*no linker\. buy another"):
        devices.get("aborting:1")


def test_the_answer_is_kept_until_the_fingerprint_changes(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backends.load_backend(write_backend(own / "aborting", ABORTING))
    log = backend.folder / "tried"
    first = probe.discover(backend)
    assert log.read_text().split() == ["0", "1", "2", "3"]
    assert probe.discover(backend) == first and len(log.read_text().split()) == 4
    assert probe.discover(backend, fresh=True) == first and len(log.read_text().split()) == 8
    monkeypatch.setenv("TEST_FINGERPRINT", "another driver")
    assert probe.discover(backend) == first and len(log.read_text().split()) == 12


def test_an_error_of_rule_files_says_nothing_of_the_devices(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule file of the user's that is wrong today must not leave the machine without devices tomorrow."""
    wrong = own / "wrong.rules"
    wrong.write_text("pass wrong rewrite walk:\n    nothing: -x -> NOWHERE(x)\n")
    text = ABORTING.replace(
        "def self_test(number):", "def self_test(number):\n    from rulegrad import ir; ir.UOp('SINK')"
    )
    assert text != ABORTING
    backend = backends.load_backend(write_backend(own / "aborting", text))
    with monkeypatch.context() as patch:
        patch.setenv("RULEGRAD_RULES", str(wrong))
        found = probe.discover(backend)
        assert all("NOWHERE" in device.problem for device in found.devices)
    assert probe.discover(backend).devices[0].problem == ""


@pytest.mark.parametrize("busy", [True, False])
def test_a_device_that_does_not_answer_is_tried_again_where_the_machine_was_busy(
    own: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """A driver that works may be slow beside other programs; one that hangs does not keep each program waiting."""
    once = "import time, pathlib\n    first = pathlib.Path(__file__).with_name('first')\n"
    once += "    if number == 0 and not first.exists():\n        first.touch(); time.sleep(60)"
    text = ABORTING.replace("def self_test(number):", f"def self_test(number):\n    {once}")
    monkeypatch.setattr(probe, "_TIMEOUT_SECONDS", 6)
    monkeypatch.setattr(probe, "_is_busy", lambda: busy)
    backend = backends.load_backend(write_backend(own / "aborting", text))
    problems = [device.problem for device in probe.discover(backend).devices]
    assert problems[0].startswith("the test did not end within 6 seconds")
    assert problems[0].endswith("; the next program tries again") == busy
    assert problems[2] == "computes nonsense"
    monkeypatch.setattr(probe, "_TIMEOUT_SECONDS", 60)
    assert (probe.discover(backend).devices[0].problem == "") == busy


def test_listing_that_ends_the_process(own: Path) -> None:
    text = ABORTING.replace("def discover():", "def discover():\n    os.abort()")
    found = probe.discover(backends.load_backend(write_backend(own / "aborting", text)))
    assert found.devices == () and "listing the devices failed: the test process ended with SIGABRT" in found.advice


def test_the_next_best_device_is_used_with_one_line(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = ABORTING.replace("if number == 1:", "if number < 2:")
    backends.load_backend(write_backend(own / "aborting", text))
    chosen = devices.default()
    assert chosen in ("c", "opencl:0", "numpy") and devices.default() == chosen
    lines = [line for line in capfd.readouterr().err.splitlines() if "aborting" in line]
    assert len(lines) == 1
    assert lines[0].startswith("rulegrad: aborting:0 (device 0) cannot be used: ")
    assert f"using {chosen}. buy another one" in lines[0]


def test_devices_that_could_not_be_chosen_are_not_tried(own: Path) -> None:
    """Their drivers are not loaded, and a driver that ends the process costs nothing."""
    text = ABORTING.replace('"gpu"', '"cpu"') + "\nRANK = 7\ndef best_kind():\n    return 'cpu'\n"
    backend = backends.load_backend(write_backend(own / "unasked", text))
    chosen = devices.default()
    if devices.kind_of(chosen) == "interpreter":
        pytest.skip("no device on this machine is as good as these")
    assert not (backend.folder / "tried").exists()
    assert [found.problem != "" for found in devices.report(backend).discovery.devices] == [False, True, True, True]
    assert (backend.folder / "tried").read_text().split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_backend_is_asked_where_it_could_be_the_best(own: Path, kind: str) -> None:
    """By the best kind that it says, or by its rank among those of one kind."""
    text = f"RANK = -1\ndef best_kind():\n    return {kind!r}\n" + ABORTING.replace('"gpu"', f'"{kind}"')
    name = f"best_{kind}"
    backends.load_backend(write_backend(own / name, text))
    if kind == "cpu" and may_have_accelerator():
        pytest.skip("this machine may have a GPU, which comes first")
    assert devices.default() == f"{name}:0"


def test_a_best_kind_that_there_is_not(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    backends.load_backend(write_backend(own / "odd", "def best_kind():\n    return 'quantum'\n"))
    assert devices.default() in ("c", "opencl:0", "numpy")
    line = next(line for line in capfd.readouterr().err.splitlines() if "left out" in line)
    assert "the backend odd is left out" in line and "best_kind() is 'quantum'; kinds are gpu, accelerator" in line


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the answer is always that there could be one")
def test_what_drivers_show(tmp_path: Path) -> None:
    for name in ("null", "loop0", "dri/card0", "kmsg", "net"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert not may_have_accelerator(str(tmp_path))
    for name in ("dri/renderD128", "nvidia0", "kfd", "dxg", "mali0", "accel"):
        (tmp_path / name).touch()
        assert may_have_accelerator(str(tmp_path))
        (tmp_path / name).unlink()


def test_which_drivers_could_have_a_gpu(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opencl = backends.backend("opencl")
    drivers = sys.modules["rulegrad_backend_opencl.drivers"]
    monkeypatch.setenv("OCL_ICD_VENDORS", str(own))
    for library, machine, kind in [
        ("libpocl.so.2", False, "cpu"),
        ("libintelocl.so", False, "cpu"),
        ("libpocl.so.2", True, "gpu"),
        ("libnvidia-opencl.so.1", False, "gpu"),
    ]:
        monkeypatch.setattr(drivers, "may_have_accelerator", lambda machine=machine: machine)
        (own / "driver.icd").write_text(library)
        assert opencl.best_kind == kind, library


def test_a_driver_that_is_installed_does_not_become_the_default(own: Path) -> None:
    """Of devices on the CPU, those of backends that are for nothing else come first."""
    ranks = {one.name: one.rank for one in backends.all_backends()}
    assert ranks["c"] < ranks["opencl"] and ranks["cuda"] < ranks["opencl"]
    if devices.report(backends.backend("c")).discovery.devices:
        assert not devices.default().startswith("opencl") or devices.kind_of(devices.default()) == "gpu"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_program_that_names_no_device_survives_a_fork(own: Path) -> None:
    """Drivers are installed, but nobody asked for OpenCL: it is not loaded, and the child computes."""
    if devices.default() != "c":
        pytest.skip("the default device is not the host's compiler")
    code = """
import os, sys
from rulegrad import Tensor
assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]
child = os.fork()
if child == 0:
    os._exit(0 if (Tensor([1.0, 2.0]) * 3).tolist() == [3.0, 6.0] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert "pyopencl" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="PoCL's wheel is for Linux")
def test_opencl_without_a_linker(cache: Path) -> None:
    """PoCL aborts the process when it finds no linker: numpy is used, and one line says why."""
    code = "from rulegrad.runtime import devices\nprint(devices.default(), devices.get().name)"
    environment = {**os.environ, "PATH": "/nonexistent", "RULEGRAD_CACHE": str(cache)}
    for _ in range(2):  # the second time from what is kept
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        if done.stdout.split() != ["numpy", "numpy"]:
            pytest.skip("another driver than PoCL works here")
        lines = [line for line in done.stderr.splitlines() if line]
        assert len(lines) == 1 and "using numpy" in lines[0] and lines[0].startswith("rulegrad: ")


def test_opencl_without_a_driver(own: Path, cache: Path) -> None:
    code = "from rulegrad.runtime import devices\nprint(devices.default())\ndevices.get('opencl')"
    # without a C compiler either
    environment = {**os.environ, "OCL_ICD_VENDORS": str(own / "nothing"), "CC": "no-such-compiler"}
    environment["RULEGRAD_CACHE"] = str(cache)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "numpy\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("rulegrad: no device was found to compile for; using numpy")
    assert "clang" in lines[0] and "python -m pip install 'pyopencl[pocl]'" in lines[0]  # what to install
    assert "there is no device 'opencl:0'; no opencl device was found. install a driver" in lines[-1]


def test_neither_compiler_nor_driver(own: Path, cache: Path) -> None:
    """A network is trained by the interpreter."""
    code = """
from rulegrad import Tensor, nn, optim
layer = nn.Linear(2, 1)
optimizer = optim.SGD(layer.parameters(), lr=0.1)
x, y, losses = Tensor([[0.0, 1.0], [1.0, 0.0]]), Tensor([[1.0], [-1.0]]), []
for _ in range(20):
    optimizer.zero_grad()
    loss = ((layer(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(loss.device, losses[-1] < losses[0] / 2)
"""
    environment = {**os.environ, "PATH": "/nonexistent", "OCL_ICD_VENDORS": str(own / "nothing")}
    environment["RULEGRAD_CACHE"] = str(cache)
    environment.pop("CC", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["numpy", "True"], done.stderr
    assert "clang, or gcc" in done.stderr


def test_importing_rulegrad_does_not_import_opencl() -> None:
    code = "import sys, rulegrad, rulegrad.runtime.devices\nassert 'pyopencl' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_named_device_that_is_not_opencl_does_not_import_opencl() -> None:
    code = (
        "import sys\nfrom rulegrad.runtime import devices\ndevices.get('numpy')\nassert 'pyopencl' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- backends of strangers ----


def test_a_folder_becomes_a_device(own: Path) -> None:
    folder = write_backend(own / "simple", simple_backend("cpu", one=True))
    (folder / "helper.py").write_text("DESCRIPTION = 'from its neighbour'\n")
    loaded = backends.load_backend(str(folder))
    assert loaded.name == "simple" and loaded.rules == folder / "simple.rules"
    assert devices.canonical("simple:0") == "simple" and devices.target_of("simple") == "simple"
    assert devices.report(loaded).discovery.devices[0].description == "from its neighbour"


def test_folders_from_the_setting(own: Path) -> None:
    (own / "several").mkdir()
    for name in ("one", "two"):
        folder = write_backend(own / "several" / name, simple_backend("simulator"))
        (folder / "helper.py").write_text("DESCRIPTION = ''\n")
    with config(backends=[str(own / "several")]):
        assert {"one", "two", "numpy", "opencl"} <= {b.name for b in backends.all_backends()}
        assert devices.default() not in ("one:0", "two:0")
    with config(backends=[str(own)]), pytest.raises(DeviceError, match=r"is not a backend: it has no device\.py"):
        backends.all_backends()


def test_a_gpu_is_preferred_and_a_simulator_is_not(own: Path) -> None:
    for name, kind in (("pretend", "simulator"), ("fast", "gpu")):
        folder = write_backend(own / name, simple_backend(kind))
        (folder / "helper.py").write_text("DESCRIPTION = ''\n")
        backends.load_backend(folder)
    assert devices.default() == "fast:0"


def test_folders_that_are_no_backends(own: Path) -> None:
    with pytest.raises(DeviceError, match=r"it has no device\.py"):
        backends.load_backend(own)
    folder = write_backend(own / "named", "")
    (folder / "named.rules").unlink()
    with pytest.raises(DeviceError, match=r"it has no named\.rules"):
        backends.load_backend(folder)
    with pytest.raises(DeviceError, match="two backends are called 'numpy'"):
        backends.load_backend(write_backend(own / "numpy", ""))


def test_a_backend_that_cannot_be_loaded(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    backends.load_backend(write_backend(own / "broken", "import no_such_module"))
    with pytest.raises(DeviceError, match=r"device\.py cannot be loaded: ModuleNotFoundError"):
        devices.get("broken")
    assert devices.default() in ("c", "opencl:0", "numpy")
    assert "the backend broken is left out" in capfd.readouterr().err


def test_ours_are_found_once() -> None:
    assert Backend(data_folder("backends") / "numpy") in backends.all_backends()
