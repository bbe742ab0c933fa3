"""Schedules that were found by search: list and show them, and carry them to other machines and repositories.

python -m rulegrad tuned list                    the kernels, with their times; which are used on this machine now
python -m rulegrad tuned show reduce_512         the steps of the kernels whose names contain that
python -m rulegrad tuned export FILE [KERNEL]    writes them to a file, of all kernels or of some
python -m rulegrad tuned import FILE             adds those of a file that are for a device of this machine
python -m rulegrad tuned import --others FILE    all of them: each is used on its own device only
python -m rulegrad tuned forget [KERNEL]         removes them

They are in the file that the setting `tuned` (RULEGRAD_TUNED) names, else in the cache folder. The exit status is 0, 1
for a file that cannot be read or written or is for other devices, 2 when no kernel has that name.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rulegrad.compile.tuning.entries import Entry, TunedFile, read_entries, tuned_file
from rulegrad.compile.tuning.using import described_device, rules_key
from rulegrad.errors import DeviceError, FileError
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend


def main(arguments: Sequence[str]) -> int:
    """Does what the first argument says; the exit status as above. Raises FileError."""
    options = _options(arguments)
    if options.do == "import":
        return _import(Path(options.file), options.others)
    chosen = [entry for entry in tuned_file().entries() if options.kernel in entry.name]
    if options.kernel and not chosen:
        print(f"rulegrad tuned: no schedule was found for a kernel {options.kernel}", file=sys.stderr)
        return 2
    if options.do == "list":
        _list(chosen, options.json)
    elif options.do == "show":
        print("\n\n".join(map(shown, chosen)))
    elif options.do == "forget":
        tuned_file().remove(chosen)
        print(f"{len(chosen)} removed")
    else:
        TunedFile(Path(options.file)).replace(chosen)
        print(f"{len(chosen)} written to {options.file}")
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m rulegrad tuned", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tools = parser.add_subparsers(dest="do", required=True, metavar="list|show|export|import|forget")
    for name in ("list", "show", "export", "import", "forget"):
        tool = tools.add_parser(name)
        if name in ("export", "import"):
            tool.add_argument("file", metavar="FILE")
        if name == "import":
            tool.add_argument("--others", action="store_true", help="those for devices that are not here too")
        else:
            needed = None if name == "show" else "?"
            tool.add_argument("kernel", nargs=needed, default="", metavar="KERNEL", help="a part of a kernel's name")
        if name == "list":
            tool.add_argument("--json", action="store_true", help="print a JSON array")
    return parser.parse_args(arguments)


def _list(entries: Sequence[Entry], as_json: bool) -> None:
    """A line for each kernel."""
    if as_json:
        print(json.dumps([{**dataclasses.asdict(entry), "used": unused(entry) == ""} for entry in entries], indent=2))
        return
    if not entries:
        print(f"no schedules were found yet; {tuned_file().path or 'the cache folder'} has none")
    for entry in entries:
        first = "bad" if entry.first_seconds is None else f"{entry.first_seconds * 1e3:.3f}"
        why = unused(entry)
        print(f"{entry.name:<40} {entry.seconds * 1e3:>10.3f} ms (first choice {first:>10}) {entry.tactic:<12}"
              f"{f' not used: {why}' if why else ''}")  # fmt: skip


def shown(entry: Entry) -> str:
    """An entry for people: the steps line by line, and what is bad."""
    first = "bad" if entry.first_seconds is None else f"{entry.first_seconds * 1e3:.3f} ms"
    why = unused(entry)
    lines = [
        f"{entry.name} for {entry.target} on {entry.device}{f', not used: {why}' if why else ''}",
        f"  loops: {entry.loops}",
        f"  {entry.seconds * 1e3:.3f} ms, the model's first choice {first}; {entry.measured} of {entry.candidates} "
        f"candidates measured in {entry.searched:.0f} s",
        f"  by {entry.tactic}:",
        *(f"    {step}" for step in entry.steps.split("; ") if step),
    ]
    for schedule, problem in entry.bad.items():
        lines.append(f"  bad: {problem}\n    {schedule}")
    return "\n".join(lines)


def unused(entry: Entry) -> str:
    """Why an entry is not used here and now; "" where it is."""
    if entry.device not in _devices_of(entry.device.partition(":")[0]):
        return "it is for another device"
    return "" if entry.rules == rules_key() else "the rules have changed"


@cache
def _devices_of(name: str) -> tuple[str, ...]:
    """The devices of a backend that are here, as entries call them; none where there is no such backend."""
    try:
        known = devices.report(backend(name))
    except DeviceError:
        return ()
    return tuple(described_device(known.name(found)) for found in known.discovery.devices)


def _import(path: Path, others: bool) -> int:
    """Adds the entries of a file. Raises FileError for a broken one, and where none is for a device of this machine."""
    found = read_entries(path, checked=True)
    fitting = [e for e in found if others or e.device in _devices_of(e.device.partition(":")[0])]
    if found and not fitting:
        names = " and ".join(dict.fromkeys(entry.device for entry in found))
        here = " and ".join(dict.fromkeys(d for e in found for d in _devices_of(e.device.partition(":")[0]))) or "none"
        raise FileError(
            f"{path}: its schedules are for {names}, and of these this machine has {here}; --others imports them anyway"
        )
    tuned_file().add(fitting)
    left = f"; {len(found) - len(fitting)} for other devices left out" if len(fitting) < len(found) else ""
    print(f"{len(fitting)} imported{left}")
    return 0
