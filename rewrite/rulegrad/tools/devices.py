"""What devices there are, where they were looked for, and what to do when one is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.backends import Backend, all_backends
from rulegrad.runtime.device import Discovery


def main(arguments: Sequence[str]) -> int:
    """Prints the devices; exit status 1 when none but an interpreter works."""
    parser = argparse.ArgumentParser("python -m rulegrad devices", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    options = parser.parse_args(arguments)
    found = collect()
    print(json.dumps(found, indent=2) if options.json else as_text(found))
    working = [d for backend in found["backends"] for d in backend["devices"] if not d["problem"]]
    return 0 if any(device["kind"] not in ("interpreter", "simulator") for device in working) else 1


def collect() -> dict[str, Any]:
    """All devices, each tried now, as plain data: what `--json` prints."""
    backends = [_backend(one) for one in all_backends()]
    try:
        default: str | None = devices.default()
    except DeviceError:
        default = None
    return {"default": default, "backends": backends}


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
    lines.append("")
    if found["default"] is None:
        lines.append("no device works")
    else:
        lines.append("* is the default; RULEGRAD_DEVICE=NAME or device=NAME chooses another")
    return "\n".join(lines)
