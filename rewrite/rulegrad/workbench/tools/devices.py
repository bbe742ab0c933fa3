"""The devices that were found, where they were looked for, and the remedy when one is missing.

python -m rulegrad devices --measure [DEVICE]   measures the numbers that the cost model counts with, and keeps them:
                                                kernels for the device's target are planned with them from now on
python -m rulegrad devices --forget [TARGET]    removes them: the numbers of the target's file hold again
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Sequence
from typing import Any

from rulegrad import engine
from rulegrad.engine import measured
from rulegrad.engine.sources import without_measured
from rulegrad.errors import DeviceError, RuleError
from rulegrad.lang import syntax, targets
from rulegrad.runtime import devices
from rulegrad.runtime.backends import Backend, all_backends
from rulegrad.runtime.device import Discovery
from rulegrad.workbench.diagnosis import measuring


def main(arguments: Sequence[str]) -> int:
    """Prints the devices; exit status 1 when none but an interpreter works."""
    parser = argparse.ArgumentParser(
        "python -m rulegrad devices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--measure", metavar="DEVICE", nargs="?", const="", help="measure a device, and keep the numbers")
    one.add_argument("--forget", metavar="TARGET", nargs="?", const="", help="remove numbers that were measured")
    options = parser.parse_args(arguments)
    if options.measure is not None:
        return _measure(options.measure or devices.default(), options.json)
    if options.forget is not None:
        return _forget(options.forget or None, options.json)
    found = collect()
    print(json.dumps(found, indent=2) if options.json else as_text(found))
    working = [d for backend in found["backends"] for d in backend["devices"] if not d["problem"]]
    return 0 if any(device["kind"] not in ("interpreter", "simulator") for device in working) else 1


def _measure(name: str, as_json: bool) -> int:
    """Measures a device, and keeps the numbers for its target; says what the target file has."""
    device = devices.canonical(name)
    target = devices.target_of(device)
    told = _told(target)
    found = measuring.measure(device)
    about = f"measured on {device} by `python -m rulegrad devices --measure`, {datetime.date.today()}"
    file = measured.write(target, found, about)
    if as_json:
        by_rules = {number: told.get(number) for number in found}
        answer = {"device": device, "target": target, "file": str(file), "measured": found, "told": by_rules}
        print(json.dumps(answer, indent=2))
        return 0
    print(f"{device}, for target {target}:\n")
    print(f"  {'':<12}{'measured':>12}{'by rules':>12}")
    units = {d.name: d.unit for d in engine.loaded().sources.declarations() if isinstance(d, syntax.Limit)}
    for number, value in found.items():
        known = f"{told[number]:,}" if number in told else "none"
        print(f"  {number:<12}{value:>12,}{known:>12}  {units[number]}")
    print(f"\nkept in {file}; `python -m rulegrad devices --forget {target}` removes them")
    return 0


def _told(target: str) -> dict[str, int]:
    """The limits of a target by rule files alone, without what was measured."""
    try:
        return targets.find(without_measured(engine.loaded().sources).declarations(), target).limits
    except RuleError:
        return {}


def _forget(target: str | None, as_json: bool) -> int:
    """Removes measured numbers, of a target or all."""
    removed = [str(path) for path in measured.forget(target)]
    if as_json:
        print(json.dumps({"removed": removed}))
    elif removed:
        print("\n".join(f"removed {path}" for path in removed))
    else:
        print("nothing was measured" + (f" for target {target}" if target else ""))
    return 0


def collect() -> dict[str, Any]:
    """All devices, each tried now, as plain data: what `--json` prints."""
    backends = [_backend(one) for one in all_backends()]
    try:
        default: str | None = devices.default()
    except DeviceError:
        default = None
    numbers = [{"target": path.stem, "file": str(path), **_numbers(path.stem)} for path in measured.files()]
    return {"default": default, "backends": backends, "measured": numbers}


def _numbers(target: str) -> dict[str, Any]:
    """The numbers of a target that was measured, or why there are none."""
    try:
        limits = engine.target_declaration(target).limits
    except RuleError as error:
        return {"problem": str(error)}
    return {"limits": {name: limits[name] for name in measuring.NUMBERS if name in limits}}


def _backend(owner: Backend) -> dict[str, Any]:
    try:
        report = devices.report(owner, fresh=True)
    except DeviceError as error:
        report = devices.Report(owner, Discovery((), (), str(error)))
    return {
        "name": owner.name,
        "folder": str(owner.folder),
        "looked": list(report.discovery.looked),
        "advice": report.discovery.advice,
        "devices": [
            {
                "name": report.name(found),
                "description": found.description,
                "kind": found.kind,
                "problem": found.problem,
            }
            for found in report.discovery.devices
        ],
    }


def as_text(found: dict[str, Any]) -> str:
    """The same for people."""
    lines: list[str] = []
    for backend in found["backends"]:
        for device in backend["devices"]:
            state = f"cannot be used: {device['problem']}" if device["problem"] else "works"
            mark = "*" if device["name"] == found["default"] else " "
            lines.append(f"{mark} {device['name']:<12} {device['kind']:<12} {device['description']}: {state}")
        if not backend["devices"]:
            lines.append(f"  {backend['name']:<12} no device was found")
        if backend["looked"]:
            lines.append(f"{'':>15}looked in {', '.join(backend['looked'])}")
        if backend["advice"]:
            lines.append(f"{'':>15}{backend['advice']}")
    for one in found["measured"]:
        limits = one.get("limits", {})
        said = ", ".join(f"{name} {value:,}" for name, value in limits.items()) or one.get("problem", "no numbers")
        lines.append(f"  {one['target']:<12} costs by {one['file']}: {said}")
    lines.append("")
    if found["default"] is None:
        lines.append("no device works")
    else:
        lines.append("* is the default; RULEGRAD_DEVICE=NAME or device=NAME chooses another")
    return "\n".join(lines)
