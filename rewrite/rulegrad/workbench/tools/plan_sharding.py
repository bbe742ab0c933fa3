"""Ways to place a program's tensors on several devices: memory, bytes sent and estimated time of each, the best first.

python -m rulegrad plan-sharding train.py --mesh data=8 --machine h100-infiniband
python -m rulegrad plan-sharding train.py --mesh data=2,model=4 --memory 40e9 --show 5
python -m rulegrad plan-sharding train.py --mesh data=2,model=4 --place "tokens:data=0" --place "*.norm.*:" --json
python -m rulegrad plan-sharding train.py --mesh data=8 --save step.json       for simulate-scale

SCRIPT defines a function `step` without arguments, which does one step of training and could be captured by `jit`, an
`optimizer`, and the model that has its parameters; what stands under `if __name__ == "__main__"` does not run. Inputs
are tensors among the script's globals that the step reads: the batch of all devices together. Layers that differ in a
number of their names are placed together. Each candidate is what the rules of sharding make of the step, on devices
that are not there; the code that is printed gives its placements. The exit status is 1 where no placement that was
tried fits the memory of a device. docs/scale.md says how time is estimated and candidates are found.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.runtime.profile import duration
from rulegrad.workbench.scale.groups import Group, patterns
from rulegrad.workbench.scale.machine import load_machine
from rulegrad.workbench.scale.planning import Candidate, Judge, best_placements
from rulegrad.workbench.scale.scaling import bytes_text
from rulegrad.workbench.scale.scripts import load_training
from rulegrad.workbench.scale.simulation import Assumptions
from rulegrad.workbench.scale.traced_step import Placement

_TRIES = 200


def main(arguments: Sequence[str]) -> int:
    """Plans the script's step, and prints the best placements; 1 where nothing fits."""
    options = _parser().parse_args(arguments)
    mesh = mesh_of(options.mesh)
    machine = load_machine(options.machine)
    if options.memory:
        machine = replace(machine, memory=options.memory)
    judge = Judge(
        load_training(options.script, options.step, options.optimizer), mesh, machine, Assumptions(options.jitter)
    )
    found = best_placements(judge, options.tries, fixed_by(options.place, judge.groups, mesh))
    best = found[: options.show]
    if options.save:
        best[0].schedule.save(options.save)
    if options.json:
        told = {"machine": machine.name, "mesh": mesh, "tried": len(found)}
        print(json.dumps({**told, "placements": [_object(judge, one) for one in best]}, indent=2))
    else:
        print(_report(judge, best, len(found)))
    return 0 if best[0].fits else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m rulegrad plan-sharding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python program that defines step, optimizer and a model")
    parser.add_argument("--mesh", metavar="AXIS=N,...", required=True, help="the axes of devices: data=2,model=4")
    parser.add_argument("--machine", metavar="NAME", default="h100-infiniband", help="a name, or a TOML file")
    parser.add_argument("--memory", metavar="BYTES", type=float, help="of a device, instead of the machine's")
    parser.add_argument(
        "--place", metavar="NAME:AXIS=K", action="append", default=[],
        help="a placement that is not to be changed: a pattern of names, and the tensor's axis for axes of the mesh",
    )  # fmt: skip
    parser.add_argument("--tries", metavar="N", type=_count, default=_TRIES, help=f"candidates at most ({_TRIES})")
    parser.add_argument("--show", metavar="N", type=_count, default=3, help="candidates that are printed (3)")
    parser.add_argument("--step", metavar="NAME", default="step", help="the function of SCRIPT (step)")
    parser.add_argument("--optimizer", metavar="NAME", default="optimizer", help="its optimizer (optimizer)")
    parser.add_argument("--jitter", metavar="SHARE", type=float, default=0.0, help="deviation of the ranks' times (0)")
    parser.add_argument("--save", metavar="FILE", help="where the best candidate's schedule is written")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def mesh_of(text: str) -> dict[str, int]:
    """The mesh of a text such as `data=8`. Raises ConfigError.

    >>> mesh_of("data=2,model=4")
    {'data': 2, 'model': 4}
    """
    found = _sizes(text)
    if not found or min(found.values()) < 1:
        raise ConfigError(f"--mesh: {text!r} is not a list of axes and their sizes, such as data=2,model=4")
    return found


def _sizes(text: str) -> dict[str, int]:
    """Names and numbers of a text such as `data=2,model=4`; {} where it is none."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.isidentifier() or not size.isdecimal() or name in found:
            return {}
        found[name] = int(size)
    return found


def fixed_by(texts: Sequence[str], groups: Sequence[Group], mesh: Mapping[str, int]) -> dict[int, Placement]:
    """The placements of groups, by number, that options `--place` fix.

    A text such as `*.up.*:model=0` fixes the groups that have a tensor of such a name, or are called so; `x:` says that
    nothing is split. Raises ConfigError for an unknown axis of the mesh, a name that fits nothing, and an axis of a
    tensor that it has not or that is not divided into equal parts.
    """
    found: dict[int, Placement] = {}
    for text in texts:
        pattern, colon, axes = text.rpartition(":")
        places = _sizes(axes)
        if not colon or (axes and not places):
            raise ConfigError(f"--place: {text!r} is not NAME:AXIS=K, such as tokens:data=0")
        unknown = [name for name in places if name not in mesh]
        if unknown:
            raise ConfigError(f"--place: the mesh has no axis {unknown[0]!r}; it has {', '.join(mesh)}")
        placement = tuple(-1 if size == 1 else places.get(name, -1) for name, size in mesh.items())
        fitting = [k for k, one in enumerate(groups) if fnmatch.filter([one.name, *one.tensors], pattern)]
        if not fitting:
            names = ", ".join(group.name for group in groups)
            raise ConfigError(f"--place: no input or parameter is called {pattern!r}; these are placed: {names}")
        for number in fitting:
            if placement not in groups[number].choices(tuple(mesh.values())):
                raise ConfigError(
                    f"--place: {text}: {groups[number].name}, of shape {groups[number].leading}, is split along its "
                    "first two axes only, into equal parts"
                )
        found |= dict.fromkeys(fitting, placement)
    return found


def code(judge: Judge, candidate: Candidate) -> str:
    """Lines of a program that place the model's parameters and the inputs as a candidate has them."""
    placed = judge.placements(candidate.choice)
    names = {name: placed[id(one)] for name, one in judge.training.parameters().items()}
    split = {pattern: _axes(judge.mesh, placement) for pattern, placement in patterns(names).items()}
    model = judge.training.model[0]
    lines = [
        f"mesh = Mesh({dict(judge.mesh)})",
        f"{model} = shard_parameters({model}, mesh, {{",
        *(f"    {pattern!r}: {axes}," for pattern, axes in split.items()),
        "})",
    ]
    for group in judge.groups:
        for name, tensor in group.tensors.items() if group.is_input else ():
            axes = _axes(judge.mesh, placed[id(tensor)])
            lines.append(f"{name} = shard({', '.join([name, 'mesh', *(f'{a}={k}' for a, k in axes.items())])})")
    return "\n".join(lines)


def _axes(mesh: Mapping[str, int], placement: Placement) -> dict[str, int]:
    return {name: axis for name, axis in zip(mesh, placement, strict=True) if axis >= 0}


def _report(judge: Judge, best: Sequence[Candidate], tried: int) -> str:
    shown = " x ".join(f"{name}={size}" for name, size in judge.mesh.items())
    lines = [f"{tried} placements on {shown} devices of {judge.machine.name}; the best:", ""]
    lines.append(f"  {'':<3}{'step':>12}{'exposed':>9}{'sent':>11}{'memory':>11}")
    for number, one in enumerate(best, 1):
        step = one.step
        lines.append(
            f"{' ' if one.fits else '!'} {number:<3}{duration(step.seconds):>12}{step.exposed_share:>9.1%}"
            f"{bytes_text(one.bytes_sent):>11}{bytes_text(step.memory):>11}"
        )
    if not all(one.fits for one in best):
        lines.append(f"! more than the {bytes_text(judge.machine.memory)} of a device of {judge.machine.name}")
    for number, one in enumerate(best, 1):
        lines += ["", f"{number}: {_why(one)}", *(f"   {line}" for line in _placed(judge, one))]
    lines += ["", "The first, before the optimizer is made:", "", code(judge, best[0])]
    return "\n".join(lines)


def _why(one: Candidate) -> str:
    """The memory of a candidate, and the collectives that send bytes."""
    memory = ", ".join(f"{name} {bytes_text(size)}" for name, size in one.memory.items() if size)
    sent = ", ".join(
        f"{count.calls} x {kind} {bytes_text(count.bytes)}" for kind, count in sorted(one.sent.items()) if count.bytes
    )
    return f"memory: {memory}; sent: {sent or 'nothing'}"


def _placed(judge: Judge, one: Candidate) -> list[str]:
    """For each group where it is split."""
    width = max(len(group.name) for group in judge.groups)
    return [
        f"{group.name:<{width}}  {', '.join(f'{a}={k}' for a, k in _axes(judge.mesh, placement).items()) or 'whole'}"
        for group, placement in zip(judge.groups, one.choice, strict=True)
    ]


def _object(judge: Judge, one: Candidate) -> dict[str, Any]:
    return {
        "placements": {
            group.name: _axes(judge.mesh, placement) for group, placement in zip(judge.groups, one.choice, strict=True)
        },
        "fits": one.fits,
        "seconds": one.step.seconds,
        "exposed": one.step.exposed,
        "bytes_sent": {kind: count.bytes for kind, count in sorted(one.sent.items())},
        "bytes_of_memory": one.memory,
        "code": code(judge, one),
    }
