"""Devices by name: `get("opencl:0")`, and which one is used when none is named.

A name is a backend's, with a number where the backend can have several devices: `opencl` is `opencl:0`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rulegrad import _core
from rulegrad.config import config
from rulegrad.engine import load_target
from rulegrad.errors import DeviceError
from rulegrad.runtime.allocator import Allocator
from rulegrad.runtime.backends import Backend, all_backends, backend, load_backend
from rulegrad.runtime.device import KINDS, Device, Discovery, Found
from rulegrad.runtime.several import Several, count_of, of_device, parts_of
from rulegrad.support import forks
from rulegrad.support.messages import say

__all__ = ["Report", "allocator", "canonical", "default", "get", "load_backend", "on_mesh", "report", "target_of"]


class Report(NamedTuple):
    """The devices of one backend, and their state."""

    backend: Backend
    discovery: Discovery

    def name(self, found: Found) -> str:
        """The name of a device of this backend."""
        return self.backend.name if self.backend.has_one_device else f"{self.backend.name}:{found.number}"


_FOR_PROCESSORS: Final = ("c", "opencl")  # backends that every machine could use
_open: dict[str, Device] = {}  # by canonical name
_allocators: dict[str, Allocator] = _core.allocators  # where the engine finds them
_canonical: dict[str, str] = {}
_reports: dict[str, Report] = {}
_best: str | None = None
_lock = forks.lock()
#: The kinds of device that compute on the processor.
_ON_THE_HOST = ("cpu", "interpreter")


def canonical(name: str) -> str:
    """The one way to write a device's name: `opencl` is `opencl:0`, `numpy:0` is `numpy`.

    `cpu` is the default device where that is the processor, otherwise the best device that is.
    Raises DeviceError for a name that no backend has; the device itself need not exist.
    """
    if not isinstance(name, str):
        raise DeviceError(f"{name!r} is not a device name; give a string such as 'opencl:0', or None for the default")
    known = _canonical.get(name)
    if known is not None:
        return known
    if name in ("cpu", "cpu:0"):
        return _processor()
    if "+" in name:
        _canonical[name] = _joined(name.split("+"))
        return _canonical[name]
    whole, star, count = name.partition("*")
    if star:
        if not count.isdecimal() or int(count) < 1:
            raise DeviceError(f"{name!r} is not a device name; write a device and a number of parts, as in 'c*4'")
        _canonical[name] = canonical(whole) + (f"*{int(count)}" if int(count) > 1 else "")
        return _canonical[name]
    base, colon, digits = name.partition(":")
    if colon and not digits.isdecimal():
        raise DeviceError(f"{name!r} is not a device name; write a backend and a number, as in 'opencl:0'")
    owner, number = backend(base), int(digits or 0)
    if owner.has_one_device and number:
        raise DeviceError(f"there is no device {name!r}: {base} has one device, {base!r}")
    _canonical[name] = base if owner.has_one_device else f"{base}:{number}"
    return _canonical[name]


def get(name: str | None = None) -> Device:
    """The device of that name (the default one for None), opened at its first use.

    Raises DeviceError when there is none of that name, or when it does not work; the message says why.
    """
    device = _open.get(name) if name is not None else None
    if device is not None:
        return device
    name = default() if name is None else canonical(name)
    if count_of(name) > 1:
        parts = [get(part) for part in parts_of(name)]
        with _lock:
            if name not in _open:
                _open[name] = Several(name, parts) if "+" in name else of_device(parts[0], len(parts))
            return _open[name]
    with _lock:
        if name not in _open:
            _open[name] = _open_device(name)
        return _open[name]


def _joined(names: Sequence[str]) -> str:
    """The name of a device whose parts are devices of these names."""
    found = [canonical(name) for name in names]
    for name in found:
        if count_of(name) > 1:
            raise DeviceError(f"{name!r} is in parts itself; name single devices, as in 'opencl:0+opencl:1'")
        if found.count(name) > 1:
            raise DeviceError(f"{name!r} is named twice; parts of one device are written as '{name}*2'")
    return "+".join(found)


def on_mesh(count: int) -> str:
    """The device that a mesh of so many devices in one process is on, where none is named.

    GPUs of one kind, the default device the first, where there are enough; else parts of the default device.
    """
    first = default()
    known = report(backend(first.partition(":")[0]))
    found = {known.name(one): one for one in known.discovery.devices if not one.problem}
    if count > 1 and found[first].kind == "gpu":
        equal = [name for name, one in found.items() if one.description == found[first].description]
        chosen = [first, *(name for name in equal if name != first)][:count]
        if len(chosen) == count:
            return "+".join(chosen)
    return first + (f"*{count}" if count > 1 else "")


def allocator(name: str) -> Allocator:
    """The allocator of the device of that name."""
    found = _allocators.get(name)
    if found is not None:
        return found
    device = get(name)
    with _lock:
        return _allocators.setdefault(canonical(name), Allocator(device))


def target_of(name: str) -> str:
    """The target that kernels for this device are compiled for."""
    return get(name).target


def kind_of(name: str) -> str:
    """The kind of this device: one of `KINDS`."""
    name = parts_of(canonical(name))[0]
    known = report(backend(name.partition(":")[0]))
    return next(found.kind for found in known.discovery.devices if known.name(found) == name)


def default() -> str:
    """The name of the device that is used when none is named: the setting `device`, else the best that works.

    The best is a GPU, then another accelerator, then the CPU, then the interpreter. Where a better device
    than the chosen one exists but does not work, one line on stderr says so. Raises DeviceError when the
    setting names a device that does not exist.
    """
    global _best
    if config.device:
        return canonical(config.device)
    if _best is None:
        with _lock:
            if _best is None:
                _best = _choose()
    return _best


def report(owner: Backend, fresh: bool = False) -> Report:
    """The state of a backend's devices; with `fresh`, each is tried again. Raises DeviceError."""
    with _lock:
        if fresh or owner.name not in _reports:
            from rulegrad.runtime import probe  # late: what is known of a device needs no process that tries it

            _reports[owner.name] = Report(owner, probe.discover(owner, fresh))
        return _reports[owner.name]


def usable(name: str) -> int:
    """How many devices of a backend can be used. Raises DeviceError.

    >>> usable("numpy")
    1
    """
    return sum(not found.problem for found in report(backend(name)).discovery.devices)


def _open_device(name: str) -> Device:
    base, _, digits = name.partition(":")
    known_of = report(backend(base))
    found = {f.number: f for f in known_of.discovery.devices}.get(int(digits or 0))
    advice = f". {known_of.discovery.advice}" if known_of.discovery.advice else ""
    if found is None:
        known = ", ".join(map(known_of.name, known_of.discovery.devices))
        there = f"there is {known}" if known else f"no {base} device was found"
        raise DeviceError(f"there is no device {name!r}; {there}{advice}")
    if found.problem:
        raise DeviceError(f"{name} ({found.description}) cannot be used: {found.problem}{advice}")
    if not known_of.backend.is_ours:
        load_target(known_of.backend.rules)
    device: Device = known_of.backend.module.Device(found.number)
    return device


def _processor() -> str:
    """The device that PyTorch's name "cpu" stands for."""
    if kind_of(default()) in _ON_THE_HOST:
        return default()
    return next(one.name for one in _candidates() if one.found.kind in _ON_THE_HOST and not one.found.problem)


class _Candidate(NamedTuple):
    """A device that could be the default."""

    name: str
    found: Found
    report: Report


def _candidates() -> Iterator[_Candidate]:
    """Devices of the kinds that are chosen, the best first. A backend is asked when no better one is left."""
    waiting: list[tuple[int, int, int, Backend | _Candidate]] = []  # kind, rank, a number, which is another for each
    numbers = itertools.count()
    for one in all_backends():
        with _left_out_if_broken(one):
            waiting.append((KINDS.index(one.best_kind), one.rank, next(numbers), one))
    heapq.heapify(waiting)
    while waiting:
        kind, rank, _, best = heapq.heappop(waiting)
        if KINDS[kind] == KINDS[-1]:
            return
        if isinstance(best, _Candidate):
            yield best
            continue
        with _left_out_if_broken(best):
            known = report(best)
            for found in (one for one in known.discovery.devices if one.kind in KINDS):
                candidate = _Candidate(known.name(found), found, known)
                heapq.heappush(waiting, (KINDS.index(found.kind), rank, next(numbers), candidate))


@contextlib.contextmanager
def _left_out_if_broken(one: Backend) -> Iterator[None]:
    try:
        yield
    except DeviceError as error:
        say(f"the backend {one.name} is left out: {str(error).splitlines()[0]}")


def _choose() -> str:
    broken: list[_Candidate] = []
    for candidate in _candidates():
        if not candidate.found.problem:
            return _chosen(candidate, broken)
        broken.append(candidate)
    raise DeviceError("no device works; `python -m rulegrad devices` says why")


def _chosen(candidate: _Candidate, broken: list[_Candidate]) -> str:
    """The name of a device that works, after a line for a better one that does not."""
    name, found, _ = candidate
    better = next((one for one in broken if KINDS.index(one.found.kind) < KINDS.index(found.kind)), None)
    if better is not None:
        advice = f" {better.report.discovery.advice}" if better.report.discovery.advice else ""
        say(f"{better.name} ({better.found.description}) cannot be used: {better.found.problem}; using {name}.{advice}")
    elif found.kind == "interpreter":
        advice = "; or ".join(
            _reports[one].discovery.advice
            for one in _FOR_PROCESSORS
            if one in _reports and _reports[one].discovery.advice
        )
        say(f"no device was found to compile for; using {name}, which is slow. To compile for the processor, "
             f"{advice}. `python -m rulegrad devices` says where it was looked for")  # fmt: skip
    return name
