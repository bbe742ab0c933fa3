"""Machines on paper: the rates of a device, its memory, and the links between devices, read from TOML files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulegrad.errors import FileError, FileMissingError
from rulegrad.workbench.scale.fields import Fields

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "machines"  #: the machines that come with rulegrad


@dataclass(frozen=True, slots=True)
class Link:
    """A link between devices in Hockney's model (1994): a message of n bytes takes latency + n / bandwidth.

    >>> Link("NVLink", 8, 2e-6, 450e9).seconds(450_000_000)
    0.001002
    """

    name: str
    devices: int  #: that it joins: the first of them, the next as many, and so on
    latency: float  #: seconds of a message
    bandwidth: float  #: bytes a second that a device sends, and receives at once, while all the others do too

    def seconds(self, nbytes: float) -> float:
        """The time of a message of so many bytes."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True, slots=True)
class Machine:
    """Equal devices and the links between them, the innermost first; each joins whole groups of the one before it.

    >>> machine = load_machine("h100-infiniband")
    >>> machine.links[0].devices, machine.devices >= 10_000
    (8, True)
    """

    name: str
    doc: str
    rates: Mapping[str, float]  #: operations a second by dtype
    reached: float  #: the share of these rates, and of the memory's bandwidth, that kernels reach: an assumption
    memory_bandwidth: float  #: bytes a second of a device
    memory: float  #: bytes of a device
    launch: float  #: seconds of a launch
    overlaps: bool  #: whether a device computes while it communicates
    links: tuple[Link, ...]
    processors: int  #: that the devices of the innermost link share; as many as devices, where each has its own
    shared_bandwidth: float  #: bytes a second of the memory that the devices of the innermost link share; 0: none

    @property
    def devices(self) -> int:
        """How many devices it has."""
        return self.links[-1].devices

    def kernel_seconds(self, operations: float, nbytes: float, dtype: str, neighbours: int = 1) -> float:
        """A launch by the roofline model (Williams, Waterman, Patterson 2009): what takes longer, arithmetic or memory.

        neighbours: the devices of one node that compute at once. Raises FileError where the rate of the dtype is not
        known.

        >>> machine = load_machine("h100-infiniband")
        >>> machine.kernel_seconds(0, 0, "float32") == machine.launch
        True
        """
        if dtype not in self.rates:
            known = ", ".join(self.rates)
            raise FileError(f"machine {self.name}: device.rates has no rate of {dtype}, only of {known}; add it")
        arithmetic = operations / (self.rates[dtype] * self.reached)
        memory = nbytes / (self.memory_bandwidth * self.reached)
        return self.slowed(self.launch + max(arithmetic, memory), nbytes, neighbours)

    def slowed(self, seconds: float, nbytes: float, neighbours: int) -> float:
        """The time of a kernel that takes so long alone, where devices of one node share processors and memory.

        >>> load_machine("h100-infiniband").slowed(1e-3, 1e6, 8)
        0.001
        """
        shared = nbytes * neighbours / self.shared_bandwidth if self.shared_bandwidth else 0.0
        return max(seconds, shared) * max(1.0, neighbours / self.processors)

    def neighbours(self, devices: int) -> int:
        """How many of the first `devices` are in one node.

        >>> load_machine("h100-infiniband").neighbours(1000)
        8
        """
        return min(devices, self.links[0].devices)


def shipped() -> list[str]:
    """The names of the machines that come with rulegrad.

    >>> "h100-infiniband" in shipped()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_machine(name: str | Path) -> Machine:
    """A machine by its name, or of a TOML file.

    Raises FileError, which names the file and the key, where something is missing or wrong.

    >>> load_machine("abacus")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileMissingError: there is no machine 'abacus'; rulegrad has ..., and abacus is not a file
    """
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileMissingError(
            f"there is no machine {str(name)!r}; rulegrad has {', '.join(shipped())}, and {name} is not a file"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{name} cannot be read as a machine: {error}") from None
    return machine_of(table, str(name), path.stem)


def machine_of(table: Mapping[str, Any], file: str, name: str) -> Machine:
    """A machine of what its file says. Raises FileError with the file and the key."""
    top = Fields(table, file)
    device = top.table("device")
    links = _links(top)
    found = Machine(
        name=name,
        doc=top.text("doc"),
        rates=device.numbers("rates"),
        reached=device.share("reached", 1.0),
        memory_bandwidth=device.positive("memory_bandwidth"),
        memory=device.positive("memory"),
        launch=device.number("launch", 0.0),
        overlaps=device.flag("overlaps", True),
        links=links,
        processors=device.count("processors", links[0].devices),
        shared_bandwidth=device.number("shared_bandwidth", 0.0),
    )
    device.end()
    top.end()
    return found


def _links(top: Fields) -> tuple[Link, ...]:
    """The links, each of which joins a multiple of the devices of the one before."""
    found: list[Link] = []
    for fields in top.tables("links"):
        bandwidth, taper = fields.positive("bandwidth"), fields.positive("taper", 1.0)
        if taper < 1:
            fields.fail("taper", f"{taper:g} is less than 1; 2 is a network that passes on half of what it is sent")
        link = Link(
            fields.text("name"), fields.count("devices"), fields.number("latency"), bandwidth / taper
        )  # fmt: skip
        before = found[-1].devices if found else 1
        if link.devices <= before or link.devices % before:
            fields.fail("devices", f"{link.devices} is not a multiple of the {before} of the link before it")
        fields.end()
        found.append(link)
    return tuple(found)
