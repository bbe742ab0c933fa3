"""Simulate a program on many devices: time, efficiency, memory and communication, on paper.

python -m rulegrad simulate-scale step.json --machine h100-infiniband --devices 8,64,1024,8192
python -m rulegrad simulate-scale step.json --strategy fully-sharded --strong --jitter 0.02
python -m rulegrad simulate-scale train.py --strategy data --batch 32 --save step.json
python -m rulegrad simulate-scale --transformer layers=96,width=12288,heads=96,sequence=2048,vocabulary=51200,model=8
python -m rulegrad simulate-scale --machines            lists the machines that are described

SCHEDULE is a JSON file with the kernels and collectives of one rank, as docs/scale.md has it; or a Python program that
defines a function `step` without arguments, and `optimizer`: the step is captured here (what stands under
`if __name__ == "__main__"` does not run). --strategy puts the collectives of data parallel or fully sharded training
into the schedule of one device; --grow says which axis of the mesh has more ranks the more devices there are.
docs/scale.md has the formulas, what they assume, and the error that was measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.machine import load_machine, shipped
from rulegrad.workbench.scale.scaling import as_objects, as_table, scaled
from rulegrad.workbench.scale.schedule import Schedule, load_schedule
from rulegrad.workbench.scale.scripts import schedule_of_script
from rulegrad.workbench.scale.simulation import Assumptions
from rulegrad.workbench.scale.strategies import BUCKET, STRATEGIES
from rulegrad.workbench.scale.transformer import Transformer

_NEEDED = ("layers", "width", "heads", "sequence", "vocabulary")
_SPREAD = {"micro_batch": "micro_batch", "model": "model", "pipeline": "stages", "micro_batches": "micro_batches"}


def main(arguments: Sequence[str]) -> int:
    """Prints the table; the exit status is 0."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.machines:
        for name in shipped():
            print(f"{name:<20} {load_machine(name).doc}")
        return 0
    if (options.schedule is None) == (options.transformer is None):
        parser.error("say SCHEDULE, or --transformer with its sizes")
    machine = load_machine(options.machine)
    schedule = _schedule(options)
    if options.save:
        schedule.save(options.save)
    if options.strategy:
        schedule = STRATEGIES[options.strategy](schedule, 1, options.bucket)
    others = schedule.ranks // schedule.mesh.get(options.grow, 1)
    devices = options.devices or [n * others for n in (1, 8, 64, 1024, 8192) if n * others <= machine.devices]
    assumptions = Assumptions(options.jitter, False if options.no_overlap else None)
    rows = scaled(schedule, machine, devices, options.grow, options.strong, assumptions)
    if options.json:
        answer = {"schedule": schedule.name, "machine": machine.name, "rows": as_objects(rows)}
        print(json.dumps(answer, indent=2))
    else:
        print(f"{schedule.name} on {machine.name}: {machine.doc}\n\n{as_table(rows, machine)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m rulegrad simulate-scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schedule", metavar="SCHEDULE", nargs="?", help="a JSON file, or a Python program")
    parser.add_argument("--transformer", metavar="SIZES", help="a training step by formulas, instead of SCHEDULE")
    parser.add_argument("--machine", metavar="NAME", default="h100-infiniband", help="a name, or a TOML file")
    parser.add_argument("--machines", action="store_true", help="list the machines that come with rulegrad")
    parser.add_argument("--devices", metavar="N,N", type=_numbers, help="numbers of devices")
    parser.add_argument("--strategy", choices=STRATEGIES, help="spread the schedule of one device")
    parser.add_argument("--grow", metavar="AXIS", default="data", help="the axis of the mesh that grows (data)")
    parser.add_argument("--strong", action="store_true", help="the batch of all ranks together stays as it is")
    parser.add_argument("--bucket", metavar="BYTES", type=float, default=BUCKET, help="of gradients, sent together")
    parser.add_argument(
        "--jitter", metavar="SHARE", type=float, default=0.0, help="standard deviation of the ranks' times (0)"
    )
    parser.add_argument("--no-overlap", action="store_true", help="kernels wait for collectives")
    parser.add_argument("--batch", metavar="N", type=float, default=1, help="examples of a program's step (1)")
    parser.add_argument("--step", metavar="NAME", default="step", help="the function of a program (step)")
    parser.add_argument("--optimizer", metavar="NAME", default="optimizer", help="its optimizer (optimizer)")
    parser.add_argument("--save", metavar="FILE", help="where the schedule is written, before it is spread")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    return parser


def _schedule(options: argparse.Namespace) -> Schedule:
    if options.transformer is not None:
        return _transformer(options.transformer)
    if options.schedule.endswith(".py"):
        return schedule_of_script(options.schedule, options.batch, options.step, options.optimizer)
    return load_schedule(options.schedule)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 8,64")
    return found


def _transformer(text: str) -> Schedule:
    """The schedule of sizes such as `layers=2,width=64`. Raises ConfigError."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in (*_NEEDED, *_SPREAD) or not value.isdigit() or int(value) < 1:
            known = ", ".join((*_NEEDED, *_SPREAD))
            raise ConfigError(f"--transformer: {part!r} is not NAME=NUMBER, with a name out of {known}")
        sizes[name] = int(value)
    missing = [name for name in _NEEDED if name not in sizes]
    if missing:
        raise ConfigError(f"--transformer: {missing[0]} is missing")
    layers, width, heads, sequence, vocabulary = (sizes[name] for name in _NEEDED)
    network = Transformer(layers, width, heads, sequence, vocabulary)
    return network.schedule(**{_SPREAD[name]: value for name, value in sizes.items() if name in _SPREAD})
