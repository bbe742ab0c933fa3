"""Ways to place a program's tensors on several devices: memory, bytes sent and estimated time of each, the best first.

python -m rulegrad plan-sharding train.py --mesh data=8 --machine h100-infiniband
python -m rulegrad plan-sharding train.py --mesh data=64 --batch 32 --step train --optimizer adam --json

SCRIPT defines a function `step` without arguments, which does one step of training, and `optimizer`; what stands under
`if __name__ == "__main__"` does not run. Each device has the batch of the script. The placements are those along an
axis `data`: parameters, gradients and the optimizer's state are replicated or divided. docs/scale.md says how times are
estimated. The exit status is 1 where no placement fits the memory of a device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.runtime.profile import duration
from rulegrad.workbench.scale.machine import Machine, load_machine
from rulegrad.workbench.scale.placements import Candidate, candidates
from rulegrad.workbench.scale.scaling import bytes_text
from rulegrad.workbench.scale.scripts import schedule_of_script
from rulegrad.workbench.scale.simulation import Assumptions
from rulegrad.workbench.scale.strategies import AXIS, BUCKET


def main(arguments: Sequence[str]) -> int:
    """Captures the script's step, and prints the table; 1 where nothing fits."""
    parser = argparse.ArgumentParser(
        "python -m rulegrad plan-sharding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python program that defines step and optimizer")
    parser.add_argument("--mesh", metavar="AXIS=N", required=True, help="the axes of devices: data=8")
    parser.add_argument("--machine", metavar="NAME", default="h100-infiniband", help="a name, or a TOML file")
    parser.add_argument("--batch", metavar="N", type=float, default=1, help="examples of a step (1)")
    parser.add_argument("--step", metavar="NAME", default="step", help="the function of SCRIPT (step)")
    parser.add_argument("--optimizer", metavar="NAME", default="optimizer", help="its optimizer (optimizer)")
    parser.add_argument("--bucket", metavar="BYTES", type=float, default=BUCKET, help="of gradients, sent together")
    parser.add_argument("--jitter", metavar="SHARE", type=float, default=0.0, help="deviation of the ranks' times (0)")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    options = parser.parse_args(arguments)
    ranks = mesh_of(options.mesh)[AXIS]
    machine = load_machine(options.machine)
    schedule = schedule_of_script(options.script, options.batch, options.step, options.optimizer)
    found = candidates(schedule, machine, ranks, options.bucket, Assumptions(options.jitter))
    if options.json:
        print(json.dumps({"machine": machine.name, "ranks": ranks, "placements": _objects(found)}, indent=2))
    else:
        print(f"{schedule.name} on {ranks} devices of {machine.name}\n\n{_table(found, machine)}")
    return 0 if any(one.fits for one in found) else 1


def mesh_of(text: str) -> dict[str, int]:
    """The mesh of a text such as `data=8`. Raises ConfigError, for other axes of more than one device too.

    >>> mesh_of("data=8,model=1")
    {'data': 8, 'model': 1}
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.isidentifier() or not size.isdigit() or int(size) < 1 or name in found:
            raise ConfigError(f"--mesh: {text!r} is not a list of axes and their sizes, such as data=8")
        found[name] = int(size)
    for axis, devices in found.items():
        if axis != AXIS and devices > 1:
            raise ConfigError(f"--mesh: placements along {axis!r} cannot be planned, only along {AXIS!r}")
    return {AXIS: 1, **found}


def _table(found: Sequence[Candidate], machine: Machine) -> str:
    lines = [f"  {'placement':<36}{'step':>12}{'exposed':>9}{'sent':>11}{'memory':>11}"]
    for one in found:
        step = one.step
        lines.append(
            f"{' ' if one.fits else '!'} {one.about:<36}{duration(step.seconds):>12}{step.exposed_share:>9.1%}"
            f"{bytes_text(step.sent):>11}{bytes_text(step.memory):>11}"
        )
    if not all(one.fits for one in found):
        lines.append(f"! more than the {bytes_text(machine.memory)} of a device of {machine.name}")
    return "\n".join(lines)


def _objects(found: Sequence[Candidate]) -> list[dict[str, Any]]:
    return [
        {
            "placement": one.name,
            "about": one.about,
            "fits": one.fits,
            "seconds": one.step.seconds,
            "exposed": one.step.exposed,
            "bytes_sent": one.step.sent,
            "bytes_of_memory": one.step.memory,
        }
        for one in found
    ]
