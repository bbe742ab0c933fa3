"""The ladder in a process of its own, which a driver may end or hang: it tells each step as a line.

The child is `python -m rulegrad.workbench.conformance.child PLACE NUMBER SECONDS RUNG`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rulegrad.runtime.probe import status
from rulegrad.workbench.conformance.declarations import check_folder, check_rules
from rulegrad.workbench.conformance.report import RUNGS, Rung

_MARK = "rulegrad-ladder "
_GRACE = 60.0  # seconds that the child may take longer than it was told


def climbed(place: str, is_path: bool, number: int, seconds: float, last: str) -> Iterator[dict[str, Any]]:
    """The rungs up to the last as plain data, each as it ends; also those that were not reached."""
    wanted = list(RUNGS)[: list(RUNGS).index(last) + 1]
    if is_path:
        read = _read(Path(place))
        if read.findings:
            yield from (read.as_data(), *_not_reached(wanted[1:], "load did not pass"))
            return
    yield from _in_child(place, is_path, number, seconds, wanted)


def _read(folder: Path) -> Rung:
    """The files of a backend, read in this process: a mistake in them would end the child before it can say so."""
    rung = Rung("load")
    if check_folder(folder, rung):
        check_rules(folder, rung)
    return rung


def _in_child(place: str, is_path: bool, number: int, seconds: float, left: list[str]) -> Iterator[dict[str, Any]]:
    # A backend that declares ops must be known before the child makes its first node.
    known = os.environ.get("RULEGRAD_BACKENDS", "")
    backends = os.pathsep.join([*([known] if known else []), *([place] if is_path else [])])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    if backends:
        environment["RULEGRAD_BACKENDS"] = backends
    command = [sys.executable, "-m", "rulegrad.workbench.conformance.child", place, str(number), str(seconds), left[-1]]
    child = subprocess.Popen(
        command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    late = threading.Timer(seconds + _GRACE, child.kill)
    late.start()
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(child.stderr or ()), daemon=True)
    reader.start()
    current = left[0]
    try:
        for line in child.stdout or ():
            if line.startswith(_MARK):
                told = json.loads(line.removeprefix(_MARK))
                current = told.get("begins", current)
                if "rung" in told:
                    left.remove(told["rung"])
                    yield told
        child.wait()
        reader.join(5)
        is_late = not late.is_alive()
    finally:
        late.cancel()
        child.kill()
        child.wait()
    end = _end(child.returncode, is_late, seconds, said)
    if current in left:
        rung = Rung(current)
        rung.found(current, end, "DEBUG=4 prints the sources of kernels before they are built")
        left.remove(current)
        yield rung.as_data()
    yield from _not_reached(left, f"{current} ended the process")


def _end(code: int, is_late: bool, seconds: float, said: list[str]) -> str:
    if is_late:
        return f"it hangs: it did not end {_GRACE:.0f} seconds after the {seconds:.0f} that it was given"
    last = f": {said[-1].strip()}" if said else ""
    return f"the process ended with {status(code)}{last}"


def _not_reached(left: list[str], why: str) -> Iterator[dict[str, Any]]:
    """The rungs that were not tried."""
    for name in left:
        yield Rung(name, skipped=why).as_data()


def _tell(name: str, rung: Rung | None) -> None:
    told = {"begins": name} if rung is None else rung.as_data()
    print(_MARK + json.dumps(told), flush=True)


def _climb(place: str, number: str, seconds: str, last: str) -> None:
    from rulegrad.workbench.conformance.ladder import Ladder  # late: not in the parent: it opens devices

    Ladder(place, int(number), float(seconds), _tell).climb(last)


if __name__ == "__main__":
    _climb(*sys.argv[1:])
