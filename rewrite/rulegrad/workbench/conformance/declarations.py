"""The first rung: the files of a backend, what its module has, and what its target must declare."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rulegrad import engine
from rulegrad.engine.sources import Sources, read_sources, shown, target_file
from rulegrad.errors import DeviceError, RuleError
from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.lang.targets import missing, missing_for_lowering
from rulegrad.runtime import device as contract
from rulegrad.runtime import devices
from rulegrad.runtime.backends import Backend
from rulegrad.runtime.device import KINDS, Device, Discovery
from rulegrad.workbench.conformance.report import Rung, problem_of
from rulegrad.workbench.diagnosis.measuring import COSTS

_ATTRIBUTES = {"name": str, "target": str, "interprets": bool, "memory": int}


def methods() -> list[str]:
    """The abilities that the contract requires of a device.

    >>> methods()
    ['allocate', 'compile', 'copy_in', 'copy_out', 'free', 'synchronize']
    """
    found = inspect.getmembers(contract.Device, inspect.isfunction)
    return [name for name, _ in found if not name.startswith("_")]


def check_folder(folder: Path, rung: Rung) -> bool:
    """Whether the two files of a backend are there."""
    rung.tried += 1
    if not folder.is_dir():
        rung.found(str(folder), "there is no such folder", "name a backend's folder, or a backend that is known")
        return False
    for name in ("device.py", f"{folder.resolve().name}.rules"):
        if not (folder / name).is_file():
            hint = "a backend is a folder NAME with device.py and NAME.rules"
            rung.found(str(folder), f"it has no {name}", hint)
    return not rung.findings


def check_rules(folder: Path, rung: Rung) -> None:
    """Whether the rule file can be read beside ours: before anything is in force, as it may declare ops."""
    rung.tried += 1
    path = target_file(folder)
    try:
        ours = read_sources()
        name = shown(path)
        texts = [*(one for one in ours.texts if one[0] != name), (name, path.read_text(encoding="utf-8"))]
        Sources(texts, ours.user | {name}, ours.measured).files  # noqa: B018 - it raises
    except (RuleError, OSError, UnicodeDecodeError) as error:
        rung.found("rules", str(error))


def open_device(owner: Backend, number: int, rung: Rung) -> Device | None:
    """The device, once the module keeps the contract; None where it does not."""
    try:
        module = owner.module
    except DeviceError as error:
        rung.found("device.py", error.problem)
        return None
    for name in ("Device", "discover"):
        rung.tried += 1
        if not callable(getattr(module, name, None)):
            rung.found("device.py", f"it has no `{name}`", _HOW[name])
    if rung.findings or not _is_found(owner, number, rung):
        return None
    try:
        opened = devices.get(owner.name if owner.has_one_device else f"{owner.name}:{number}")
    except Exception as error:  # of a stranger's code, whatever it is
        rung.found("Device", problem_of(error, owner.folder))
        return None
    _check_device(opened, rung)
    return None if rung.findings else opened


_HOW = {
    "Device": "write `class Device` with the methods of rulegrad.runtime.device.Device",
    "discover": "write `def discover() -> Discovery`: which devices there are, without compiling anything",
}


def _is_found(owner: Backend, number: int, rung: Rung) -> bool:
    rung.tried += 1
    try:
        found = devices.report(owner, fresh=True).discovery
    except Exception as error:  # of a stranger's code, whatever it is
        rung.found("discover", problem_of(error, owner.folder))
        return False
    if not isinstance(found, Discovery):
        rung.found("discover", f"it gave {found!r}", "return rulegrad.runtime.device.Discovery")
        return False
    for one in found.devices:
        if one.kind not in KINDS:
            rung.found("discover", f"{one.kind!r} is not a kind of device", f"one of {', '.join(KINDS)}")
    chosen = [one for one in found.devices if one.number == number]
    if not chosen:
        looked = f"; looked in {', '.join(found.looked)}" if found.looked else ""
        rung.found("discover", f"there is no device {number}{looked}", found.advice)
    elif chosen[0].problem:
        rung.found("discover", f"{chosen[0].description} cannot be used: {chosen[0].problem}", found.advice)
    return not rung.findings


def _check_device(opened: Any, rung: Rung) -> None:
    for name, kind in _ATTRIBUTES.items():
        rung.tried += 1
        if not isinstance(getattr(opened, name, None), kind):
            rung.found("Device", f"it has no `{name}` of type {kind.__name__}", "see rulegrad.runtime.device.Device")
    wanted = [*methods(), *(("share", "memory_of") if getattr(opened, "in_host_memory", False) else ())]
    for name in wanted:
        rung.tried += 1
        if not callable(getattr(opened, name, None)):
            rung.found("Device", f"it has no method `{name}`", "see rulegrad.runtime.device.Device")


def check_target(opened: Device, rung: Rung) -> None:
    """Whether the target declares all that rules and drivers ask it for."""
    rung.tried += 1
    try:
        target = engine.target_declaration(opened.target)
    except RuleError as error:
        rung.found("target", str(error), f"write `target {opened.target.replace('+', ' + ')}:`")
        return
    for problem, hint in _missing(target, opened.interprets):
        rung.found(f"target {target.name}", problem, hint)
    rung.tried += len(target.dtypes) + 2
    costs = [name for name in COSTS if name not in target.limits]
    if costs:
        measure = f"python -m rulegrad devices --measure {opened.name}"
        rung.notes.append(f"the cost model takes usual numbers for {', '.join(costs)}; `{measure}` measures them")


def _missing(target: syntax.Target, interprets: bool) -> Iterator[tuple[str, str]]:
    """Missing declarations of a target: (problem, remedy)."""
    if interprets:
        yield from missing_for_lowering(target)
        return
    for dtype in ("bool", "int32"):
        if target.dtypes and dtype not in target.dtypes:
            yield f"it does not compute with {dtype}", f"add {dtype} to `dtypes`: conditions and addresses need it"
    if target.render and engine.summary()["passes"].get(target.render) != "render":
        yield f"there is no render pass {target.render}", f"write `pass {target.render} render:`"
    yield from missing(target, OpTable.from_declarations(engine.loaded().sources.declarations()))
