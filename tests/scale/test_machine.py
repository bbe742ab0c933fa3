"""Descriptions of machines: those that come with rulegrad, and errors that name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad.errors import FileError, FileMissingError
from rulegrad.workbench.scale.machine import FOLDER, load_machine, shipped

TEXT = """
doc = "a test"
[device]
rates = { float32 = 1e12 }
memory_bandwidth = 1e11
memory = 1e10
[[links]]
name = "inner"
devices = 4
latency = 1e-6
bandwidth = 1e10
[[links]]
name = "outer"
devices = 64
latency = 1e-5
bandwidth = 1e9
taper = 4
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    machine = load_machine(written(tmp_path, TEXT))
    assert (machine.name, machine.devices, machine.processors, machine.overlaps) == ("mine", 64, 4, True)
    assert machine.links[1].bandwidth == 1e9 / 4
    assert machine.kernel_seconds(2e12, 1e11, "float32") == 2.0  # arithmetic takes longer
    assert machine.kernel_seconds(2e9, 1e11, "float32") == 1.0  # memory does


def test_shared_processors_and_memory(tmp_path: Path) -> None:
    text = TEXT.replace("memory = 1e10", "memory = 1e10\nprocessors = 2\nshared_bandwidth = 1.5e11")
    machine = load_machine(written(tmp_path, text))
    assert machine.slowed(1.0, 0, 2) == 1.0
    assert machine.slowed(1.0, 0, 4) == 2.0  # two ranks a processor
    assert machine.slowed(1.0, 1.5e11, 2) == 2.0  # both read from one memory
    assert machine.slowed(1.0, 1.5e11, 1) == 1.0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('doc = "a test"', "", "mine.toml: doc is missing"),
        ('doc = "a test"', "doc = 3", "mine.toml: doc: 3 is not a text"),
        ("memory = 1e10", "", "device.memory is missing"),
        ("memory = 1e10", "memory = -1", "device.memory: -1 is not a finite number of at least 0"),
        ("memory = 1e10", "memory = 0", "device.memory: 0 is not more than 0"),
        ("memory = 1e10", "memory = inf", "device.memory: inf is not a finite number"),
        ("memory = 1e10", 'memory = "much"', "device.memory: 'much' is not a number"),
        ("memory = 1e10", "memory = 1e10\nreached = 1.5", "device.reached: 1.5 is more than 1"),
        ("memory = 1e10", "memory = 1e10\noverlaps = 1", "device.overlaps: 1 is neither true nor false"),
        ("memory = 1e10", "memory = 1e10\nspeed = 1", "device.speed is not a key that is known here"),
        ("rates = { float32 = 1e12 }", "rates = {}", "device.rates is empty"),
        ("rates = { float32 = 1e12 }", "rates = { float32 = 0 }", "device.rates.float32: 0 is not more than 0"),
        ("rates = { float32 = 1e12 }", "rates = 3", "device.rates is not a table of keys, but 3"),
        ("devices = 4", "devices = 2.5", "links[0].devices: 2.5 is not a whole number"),
        ("devices = 64", "devices = 62", "links[1].devices: 62 is not a multiple of the 4"),
        ("devices = 64", "devices = 4", "links[1].devices: 4 is not a multiple of the 4"),
        ("latency = 1e-5", "", "links[1].latency is missing"),
        ("taper = 4", "taper = 0.5", "links[1].taper: 0.5 is less than 1"),
        ("taper = 4", "tapper = 4", "links[1].tapper is not a key"),
        ("[device]", "[device", "mine.toml cannot be read as a machine: "),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in TEXT
    with pytest.raises(FileError) as found:
        load_machine(written(tmp_path, TEXT.replace(old, new, 1)))
    assert problem in str(found.value) and "mine.toml" in str(found.value)


def test_files_without_links(tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("[[links]]")]
    with pytest.raises(FileError, match="links is missing"):
        load_machine(written(tmp_path, text))
    with pytest.raises(FileError, match="links is empty"):
        load_machine(written(tmp_path, "links = []\n" + text))


def test_unknown_machines_and_dtypes() -> None:
    with pytest.raises(FileMissingError, match="there is no machine 'abacus'; rulegrad has .*h100-infiniband"):
        load_machine("abacus")
    with pytest.raises(FileError, match=r"device\.rates has no rate of int4, only of float32"):
        load_machine("h100-infiniband").kernel_seconds(1, 1, "int4")


@pytest.mark.parametrize("name", shipped())
def test_machines_that_come_with_rulegrad(name: str) -> None:
    """Each says where its figures are from, and prices what a device does at all."""
    machine = load_machine(name)
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert machine.doc and text.count("#") >= 2
    assert all(0 < link.latency < 1 and link.bandwidth > 1e6 for link in machine.links)
    bandwidths = [link.bandwidth for link in machine.links]
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert 0 < machine.kernel_seconds(1e9, 1e6, "float32") < 10
